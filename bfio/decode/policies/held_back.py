"""Policies that delay starts: some slots stay free although requests wait."""

from dataclasses import dataclass

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.options import CheckedOptions, option, whole
from bfio.decode.features.telemetry import nobody_runs
from bfio.decode.machine.counters import TAKEN, WAITING
from bfio.decode.machine.greedy import Greedy, greedy_kernel, least_by
from bfio.decode.machine.moves import first_waiting
from bfio.decode.machine.state import State
from bfio.decode.policies.by_key import fewest_requests
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import StepTally, assign_each, assign_to_least, oldest, takes, worker_tally
from formulations.arrays import IntArray
from formulations.scalars import MAX_TOKENS

#: Choice of the worker for a request that starts.
emptiest = least_by(fewest_requests)


def assign_unless_full(state: DecodeState) -> list[int | None]:
    """Admit nothing while any worker has no free slot; otherwise fill all workers.

    A worker is full if it had no free slot before this step, so within a step all workers may be
    filled. Requests on a full worker end eventually, so a run stalls only if a worker fails and
    never recovers (it then has no slots). Requests go to the worker with fewest requests.
    """
    if not state.free_slots.all():
        return [None] * state.num_waiting
    return assign_to_least(state, oldest(state), fewest_requests)


@compilable
def choose_unless_full(state: State, greedy: Greedy, request: int) -> int:
    """Return the worker with fewest requests, unless some worker was full before this step."""
    if state.counters[TAKEN] == 0:
        for g in range(len(state.workers.load)):
            if worker_tally(state, g).free == 0:
                return -1
    return emptiest(state, greedy, request)


BALANCE_SCHEDULING = PolicySpec(
    name="balance-scheduling",
    factory=lambda _: assign_unless_full,
    summary="`jsq`, but nothing starts while some worker is full",
    source="vllm-ascend pull request 5212",
    kernel=greedy_kernel(choose_unless_full),
    why_pooled="it delays starts, and workers start bound requests as soon as they fit",
)


# Entries of `Greedy.numbers`: the two limits, and the decisions delayed so far under each.
(TIMEOUT, BATCHING, WAITED, GATHERED) = range(4)


@dataclass(frozen=True)
class AttentionDPBalanceOptions(CheckedOptions):
    """Options of `attention-dp-balance`."""

    timeout_steps: int = option(50, whole(), "N", "steps to wait for all workers (50)")
    batching_steps: int = option(10, whole(), "N", "steps to gather requests (10)")


class AttentionDPBalance:
    """Delay starts until every worker can start a request, for a limited number of decisions.

    Every worker can start one if each has a free slot and at least as many requests wait as there
    are workers. Starts are then delayed by another ``batching_steps`` decisions, so that more
    requests start together. If a worker cannot start a request for ``timeout_steps`` decisions, or
    if some worker runs no request, requests start anyway. Each goes to the worker with fewest
    requests.
    """

    def __init__(self, options: AttentionDPBalanceOptions) -> None:
        self._numbers = np.array([options.timeout_steps, options.batching_steps, 0, 0])

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the oldest requests, or none while starts are delayed."""
        all_can = bool(state.free_slots.all()) and state.num_waiting >= state.num_workers
        if is_held(self._numbers, all_can, bool(state.running.all())):
            return [None] * state.num_waiting
        return assign_to_least(state, oldest(state), fewest_requests)


@compilable
def choose_together(state: State, greedy: Greedy, request: int) -> int:
    """Return the worker with fewest requests, or -1 if starts are delayed in this step."""
    if state.counters[TAKEN] == 0:
        num_workers = len(state.workers.load)
        all_can = all_run = True
        for g in range(num_workers):
            worker = worker_tally(state, g)
            all_can = all_can and worker.free > 0
            all_run = all_run and worker.requests > worker.queued
        if is_held(greedy.numbers, all_can and state.counters[WAITING] >= num_workers, all_run):
            return -1
    return emptiest(state, greedy, request)


@compilable
def is_held(numbers: IntArray, all_can: bool, all_run: bool) -> bool:
    """Return whether starts are delayed in this step, and update the counts in ``numbers``.

    ``all_can`` is true if every worker can start a request, ``all_run`` if every worker runs a
    request.
    """
    if all_can:
        numbers[WAITED] = 0
        if not all_run:
            return False
        gathers = numbers[GATHERED] < numbers[BATCHING]
        numbers[GATHERED] = numbers[GATHERED] + 1 if gathers else 0
        return bool(gathers)
    numbers[WAITED] += 1
    if numbers[WAITED] >= numbers[TIMEOUT] or not all_run:
        numbers[WAITED] = 0
        return False
    return True


ATTENTION_DP_BALANCE = PolicySpec(
    name="attention-dp-balance",
    factory=AttentionDPBalance,
    options=AttentionDPBalanceOptions(),
    summary="`jsq`, but starts are held back a bounded time until every worker can start one",
    source="TensorRT-LLM blog 10 (pull request 7213)",
    kernel=greedy_kernel(
        choose_together,
        numbers=lambda options: (options.timeout_steps, options.batching_steps, 0, 0),
    ),
    why_pooled="it delays starts, and workers start bound requests as soon as they fit",
)


# Entries of `Greedy.numbers`: the threshold option, 0 for none, and the threshold of this step.
(GIVEN, SHARE) = range(2)


@dataclass(frozen=True)
class ThrottledOptions(CheckedOptions):
    """Options of `throttled`."""

    cap_threshold: int | None = option(
        None, whole(1, MAX_TOKENS), "N", "load limit [tokens] (the mean load)"
    )


class Throttled:
    """Oldest request to the first worker with a free slot and less than ``Θ`` tokens.

    If every open worker holds ``Θ`` tokens or more, the remaining requests wait: this policy
    leaves slots idle on purpose. If no request runs or was assigned, the oldest request goes to
    the first open worker anyway, so that a run never stalls.

    ``Θ`` is ``cap_threshold``. The default is the mean load per worker after a full admission,
    ``⌈(Σ loads + Σ sizes of the U oldest) / G⌉``, computed at each step. BF-IO, appendix A.1.1.
    With immediate dispatch, tokens include bound requests.
    """

    binds_together = True

    def __init__(self, options: ThrottledOptions) -> None:
        self._threshold = options.cap_threshold

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the oldest requests first, until no open worker is under the threshold."""
        threshold = self._threshold if self._threshold is not None else fair_share(state)
        idle = not state.running.any()

        def choose(tally: StepTally, request: int, workers: list[int]) -> int | None:
            under = [g for g in workers if tally.workers[g].tokens < threshold]
            return under[0] if under else workers[0] if idle and request == 0 else None

        return assign_each(state, choose)


def fair_share(state: DecodeState) -> int:
    """Return the mean load per worker if the ``U`` oldest requests start, rounded up [tokens]."""
    admitted = int(state.sizes[: state.num_admissible].sum())
    total = int((state.loads + state.queued_tokens).sum()) + admitted
    return -(-total // state.num_workers)


@compilable
def choose_below(state: State, greedy: Greedy, request: int) -> int:
    """Return the first open worker under the threshold; any open one if nothing runs."""
    if state.counters[TAKEN] == 0:
        greedy.numbers[SHARE] = greedy.numbers[GIVEN] or share_of(state)
    first = -1
    for g in range(len(state.workers.load)):
        worker = worker_tally(state, g)
        if takes(worker, state.requests.need[request]):
            if worker.tokens < greedy.numbers[SHARE]:
                return g
            if first < 0:
                first = g
    return first if state.counters[TAKEN] == 0 and nobody_runs(state.reports) else -1


@compilable
def share_of(state: State) -> int:
    """Return `fair_share` of the state before any request is admitted."""
    num_workers = len(state.workers.load)
    # Requests that start later are included: they hold slots, and their tokens will be added.
    num_free = total = 0
    for g in range(num_workers):
        worker = worker_tally(state, g)
        num_free += worker.free
        total += worker.tokens
    first = first_waiting(state)
    for position in range(first, first + min(state.counters[WAITING], num_free)):
        total += state.requests.size[state.pool[position]]
    return int((total + num_workers - 1) // num_workers)


THROTTLED = PolicySpec(
    name="throttled",
    factory=Throttled,
    options=ThrottledOptions(),
    summary="oldest request to the first worker with less than Θ tokens",
    source="BF-IO, appendix A.1.1",
    kernel=greedy_kernel(choose_below, numbers=lambda options: (options.cap_threshold or 0, 0)),
)

SPECS = (BALANCE_SCHEDULING, ATTENTION_DP_BALANCE, THROTTLED)
