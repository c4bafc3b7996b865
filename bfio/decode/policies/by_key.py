"""Baselines: each request in turn goes to the worker with the least key.

They differ by their key, and by the order in which they serve the requests that wait.
"""

from bfio.common.compilable import compilable
from bfio.decode.policy import MARGIN
from bfio.decode.policy_spec import greedy_policy
from bfio.decode.tally import ServingOrder, WorkerTally

#: Weight of a waiting request or token against a running one in the scores of routers.
WAITING_WEIGHT = 4


@compilable
def most_free(worker: WorkerTally) -> int:
    """Most free slots (BF-IO, Algorithm 2)."""
    return -worker.free


@compilable
def lowest_number(worker: WorkerTally) -> int:
    """Fill all free slots of worker 0 with the oldest requests, then worker 1, and so on.

    BF-IO, text of appendix B, which differs from its Algorithm 2.
    """
    return worker.number


@compilable
def fewest_requests(worker: WorkerTally) -> int:
    """Fewest requests: running, queued and just assigned ones count alike.

    BF-IO, appendix A.1.1.
    """
    return worker.requests


@compilable
def fewest_tokens(worker: WorkerTally) -> int:
    """Fewest tokens: load, queued prompts and just assigned prompts count.

    What the simulator released with BF-IO calls JSQ; the paper's text counts requests.
    """
    return worker.tokens


@compilable
def fewest_cached(worker: WorkerTally) -> int:
    """Fewest tokens in the KV cache; a prompt that is queued takes no room yet.

    With pooled dispatch nothing is queued, and the rule is `jsq-tokens`.
    """
    return worker.tokens - worker.queued_tokens


@compilable
def router_score(worker: WorkerTally) -> int:
    """Least ``4·waiting + running``.

    Waiting requests are those bound to the worker that do not run yet (none with pooled
    dispatch); a request assigned at this step takes a free slot and counts as running. The
    default load balancer of vLLM's data-parallel deployment.
    """
    return (WAITING_WEIGHT - 1) * worker.queued + worker.requests


@compilable
def token_score(worker: WorkerTally) -> int:
    """Least ``4·waiting tokens + running tokens``.

    Waiting tokens are prompts bound to the worker that do not run yet; with pooled dispatch there
    are none, and the rule is `jsq-tokens`.
    """
    return (WAITING_WEIGHT - 1) * worker.queued_tokens + worker.tokens


SPECS = (
    greedy_policy(
        name="fcfs",
        key=most_free,
        summary="oldest request to the worker with most free slots",
        source="BF-IO, Algorithm 2",
        margin=MARGIN,
        reads_reports=False,
    ),
    greedy_policy(
        name="fcfs-by-index",
        key=lowest_number,
        summary="oldest request to the first worker with a free slot",
        source="BF-IO, appendix B (text)",
        margin=MARGIN,
        reads_reports=False,
    ),
    greedy_policy(
        name="jsq",
        key=fewest_requests,
        summary="oldest request to the worker with fewest requests",
        source="BF-IO, appendix A.1.1",
    ),
    greedy_policy(
        name="jsq-tokens",
        key=fewest_tokens,
        summary="oldest request to the worker with fewest tokens",
        source="released simulator of BF-IO",
    ),
    greedy_policy(
        name="least-kv",
        key=fewest_cached,
        summary="oldest request to the worker with fewest tokens in its KV cache",
        source="KV-cache utilization, as routers of inference gateways score it",
    ),
    greedy_policy(
        name="router",
        key=router_score,
        summary="oldest request to the worker with least 4·waiting + running",
        source="vLLM data-parallel load balancer",
    ),
    greedy_policy(
        name="token-score",
        key=token_score,
        summary="oldest request to the worker with least 4·waiting + running tokens",
        source="vLLM pull request 40795",
    ),
    # Graham's longest-processing-time rule on the requests that FCFS would admit, so that nothing
    # starves.
    greedy_policy(
        name="longest-first",
        key=fewest_tokens,
        order=ServingOrder.LARGEST_OF_OLDEST,
        summary="oldest requests, largest first, each to the least loaded worker",
        source="Graham 1969 (LPT)",
    ),
    # Min-Min takes the pair of request i and worker g of least completion time load_g + s_i, until
    # slots or requests run out; Max-Min the request whose least completion time is largest. Loads
    # count what this step has assigned. The least loaded worker is the best for every request, so
    # Min-Min serves the smallest request first, and Max-Min the largest.
    greedy_policy(
        name="max-min",
        key=fewest_tokens,
        order=ServingOrder.LARGEST,
        summary="largest request of the pool to the least loaded worker",
        source="BF-IO, appendix A.1.1",
    ),
    greedy_policy(
        name="min-min",
        key=fewest_tokens,
        order=ServingOrder.SMALLEST,
        summary="smallest request of the pool to the least loaded worker",
        source="BF-IO, appendix A.1.1",
    ),
)
