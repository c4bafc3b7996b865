"""The secondary program of a step: lower bound, standard form and solver."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from formulations.arrays import FloatArray
from formulations.formulation import Formulation
from formulations.results import Termination
from formulations.second.check import brute_force, second_value, violations
from formulations.second.problem import WORDS, SecondProblem, SecondResult
from formulations.standard_form import StandardForm
from formulations.step.bound import lower_bound as step_bound
from formulations.step.problem import Assignment
from formulations.step.solver import StepProgram
from formulations.step.solver import build_standard_form as build_step


def lower_bound(problem: SecondProblem) -> int:
    """Return an integer lower bound on the secondary objective of every feasible assignment.

    The bound is the cost of the cheapest requests, as many as are admitted, plus the lower bound
    on the window's objective.
    """
    step, costs = problem.step, problem.costs
    required = np.zeros(len(costs), dtype=np.bool_) if step.required is None else step.required
    others = np.sort(costs[~required])[: max(0, step.num_admitted - int(required.sum()))]
    least = int(costs[required].sum()) + int(others.sum())
    if problem.window is None:
        return least
    return least + step_bound(problem.window)


#: Row families that a window adds; its other rows repeat constraints of the step.
_FAMILIES = ("peak[", "floor[")


def build_standard_form(problem: SecondProblem) -> StandardForm:
    """Write the standard form of a secondary program with at least one waiting request.

    Columns are those of the step, then ``window_M`` and ``window_m``.

    Raises
    ------
    CapabilityError
        If the rows of step or window would have too many nonzeros.
    """
    from scipy.sparse import csr_array, hstack, vstack

    step = build_step(problem.step)
    # If all weights are 0, so is the primary objective, and it needs no row.
    limit = ["most"] if step.objective.any() else []
    first = csr_array(step.objective[None, :])[: len(limit)]
    costs = np.zeros(step.num_columns)
    pairs = problem.step.num_requests * problem.step.num_workers
    costs[:pairs] = np.repeat(problem.costs, problem.step.num_workers)
    form = replace(
        step,
        objective=costs,
        offset=0.0,
        matrix=csr_array(vstack([step.matrix, first])),
        row_lower=np.append(step.row_lower, [-np.inf] * len(limit)),
        row_upper=np.append(step.row_upper, [problem.most - step.offset] * len(limit)),
        row_names=(*step.row_names, *limit),
    )
    if problem.window is None:
        return form
    window = build_step(problem.window)
    rows = [r for r, name in enumerate(window.row_names) if name.startswith(_FAMILIES)]
    own = window.matrix[rows]
    between = csr_array((len(rows), step.num_columns - pairs))
    below = hstack([own[:, :pairs], between, own[:, pairs:]])
    above = hstack([form.matrix, csr_array((form.num_rows, window.num_columns - pairs))])
    costs[:pairs] += window.objective[:pairs]
    return StandardForm(
        objective=np.concatenate([costs, window.objective[pairs:]]),
        offset=window.offset,
        matrix=csr_array(vstack([above, below])),
        row_lower=np.concatenate([form.row_lower, window.row_lower[rows]]),
        row_upper=np.concatenate([form.row_upper, window.row_upper[rows]]),
        lower=np.concatenate([form.lower, window.lower[pairs:]]),
        upper=np.concatenate([form.upper, window.upper[pairs:]]),
        integral=np.concatenate([form.integral, window.integral[pairs:]]),
        row_names=(*form.row_names, *(f"window_{window.row_names[r]}" for r in rows)),
        column_names=(*form.column_names, *(f"window_{n}" for n in window.column_names[pairs:])),
    )


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
        """Return the lower bound on the secondary objective, `lower_bound`."""
        return lower_bound(self.problem)

    def objective_value(self, solution: Sequence[int | None]) -> int:
        """Return the secondary objective of an assignment."""
        return second_value(self.problem, solution)

    def violations(
        self, solution: Sequence[int | None], objective: int | None = None
    ) -> dict[str, int]:
        """Return each violated constraint of an assignment and the amount."""
        return violations(self.problem, solution, objective)

    def brute_force(self) -> tuple[int, Assignment] | None:
        """Return the optimum and the lexicographically smallest optimal assignment."""
        best = brute_force(self.problem)
        return None if best is None else (best[0], tuple(best[1]))

    def settled(self, method: str) -> SecondResult | None:
        """Return the result if no assignment is feasible or no request may start, else None."""
        step = StepProgram(self.problem.step).settled(method)
        if step is None:
            return None
        waiting = step.assignment
        if waiting is None or violations(self.problem, waiting):
            return self.answer(None, Termination.INFEASIBLE, None, method=method)
        value = second_value(self.problem, waiting)
        return self.answer(waiting, Termination.OPTIMAL, value, method=method)

    def solution_at(self, values: FloatArray) -> Assignment:
        """Return the assignment at a point of the standard form."""
        return StepProgram(self.problem.step).solution_at(values)

    def point_of(self, solution: Sequence[int | None]) -> FloatArray:
        """Return an assignment as a point of the standard form."""
        point = StepProgram(self.problem.step).point_of(solution)
        window = self.problem.window
        if window is None:
            return point
        pairs = window.num_requests * window.num_workers
        return np.concatenate([point, StepProgram(window).point_of(solution)[pairs:]])


solve = SecondProgram.solve
