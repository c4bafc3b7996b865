"""The checker of schedules, and the oracle that tries them all.

Both know the problem data and nothing of any algorithm.
"""

import math
from collections.abc import Sequence

from formulations.errors import CapabilityError
from formulations.hindsight_latency.problem import LatencyProblem, kinds


def violations(
    problem: LatencyProblem, starts: Sequence[int], objective: int | None = None
) -> dict[str, int]:
    """Return every violated constraint and by how much.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    starts : sequence of int
        Start round ``p_i`` of each request, length n.
    objective : int, optional
        Claimed total latency, compared with the recomputed one.

    Returns
    -------
    dict of str to int
        Constraint name to positive amount; empty for a feasible schedule. ``memory[τ]`` gives the
        tokens in excess at round τ.
    """
    if len(starts) != problem.num_requests:
        return {"starts": abs(len(starts) - problem.num_requests)}
    strangers = {f"starts[{i}]": 1 for i, start in enumerate(starts) if type(start) is not int}
    if strangers:
        return strangers
    arrivals = problem.arrival.tolist()
    violated = {
        f"arrival[{i}]": arrival - start
        for i, (arrival, start) in enumerate(zip(arrivals, starts, strict=True))
        if start < arrival
    }
    used = memory_used(problem, starts)
    for round_, tokens in sorted(used.items()):
        if tokens > problem.memory:
            violated[f"memory[{round_}]"] = tokens - problem.memory
    if objective is not None and (error := abs(objective - total_latency(problem, starts))):
        violated["objective"] = error
    return violated


def total_latency(problem: LatencyProblem, starts: Sequence[int]) -> int:
    """Return ``Σ (p_i + o_i - a_i)`` [rounds]."""
    outputs, arrivals = problem.output.tolist(), problem.arrival.tolist()
    return sum(p + o - a for p, o, a in zip(starts, outputs, arrivals, strict=True))


def memory_used(problem: LatencyProblem, starts: Sequence[int]) -> dict[int, int]:
    """Return the tokens in the cache at every round at which there are any."""
    convention = problem.convention
    used: dict[int, int] = {}
    prompts, outputs = problem.prompt.tolist(), problem.output.tolist()
    for start, prompt, output in zip(starts, prompts, outputs, strict=True):
        for age in range(convention.first_age, convention.last_age(output) + 1):
            used[start + age] = used.get(start + age, 0) + prompt + age
    return used


#: Most start vectors up to the last step.
MAX_VECTORS = 10**9


def brute_force(problem: LatencyProblem, most: int | None = None) -> tuple[int, list[int]]:
    """Return the least total latency and the lexicographically smallest starts that reach it.

    Vectors that overflow the memory, or already cost as much as the best so far, are cut short.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    most : int, optional
        Starts that are tried at most, over all requests.

    Raises
    ------
    CapabilityError
        If ``most`` starts are too few, or without it there are more than `MAX_VECTORS` vectors
        up to the last step.
    """
    last = {i: kind.last_start for kind in kinds(problem) for i in kind.members}
    arrivals = problem.arrival.tolist()
    size = math.prod(last[i] - arrival + 1 for i, arrival in enumerate(arrivals))
    if most is None and size > MAX_VECTORS:
        raise CapabilityError(
            "problem",
            f"more than {MAX_VECTORS} start vectors",
            "use --method cp-sat",
        )
    search = _Enumeration(problem, last, math.inf if most is None else most)
    search.extend(0, 0)
    constant = sum(problem.output.tolist()) - sum(arrivals)
    assert search.best is not None
    return search.best[0] + constant, search.best[1]


class _Enumeration:
    """Depth-first enumeration; ``used`` is the memory of the requests placed so far."""

    def __init__(self, problem: LatencyProblem, last: dict[int, int], most: float) -> None:
        self.best: tuple[int, list[int]] | None = None
        self._problem = problem
        self._last = last
        self._left = most
        self._starts: list[int] = []
        self._used: dict[int, int] = {}
        self._arrivals = problem.arrival.tolist()

    def extend(self, request: int, total: int) -> None:
        """Try every start of ``request`` and of those after it."""
        if request == self._problem.num_requests:
            if self.best is None or total < self.best[0]:
                self.best = total, list(self._starts)
            return
        rest = sum(self._arrivals[request + 1 :])
        for start in range(self._arrivals[request], self._last[request] + 1):
            if self.best is not None and total + start + rest >= self.best[0]:
                return
            self._left -= 1
            if self._left < 0:
                raise CapabilityError("problem", "too many schedules", "use --method cp-sat")
            if self._add(request, start):
                self._starts.append(start)
                self.extend(request + 1, total + start)
                self._starts.pop()
            self._remove(request, start)

    def _add(self, request: int, start: int) -> bool:
        fits = True
        for round_, tokens in self._profile(request, start):
            self._used[round_] = self._used.get(round_, 0) + tokens
            fits = fits and self._used[round_] <= self._problem.memory
        return fits

    def _remove(self, request: int, start: int) -> None:
        for round_, tokens in self._profile(request, start):
            self._used[round_] -= tokens

    def _profile(self, request: int, start: int) -> list[tuple[int, int]]:
        convention = self._problem.convention
        prompt, output = int(self._problem.prompt[request]), int(self._problem.output[request])
        ages = range(convention.first_age, convention.last_age(output) + 1)
        return [(start + age, prompt + age) for age in ages]
