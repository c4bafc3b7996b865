r"""Plan the admissions of a whole look-ahead window; only those of the current step are executed.

At a step, some slots are free, and further slots become free within the window if ends are known
or predicted. The plan assigns a waiting request to each of these slots. The plan minimises

    sum_h w_h (G·M_h - λ·sum_g L_g(h)),
    M_h = max_g L_g(h),   L_g(h) = b_g(h) + sum of v_i(h - t) over the slots (g, t) with t <= h

over look-ahead steps h, where (g, t) is a slot of worker g that becomes free at step t, and i is
the request that takes it. With λ = 1 this is the imbalance of the window; λ = 1/2 is used, see
`LOAD_SHARE`. If slots remain when every waiting request is planned, they are assumed to take
requests of mean size.

The window program (IO) of BF-IO leaves these future slots empty, so its projected loads fall where
requests end. Therefore it overfills workers whose slots later requests will take, and cannot
reserve the slot of a large ending request for a large waiting request. The plan can.

*Weights.* ``w_h = K·G - (slots that become free at 1..h)`` while this is positive: the state left
by this step matters until workers have been given K new requests each, which can correct it. The
window is long if slots turn over slowly, and consists of the current step only if each worker gets
several new requests per step. If there are many steps, they are sampled, ever more sparsely.

*Search.* Threshold accepting (Dueck and Scheuer 1990): exchanges of two requests are drawn, and
executed unless they raise the objective by more than a threshold, which falls to 0. This resembles
simulated annealing without logarithms. All numbers are integers, so decisions are equal on every
machine.

`plan_admissions` is the kernel; `planned_beyond_64_bits` runs its functions in Python, in
integers of any size, with equal decisions.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.common.words import next_random
from bfio.decode.machine.counters import ACTIVE, SLOTS, WAITING
from bfio.decode.machine.kernel import Kernel, KernelTask
from bfio.decode.machine.phases import admit_assigned, free_slots
from bfio.decode.machine.state import State, most_waiting
from bfio.decode.machine.window import Window, project
from bfio.step.two_stage.kernel import order_by_size
from formulations.arrays import IntArray

#: ``1/λ``: factor by which the load term is reduced relative to imbalance. A request that is not
#: admitted now will be admitted later. With the full load term, the plan would admit large
#: requests before there is room for them.
LOAD_SHARE = 2
#: ``K``: new requests per worker after which the state left by this step no longer matters.
TURNOVER = 5
#: The gap between sampled steps is at most the step divided by this.
SPARSITY = 3
#: First threshold, in percent of a request of mean size at each step of the window.
THRESHOLD_PERCENT = 15
#: Half of the exchanges are with a request at most this far away in the order of sizes.
NEAR = 8
#: Largest number of waiting requests considered, oldest first, unless more slots are free.
MOST_WAITING = 4096
#: Number of bits of a random number that select a position.
CHOICE_BITS = 24
#: First random number of every plan.
SEED = 0x9E3779B97F4A7C15


#: Status: the assignment is written.
DECIDED = 0
#: Status: the numbers may exceed 64 bits.
TOO_LARGE = 1
#: Bound below which every change of the objective is exact.
_SAFE = 2.0**60
_MASK = np.uint64((1 << CHOICE_BITS) - 1)
_SHIFT = np.uint64(CHOICE_BITS)
_TOP = np.uint64(63)


class SampledSteps(NamedTuple):
    """The sampled look-ahead steps and their weights."""

    steps: IntArray  #: Shape (T,): increasing, from 0.
    weights: IntArray  #: Shape (T,): weight of each, including the steps nearest to it.


class Plan(NamedTuple):
    """A plan: the request of each of N positions, those with a slot first."""

    worker: IntArray  #: Shape (N,): worker of the slot; -1 without slot.
    #: Shape (N,): index of the first sampled step at which its request has load; T without slot.
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
    _assign(plan, window, num_slots, moves, by_size, assignment)
    return DECIDED


@compilable(allocates=True)
def _assign(
    plan: Plan,
    window: SampledSteps,
    num_slots: int,
    moves: int,
    by_size: IntArray,
    assignment: IntArray,
) -> None:
    """Improve a plan, and write the workers of the requests whose slots are free now."""
    best = _improved(plan, window, num_slots, moves)
    for i in range(len(assignment)):
        assignment[i] = -1
    for p in range(num_slots):
        if plan.since[p] == 0:
            assignment[by_size[best[p]]] = plan.worker[p]


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
def _sampled(weights: IntArray) -> SampledSteps:
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
    return SampledSteps(steps[:num], together)


@compilable(allocates=True)
def _is_exact(base: IntArray, contribution: IntArray, window: SampledSteps, moves: int) -> bool:
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
    growth = np.zeros(contribution.shape[1], contribution.dtype)
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
    window: SampledSteps,
) -> tuple[Plan, int]:
    """Return a plan that assigns slots to the oldest requests, and its number of slots."""
    N, T, G = len(contribution), len(window.steps), len(free)
    sizes, request = np.empty(N, contribution.dtype), np.empty(N, np.int64)
    total = 0
    for rank in range(N):
        sizes[rank] = contribution[by_size[rank], 0]
        total += sizes[rank]
        request[by_size[rank]] = rank
    place = np.empty(N, np.int64)
    for p in range(N):
        place[request[p]] = p
    loads = np.empty((T, G), base.dtype)
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
    plan: Plan,
    free: IntArray,
    running: IntArray,
    growth: IntArray,
    mean_size: int,
    window: SampledSteps,
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
    plan: Plan,
    p: int,
    worker: int,
    step: int,
    growth: IntArray,
    mean_size: int,
    window: SampledSteps,
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
def _improved(plan: Plan, window: SampledSteps, num_slots: int, moves: int) -> IntArray:
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
def _rise(plan: Plan, window: SampledSteps, p: int, q: int) -> int:
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


def planned(
    free: IntArray, base: IntArray, running: IntArray, contribution: IntArray, moves: int
) -> list[int | None]:
    """Assign ``min(N, free slots)`` waiting requests to workers by a plan of the window.

    Arguments are those of `plan_admissions`, with at least one move; None means that a request
    keeps waiting.
    """
    num = min(len(contribution), max(MOST_WAITING, int(free.sum())))
    waiting = [None] * (len(contribution) - num)
    # New, writeable and contiguous arrays, so that one compiled version serves every caller.
    added = np.array(contribution[:num], dtype=np.int64, order="C")
    capacity, loads, runs = (np.array(x, dtype=np.int64, order="C") for x in (free, base, running))
    by_size, assignment = np.empty((2, num), dtype=np.int64)
    if num == 0 or not capacity.any():
        return [None] * len(contribution)
    order_by_size(added[:, 0].copy(), by_size)
    if plan_admissions(capacity, loads, runs, added, by_size, moves, assignment) != DECIDED:
        return [*planned_beyond_64_bits(capacity, loads, runs, added, moves), *waiting]
    return [*(None if worker < 0 else worker for worker in assignment.tolist()), *waiting]


def planned_beyond_64_bits(
    free: IntArray, base: IntArray, running: IntArray, contribution: IntArray, moves: int
) -> list[int | None]:
    """Decide as `planned` does, with the same arguments, in integers of any size."""
    sampled = _sampled(_step_weights(running))
    window = sampled._replace(weights=sampled.weights.astype(object))
    by_size = np.argsort(-contribution[:, 0], kind="stable")
    assignment = np.empty(len(contribution), dtype=np.int64)
    loads, added = base.astype(object), contribution.astype(object)
    plan, num_slots = _first_plan(free, loads, running, added, by_size, window)
    _assign(plan, window, num_slots, moves, by_size, assignment)
    return [None if worker < 0 else worker for worker in assignment.tolist()]


def warm_up() -> None:
    """Compile or load the kernel by a plan of one request and one slot."""
    one = np.ones((1, 1), dtype=np.int64)
    planned(one[0], one, one, one, 1)


class Planner(NamedTuple):
    """Parameters and buffers of the plans of a run."""

    moves: int  #: Number of exchanges that a plan evaluates.
    #: Shape (most waiting,): the waiting requests, largest first; worker of each, -1 for none.
    by_size: IntArray
    assignment: IntArray


def memory(task: KernelTask) -> Planner | None:
    """Return the memory of the kernel; None if decisions are delayed, because these hold slots."""
    if task.options.delay > 0:
        return None
    most = most_waiting(task.workload, task.cluster, task.options)
    by_size, assignment = np.empty((2, most), dtype=np.int64)
    return Planner(task.policy.moves, by_size, assignment)  # type: ignore[attr-defined]


@compilable(allocates=True)
def decide(state: State, window: Window, planner: Planner) -> bool:
    """Start the requests that the plan starts now; return False if 64-bit sums are not exact."""
    counters = state.counters
    num_free = counters[SLOTS] - counters[ACTIVE]
    if counters[WAITING] == 0 or num_free == 0:
        return True
    project(state, window)
    num = min(counters[WAITING], max(MOST_WAITING, num_free))
    contribution = window.contribution[:num]
    by_size, assignment = planner.by_size[:num], planner.assignment[:num]
    order_by_size(contribution[:, 0].copy(), by_size)
    free = free_slots(state)
    status = plan_admissions(
        free, window.base, window.running, contribution, by_size, planner.moves, assignment
    )
    if status != DECIDED:
        return False
    admit_assigned(state, assignment)
    return True


KERNEL = Kernel(memory, decide=decide, reads_window=True)
