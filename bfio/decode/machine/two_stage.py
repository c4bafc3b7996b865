"""The two-stage heuristic as a kernel; policies that use it import this module on demand.

The order of the waiting requests by size is kept from one decision to the next. Most requests that
wait at a step already waited at the last one. It is enough to drop those that no longer wait, and
to merge new ones.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import add_times, peak_of, sum_of, taken
from bfio.common.compilable import compilable
from bfio.decode.machine.counters import (
    ACTIVE,
    NONE,
    RESERVE,
    REVEALED,
    SLOTS,
    STEP,
    TAKEN,
    WAITING,
)
from bfio.decode.machine.kernel import Kernel, KernelTask
from bfio.decode.machine.moves import first_waiting, start_queued
from bfio.decode.machine.phases import (
    admit_assigned,
    bind,
    close_gaps,
    free_slots,
    may_be_bound,
    most_bound,
)
from bfio.decode.machine.state import State, most_waiting
from bfio.decode.machine.window import (
    Window,
    bound_loads,
    grow_alike,
    growth_of_waiting,
    project,
    project_contributions,
    project_running,
    remaining_waiting,
    waiting_requests,
)
from bfio.decode.state import window_capacity
from bfio.decode.tally import free_memory, takes, worker_tally
from bfio.step.two_stage.fscore import ScoreWeights
from bfio.step.two_stage.kernel import (
    DECIDED,
    largest_of,
    order_by_size,
    two_stage_decide,
    two_stage_decide_within,
)
from formulations.arrays import IntArray


class SizeOrder(NamedTuple):
    """The waiting requests in order of size, at the last decision."""

    #: Shape (most waiting,): requests that waited then, largest first, ties oldest first.
    requests: IntArray
    num: IntArray  #: Shape (1,): their number.
    #: Shape (n,): -1; while requests are sorted, the index of each among the waiting requests.
    position: IntArray


def new_order(num_requests: int, most_waiting: int) -> SizeOrder:
    """Return an empty order."""
    return SizeOrder(
        np.empty(most_waiting, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.full(num_requests, -1, dtype=np.int64),
    )


@compilable(allocates=True)
def put_in_order(order: SizeOrder, waiting: IntArray, sizes: IntArray, by_size: IntArray) -> None:
    """Write the order of the waiting requests as `order_by_size` does, and keep it.

    ``waiting`` has distinct numbers below n; ``by_size`` is overwritten.
    """
    for i in range(len(waiting)):
        order.position[waiting[i]] = i
    num_kept = keep_waiting(order, sizes, by_size)
    come = np.empty(len(waiting) - num_kept, np.int64)
    found = 0
    for i in range(len(waiting)):
        if order.position[waiting[i]] >= 0:
            order.position[waiting[i]] = -1
            come[found] = i
            found += 1
    ranks = np.empty_like(come)
    order_by_size(taken(sizes, come), ranks)
    merge_come(by_size, num_kept, taken(come, ranks), sizes)
    for i in range(len(by_size)):
        order.requests[i] = waiting[by_size[i]]
    order.num[0] = len(waiting)


@compilable
def keep_waiting(order: SizeOrder, sizes: IntArray, by_size: IntArray) -> int:
    """Write the requests that still wait, in the kept order; return their number.

    A request whose size has changed so that it is out of order counts as new.
    """
    found = 0
    for k in range(order.num[0]):
        i = order.position[order.requests[k]]
        if i >= 0 and (found == 0 or is_before(sizes, by_size[found - 1], i)):
            order.position[order.requests[k]] = -1
            by_size[found] = i
            found += 1
    return found


@compilable
def is_before(sizes: IntArray, one: int, other: int) -> bool:
    """Return whether request ``one`` precedes: it is larger, or equally large and older."""
    return bool(sizes[one] > sizes[other] or (sizes[one] == sizes[other] and one < other))


@compilable
def merge_come(by_size: IntArray, num_kept: int, come: IntArray, sizes: IntArray) -> None:
    """Merge new requests, in order, into the first ``num_kept`` entries of ``by_size``."""
    kept, place = num_kept - 1, len(by_size) - 1
    for k in range(len(come) - 1, -1, -1):
        while kept >= 0 and is_before(sizes, come[k], by_size[kept]):
            by_size[place] = by_size[kept]
            kept -= 1
            place -= 1
        by_size[place] = come[k]
        place -= 1


# Immediate dispatch by the F-score, compiled.
#
# `bfio.decode.policies.balance_route.bound_by_score` is its readable form.

#: Scores with an estimate below it are exact in 64 bits, rounding of the estimate included.
_SAFE = 2.0**61


@compilable(allocates=True)
def bind_by_score(state: State, window: Window, rule: TwoStage) -> bool:
    """Bind each unbound request to a worker; return False if 64-bit scores would not be exact."""
    counters, most = state.counters, most_bound(state)
    if most > 0:
        project_running(state, window)
        loads = with_bound(state, window)
        time = np.ones(len(loads), dtype=np.int64)
        if len(rule.token_time) > 0:
            time = rule.token_time
            set_in_time(loads, rule.overhead_tokens, time)
        growth = growth_of_waiting(state, window)
        factors = float(sum_of(rule.reward)) + float(sum_of(rule.penalty))
        for position in range(first_waiting(state), counters[REVEALED]):
            if counters[TAKEN] == most:
                break
            request = state.pool[position]
            if not may_be_bound(state, request):
                continue
            waiting = state.pool[position : position + 1]
            project_contributions(state, window, waiting, remaining_waiting(state, waiting))
            added = window.contribution[0]
            heaviest = largest_of(loads) + float(peak_of(added)) * float(peak_of(time))
            if heaviest * factors >= _SAFE:
                return False
            worker = best_worker(state, request, loads, added, time, rule)
            if bind(state, position, worker):
                for h in range(len(growth)):
                    loads[worker, h] += (state.requests.size[request] + growth[h]) * time[worker]
        close_gaps(state)
    start_queued(state)
    return True


@compilable(allocates=True)
def best_worker(
    state: State, request: int, loads: IntArray, added: IntArray, time: IntArray, rule: TwoStage
) -> int:
    """Return the open worker of highest F-score for a request."""
    envelope = np.zeros(loads.shape[1], dtype=np.int64)
    for g in range(len(loads)):
        for h in range(len(envelope)):
            envelope[h] = max(envelope[h], loads[g, h])
    best, best_value, best_left, best_margin = -1, 0, 0, 0
    for g in range(len(loads)):
        worker = worker_tally(state, g)
        if not takes(worker, state.requests.need[request]):
            continue
        value, margin = 0, envelope[0] - loads[g, 0]
        for h in range(len(envelope)):
            left, more = envelope[h] - loads[g, h], added[h] * time[g]
            value += rule.reward[h] * more - rule.penalty[h] * max(0, more - left)
            margin = min(margin, left)
        is_better = value > best_value
        if value == best_value:
            is_better = worker.free > best_left
            if worker.free == best_left:
                is_better = margin > best_margin
        if best < 0 or is_better:
            best, best_value, best_left, best_margin = g, value, worker.free, margin
    return best


#: Factors of the score of at least this size overflow 64-bit integers at once.
LARGEST_FACTOR = 2**61
#: Largest size of the contributions of all requests that may wait (1 GiB).
MAX_CONTRIBUTIONS = 2**27
#: More steps than any run can have.
NEVER = 2**62


class TwoStage(NamedTuple):
    """Parameters and buffers of a two-stage policy."""

    #: See `bfio.step.two_stage.kernel.two_stage_decide`.
    threshold: int
    candidates: int
    product_key: int
    #: Shape (H+1,): factors of the score, see `bfio.step.two_stage.fscore.ScoreWeights`.
    reward: IntArray
    penalty: IntArray
    order: SizeOrder  #: The waiting requests by size.
    #: Shape (most waiting,): the waiting requests, largest first; worker of each, -1 for none.
    by_size: IntArray
    assignment: IntArray
    #: Shape (G,) if workers differ in speed, else (0,): see `Cluster.paces`.
    token_time: IntArray
    overhead_tokens: IntArray
    max_wait: int  #: Steps after which a waiting request takes precedence, see `NEVER`.


def memory(task: KernelTask) -> TwoStage | None:
    """Return the memory of the kernel, or None if the kernel does not support this run."""
    if task.policy_options.benefit > 0:
        # With a cache benefit, the candidates differ between workers.
        return None
    G, policy = task.cluster.workers, task.policy
    most = most_waiting(task.workload, task.cluster, task.options)
    parameters, weights = policy.parameters, policy.weights  # type: ignore[attr-defined]
    beta = Fraction(G) if parameters.beta is None else parameters.beta
    score = ScoreWeights.of(parameters.alpha, beta, weights)
    too_large = max(*score.reward, *score.penalty) >= LARGEST_FACTOR
    if too_large or most * len(weights) > MAX_CONTRIBUTIONS:
        return None
    by_size, assignment = np.empty((2, most), dtype=np.int64)
    token_time, overhead_tokens = task.cluster.paces()
    return TwoStage(
        threshold=parameters.threshold,
        candidates=parameters.candidates or 0,
        product_key=int(parameters.key == "product"),
        reward=np.array(score.reward, dtype=np.int64),
        penalty=np.array(score.penalty, dtype=np.int64),
        order=new_order(len(task.workload), most),
        by_size=by_size,
        assignment=assignment,
        token_time=_own(token_time),
        overhead_tokens=_own(overhead_tokens),
        max_wait=NEVER if policy.max_wait is None else policy.max_wait,  # type: ignore[attr-defined]
    )


def _own(paces: IntArray | None) -> IntArray:
    """Return a writeable copy, because kernels are compiled for writeable arrays."""
    return np.zeros(0, dtype=np.int64) if paces is None else paces.copy()


@compilable(allocates=True)
def decide(state: State, window: Window, rule: TwoStage) -> bool:
    """Admit waiting requests by the two-stage heuristic; return False if sums are not exact.

    With immediate dispatch, arriving requests are bound to the worker of highest F-score.
    """
    if state.settings.immediate:
        return bind_by_score(state, window, rule)
    counters = state.counters
    num_waiting = counters[WAITING]
    if num_waiting == 0 or counters[ACTIVE] == counters[SLOTS]:
        return True
    if state.settings.delay > 0 and sum_of(free_slots(state)) == 0:
        return True
    waiting = waiting_requests(state)
    sizes, by_size = taken(state.requests.size, waiting), rule.by_size[:num_waiting]
    put_in_order(rule.order, waiting, sizes, by_size)
    num_required = 0
    if rule.max_wait < NEVER:
        num_required = overdue_first(state, waiting, rule.max_wait, by_size)
    if num_required > 0 or state.settings.overflow != NONE or len(rule.token_time) > 0:
        return admit_within(state, window, by_size, num_required, rule)
    return admit_by_score(
        state,
        window,
        sizes,
        by_size,
        rule.reward,
        rule.penalty,
        rule.threshold,
        rule.candidates,
        rule.product_key != 0,
        rule.assignment[:num_waiting],
    )


@compilable(allocates=True)
def admit_by_score(
    state: State,
    window: Window,
    sizes: IntArray,
    by_size: IntArray,
    reward: IntArray,
    penalty: IntArray,
    threshold: int,
    candidates: int,
    by_product: bool,
    assignment: IntArray,
) -> bool:
    """Project loads and admit by `two_stage_decide`; return False if 64-bit sums are not exact.

    Contributions over the window are computed per request only if requests differ in growth;
    otherwise sizes and a common growth suffice.
    """
    num_rows = 0
    if grow_alike(state):
        project_running(state, window)
    else:
        project(state, window)
        num_rows = len(sizes)
    status = two_stage_decide(
        free_slots(state),
        planned_loads(state, window),
        sizes,
        growth_of_waiting(state, window),
        window.contribution[:num_rows],
        by_size,
        reward,
        penalty,
        threshold,
        candidates,
        by_product,
        assignment,
    )
    if status != DECIDED:
        return False
    admit_assigned(state, assignment)
    return True


@compilable(allocates=True)
def planned_loads(state: State, window: Window) -> IntArray:
    """Return projected loads, (G, H+1), including requests whose start is decided."""
    if state.settings.delay == 0:
        return window.base
    return with_bound(state, window)


@compilable(allocates=True, apart=True)
def with_bound(state: State, window: Window) -> IntArray:
    """Return projected loads, (G, H+1), if all requests bound to a worker started now."""
    loads = bound_loads(state, window)
    for g in range(len(loads)):
        add_times(loads[g], window.base[g], 1)
    return loads


@compilable
def set_in_time(loads: IntArray, shift: IntArray, time: IntArray) -> None:
    """Replace the loads of each worker by ``(load + shift) * time``."""
    for g in range(len(loads)):
        for h in range(loads.shape[1]):
            loads[g, h] = (loads[g, h] + shift[g]) * time[g]


@compilable(allocates=True)
def overdue_first(state: State, waiting: IntArray, max_wait: int, by_size: IntArray) -> int:
    """Move the requests that must start now to the front, keeping the order; return their number.

    `bfio.decode.policies.balance_route.overdue` defines these requests.
    """
    is_overdue, left = np.zeros(len(waiting), dtype=np.bool_), sum_of(free_slots(state))
    num = 0
    for i in range(len(waiting)):
        if num < left and state.counters[STEP] - state.marks.reveal[waiting[i]] >= max_wait:
            is_overdue[i] = True
            num += 1
    if num > 0:
        first, later = 0, num
        for i in by_size.copy():
            if is_overdue[i]:
                by_size[first] = i
                first += 1
            else:
                by_size[later] = i
                later += 1
    return num


@compilable(allocates=True)
def admit_within(
    state: State, window: Window, by_size: IntArray, num_required: int, rule: TwoStage
) -> bool:
    """Admit within memory, with loads weighted by speed; return False if sums are not exact.

    The first ``num_required`` of ``by_size`` start before the others.
    """
    project(state, window)
    num, G = int(state.counters[WAITING]), len(state.workers.load)
    free, assignment = free_slots(state), rule.assignment[:num]
    unequal = len(rule.token_time) > 0
    time = rule.token_time.copy() if unequal else np.ones(G, dtype=np.int64)
    shift = rule.overhead_tokens if unequal else np.zeros(G, dtype=np.int64)
    base = planned_loads(state, window)
    most_time = np.empty(0, dtype=np.int64)
    if state.settings.overflow != NONE:
        capacity = window_capacity(
            base,
            window.contribution[:num],
            state.workers.load + state.workers.queued_tokens,
            state.workers.running + state.workers.queued,
            free_memory(state),
            taken(state.requests.need, waiting_requests(state)),
            state.settings.overflow == RESERVE,
        )
        most_time = (capacity + shift) * time
    loads = base.copy()
    set_in_time(loads, shift, time)
    status = two_stage_decide_within(
        free,
        loads,
        window.contribution[:num],
        by_size,
        num_required,
        sum_of(free),
        time,
        most_time,
        rule.reward,
        rule.penalty,
        rule.threshold,
        rule.candidates,
        rule.product_key != 0,
        assignment,
    )
    if status != DECIDED:
        return False
    admit_assigned(state, assignment)
    return True


KERNEL = Kernel(memory, decide=decide, binds=True, reads_window=True)
