"""Min-Min on the earliest completion time."""

import numpy as np

from bfio.decode.policy_spec import PolicySpec, stateless
from bfio.decode.state import DecodeState
from bfio.decode.tally import assign_to_least


def assign(state: DecodeState) -> list[int | None]:
    """Repeat: take the pair of least ``ECT = load_g + s_i``, until slots or requests run out.

    Any waiting request and any worker with a free slot compete; loads count what this step has
    assigned. Ties: oldest request, then lowest worker. BF-IO, appendix A.1.1.

    Notes
    -----
    As every worker would add the same ``s_i``, the pair of least ECT is the smallest request on
    the least loaded open worker, so requests are served by increasing size.
    """
    order = np.argsort(state.sizes, kind="stable")[: state.num_admissible]
    return assign_to_least(state, order.tolist(), lambda tally, g: tally.tokens[g])


SPEC = PolicySpec(
    name="min-min",
    factory=stateless(assign),
    summary="smallest request of the pool to the least loaded worker",
    source="BF-IO, appendix A.1.1",
)
