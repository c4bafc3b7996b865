"""A schedule at once: requests in a given order, each as soon as a slot is free."""

import heapq
from collections.abc import Sequence

from formulations.hindsight_makespan.problem import MakespanProblem


def list_schedule(
    problem: MakespanProblem, order: Sequence[int] | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Start requests in an order of priority, never idling; return starts and workers.

    At each step the waiting requests of highest priority take the free slots, each on the worker
    with the least sum of ``s + o`` among those with a free slot (ties: the lower worker). Work is
    conserved, so the schedule is feasible for every problem.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    order : sequence of int, optional
        Requests, most urgent first; by default as listed.
    """
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


def _next_event(running: list[tuple[int, int, int]], coming: list[int], step: int) -> int:
    """Return the next step at which a slot is freed or a request arrives."""
    ends = [running[0][0]] if running else []
    return min((event for event in ends + coming if event > step), default=step + 1)
