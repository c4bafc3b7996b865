"""The steps of a run whose decisions may be furthest from the optimum, as problems to solve again.

The rule: first the steps without any bound, then those of the largest possible regret (objective
minus bound, which is the regret itself where the optimum is proven); of equals the earliest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from formulations.arrays import integer
from formulations.step import StepProblem

RULE = "largest objective minus bound, steps without a bound first; of equals the earliest"

R = TypeVar("R")


@dataclass(frozen=True)
class KeptStep(Generic[R]):
    """A step of a run.

    Parameters
    ----------
    problem : StepProblem
        Its program, with as many requests to admit as were admitted.
    decision : tuple of (int or None)
        What the policy decided.
    row
        What was measured of it.
    """

    problem: StepProblem
    decision: tuple[int | None, ...]
    row: R


class WorstSteps(Generic[R]):
    """Keeps the problems of a few steps while a run goes on.

    Parameters
    ----------
    count : int
        How many to keep.
    """

    def __init__(self, count: int) -> None:
        self._count = integer(count, "keep")
        self._kept: list[tuple[float, KeptStep[R]]] = []

    def offer(
        self,
        regret_at_most: int | None,
        problem: StepProblem,
        decision: tuple[int | None, ...],
        row: R,
    ) -> None:
        """Keep a step if it is among the worst so far; later steps must be offered later."""
        if not self._count:
            return
        regret = inf if regret_at_most is None else regret_at_most
        self._kept.append((regret, KeptStep(problem, decision, row)))
        # The sort is stable: of equals the earliest stays in front.
        self._kept.sort(key=lambda kept: -kept[0])
        del self._kept[self._count :]

    def __iter__(self) -> Iterator[KeptStep[R]]:
        """Yield the steps, the worst first."""
        return (step for _, step in self._kept)

    def __len__(self) -> int:
        """Return how many steps are kept."""
        return len(self._kept)
