"""Join the shortest queue, counted in requests."""

from bfio.common.compilable import compilable
from bfio.decode.policy_spec import BOTH_DISPATCHES, greedy_policy
from bfio.decode.tally import WorkerTally


@compilable
def key(worker: WorkerTally) -> int:
    """Fewest requests: running, queued and just assigned ones count alike.

    BF-IO, appendix A.1.1.
    """
    return worker.requests


SPEC = greedy_policy(
    "jsq",
    key,
    summary="oldest request to the worker with fewest requests",
    source="BF-IO, appendix A.1.1",
    dispatch=BOTH_DISPATCHES,
)
