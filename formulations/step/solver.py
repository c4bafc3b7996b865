"""The step program with its verbs: solve it, and say only what is proven.

Building and compiling the Pyomo statement takes seconds at 128 requests x 25 workers x 21 steps;
writing its arrays directly takes milliseconds. `formulations.step.program` stays the statement.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from formulations.arrays import FloatArray, IntArray
from formulations.backends import SolveLimits
from formulations.deadline import TimeLimit
from formulations.errors import CapabilityError
from formulations.formulation import COMBINATORIAL, NO_LIMITS, Formulation
from formulations.results import Termination, TieRule, own_solver
from formulations.standard_form import FormWriter, StandardForm
from formulations.step.bound import lower_bound, peak_bounds
from formulations.step.check import brute_force, violations
from formulations.step.problem import WORDS, Assignment, Objective, StepProblem, StepResult

#: Most nonzeros written; beyond, no solver would return anyway.
MAX_NONZEROS = 20_000_000


def build_standard_form(problem: StepProblem) -> StandardForm:
    """Write the standard form of a step problem with at least one waiting request.

    Columns are ``x[i,g]`` (i slow, g fast), then ``M[h]``, then ``m[h]`` for the gap objective.

    Raises
    ------
    CapabilityError
        If there would be more than `MAX_NONZEROS` nonzeros.
    """
    N, G, steps = problem.num_requests, problem.num_workers, problem.num_steps
    _check_size(N * G * (steps + 2))
    writer = FormWriter()
    x_costs, peak_costs, offset = _costs(problem)
    x = np.arange(N * G)
    writer.columns((f"x[{i},{g}]" for i in range(N) for g in range(G)), cost=x_costs)
    lowest, highest = peak_bounds(problem)
    names = [f"M[{h}]" for h in range(steps)]
    peak = writer.columns(names, lower=lowest, upper=highest, cost=peak_costs)
    first = writer.rows((f"admit_once[{i}]" for i in range(N)), upper=1)
    writer.add(first + x // G, x, 1)
    first = writer.rows((f"capacity[{g}]" for g in range(G)), upper=problem.capacity)
    writer.add(first + x % G, x, 1)
    admitted = problem.num_admitted
    writer.add(writer.rows(["use_slots"], lower=admitted, upper=admitted), x, 1)
    load = _Loads(problem)
    base = (problem.base * problem.time_weights[:, None]).reshape(-1)
    first = writer.rows(load.names("peak"), upper=-base)
    writer.add(first + load.row, load.column, load.times)
    writer.add(first + load.places, peak + load.places % steps, -1)
    if problem.objective is Objective.GAP:
        names = [f"m[{h}]" for h in range(steps)]
        floor = writer.columns(names, upper=highest, cost=-peak_costs)
        first = writer.rows(load.names("floor"), upper=base)
        writer.add(first + load.row, load.column, -load.times)
        writer.add(first + load.places, floor + load.places % steps, 1)
    if problem.token_capacity is not None:
        room = (problem.token_capacity[:, None] - problem.base).reshape(-1)
        first = writer.rows(load.names("token_capacity"), upper=room)
        writer.add(first + load.row, load.column, load.tokens)
    if problem.required is not None:
        required = np.flatnonzero(problem.required)
        first = writer.rows((f"required[{i}]" for i in required), lower=1, upper=1)
        each = np.arange(len(required) * G)
        writer.add(first + each // G, required[each // G] * G + each % G, 1)
    return writer.form(offset)


def _check_size(nonzeros: int) -> None:
    if nonzeros > MAX_NONZEROS:
        raise CapabilityError(
            "program",
            f"about {nonzeros} nonzeros are more than {MAX_NONZEROS}",
            "use --method exact, or fewer requests, workers or look-ahead steps",
        )


class _Loads:
    """Coefficients of x in ``Σ_i v_i(h) x[i,g]``; rows (g, h), g slow."""

    def __init__(self, problem: StepProblem) -> None:
        G, steps = problem.num_workers, problem.num_steps
        indices = np.indices((problem.num_requests, G, steps))
        i, g, h = (index.reshape(-1) for index in indices)
        self.row: IntArray = g * steps + h
        self.column: IntArray = i * G + g
        self.tokens: FloatArray = problem.contribution[i, h].astype(np.float64)
        self.times: FloatArray = self.tokens * problem.time_weights[g]
        self.places = np.arange(G * steps)
        self._steps = steps

    def names(self, family: str) -> list[str]:
        return [f"{family}[{row // self._steps},{row % self._steps}]" for row in self.places]


def _costs(problem: StepProblem) -> tuple[FloatArray, FloatArray, float]:
    """Return the costs of x and M, and the constant."""
    # Python integers: products of weight, speed and tokens may leave 64 bits before the check.
    weights = np.array(problem.weights, dtype=object)
    benefit = np.zeros(problem.num_requests * problem.num_workers, dtype=object)
    if problem.benefit is not None:
        benefit += problem.benefit.reshape(-1)
    if problem.objective is not Objective.IMBALANCE:
        return (-benefit).astype(np.float64), weights.astype(np.float64), 0.0
    times = problem.time_weights.astype(object)
    values = problem.contribution.astype(object) @ weights
    offset = -int((problem.base.astype(object) @ weights) @ times)
    x_costs = -np.outer(values, times).reshape(-1) - benefit
    peak_costs = problem.num_workers * weights
    return x_costs.astype(np.float64), peak_costs.astype(np.float64), float(offset)


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
