"""The score of production routers counted in tokens: four times waiting plus running."""

from bfio.common.compilable import compilable
from bfio.decode.policies.router import WAITING_WEIGHT
from bfio.decode.policy_spec import BOTH_DISPATCHES, greedy_policy
from bfio.decode.tally import WorkerTally


@compilable
def key(worker: WorkerTally) -> int:
    """Least ``4·waiting tokens + running tokens``.

    Waiting tokens are prompts bound to the worker that do not run yet; with pooled dispatch there
    are none, and the rule is `jsq-tokens`.
    """
    return (WAITING_WEIGHT - 1) * worker.queued_tokens + worker.tokens


SPEC = greedy_policy(
    "token-score",
    key,
    summary="oldest request to the worker with least 4·waiting + running tokens",
    source="vLLM pull request 40795",
    dispatch=BOTH_DISPATCHES,
)
