"""Longest request first among the oldest.

Graham's longest-processing-time rule on the requests that FCFS would admit, so that nothing
starves.
"""

from bfio.common.compilable import compilable
from bfio.decode.policy_spec import BOTH_DISPATCHES, greedy_policy
from bfio.decode.tally import ServingOrder, WorkerTally


@compilable
def key(worker: WorkerTally) -> int:
    """Least loaded."""
    return worker.tokens


SPEC = greedy_policy(
    "longest-first",
    key,
    ServingOrder.LARGEST_OF_OLDEST,
    summary="oldest requests, largest first, each to the least loaded worker",
    source="Graham 1969 (LPT)",
    dispatch=BOTH_DISPATCHES,
)
