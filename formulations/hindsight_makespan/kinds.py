"""Requests that a program need not tell apart, and where each of them may start."""

import heapq
from bisect import insort
from collections.abc import Sequence

import numpy as np

from formulations.arrays import IntArray
from formulations.errors import CapabilityError
from formulations.hindsight_makespan.check import objective_value
from formulations.hindsight_makespan.problem import Held, MakespanObjective, MakespanProblem, fits
from formulations.request_table import RequestKind, alike

#: Requests that may find no memory at a step before the search for one that does ends.
_LOOKS = 100


def list_schedule(
    problem: MakespanProblem, order: Sequence[int] | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Start requests in an order of priority, never idling; return starts and workers.

    At each step the waiting requests of highest priority take the free slots, each on the worker
    with the least sum of ``s + o`` among those with a free slot (ties: the lower worker). Work is
    conserved, so the schedule is feasible for every problem. With a memory, a worker takes a
    request only if what runs there then fits to its end; of those that fit nowhere the first
    `_LOOKS` of the order wait, and those behind them in the order may go first.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    order : sequence of int, optional
        Requests, most urgent first; by default as listed.
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
    # By size, then number; an entry whose size or slots have changed since is passed over.
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
    """Do so where what a worker holds is limited."""
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
    """Return the next step at which a slot is freed or a request arrives."""
    ends = [running[0][0]] if running else []
    return min((event for event in ends + coming if event > step), default=step + 1)


#: Most load entries sorted for the bound on busy steps.
_MAX_ENTRIES = 5_000_000


def latest_starts(problem: MakespanProblem) -> list[int]:
    """Return for each request a step such that some optimum starts none later.

    Let A be the last arrival, ``m = G·B``, and R_i the sum of the other requests' outputs.

    *Work conserved.* While request i waits, all m slots are full of others, from a_i on: every
    feasible schedule has ``k_i <= a_i + ⌊R_i / m⌋``.

    *Latency, free.* In every optimum no slot idles while a request waits, from A on. Suppose a
    slot is idle at step k >= A and i waits. (Slots need no names: any set of intervals at most m
    deep can be coloured with m slots.) If the slot has a later request, start it and all those
    after it on this slot earlier, the next one at k; otherwise move i to it. Either way a
    latency falls and none rises, since all have arrived. So ``k_i <= A + ⌊R_i / m⌋``.

    *Wall clock, free.* Idle steps from A on can be deleted by moving everything later one step
    ahead: the loads of the busy steps do not change. Some optimum therefore has no idle step
    between A and its end; the steps A .. k_i − 1 are busy with others, so ``k_i <= A + R_i``. And
    with K busy steps in all it ends at ``A + K`` at the latest: ``k_i <= A + K − o_i``, where K is
    at most `most_busy_steps`. Delaying may pay here, so nothing shorter holds in general.

    *Latency with a memory.* An idle slot may be of no use. But idle steps from A on can be deleted
    as above, and each latency falls: ``k_i <= A + R_i``. And the latency is no more than that of a
    list schedule, V, while every other request takes its ``o_j`` at least:
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
    """Return a number of busy steps that no optimum of the wall-clock time exceeds.

    A schedule with K busy steps costs at least ``C·K + t_l·max(⌈work / G⌉, E_K)``, with E_K the
    sum of the K least loads of single requests at single steps: each busy step has a request of
    its own, and a peak no smaller than its load. A list schedule costs no less than an optimum.
    """
    per_step, per_token = problem.rates
    total = sum(problem.output.tolist())
    if total > _MAX_ENTRIES:
        raise CapabilityError("requests", f"{total} tokens of output", "use shorter outputs")
    cost = objective_value(problem, *list_schedule(problem))
    least_peaks = -(-problem.work // problem.workers)
    steps = entries = 0
    for entry in _load_entries(problem.prompt, problem.output):
        entries += entry
        if per_step * (steps + 1) + per_token * max(least_peaks, entries) > cost:
            break
        steps += 1
    return steps


def _load_entries(prompt: IntArray, output: IntArray) -> list[int]:
    rows = zip(prompt.tolist(), output.tolist(), strict=True)
    return sorted(s + j for s, o in rows for j in range(o))


def lanes(problem: MakespanProblem) -> tuple[int, int]:
    """Return how many lanes of how many slots a program needs to tell apart.

    Lanes are workers. Latency does not see them (any requests at most ``m`` deep can be given
    slots), so there one lane has all slots, unless workers have a memory.
    """
    if problem.objective is MakespanObjective.LATENCY and problem.memory is None:
        return 1, problem.total_slots
    return problem.workers, problem.slots


def kinds(problem: MakespanProblem, *, aggregate: bool = True) -> tuple[RequestKind, ...]:
    """Group the requests.

    Alike are requests with the same arrival, prompt and output; for latency without a memory the
    prompt does not matter. The wall-clock time without work conservation ignores arrivals:
    deferring all starts until after the last arrival costs nothing, so every window begins there
    and the arrival does not matter either.

    Workers are equal, so they may be numbered in the order in which a fixed list of the requests,
    kind after kind, first uses them: the r-th of that list (r = 0, 1, ...) is then on one of the
    workers ``0..r``, and a kind on those open to its last member. Exchanging members of a kind
    changes nothing, so the list fixes the workers of kinds, not of members. Workers of unequal
    memory are all open to all.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    aggregate : bool
        Whether requests alike form one kind; otherwise each is its own.
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
