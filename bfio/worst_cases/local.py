"""Annealing over instances that are too many, or too large, to look at all of them."""

import math

import numpy as np

from bfio.worst_cases.case import Case, Space, Target, against, exceeds
from bfio.worst_cases.found import Found
from formulations.problem_data import ProblemData

#: Temperatures at the beginning and the end of a round, in the logarithm of the ratio.
_HOT, _COLD = 0.03, 0.0005
#: Rounds of falling temperature, each from where the one before has ended.
_ROUNDS = 4
#: Steps without a better instance after which a new one is drawn to go on from.
_PATIENCE = 400


def local(
    target: Target,
    space: Space,
    *,
    steps: int = 2000,
    seed: int = 0,
    start: ProblemData | None = None,
) -> Found:
    """Search for a large ratio; nothing is proven but the ratio found.

    Parameters
    ----------
    target : Target
        The policy.
    space : Space
        Where neighbours come from.
    steps : int
        Instances looked at.
    seed : int
        Of all draws; equal seeds give equal results.
    start : ProblemData, optional
        Where to begin, such as the worst case of a smaller space; drawn by default.
    """
    rng = np.random.default_rng(seed)
    walk = _Walk(target, space, rng, space.draw(rng) if start is None else start)
    for step in range(1, steps):
        share = (step * _ROUNDS % steps) / steps
        walk.step(_HOT * (_COLD / _HOT) ** share)
    return Found(walk.best, "local", str(space), walk.tried, walk.tried, is_maximal=False)


class _Walk:
    """Where an annealing is, and the best instance it met."""

    def __init__(
        self, target: Target, space: Space, rng: np.random.Generator, start: ProblemData
    ) -> None:
        self._target, self._space, self._rng = target, space, rng
        self.tried = self._idle = 0
        self.best = self._here = self._case(start)

    def step(self, temperature: float) -> None:
        """Look at a neighbour, and go there if it is worse for the policy, or by chance.

        Out of patience, look at any instance and go there.
        """
        problem = self._space.neighbour(self._here.problem, self._rng)
        restarts = self._idle >= _PATIENCE
        if restarts:
            problem, self._idle = self._space.draw(self._rng), 0
        case = self._case(problem)
        self._idle += 1
        gain = _logarithm(case) - _logarithm(self._here)
        if restarts or gain >= 0 or self._rng.random() < math.exp(gain / temperature):
            self._here = case
        if exceeds((case.cost, case.least), (self.best.cost, self.best.least)):
            self.best, self._idle = case, 0

    def _case(self, problem: ProblemData) -> Case:
        self.tried += 1
        return against(self._target, problem, self._target.better(problem))


def _logarithm(case: Case) -> float:
    """Return the logarithm of a ratio; a large number where the least cost is 0."""
    cost, least = case.cost, case.least
    if least == 0:
        return math.log(cost + 1) + 100.0 * (cost > 0)
    return math.log(cost / least)
