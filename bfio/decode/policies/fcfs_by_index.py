"""First come, first served, filling workers in index order."""

from bfio.common.compilable import compilable
from bfio.decode.policy import MARGIN
from bfio.decode.policy_spec import BOTH_DISPATCHES, greedy_policy
from bfio.decode.tally import WorkerTally


@compilable
def key(worker: WorkerTally) -> int:
    """Fill all free slots of worker 0 with the oldest requests, then worker 1, and so on.

    BF-IO, text of appendix B, which differs from its Algorithm 2.
    """
    return worker.number


SPEC = greedy_policy(
    "fcfs-by-index",
    key,
    summary="oldest request to the first worker with a free slot",
    source="BF-IO, appendix B (text)",
    dispatch=BOTH_DISPATCHES,
    margin=MARGIN,
    reads_reports=False,
)
