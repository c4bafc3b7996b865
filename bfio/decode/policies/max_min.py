"""Max-Min on the earliest completion time."""

import numpy as np

from bfio.decode.policy_spec import PolicySpec, stateless
from bfio.decode.state import DecodeState
from bfio.decode.tally import assign_to_least


def assign(state: DecodeState) -> list[int | None]:
    """Repeat: take the request whose best ``ECT = min_g load_g + s_i`` is largest, put it there.

    Any waiting request and any worker with a free slot compete; loads count what this step has
    assigned. Ties: oldest request, then lowest worker. BF-IO, appendix A.1.1.

    Notes
    -----
    The best worker is the least loaded open one for every request, so requests are served by
    decreasing size over the whole pool.
    """
    order = np.argsort(-state.sizes, kind="stable")[: state.num_admissible]
    return assign_to_least(state, order.tolist(), lambda tally, g: tally.tokens[g])


SPEC = PolicySpec(
    name="max-min",
    factory=stateless(assign),
    summary="largest request of the pool to the least loaded worker",
    source="BF-IO, appendix A.1.1",
)
