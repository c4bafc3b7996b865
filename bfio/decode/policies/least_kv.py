"""Least KV cache in use, whatever is queued."""

from bfio.common.compilable import compilable
from bfio.decode.policy_spec import BOTH_DISPATCHES, greedy_policy
from bfio.decode.tally import WorkerTally


@compilable
def key(worker: WorkerTally) -> int:
    """Fewest tokens in the KV cache; a prompt that is queued takes no room yet.

    With pooled dispatch nothing is queued, and the rule is `jsq-tokens`.
    """
    return worker.tokens - worker.queued_tokens


SPEC = greedy_policy(
    "least-kv",
    key,
    summary="oldest request to the worker with fewest tokens in its KV cache",
    source="KV-cache utilization, as routers of inference gateways score it",
    dispatch=BOTH_DISPATCHES,
)
