"""First come, first served, onto the worker with most free slots."""

from bfio.common.compilable import compilable
from bfio.decode.policy import MARGIN
from bfio.decode.policy_spec import BOTH_DISPATCHES, greedy_policy
from bfio.decode.tally import WorkerTally


@compilable
def key(worker: WorkerTally) -> int:
    """Most free slots (BF-IO, Algorithm 2)."""
    return -worker.free


SPEC = greedy_policy(
    "fcfs",
    key,
    summary="oldest request to the worker with most free slots",
    source="BF-IO, Algorithm 2",
    dispatch=BOTH_DISPATCHES,
    margin=MARGIN,
    reads_reports=False,
)
