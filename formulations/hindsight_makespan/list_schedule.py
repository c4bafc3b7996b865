"""A schedule at once: requests in a given order, each as soon as a slot is free."""

import heapq
from bisect import insort
from collections.abc import Sequence

from formulations.hindsight_makespan.memory import Held, fits
from formulations.hindsight_makespan.problem import MakespanProblem

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
