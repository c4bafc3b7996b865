"""The score of production routers: four times waiting plus running."""

from bfio.common.compilable import compilable
from bfio.decode.policy_spec import BOTH_DISPATCHES, greedy_policy
from bfio.decode.tally import WorkerTally

#: Weight of a waiting request against a running one.
WAITING_WEIGHT = 4


@compilable
def key(worker: WorkerTally) -> int:
    """Least ``4·waiting + running``.

    Waiting requests are those bound to the worker that do not run yet (none with pooled
    dispatch); a request assigned at this step takes a free slot and counts as running. The
    default load balancer of vLLM's data-parallel deployment.
    """
    return (WAITING_WEIGHT - 1) * worker.queued + worker.requests


SPEC = greedy_policy(
    "router",
    key,
    summary="oldest request to the worker with least 4·waiting + running",
    source="vLLM data-parallel load balancer",
    dispatch=BOTH_DISPATCHES,
)
