"""The checker of schedules of the hindsight makespan program, and a brute-force oracle.

Both read the problem data only and share no code with the solvers.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from formulations.arrays import IntArray
from formulations.errors import CapabilityError
from formulations.hindsight_makespan.problem import MakespanObjective, MakespanProblem

#: Largest number of (busy step, worker) cells of a trajectory.
_MAX_CELLS = 200_000_000


@dataclass(frozen=True)
class Trajectory:
    """The loads of a schedule at its K busy steps.

    Parameters
    ----------
    steps : IntArray
        Shape (K,): the steps with running requests, ascending.
    loads : IntArray
        Shape (K, G): loads after admission, before growth [tokens].
    """

    steps: IntArray
    loads: IntArray

    @property
    def peaks(self) -> IntArray:
        """Peak load ``max_g L_g(k)`` of each busy step, shape (K,) [tokens]."""
        return np.asarray(self.loads.max(axis=1, initial=0))


def violations(
    problem: MakespanProblem,
    starts: Sequence[int],
    workers: Sequence[int],
    objective: int | None = None,
) -> dict[str, int]:
    """Return each violated constraint of a schedule and the amount.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    starts, workers : sequence of int
        First step and worker of each request, length n.
    objective : int, optional
        Claimed objective, compared with the recomputed one.

    Returns
    -------
    dict of str to int
        Constraint name to positive amount; empty for a feasible schedule. ``slots[g,k]`` is the
        excess of worker g from step k on, ``work_conserving[k]`` the number of requests that
        should have started at step k; both name the first step of each interval between events.
        ``memory[g,k]`` is the excess tokens of worker g; it names the last step of each interval,
        where the excess is largest.
    """
    n = problem.num_requests
    for name, values in (("starts", starts), ("workers", workers)):
        if len(values) != n:
            return {name: abs(len(values) - n)}
        strangers = {f"{name}[{i}]": 1 for i, value in enumerate(values) if type(value) is not int}
        if strangers:
            return strangers
    arrivals = problem.arrival.tolist()
    violated = {f"arrival[{i}]": a - starts[i] for i, a in enumerate(arrivals) if starts[i] < a}
    nowhere = [i for i, g in enumerate(workers) if not 0 <= g < problem.workers]
    if violated or nowhere:
        return violated | {f"workers[{i}]": 1 for i in nowhere}
    violated = _slots(problem, starts, workers) | _memory(problem, starts, workers)
    if problem.work_conserving:
        violated |= _idling(problem, starts)
    if objective is not None:
        error = abs(objective - objective_value(problem, starts, workers))
        violated |= {"objective": error} if error else {}
    return violated


def objective_value(
    problem: MakespanProblem, starts: Sequence[int], workers: Sequence[int]
) -> int:
    """Return the integer objective of a schedule, in units of ``1 / problem.scale``."""
    if problem.objective is MakespanObjective.LATENCY:
        rows = zip(starts, problem.output.tolist(), problem.arrival.tolist(), strict=True)
        latency: int = sum(k + o - a for k, o, a in rows)
        return latency
    path = trajectory(problem, starts, workers)
    per_step, per_token = problem.rates
    # Python integers, since scaled times may exceed 64 bits.
    peaks: int = sum(path.peaks.tolist())
    return per_step * len(path.steps) + per_token * peaks + problem.offset


def trajectory(
    problem: MakespanProblem, starts: Sequence[int], workers: Sequence[int]
) -> Trajectory:
    """Return the worker loads of a schedule at all its busy steps.

    Raises
    ------
    CapabilityError
        If there are more than `_MAX_CELLS` cells.
    """
    begin = np.asarray(starts, dtype=np.int64)
    worker = np.asarray(workers, dtype=np.int64)
    steps = _busy_steps(begin, begin + problem.output, problem.workers)
    first, after = np.searchsorted(steps, begin), np.searchsorted(steps, begin + problem.output)
    # A running request adds (s - k_i) + k at step k: a constant, plus one per step.
    constant = np.zeros((len(steps) + 1, problem.workers), dtype=np.int64)
    running = np.zeros_like(constant)
    for row, sign in ((first, 1), (after, -1)):
        np.add.at(constant, (row, worker), sign * (problem.prompt - begin))
        np.add.at(running, (row, worker), sign)
    loads = constant.cumsum(axis=0)[:-1] + running.cumsum(axis=0)[:-1] * steps[:, None]
    return Trajectory(steps, loads)


def _busy_steps(begin: IntArray, end: IntArray, num_workers: int) -> IntArray:
    """Return the steps in the union of the intervals ``[begin, end)``, ascending."""
    order = np.argsort(begin, kind="stable")
    begin, reach = begin[order], np.maximum.accumulate(end[order])
    opens = np.ones(len(begin), dtype=np.bool_)
    opens[1:] = begin[1:] > reach[:-1]
    lower = begin[opens]
    upper = np.append(reach[np.flatnonzero(opens)[1:] - 1], reach[-1:])
    if (cells := int((upper - lower).sum()) * num_workers) > _MAX_CELLS:
        raise CapabilityError(
            "schedule", f"{cells} cells of steps x workers", f"use {_MAX_CELLS} at most"
        )
    return np.concatenate(
        [np.arange(u, v, dtype=np.int64) for u, v in zip(lower, upper, strict=True)]
        or [np.zeros(0, dtype=np.int64)]
    )


def _slots(
    problem: MakespanProblem, starts: Sequence[int], workers: Sequence[int]
) -> dict[str, int]:
    """Return the violated slot limits, checked once per interval between starts and ends."""
    changes: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for start, output, worker in zip(starts, problem.output.tolist(), workers, strict=True):
        changes[worker].update({start: 1, start + output: -1})
    violated = {}
    for worker in sorted(changes):
        running = 0
        for step in sorted(changes[worker]):
            running += changes[worker][step]
            if running > problem.slots:
                violated[f"slots[{worker},{step}]"] = running - problem.slots
    return violated


def _memory(
    problem: MakespanProblem, starts: Sequence[int], workers: Sequence[int]
) -> dict[str, int]:
    """Return the violated memory limits, checked at the last step between two events."""
    if problem.memory is None:
        return {}
    limits = problem.memory.tolist()
    # A running request holds s - k_i + k at step k: a constant, plus one per step.
    changes: dict[int, dict[int, tuple[int, int]]] = {}
    columns = (starts, problem.prompt.tolist(), problem.output.tolist(), workers)
    for start, prompt, output, worker in zip(*columns, strict=True):
        of_worker = changes.setdefault(worker, {})
        for step, sign in ((start, 1), (start + output, -1)):
            constant, running = of_worker.get(step, (0, 0))
            of_worker[step] = constant + sign * (prompt - start), running + sign
    violated = {}
    for worker in sorted(changes):
        constant = running = 0
        for step in sorted(changes[worker]):
            held = constant + running * (step - 1)
            if held > limits[worker]:
                violated[f"memory[{worker},{step - 1}]"] = held - limits[worker]
            more, joined = changes[worker][step]
            constant, running = constant + more, running + joined
    return violated


def _idling(problem: MakespanProblem, starts: Sequence[int]) -> dict[str, int]:
    """Return the steps at which a request waits although a slot is free, and the amounts."""
    outputs = problem.output.tolist()
    waits, runs = Counter(problem.arrival.tolist()), Counter(starts)
    waits.subtract(starts)
    runs.subtract(start + output for start, output in zip(starts, outputs, strict=True))
    waiting = running = 0
    violated = {}
    for step in sorted(set(waits) | set(runs)):
        waiting += waits[step]
        running += runs[step]
        missed = min(waiting, problem.total_slots - running)
        if missed > 0:
            violated[f"work_conserving[{step}]"] = missed
    return violated


#: Largest number of schedules up to the last step.
MAX_SCHEDULES = 10**8


def brute_force(problem: MakespanProblem) -> tuple[int, list[int], list[int]]:
    """Return the optimum and the lexicographically smallest (start, worker) pairs that reach it.

    The last step is the last arrival plus the sum of all outputs. Some optimum ends by then for
    any objective (`latest_starts` proves more). Adding a request never lowers a peak, a count or a
    latency, so the cost of the requests placed so far prunes branches. Work conservation is
    checked at the end.

    Raises
    ------
    CapabilityError
        If there are more than `MAX_SCHEDULES` schedules.
    """
    choices = [_last_step(problem) - o - a + 1 for o, a in _rows(problem.output, problem.arrival)]
    # Equal workers: the first request is on worker 0, the second on worker 0 or 1, and so on.
    places = [
        min(problem.workers, i + 1) if problem.is_symmetric else problem.workers
        for i in range(len(choices))
    ]
    size = math.prod(choices) * math.prod(places)
    if size > MAX_SCHEDULES:
        raise CapabilityError(
            "problem", f"more than {MAX_SCHEDULES} schedules to enumerate", 'use method="cp-sat"'
        )
    best = better_than(problem, math.inf, math.inf)
    assert best is not None
    return best


def better_than(
    problem: MakespanProblem, objective: float, most: float
) -> tuple[int, list[int], list[int]] | None:
    """Return the optimum and its schedule as `brute_force`; None if not below ``objective``.

    Raises
    ------
    CapabilityError
        If the search needs more than ``most`` placements of requests.
    """
    rows = list(_rows(problem.arrival, problem.prompt, problem.output))
    limits = [math.inf] * problem.workers if problem.memory is None else problem.memory.tolist()
    last, (per_step, per_token) = _last_step(problem), problem.rates
    starts: list[int] = []
    workers: list[int] = []
    # Loads of the requests placed so far, by worker and step.
    used: dict[tuple[int, int], list[int]] = {}
    best: tuple[int, list[int], list[int]] | None = None
    left = most

    def cost() -> int:
        """Return the cost of the requests placed so far."""
        if problem.objective is MakespanObjective.LATENCY:
            return sum(k + o - a for k, (a, _, o) in zip(starts, rows, strict=False))
        peaks: dict[int, int] = {}
        for (_, step), loads in used.items():
            if loads:
                peaks[step] = max(peaks.get(step, 0), sum(loads))
        return per_step * len(peaks) + per_token * sum(peaks.values()) + problem.offset

    def extend() -> None:
        """Try every start and worker of the next request, recursively."""
        nonlocal best, left
        below = objective if best is None else best[0]
        if len(starts) == len(rows):
            value = objective_value(problem, starts, workers)
            if value < below and not violations(problem, starts, workers):
                best = value, list(starts), list(workers)
            return
        if cost() >= below:
            return
        arrival, prompt, output = rows[len(starts)]
        places = problem.workers
        if problem.is_symmetric:
            places = min(places, max(workers, default=-1) + 2)
        for start, worker in product(range(arrival, last - output + 1), range(places)):
            left -= 1
            if left < 0:
                raise CapabilityError(
                    "problem", "too many schedules to enumerate", 'use method="cp-sat"'
                )
            cells = [used.setdefault((worker, start + j), []) for j in range(output)]
            for j, loads in enumerate(cells):
                loads.append(prompt + j)
            if all(len(x) <= problem.slots and sum(x) <= limits[worker] for x in cells):
                starts.append(start)
                workers.append(worker)
                extend()
                starts.pop()
                workers.pop()
            for loads in cells:
                loads.pop()

    extend()
    return best


def _last_step(problem: MakespanProblem) -> int:
    return int(problem.arrival.max(initial=0)) + int(problem.output.sum())


def _rows(*columns: IntArray) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)
