"""The step program as a standard form, and its solver.

Building and compiling the Pyomo statement takes seconds at 128 requests x 25 workers x 21 steps;
writing its arrays directly takes milliseconds. `formulations.step.program` stays the reference.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from formulations.arrays import FloatArray
from formulations.backends import SolveLimits
from formulations.deadline import TimeLimit
from formulations.formulation import COMBINATORIAL, NO_LIMITS, Formulation
from formulations.results import Termination, TieRule, own_solver
from formulations.standard_form import FormWriter, StandardForm, check_size
from formulations.step.bound import lower_bound, peak_bounds
from formulations.step.check import brute_force, violations
from formulations.step.problem import WORDS, Assignment, Objective, StepProblem, StepResult


def build_standard_form(problem: StepProblem) -> StandardForm:
    """Write the standard form of a step problem with at least one waiting request.

    Columns are ``x[i,g]`` (i slow, g fast), then ``M[h]``, then ``m[h]`` for the gap objective.

    Raises
    ------
    CapabilityError
        If the standard form would have too many nonzeros.
    """
    N, G, steps = problem.num_requests, problem.num_workers, problem.num_steps
    remedy = 'use method="exact", or fewer requests, workers or look-ahead steps'
    check_size(N * G * (steps + 2), "program", remedy)
    # Python integers: products of weight, speed and tokens may exceed 64 bits before the check.
    weights = np.array(problem.weights, dtype=object)
    x_costs, peak_costs, offset = np.zeros(N * G, dtype=object), weights, 0
    if problem.benefit is not None:
        x_costs = -problem.benefit.reshape(-1).astype(object)
    if problem.objective is Objective.IMBALANCE:
        speeds = problem.time_weights.astype(object)
        x_costs = x_costs - np.outer(problem.contribution.astype(object) @ weights, speeds).ravel()
        peak_costs = G * weights
        offset = -int((problem.base.astype(object) @ weights) @ speeds)
    writer = FormWriter()
    x, peak_costs = np.arange(N * G), peak_costs.astype(np.float64)
    names = (f"x[{i},{g}]" for i in range(N) for g in range(G))
    writer.columns(names, cost=x_costs.astype(np.float64))
    lowest, highest = peak_bounds(problem)
    names = (f"M[{h}]" for h in range(steps))
    peak = writer.columns(names, lower=lowest, upper=highest, cost=peak_costs)
    writer.constraints((f"admit_once[{i}]" for i in range(N)), x // G, x, 1, upper=1)
    names = (f"capacity[{g}]" for g in range(G))
    writer.constraints(names, x % G, x, 1, upper=problem.capacity)
    admitted = problem.num_admitted
    writer.constraints(["use_slots"], 0, x, 1, lower=admitted, upper=admitted)
    # Coefficients of x in ``Σ_i v_i(h) x[i,g]``; rows (g, h), g slow.
    i, g, h = (index.reshape(-1) for index in np.indices((N, G, steps)))
    row, column, tokens = g * steps + h, i * G + g, problem.contribution[i, h].astype(np.float64)
    times = tokens * problem.time_weights[g]
    places = [f"{g},{h}" for g in range(G) for h in range(steps)]
    each = np.arange(G * steps)
    base = (problem.base * problem.time_weights[:, None]).reshape(-1)
    names = (f"peak[{place}]" for place in places)
    first = writer.constraints(names, row, column, times, upper=-base)
    writer.add(first + each, peak + each % steps, -1)
    if problem.objective is Objective.GAP:
        names = (f"m[{h}]" for h in range(steps))
        floor = writer.columns(names, upper=highest, cost=-peak_costs)
        names = (f"floor[{place}]" for place in places)
        first = writer.constraints(names, row, column, -times, upper=base)
        writer.add(first + each, floor + each % steps, 1)
    if problem.token_capacity is not None:
        room = (problem.token_capacity[:, None] - problem.base).reshape(-1)
        names = (f"token_capacity[{place}]" for place in places)
        writer.constraints(names, row, column, tokens, upper=room)
    if problem.required is not None:
        required = np.flatnonzero(problem.required)
        of_required = (required[:, None] * G + np.arange(G)).reshape(-1)
        names = (f"required[{i}]" for i in required)
        rows = np.repeat(np.arange(len(required)), G)
        writer.constraints(names, rows, of_required, 1, lower=1, upper=1)
    return writer.form(offset)


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
        """Return the lower bound on the scaled objective of `bound.lower_bound`."""
        return lower_bound(self.problem)

    def objective_value(self, solution: Sequence[int | None]) -> int:
        """Return the scaled objective of an assignment."""
        return self.problem.objective_value(solution)

    def violations(
        self, solution: Sequence[int | None], objective: int | None = None
    ) -> dict[str, int]:
        """Return each violated constraint of an assignment and the amount."""
        return violations(self.problem, solution, objective)

    def brute_force(self) -> tuple[int, Assignment] | None:
        """Return the optimum and the lexicographically smallest optimal assignment."""
        best = brute_force(self.problem)
        return None if best is None else (best[0], tuple(best[1]))

    def settled(self, method: str) -> StepResult | None:
        """Return the result if no assignment is feasible or no request may start, else None."""
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
        """Solve with the discount weights divided by their common divisor; see `solve`."""
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
        """Return the assignment at a point of the standard form."""
        shape = self.problem.num_requests, self.problem.num_workers
        x = values[: shape[0] * shape[1]].reshape(shape)
        pairs = zip(x.argmax(axis=1).tolist(), x.max(axis=1) > 0.5, strict=True)
        return tuple(g if admitted else None for g, admitted in pairs)

    def point_of(self, solution: Sequence[int | None]) -> FloatArray:
        """Return an assignment as a point of the standard form."""
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
    """Return the same result for discount weights multiplied by ``factor``."""
    return replace(
        result,
        objective=None if result.objective is None else factor * result.objective,
        bound=None if result.bound is None else factor * result.bound,
    )


def solve_by_enumeration(problem: StepProblem, *, time_limit: TimeLimit = None) -> StepResult:
    """Solve a tiny problem by enumeration; ties go to the lexicographically smallest answer."""
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
    """Check an assignment and return its result, optimal if it meets the lower bound.

    Returns
    -------
    StepResult
        Termination is "failed", with the violations named, if the assignment is infeasible.
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
