"""Longest request first among the oldest."""

import numpy as np

from bfio.decode.policy_spec import PolicySpec, stateless
from bfio.decode.state import DecodeState
from bfio.decode.tally import assign_to_least


def assign(state: DecodeState) -> list[int | None]:
    """Give the ``U`` oldest requests, largest first, to the least loaded worker with a free slot.

    Graham's longest-processing-time rule on the requests that FCFS would admit, so that nothing
    starves. Ties: oldest request, then lowest worker.
    """
    order = np.argsort(-state.sizes[: state.num_admissible], kind="stable")
    return assign_to_least(state, order.tolist(), lambda tally, g: tally.tokens[g])


SPEC = PolicySpec(
    name="longest-first",
    factory=stateless(assign),
    summary="oldest requests, largest first, each to the least loaded worker",
    source="Graham 1969 (LPT)",
)
