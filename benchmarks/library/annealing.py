"""Simulated annealing by swaps: a simple search for better solutions of any step problem.

A move exchanges two requests (one of them may wait), or moves one request to a free slot. Worse
solutions are accepted with the Metropolis probability, which falls with the temperature.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from formulations.arrays import IntArray
from formulations.errors import CapabilityError
from formulations.step import Objective, StepProblem

_WAITS = -1
#: First temperature relative to the first objective, and last relative to the first temperature.
_HOT, _COLD = 3e-3, 1e-4
#: Number of parts of the search. Each reheats and starts from the best solution so far.
_ROUNDS = 4


def annealed(
    problem: StepProblem, start: Sequence[int | None], moves: int, seed: int
) -> list[int | None]:
    """Return the best assignment found, which is never worse than the start.

    Parameters
    ----------
    problem : StepProblem
        Data.
    start : sequence of int or None
        A feasible assignment.
    moves : int
        Moves to try.
    seed : int
        Seed.
    """
    if problem.benefit is not None:
        raise CapabilityError(
            "benefit", "annealing does not support benefits", "use another method"
        )
    rng = np.random.default_rng(seed)
    best = _Walk(problem, start)
    for _ in range(_ROUNDS):
        walk = _Walk(problem, best.answer())
        hot = max(_HOT * walk.value, 1.0)
        for k in range(moves // _ROUNDS):
            walk.step(rng, hot * _COLD ** (k * _ROUNDS / moves))
            if walk.value < best.value:
                best = walk.copy()
    return best.answer()


class _Walk:
    """An assignment and its loads."""

    def __init__(self, problem: StepProblem, assignment: Sequence[int | None]) -> None:
        self._problem = problem
        self._place = np.array([_WAITS if g is None else g for g in assignment])
        self._loads = problem.loads(assignment)
        used = np.bincount(self._place[self._place >= 0], minlength=problem.num_workers)
        self._free: IntArray = problem.capacity - used
        self._weights = np.array(problem.weights)
        self._times = problem.time_weights[:, None]
        self.value = self._objective(self._loads)

    def copy(self) -> "_Walk":
        """Return a copy of this state."""
        return _Walk(self._problem, self.answer())

    def answer(self) -> list[int | None]:
        """Return the assignment."""
        return [None if g == _WAITS else g for g in self._place.tolist()]

    def step(self, rng: np.random.Generator, heat: float) -> None:
        """Try one random move."""
        move = self._drawn(rng)
        if move is None:
            return
        loads = self._loads
        for i, source, target in move:
            loads = self._moved(loads, i, source, target)
        if not self._keeps(loads):
            return
        value = self._objective(loads)
        if value <= self.value or rng.random() < math.exp((self.value - value) / heat):
            self._loads, self.value = loads, value
            for i, source, target in move:
                self._place[i] = target
                if source >= 0:
                    self._free[source] += 1
                if target >= 0:
                    self._free[target] -= 1

    def _drawn(self, rng: np.random.Generator) -> list[tuple[int, int, int]] | None:
        """Return the moves (request, source, target); None if the draw allows no move."""
        i, j = rng.integers(0, len(self._place), 2).tolist()
        here, there = int(self._place[i]), int(self._place[j])
        if rng.random() < 0.2 and here >= 0:
            target = int(rng.integers(0, len(self._free)))
            return [(i, here, target)] if self._free[target] > 0 and target != here else None
        required = self._problem.required
        if here == there or (required is not None and self._sends_away((i, there), (j, here))):
            return None
        return [(i, here, there), (j, there, here)]

    def _sends_away(self, *moves: tuple[int, int]) -> bool:
        required: Any = self._problem.required
        return any(target == _WAITS and required[i] for i, target in moves)

    def _moved(self, loads: IntArray, i: int, source: int, target: int) -> IntArray:
        loads = loads.copy() if loads is self._loads else loads
        if source >= 0:
            loads[source] -= self._problem.contribution[i]
        if target >= 0:
            loads[target] += self._problem.contribution[i]
        return loads

    def _keeps(self, loads: IntArray) -> bool:
        most = self._problem.token_capacity
        return most is None or bool((loads.max(axis=1) <= most).all())

    def _objective(self, loads: IntArray) -> int:
        times = loads * self._times
        peak = times.max(axis=0)
        if self._problem.objective is Objective.IMBALANCE:
            peak = len(times) * peak - times.sum(axis=0)
        elif self._problem.objective is Objective.GAP:
            peak = peak - times.min(axis=0)
        return int(self._weights @ peak)
