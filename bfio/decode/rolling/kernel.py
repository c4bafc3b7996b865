"""Plans of the window in machine code; `bfio.decode.rolling.reference` is the Python version."""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.common.words import next_random
from bfio.decode.rolling.reference import (
    CHOICE_BITS,
    LOAD_SHARE,
    NEAR,
    SEED,
    SPARSITY,
    THRESHOLD_PERCENT,
    TURNOVER,
)
from formulations.arrays import IntArray

#: Status: the assignment is written.
DECIDED = 0
#: Status: the numbers may exceed 64 bits.
TOO_LARGE = 1
#: Bound below which every change of the objective is exact.
_SAFE = 2.0**60
_MASK = np.uint64((1 << CHOICE_BITS) - 1)
_SHIFT = np.uint64(CHOICE_BITS)
_TOP = np.uint64(63)


class Window(NamedTuple):
    """The sampled look-ahead steps and their weights."""

    steps: IntArray  #: Shape (T,): increasing, from 0.
    weights: IntArray  #: Shape (T,): weight of each, including the steps nearest to it.


class Plan(NamedTuple):
    """A plan: the request of each of N positions, those with a slot first."""

    worker: IntArray  #: Shape (N,): worker of the slot; -1 without slot.
    #: Shape (N,): first sampled step at which its request counts; T without slot.
    since: IntArray
    request: IntArray  #: Shape (N,): rank of its request by size.
    place: IntArray  #: Shape (N,): position of each rank.
    sizes: IntArray  #: Shape (N,): size of each rank [tokens].
    loads: IntArray  #: Shape (T, G) [tokens].
    #: Shape (T, 3): the three most loaded workers at each sampled step, -1 if there are fewer.
    fullest: IntArray


@entry_point
def plan_admissions(
    free: IntArray,
    base: IntArray,
    running: IntArray,
    contribution: IntArray,
    by_size: IntArray,
    moves: int,
    assignment: IntArray,
) -> int:
    """Plan the window, and assign the requests whose slots are free now.

    All arrays are int64, C-contiguous and writeable. There is at least one waiting request and one
    free slot.

    Parameters
    ----------
    free : IntArray
        Shape (G,): slots free now.
    base, running : IntArray
        Shape (G, H+1): projected loads [tokens] and numbers of running requests, without new
        admissions.
    contribution : IntArray
        Shape (N, H+1): projected loads of the waiting requests in arrival order [tokens].
    by_size : IntArray
        Shape (N,): the requests, largest first.
    moves : int
        Number of exchanges to evaluate.
    assignment : IntArray
        Shape (N,): filled with the worker of each request, -1 if it keeps waiting.

    Returns
    -------
    int
        `DECIDED`; or `TOO_LARGE`, without an assignment, if 64-bit sums would not be exact.
    """
    window = _sampled(_step_weights(running))
    if not _is_exact(base, contribution, window, moves):
        return TOO_LARGE
    plan, num_slots = _first_plan(free, base, running, contribution, by_size, window)
    best = _improved(plan, window, num_slots, moves)
    for i in range(len(assignment)):
        assignment[i] = -1
    for p in range(num_slots):
        if plan.since[p] == 0:
            assignment[by_size[best[p]]] = plan.worker[p]
    return DECIDED


@compilable(allocates=True)
def _step_weights(running: IntArray) -> IntArray:
    """Return the weight of each look-ahead step; only step 0 counts if no slot becomes free."""
    workers, columns = running.shape
    weights = np.empty(columns, np.int64)
    opened, num = 0, 0
    for h in range(columns):
        for g in range(workers):
            opened += running[g, h - 1] - running[g, h] if h > 0 else 0
        if TURNOVER * workers <= opened:
            break
        weights[h] = TURNOVER * workers - opened
        num += 1
    return weights[: num if opened > 0 else 1]


@compilable(allocates=True)
def _sampled(weights: IntArray) -> Window:
    """Sample the look-ahead steps with growing gaps; each step counts with the nearest sample."""
    steps = np.empty(len(weights), np.int64)
    num, step = 0, 0
    while step < len(weights) - 1:
        steps[num] = step
        num += 1
        step += max(1, step // SPARSITY)
    steps[num] = len(weights) - 1
    num += 1
    together = np.zeros(num, np.int64)
    t = 0
    for h in range(len(weights)):
        while t + 1 < num and steps[t + 1] - h < h - steps[t]:
            t += 1
        together[t] += weights[h]
    return Window(steps[:num], together)


@compilable(allocates=True)
def _is_exact(base: IntArray, contribution: IntArray, window: Window, moves: int) -> bool:
    """Return whether no change of the objective can overflow 64 bits, computed in floats."""
    most, largest, weight = 0.0, 0.0, 0.0
    for row in base:
        for load in row:
            most = max(most, float(load))
    for row in contribution:
        for load in row:
            largest = max(largest, float(load))
    for each in window.weights:
        weight += float(each)
    most += len(contribution) * largest
    return (LOAD_SHARE * len(base) * most + moves * largest) * weight < _SAFE


@compilable(allocates=True)
def _growth(contribution: IntArray) -> IntArray:
    """Return the growth of a request until each step, the largest over all requests [tokens]."""
    growth = np.zeros(contribution.shape[1], np.int64)
    for i in range(len(contribution)):
        for h in range(len(growth)):
            growth[h] = max(growth[h], contribution[i, h] - contribution[i, 0])
    return growth


@compilable(allocates=True)
def _first_plan(
    free: IntArray,
    base: IntArray,
    running: IntArray,
    contribution: IntArray,
    by_size: IntArray,
    window: Window,
) -> tuple[Plan, int]:
    """Return a plan that assigns slots to the oldest requests, and its number of slots."""
    N, T, G = len(contribution), len(window.steps), len(free)
    sizes, request = np.empty(N, np.int64), np.empty(N, np.int64)
    total = 0
    for rank in range(N):
        sizes[rank] = contribution[by_size[rank], 0]
        total += sizes[rank]
        request[by_size[rank]] = rank
    place = np.empty(N, np.int64)
    for p in range(N):
        place[request[p]] = p
    loads = np.empty((T, G), np.int64)
    for t in range(T):
        for g in range(G):
            loads[t, g] = base[g, window.steps[t]]
    worker, since = np.full(N, -1), np.full(N, T)
    fullest = np.empty((T, 3), np.int64)
    plan = Plan(worker, since, request, place, sizes, loads, fullest)
    num_slots = _open_slots(plan, free, running, _growth(contribution), total // N, window)
    for t in range(T):
        _rank_workers(plan, t)
    return plan, num_slots


@compilable(allocates=True)
def _open_slots(
    plan: Plan, free: IntArray, running: IntArray, growth: IntArray, mean_size: int, window: Window
) -> int:
    """Assign the slots of the window to positions; return the number of positions with a slot."""
    left = free.copy()
    num_slots = 0
    while num_slots < len(plan.worker):
        g = _most_free(left)
        if left[g] == 0:
            break
        left[g] -= 1
        _open(plan, num_slots, g, 0, growth, mean_size, window)
        num_slots += 1
    for h in range(1, window.steps[-1] + 1):
        for g in range(len(free)):
            for _ in range(running[g, h - 1] - running[g, h]):
                _open(plan, num_slots, g, h, growth, mean_size, window)
                num_slots += 1
    return min(num_slots, len(plan.worker))


@compilable
def _most_free(left: IntArray) -> int:
    """Return the worker with the most free slots, ties to the lowest index."""
    best = 0
    for g in range(len(left)):
        if left[g] > left[best]:
            best = g
    return best


@compilable
def _open(
    plan: Plan, p: int, worker: int, step: int, growth: IntArray, mean_size: int, window: Window
) -> None:
    """Fill a slot from a step on with the request at position p, or one of mean size."""
    since = 0
    while window.steps[since] < step:
        since += 1
    size = mean_size
    if p < len(plan.worker):
        plan.worker[p], plan.since[p] = worker, since
        size = plan.sizes[plan.request[p]]
    for t in range(since, len(window.steps)):
        plan.loads[t, worker] += size + growth[window.steps[t] - step]


@compilable
def _rank_workers(plan: Plan, t: int) -> None:
    """Write the three most loaded workers of a sampled step into the plan."""
    first, second, third = -1, -1, -1
    most, next_most, least = -1, -1, -1
    for g in range(plan.loads.shape[1]):
        load = plan.loads[t, g]
        if load > most:
            first, second, third = g, first, second
            most, next_most, least = load, most, next_most
        elif load > next_most:
            second, third = g, second
            next_most, least = load, next_most
        elif load > least:
            third, least = g, load
    plan.fullest[t, 0], plan.fullest[t, 1], plan.fullest[t, 2] = first, second, third


@compilable(allocates=True)
def _improved(plan: Plan, window: Window, num_slots: int, moves: int) -> IntArray:
    """Search by exchanging requests; return the requests of the best plan found, shape (N,)."""
    total = 0
    for size in plan.sizes:
        total += size
    mean, weight = total // len(plan.sizes), 0
    for each in window.weights:
        weight += each
    threshold = LOAD_SHARE * THRESHOLD_PERCENT * mean * weight // 100
    best = plan.request.copy()
    value, best_value = 0, 0
    word = np.uint64(SEED)
    for move in range(moves):
        word = next_random(word)
        p, q = _drawn(plan, word, num_slots)
        if q < 0 or not _differ(plan, p, q):
            continue
        rise = _rise(plan, window, p, q)
        if rise > threshold * (moves - move) // moves:
            continue
        _exchange(plan, p, q)
        value += rise
        if value < best_value:
            best_value = value
            copy_to(best, plan.request)
    return best


@compilable(into_caller=True)
def _drawn(plan: Plan, word: np.uint64, num_slots: int) -> tuple[int, int]:
    """Return the two positions that a random number selects; the second is -1 if invalid."""
    num = len(plan.request)
    p = int(np.int64(((word & _MASK) * np.uint64(num_slots)) >> _SHIFT))
    draw = (word >> _SHIFT) & _MASK
    if word >> _TOP:
        return p, int(np.int64((draw * np.uint64(num)) >> _SHIFT))
    step = int(np.int64((draw * np.uint64(2 * NEAR + 1)) >> _SHIFT)) - NEAR
    rank = int(plan.request[p]) + step
    if rank < 0 or rank >= num:
        return p, -1
    return p, int(plan.place[rank])


@compilable(into_caller=True)
def _differ(plan: Plan, p: int, q: int) -> bool:
    """Return whether an exchange changes any load."""
    if plan.since[p] == plan.since[q] and plan.worker[p] == plan.worker[q]:
        return False
    return bool(plan.sizes[plan.request[p]] != plan.sizes[plan.request[q]])


@compilable(into_caller=True)
def _peak_without(plan: Plan, t: int, worker: int, other: int) -> int:
    """Return the largest load of all workers but two at a sampled step; -1 for none."""
    for k in range(3):
        g = plan.fullest[t, k]
        if g < 0:
            return -1
        if g not in (worker, other):
            return int(plan.loads[t, g])
    return -1


@compilable(into_caller=True)
def _rise(plan: Plan, window: Window, p: int, q: int) -> int:
    """Return the change of the objective by an exchange, multiplied by `LOAD_SHARE`."""
    if plan.since[p] > plan.since[q]:
        p, q = q, p
    worker, other = plan.worker[p], plan.worker[q]
    change = plan.sizes[plan.request[q]] - plan.sizes[plan.request[p]]
    factor = LOAD_SHARE * plan.loads.shape[1]
    loads, rise = plan.loads, 0
    # Before the slot of q is free (or if q has none), only the worker of p changes.
    for t in range(plan.since[p], plan.since[q]):
        peak = max(_peak_without(plan, t, worker, -1), loads[t, worker] + change)
        added = factor * (peak - loads[t, plan.fullest[t, 0]]) - change
        rise += window.weights[t] * added
    if worker == other:
        return rise
    for t in range(plan.since[q], len(loads)):
        peak = max(loads[t, worker] + change, loads[t, other] - change)
        peak = max(peak, _peak_without(plan, t, worker, other))
        rise += window.weights[t] * factor * (peak - loads[t, plan.fullest[t, 0]])
    return rise


@compilable(into_caller=True)
def _exchange(plan: Plan, p: int, q: int) -> None:
    """Exchange the requests at two positions."""
    first, second = plan.request[p], plan.request[q]
    change = plan.sizes[second] - plan.sizes[first]
    _add(plan, p, change)
    _add(plan, q, -change)
    plan.request[p], plan.request[q] = second, first
    plan.place[first], plan.place[second] = q, p


@compilable(into_caller=True)
def _add(plan: Plan, p: int, change: int) -> None:
    """Add tokens to the loads of a slot's worker from the time at which the slot is free."""
    worker, loads = plan.worker[p], plan.loads
    for t in range(plan.since[p], len(loads)):
        loads[t, worker] += change
        if _may_rank(plan, t, worker):
            _rank_workers(plan, t)


@compilable(into_caller=True)
def _may_rank(plan: Plan, t: int, worker: int) -> bool:
    """Return whether a worker with changed load was, or now is, among the three most loaded."""
    first, second, third = plan.fullest[t, 0], plan.fullest[t, 1], plan.fullest[t, 2]
    if third < 0 or worker in (first, second, third):
        return True
    return bool(plan.loads[t, worker] > plan.loads[t, third])
