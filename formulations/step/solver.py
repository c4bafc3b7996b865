"""The step program with its verbs: solve it, and say only what is proven."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from formulations.arrays import FloatArray
from formulations.backends import SolveLimits
from formulations.deadline import TimeLimit
from formulations.formulation import NO_LIMITS, Formulation
from formulations.results import Termination, TieRule, own_solver
from formulations.standard_form import StandardForm
from formulations.step.bound import lower_bound
from formulations.step.brute_force import brute_force
from formulations.step.check import violations
from formulations.step.matrix import build_standard_form
from formulations.step.problem import Objective, StepProblem
from formulations.step.result import Assignment, StepResult
from formulations.step.words import WORDS
from formulations.trust import COMBINATORIAL


class StepProgram(Formulation[StepProblem, Sequence[int | None], StepResult]):
    """The program of one `StepProblem`."""

    result = StepResult
    words = WORDS

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.step.program import build

        return build(self.problem)

    def write(self) -> StandardForm:
        """Return the standard form, written without Pyomo."""
        return build_standard_form(self.problem)

    def lower_bound(self) -> int:
        """Return the combinatorial bound."""
        return lower_bound(self.problem)

    def objective_value(self, solution: Sequence[int | None]) -> int:
        """Return the scaled objective."""
        return self.problem.objective_value(solution)

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
        """Return the scale of the objective."""
        return {"scale": self.problem.scale}

    def settled(self, method: str) -> StepResult | None:
        """Answer a problem that cannot be met, or in which nothing may start."""
        problem = self.problem
        limits, required = problem.token_capacity, problem.required
        too_full = limits is not None and bool((problem.base > limits[:, None]).any())
        if too_full or (required is not None and int(required.sum()) > problem.num_admitted):
            return self.answer(None, Termination.INFEASIBLE, None, method=method)
        if problem.num_admitted > 0:
            return None
        waiting = (None,) * problem.num_requests
        bound = problem.objective_value(waiting)
        return self.answer(
            waiting, Termination.OPTIMAL, bound, method=method, tie_rule=TieRule.LEXICOGRAPHIC
        )

    def solved(
        self,
        method: str = "cp-sat",
        limits: SolveLimits = NO_LIMITS,
        hint: Sequence[int | None] | None = None,
    ) -> StepResult:
        """Solve with weights in lowest terms; see `solve`."""
        # Weights such as 750,000 and 500,000 have led floating-point solvers to wrong optima.
        benefit = self.problem.benefit
        common = 0 if benefit is None else int(np.gcd.reduce(benefit, axis=None))
        factor = math.gcd(common, *self.problem.weights)
        if factor <= 1:
            return super().solved(method, limits, hint)
        weights = tuple(w // factor for w in self.problem.weights)
        deadline = limits.deadline.mapped(lambda answer: _scaled(answer, factor))
        lowered = None if benefit is None else benefit // factor
        reduced = StepProgram(replace(self.problem, weights=weights, benefit=lowered))
        result = reduced.solved(method, replace(limits, time_limit=deadline), hint)
        return _scaled(result, factor)

    def solution_at(self, values: FloatArray) -> Assignment:
        """Read the assignment off a point."""
        shape = self.problem.num_requests, self.problem.num_workers
        x = values[: shape[0] * shape[1]].reshape(shape)
        pairs = zip(x.argmax(axis=1).tolist(), x.max(axis=1) > 0.5, strict=True)
        return tuple(g if admitted else None for g, admitted in pairs)

    def point_of(self, solution: Sequence[int | None]) -> FloatArray:
        """Write an assignment as a point."""
        problem = self.problem
        x = np.zeros((problem.num_requests, problem.num_workers))
        for i, worker in enumerate(solution):
            if worker is not None:
                x[i, worker] = 1.0
        times = problem.loads(solution) * problem.time_weights[:, None]
        parts = [x.reshape(-1), times.max(axis=0)]
        if problem.objective is Objective.GAP:
            parts.append(times.min(axis=0))
        return np.concatenate(parts).astype(np.float64)


def _scaled(result: StepResult, factor: int) -> StepResult:
    """Return the answer to a problem whose weights are larger by a factor."""
    return replace(
        result,
        objective=None if result.objective is None else factor * result.objective,
        bound=None if result.bound is None else factor * result.bound,
    )


def solve_by_enumeration(problem: StepProblem, *, time_limit: TimeLimit = None) -> StepResult:
    """Solve by looking at every assignment (tiny problems); ties go to the smallest."""
    result = StepProgram.solve_by_enumeration(problem, time_limit=time_limit)
    ties = TieRule.BACKEND if result.assignment is None else TieRule.LEXICOGRAPHIC
    return replace(result, tie_rule=ties)


def assess(
    problem: StepProblem,
    assignment: Sequence[int | None],
    *,
    method: str,
    seconds: float = 0.0,
    tie_rule: TieRule = TieRule.OLDEST_FIRST,
) -> StepResult:
    """Check an assignment from anywhere; it is optimal if it meets the combinatorial bound.

    Returns
    -------
    StepResult
        With termination failed, and the violations named, if the assignment is infeasible.
    """
    return StepProgram(problem).answer(
        tuple(assignment),
        Termination.FEASIBLE,
        lower_bound(problem),
        method=method,
        seconds=seconds,
        tie_rule=tie_rule,
        solver=own_solver(),
        proof=COMBINATORIAL,
    )


solve = StepProgram.solve
