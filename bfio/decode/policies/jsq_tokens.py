"""Join the shortest queue, counted in tokens (least loaded)."""

from bfio.common.compilable import compilable
from bfio.decode.policy_spec import BOTH_DISPATCHES, greedy_policy
from bfio.decode.tally import WorkerTally


@compilable
def key(worker: WorkerTally) -> int:
    """Fewest tokens: load, queued prompts and just assigned prompts count.

    What the simulator released with BF-IO calls JSQ; the paper's text counts requests.
    """
    return worker.tokens


SPEC = greedy_policy(
    "jsq-tokens",
    key,
    summary="oldest request to the worker with fewest tokens",
    source="released simulator of BF-IO",
    dispatch=BOTH_DISPATCHES,
)
