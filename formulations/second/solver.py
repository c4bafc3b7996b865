"""The second program of a step with its verbs: solve it, and say only what is proven."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from formulations.arrays import FloatArray
from formulations.formulation import Formulation
from formulations.results import Termination
from formulations.second.bound import lower_bound
from formulations.second.brute_force import brute_force
from formulations.second.check import second_value, violations
from formulations.second.matrix import build_standard_form
from formulations.second.problem import SecondProblem
from formulations.second.result import SecondResult
from formulations.second.words import WORDS
from formulations.standard_form import StandardForm
from formulations.step.result import Assignment
from formulations.step.solver import StepProgram


class SecondProgram(Formulation[SecondProblem, Sequence[int | None], SecondResult]):
    """The program of one `SecondProblem`."""

    result = SecondResult
    words = WORDS

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.second.program import build

        return build(self.problem)

    def write(self) -> StandardForm:
        """Return the standard form, written without Pyomo."""
        return build_standard_form(self.problem)

    def lower_bound(self) -> int:
        """Return the combinatorial bound."""
        return lower_bound(self.problem)

    def objective_value(self, solution: Sequence[int | None]) -> int:
        """Return the second objective."""
        return second_value(self.problem, solution)

    def violations(
        self, solution: Sequence[int | None], objective: int | None = None
    ) -> dict[str, int]:
        """Return every violated constraint and by how much."""
        return violations(self.problem, solution, objective)

    def brute_force(self) -> tuple[int, Assignment] | None:
        """Return the optimum and the smallest assignment that reaches it."""
        best = brute_force(self.problem)
        return None if best is None else (best[0], tuple(best[1]))

    def details(self) -> dict[str, Any]:
        """Return the scale of the second objective."""
        return {"scale": self.problem.scale}

    def settled(self, method: str) -> SecondResult | None:
        """Answer a problem that cannot be met, or in which nothing may start."""
        step = StepProgram(self.problem.step).settled(method)
        if step is None:
            return None
        waiting = step.assignment
        if waiting is None or violations(self.problem, waiting):
            return self.answer(None, Termination.INFEASIBLE, None, method=method)
        value = second_value(self.problem, waiting)
        return self.answer(waiting, Termination.OPTIMAL, value, method=method)

    def solution_at(self, values: FloatArray) -> Assignment:
        """Read the assignment off a point."""
        return StepProgram(self.problem.step).solution_at(values)

    def point_of(self, solution: Sequence[int | None]) -> FloatArray:
        """Write an assignment as a point."""
        point = StepProgram(self.problem.step).point_of(solution)
        window = self.problem.window
        if window is None:
            return point
        pairs = window.num_requests * window.num_workers
        return np.concatenate([point, StepProgram(window).point_of(solution)[pairs:]])


solve = SecondProgram.solve
