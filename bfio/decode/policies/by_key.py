"""Baselines that assign each request in turn to the worker of least key.

The baselines differ in the key, and in the order in which waiting requests are assigned.
"""

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.policy import MARGIN
from bfio.decode.policy_spec import PolicySpec, greedy_policy
from bfio.decode.state import DecodeState
from bfio.decode.tally import (
    ServingOrder,
    StepTally,
    WorkerTally,
    assign_to_least,
    in_order,
    oldest,
)
from formulations.arrays import IntArray

#: Weight of a waiting request or token relative to a running one in the scores of routers.
WAITING_WEIGHT = 4


@compilable
def most_free(worker: WorkerTally) -> int:
    """Return the key of `fcfs`: the worker with most free slots first (BF-IO, Algorithm 2)."""
    return -worker.free


@compilable
def lowest_number(worker: WorkerTally) -> int:
    """Return the key of `fcfs-by-index`: lowest worker index first.

    All free slots of worker 0 are filled with the oldest requests, then those of worker 1, and so
    on (BF-IO, text of appendix B, which differs from its Algorithm 2).
    """
    return worker.number


@compilable
def fewest_requests(worker: WorkerTally) -> int:
    """Return the key of `jsq`: the number of running, queued and newly assigned requests.

    Source: BF-IO, appendix A.1.1.
    """
    return worker.requests


@compilable
def fewest_tokens(worker: WorkerTally) -> int:
    """Return the key of `jsq-tokens`: load plus queued and newly assigned prompts [tokens].

    The simulator released with BF-IO uses this key for JSQ; the paper's text counts requests.
    """
    return worker.tokens


@compilable
def fewest_cached(worker: WorkerTally) -> int:
    """Return the tokens in the KV cache of a worker; queued prompts do not count yet.

    With pooled dispatch nothing is queued, and the rule equals `jsq-tokens`.
    """
    return worker.tokens - worker.queued_tokens


@compilable
def router_score(worker: WorkerTally) -> int:
    """Return the key ``4·waiting + running`` of vLLM's default data-parallel load balancer.

    Waiting requests are those bound to the worker but not running (none with pooled dispatch). A
    request assigned in this step takes a free slot and counts as running.
    """
    return (WAITING_WEIGHT - 1) * worker.queued + worker.requests


@compilable
def token_score(worker: WorkerTally) -> int:
    """Return the key ``4·waiting tokens + running tokens``.

    Waiting tokens are the prompts bound to the worker but not running. With pooled dispatch there
    are none, and the rule equals `jsq-tokens`.
    """
    return (WAITING_WEIGHT - 1) * worker.queued_tokens + worker.tokens


def assign_and_rebalance(state: DecodeState) -> list[int | None]:
    """Assign as `jsq`, then move the smallest new request away from the most loaded worker.

    The policy `olb-lbmm`. Opportunistic load balancing sends the oldest requests to the least busy
    workers, regardless of size. Load balance min-min then takes the most loaded worker that has
    new requests. The smallest of these moves to the worker whose load with this request is least,
    if that load is below the present load of the first worker. This repeats until no request
    moves. Source: BF-IO, appendix A.1.1, without splitting requests into chunks.
    """
    assignment = assign_to_least(state, oldest(state), fewest_requests)
    loads: list[int] = (state.loads + state.queued_tokens).tolist()
    free, room = state.free_slots.tolist(), state.room.tolist()
    new: list[list[int]] = [[] for _ in loads]
    sizes, needs = state.sizes.tolist(), state.needs.tolist()

    def add(request: int, g: int, sign: int) -> None:
        loads[g] += sign * sizes[request]
        free[g] -= sign
        room[g] -= sign * needs[request]

    for i, g in enumerate(assignment):
        if g is not None:
            new[g].append(i)
            add(i, g, 1)
    while any(new):
        full = max((g for g, own in enumerate(new) if own), key=lambda g: (loads[g], -g))
        i = min(new[full], key=lambda i: (sizes[i], i))
        takers = [g for g in range(len(loads)) if free[g] > 0 and needs[i] <= room[g]]
        best = min((g for g in takers if g != full), key=lambda g: (loads[g], g), default=full)
        if best == full or loads[best] + sizes[i] >= loads[full]:
            return assignment
        new[full].remove(i)
        new[best].append(i)
        add(i, full, -1)
        add(i, best, 1)
        assignment[i] = best
    return assignment


def assign_under_cap(state: DecodeState) -> list[int | None]:
    """Assign the ``U`` oldest requests, largest first, to the worker with fewest prompt tokens.

    The cap is the fair share ``⌈(active + U) / G⌉``, or the number of requests on the fullest
    worker if that is larger. A worker at the cap gets a request only if no worker below the cap
    accepts the request: otherwise slots could stay idle where workers differ in slots or memory
    (the source has equal workers). Ties go to the worker with fewest requests, then to the lowest
    index.
    """
    tally, tokens = StepTally(state), prompt_tokens(state).tolist()
    held = state.running + state.queued
    share = -(-(int(held.sum()) + state.num_admissible) // state.num_workers)
    cap = max(share, int(held.max()))

    def key(g: int) -> tuple[bool, int, int, int]:
        requests = tally.workers[g].requests
        return requests >= cap, tokens[g], requests, g

    for request in in_order(state, ServingOrder.LARGEST_OF_OLDEST):
        if not (workers := tally.open_workers(request)):
            break
        worker = min(workers, key=key)
        tally.assign(request, worker)
        tokens[worker] += tally.sizes[request]
    return tally.assignment


assign_under_cap.binds_together = True  # type: ignore[attr-defined]


def prompt_tokens(state: DecodeState) -> IntArray:
    """Return the prompts of the active and bound requests of each worker, shape (G,) [tokens].

    If individual requests are unknown, as with telemetry, the load replaces the active prompts.
    """
    if state.holdings is None:
        return state.loads + state.queued_tokens
    active = state.active
    prompts = np.bincount(active.worker, active.prompt, state.num_workers).astype(np.int64)
    return prompts + state.queued_tokens


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
        source="BF-IO, text of appendix B",
        margin=MARGIN,
        reads_reports=False,
    ),
    greedy_policy(
        name="jsq",
        key=fewest_requests,
        summary=(
            "oldest request to the worker with fewest requests (running, queued, just assigned)"
        ),
        source="BF-IO, appendix A.1.1",
    ),
    greedy_policy(
        name="jsq-tokens",
        key=fewest_tokens,
        summary="oldest request to the worker with fewest tokens (least loaded)",
        source="released simulator of BF-IO",
    ),
    greedy_policy(
        name="least-kv",
        key=fewest_cached,
        summary=(
            "oldest request to the worker with fewest tokens in its KV cache, queued ones excluded"
        ),
        source="KV-cache utilization, as inference gateways score it",
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
        summary="oldest request to the worker with least 4·waiting tokens + running tokens",
        source="vLLM pull request 40795",
    ),
    # Graham's longest-processing-time rule on the requests that FCFS would admit, which prevents
    # starvation.
    greedy_policy(
        name="longest-first",
        key=fewest_tokens,
        order=ServingOrder.LARGEST_OF_OLDEST,
        summary="the U oldest requests, largest first, each to the least loaded worker",
        source="Graham's LPT rule",
    ),
    # Min-Min takes the pair of request i and worker g of least completion time load_g + s_i, until
    # slots or requests run out. Max-Min takes the request whose least completion time is largest.
    # Loads include the assignments of this step. The least loaded worker is the best for every
    # request, so Min-Min serves the smallest request first, and Max-Min the largest.
    greedy_policy(
        name="max-min",
        key=fewest_tokens,
        order=ServingOrder.LARGEST,
        summary="largest request of the whole pool to the least loaded worker, repeated",
        source="BF-IO, appendix A.1.1",
    ),
    greedy_policy(
        name="min-min",
        key=fewest_tokens,
        order=ServingOrder.SMALLEST,
        summary="smallest request of the whole pool to the least loaded worker, repeated",
        source="BF-IO, appendix A.1.1",
    ),
    PolicySpec(
        name="olb-lbmm",
        factory=lambda _: assign_and_rebalance,
        summary="`jsq`, then the smallest new request leaves the most loaded worker, repeated",
        source="BF-IO, appendix A.1.1",
        why_pooled="it moves requests that have not started, and a bound request stays",
    ),
    # TensorRT-LLM's default rule for ranks of attention data parallelism.
    PolicySpec(
        name="adp-router",
        factory=lambda _: assign_under_cap,
        summary=(
            "the U oldest requests, largest first, each to the worker with fewest prompt tokens "
            "among those below a cap of requests"
        ),
        source="TensorRT-LLM, `DefaultADPRouter`",
    ),
)
