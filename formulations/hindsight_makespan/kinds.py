"""Groups of interchangeable requests (kinds), and windows of steps that contain their starts."""

import heapq
from bisect import insort
from collections.abc import Sequence

import numpy as np

from formulations.errors import CapabilityError
from formulations.hindsight_makespan.check import objective_value
from formulations.hindsight_makespan.problem import Held, MakespanObjective, MakespanProblem, fits
from formulations.request_table import RequestKind, alike

#: Largest number of requests per step that are tried and do not fit before the scan stops.
_LOOKS = 100


def list_schedule(
    problem: MakespanProblem, order: Sequence[int] | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return starts and workers of the schedule that starts requests by priority without idling.

    At each step the waiting requests of highest priority take the free slots, each on the worker
    with a free slot whose running requests have the fewest tokens in total, prompts and outputs
    (ties: the lower worker). Work is conserved, so the schedule is feasible for every problem.
    With a memory limit, a worker takes a request only if all its requests fit until they end. A
    request that fits no worker waits, and later ones may overtake it. At each step at most
    `_LOOKS` requests that do not fit are passed over.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    order : sequence of int, optional
        Indices of the requests, highest priority first; by default 0..n-1.
    """
    if problem.memory is not None:
        return _within_memory(problem, range(problem.num_requests) if order is None else order)
    arrivals, outputs = problem.arrival.tolist(), problem.output.tolist()
    sizes = (problem.prompt + problem.output).tolist()
    num = problem.num_requests
    rank = {i: r for r, i in enumerate(range(num) if order is None else order)}
    coming = sorted(range(num), key=lambda i: (-arrivals[i], -rank[i]))
    waiting: list[tuple[int, int]] = []
    running: list[tuple[int, int, int]] = []
    starts, workers = [0] * num, [0] * num
    count, size = [0] * problem.workers, [0] * problem.workers
    # Heap of (size, worker); entries whose size or slots have changed are skipped.
    free = [(0, g) for g in range(problem.workers)]
    step = 0
    while coming or waiting:
        if not waiting and not running:
            step = max(step, arrivals[coming[-1]])
        while coming and arrivals[coming[-1]] <= step:
            heapq.heappush(waiting, (rank[coming[-1]], coming.pop()))
        while waiting and len(running) < problem.total_slots:
            _, i = heapq.heappop(waiting)
            known, worker = 0, -1
            while worker < 0 or count[worker] == problem.slots or size[worker] != known:
                known, worker = heapq.heappop(free)
            starts[i], workers[i] = step, worker
            count[worker] += 1
            size[worker] += sizes[i]
            if count[worker] < problem.slots:
                heapq.heappush(free, (size[worker], worker))
            heapq.heappush(running, (step + outputs[i], i, worker))
        step = _next_event(running, [arrivals[i] for i in coming[-1:]], step)
        while running and running[0][0] <= step:
            _, i, worker = heapq.heappop(running)
            count[worker] -= 1
            size[worker] -= sizes[i]
            heapq.heappush(free, (size[worker], worker))
    return tuple(starts), tuple(workers)


def _within_memory(
    problem: MakespanProblem, order: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the `list_schedule` of a problem with a memory limit."""
    assert problem.memory is not None
    rows = list(
        zip(
            problem.arrival.tolist(), problem.prompt.tolist(), problem.output.tolist(), strict=True
        )
    )
    limits = problem.memory.tolist()
    rank = {i: r for r, i in enumerate(order)}
    coming = sorted(rank, key=lambda i: (-rows[i][0], -rank[i]))
    waiting: list[int] = []
    on: list[dict[int, Held]] = [{} for _ in limits]
    size = [0] * len(limits)
    starts, workers = [0] * len(rows), [0] * len(rows)
    step = 0
    while coming or waiting:
        while coming and rows[coming[-1]][0] <= step:
            insort(waiting, coming.pop(), key=rank.__getitem__)
        passed = 0
        for i in list(waiting):
            _, prompt, output = rows[i]
            new = (prompt - step, step + output)
            open_to = [
                g
                for g, limit in enumerate(limits)
                if len(on[g]) < problem.slots and fits(on[g].values(), new, limit)
            ]
            if open_to:
                starts[i], workers[i] = step, min(open_to, key=lambda g: (size[g], g))
                on[workers[i]][i] = new
                size[workers[i]] += prompt + output
                waiting.remove(i)
                continue
            passed += 1
            if passed == _LOOKS:
                break
        ends = [end for held in on for _, end in held.values()]
        step = min(ends + [rows[i][0] for i in coming[-1:]], default=step)
        for g, held in enumerate(on):
            for i in [i for i, (_, end) in held.items() if end <= step]:
                del held[i]
                size[g] -= rows[i][1] + rows[i][2]
    return tuple(starts), tuple(workers)


def _next_event(running: list[tuple[int, int, int]], coming: list[int], step: int) -> int:
    """Return the next step after ``step`` at which a slot is freed or a request arrives."""
    ends = [running[0][0]] if running else []
    return min((event for event in ends + coming if event > step), default=step + 1)


#: Largest number of load entries that are sorted for the bound on busy steps.
_MAX_ENTRIES = 5_000_000


def latest_starts(problem: MakespanProblem) -> list[int]:
    """Return the latest start of each request; some optimal schedule respects all of them.

    Let A be the last arrival, ``m = G·B``, and R_i the sum of the other requests' outputs.

    *Work conserved.* While request i waits, from a_i on, other requests fill all m slots. Every
    feasible schedule has ``k_i <= a_i + ⌊R_i / m⌋``.

    *Latency, not conserving.* In every optimum no slot idles from A on while a request waits.
    Suppose a slot is idle at step k >= A and i waits. (Slots are interchangeable: intervals of
    which at most m overlap can be assigned to m slots.) If the slot has a later request, start it
    and all later ones of this slot earlier, the next one at k; otherwise move i to this slot.
    Either way a latency decreases and none increases, since all requests have arrived. So ``k_i <=
    A + ⌊R_i / m⌋``.

    *Wall clock, not conserving.* Idle steps from A on can be deleted by moving everything after
    them one step earlier; the loads of the busy steps do not change. Some optimum therefore has no
    idle step between A and its end. Other requests occupy the steps A .. k_i − 1, so ``k_i <= A +
    R_i``. With K busy steps in total it ends at ``A + K`` at the latest: ``k_i <= A + K − o_i``,
    where K is at most `most_busy_steps`. Delays may reduce the objective here, so no smaller bound
    holds in general.

    *Latency with a memory limit.* An idle slot may be unusable. Idle steps from A on can still be
    deleted as above, which reduces each latency: ``k_i <= A + R_i``. The latency is also at most
    that of a list schedule, V, and every other request contributes at least ``o_j``:
    ``k_i <= a_i + V − Σ_j o_j``.
    """
    total = sum(problem.output.tolist())
    last = max(problem.arrival.tolist(), default=0)
    outputs = problem.output.tolist()
    if problem.work_conserving:
        rows = zip(problem.arrival.tolist(), outputs, strict=True)
        return [a + (total - o) // problem.total_slots for a, o in rows]
    if problem.objective is MakespanObjective.LATENCY and problem.memory is not None:
        most = objective_value(problem, *list_schedule(problem)) - total
        rows = zip(problem.arrival.tolist(), outputs, strict=True)
        return [min(last + total - o, a + most) for a, o in rows]
    if problem.objective is MakespanObjective.LATENCY:
        return [last + (total - o) // problem.total_slots for o in outputs]
    steps = most_busy_steps(problem)
    return [last + min(total - o, steps - o) for o in outputs]


def most_busy_steps(problem: MakespanProblem) -> int:
    """Return an upper bound on the busy steps of every optimum of the wall-clock time.

    A schedule with K busy steps costs at least ``C·K + t_l·max(⌈work / G⌉, E_K)``, with E_K the
    sum of the K smallest loads of single requests at single steps: each busy step has at least one
    running request, and its peak is at least this load. The cost of a list schedule is an upper
    bound on the optimum.
    """
    per_step, per_token = problem.rates
    total = sum(problem.output.tolist())
    if total > _MAX_ENTRIES:
        raise CapabilityError(
            "requests", f"{total} output tokens are too many for this bound", "use shorter outputs"
        )
    cost = objective_value(problem, *list_schedule(problem))
    least_peaks = -(-problem.work // problem.workers)
    steps = entries = 0
    rows = zip(problem.prompt.tolist(), problem.output.tolist(), strict=True)
    for entry in sorted(s + j for s, o in rows for j in range(o)):
        entries += entry
        if per_step * (steps + 1) + per_token * max(least_peaks, entries) > cost:
            break
        steps += 1
    return steps


def lanes(problem: MakespanProblem) -> tuple[int, int]:
    """Return the number of lanes that the program must distinguish, and the slots of each lane.

    Lanes are workers. Latency does not depend on workers: if at most ``m`` requests overlap, slots
    can be assigned. For latency, one lane therefore has all slots, unless workers have a memory
    limit.
    """
    if problem.objective is MakespanObjective.LATENCY and problem.memory is None:
        return 1, problem.total_slots
    return problem.workers, problem.slots


def kinds(problem: MakespanProblem, *, aggregate: bool = True) -> tuple[RequestKind, ...]:
    """Group the interchangeable requests into kinds, each with a window of start steps.

    A kind has requests with equal arrival, prompt and output. For latency without a memory limit
    the prompt does not matter. The wall-clock time without work conservation ignores arrivals:
    deferring all starts until after the last arrival costs nothing. Every window then begins
    there, and the arrival does not matter either.

    Equal workers are numbered in the order in which a fixed list of the requests, kind after kind,
    first uses them. The r-th request of the list (r = 0, 1, ...) is then on one of the workers
    ``0..r``, and a kind on the workers open to its last member. Exchanging members of a kind
    changes nothing, so the list restricts the workers of kinds, not of members. If workers have
    unequal memory, all are open to all requests.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    aggregate : bool
        Whether interchangeable requests form one kind; otherwise each request is its own kind.
    """
    deferred = problem.objective is MakespanObjective.WALL_CLOCK and not problem.work_conserving
    latency = problem.objective is MakespanObjective.LATENCY and problem.memory is None
    arrival, prompts = problem.arrival, problem.prompt
    if deferred:
        arrival = np.full_like(arrival, arrival.max(initial=0))
    if latency:
        prompts = np.ones_like(prompts)
    groups = alike(arrival, prompts, problem.output, aggregate=aggregate)
    latest = latest_starts(problem)
    grouped = []
    listed = 0
    for (first, prompt, output, _), members in groups.items():
        listed += len(members)
        open_lanes = lanes(problem)[0]
        if problem.is_symmetric:
            open_lanes = min(open_lanes, listed)
        last = latest[members[0]]
        grouped.append(RequestKind(prompt, output, tuple(members), first, last, open_lanes))
    return tuple(grouped)
