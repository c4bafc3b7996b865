"""Every (start, worker) of every request of a tiny problem: the oracle of the others."""

import math

from formulations.errors import CapabilityError
from formulations.hindsight_makespan.check import objective_value, violations
from formulations.hindsight_makespan.problem import MakespanProblem

#: Most schedules up to the last step.
MAX_SCHEDULES = 10**8


def brute_force(problem: MakespanProblem) -> tuple[int, list[int], list[int]]:
    """Return the optimum with the lexicographically smallest (start, worker) pairs reaching it.

    The last step is the plain one: after the last arrival, all others one after the other. That
    holds an optimum whatever the objective (`latest_starts` proves more). Adding a
    request never lowers a peak, a count or a latency, so the cost of the requests placed so far
    cuts branches; work conservation is checked at the end.

    Raises
    ------
    CapabilityError
        If there are more than `MAX_SCHEDULES` schedules.
    """
    latest = _latest_starts(problem)
    choices = [last - a + 1 for last, a in zip(latest, problem.arrival.tolist(), strict=True)]
    # The first request is on worker 0, the next on one of two, and so on, if workers are equal.
    places = [
        min(problem.workers, i + 1) if problem.is_symmetric else problem.workers
        for i in range(len(choices))
    ]
    size = math.prod(choices) * math.prod(places)
    if size > MAX_SCHEDULES:
        raise CapabilityError(
            "problem", f"more than {MAX_SCHEDULES} schedules", "use --method cp-sat"
        )
    best = _Enumeration(problem, latest, math.inf, math.inf).run()
    assert best is not None
    return best


def better_than(
    problem: MakespanProblem, objective: int, most: int
) -> tuple[int, list[int], list[int]] | None:
    """Return the optimum as `brute_force` does, or None if it is not below ``objective``.

    Raises
    ------
    CapabilityError
        If that takes more than ``most`` placements of a request.
    """
    return _Enumeration(problem, _latest_starts(problem), objective, most).run()


def _latest_starts(problem: MakespanProblem) -> list[int]:
    outputs = problem.output.tolist()
    end = max(problem.arrival.tolist(), default=0) + sum(outputs)
    return [end - output for output in outputs]


class _Enumeration:
    """Depth-first enumeration over requests in order, of at most ``most`` placements."""

    def __init__(
        self, problem: MakespanProblem, latest: list[int], below: float, most: float
    ) -> None:
        self._best: tuple[int, list[int], list[int]] | None = None
        self._below, self._left = below, most
        self._problem = problem
        self._latest = latest
        self._starts: list[int] = []
        self._workers: list[int] = []
        self._used: dict[tuple[int, int], list[int]] = {}

    def run(self) -> tuple[int, list[int], list[int]] | None:
        """Return the best schedule below the value it began with."""
        self._extend()
        return self._best

    def _extend(self) -> None:
        """Try every start and worker of the next request, and of those after it."""
        i = len(self._starts)
        if i == self._problem.num_requests:
            self._finish()
            return
        if self._cost() >= self._below:
            return
        open_workers = self._problem.workers
        if self._problem.is_symmetric:
            open_workers = min(open_workers, max(self._workers, default=-1) + 2)
        for start in range(int(self._problem.arrival[i]), self._latest[i] + 1):
            for worker in range(open_workers):
                self._left -= 1
                if self._left < 0:
                    raise CapabilityError("problem", "too many schedules", "use --method cp-sat")
                if self._add(i, start, worker):
                    self._starts.append(start)
                    self._workers.append(worker)
                    self._extend()
                    self._starts.pop()
                    self._workers.pop()
                self._remove(i, start, worker)

    def _finish(self) -> None:
        if violations(self._problem, self._starts, self._workers):
            return
        cost = objective_value(self._problem, self._starts, self._workers)
        if cost < self._below:
            self._best = cost, list(self._starts), list(self._workers)
            self._below = cost

    def _cost(self) -> int:
        peaks: dict[int, int] = {}
        for (_, step), loads in self._used.items():
            if loads:
                peaks[step] = max(peaks.get(step, 0), sum(loads))
        per_step, per_token = self._problem.rates
        late = 0
        if per_step == per_token == 0:
            columns = (self._starts, self._problem.output.tolist(), self._problem.arrival.tolist())
            late = sum(k + o - a for k, o, a in zip(*columns, strict=False))
        return (
            per_step * len(peaks) + per_token * sum(peaks.values()) + self._problem.offset + late
        )

    def _add(self, i: int, start: int, worker: int) -> bool:
        fits = True
        for j in range(int(self._problem.output[i])):
            loads = self._used.setdefault((worker, start + j), [])
            loads.append(int(self._problem.prompt[i]) + j)
            fits = fits and len(loads) <= self._problem.slots
            if self._problem.memory is not None:
                fits = fits and sum(loads) <= self._problem.memory[worker]
        return fits

    def _remove(self, i: int, start: int, worker: int) -> None:
        for j in range(int(self._problem.output[i])):
            self._used[worker, start + j].pop()
