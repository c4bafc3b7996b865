"""Solve the step program with a backend, and say only what is proven."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from formulations.arrays import FloatArray
from formulations.backends import Limits, Outcome, backend, run_backend
from formulations.results import Termination, TieRule
from formulations.step.bound import lower_bound
from formulations.step.brute_force import brute_force
from formulations.step.check import violations
from formulations.step.problem import Objective, StepProblem
from formulations.step.result import StepResult
from formulations.step.step_program import StepProgram
from formulations.trust import is_proven, trusted_bound, trusted_termination

Assignment = Sequence[int | None]


def solve(
    problem: StepProblem,
    *,
    backend: str = "cp-sat",
    time_limit: float | None = None,
    hint: Assignment | None = None,
    seed: int = 0,
) -> StepResult:
    """Solve the program (IO) of one step.

    Parameters
    ----------
    problem : StepProblem
        Data.
    backend : str
        ``cp-sat``, ``highs``, ``pyomo`` or ``pyomo:SOLVER``.
    time_limit : float, optional
        Wall-clock seconds for the solve itself.
    hint : sequence of int or None, optional
        A feasible assignment to start from.
    seed : int
        Random seed of the solver.

    Returns
    -------
    StepResult
        Optimal only if the objective, recomputed in integers, equals a bound derived in integers:
        CP-SAT's, or the combinatorial one of `formulations.step.bound`.
    """
    # Weights such as 750,000 and 500,000 have led floating-point solvers to wrong optima.
    factor = math.gcd(*problem.weights)
    if factor > 1:
        reduced = replace(problem, weights=tuple(w // factor for w in problem.weights))
        found = solve(reduced, backend=backend, time_limit=time_limit, hint=hint, seed=seed)
        return _multiplied(found, factor)
    return _settled(problem, backend) or _solved(problem, backend, time_limit, hint, seed)


def _multiplied(result: StepResult, factor: int) -> StepResult:
    """Return the result in units smaller by a factor."""
    return replace(
        result,
        objective=None if result.objective is None else factor * result.objective,
        bound=None if result.bound is None else factor * result.bound,
    )


def solve_by_enumeration(problem: StepProblem) -> StepResult:
    """Solve by looking at every assignment (tiny problems); ties go to the smallest."""
    began = time.perf_counter()
    best = brute_force(problem)
    seconds = time.perf_counter() - began
    if best is None:
        return StepResult(
            method="brute-force",
            termination=Termination.INFEASIBLE,
            seconds=seconds,
            scale=problem.scale,
        )
    objective, assignment = best
    return StepResult(
        method="brute-force",
        termination=Termination.OPTIMAL,
        objective=objective,
        bound=objective,
        assignment=tuple(assignment),
        violations=violations(problem, assignment, objective),
        seconds=seconds,
        tie_rule=TieRule.LEXICOGRAPHIC,
        scale=problem.scale,
    )


def assess(
    problem: StepProblem,
    assignment: Assignment,
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
    objective = problem.objective_value(assignment)
    bound = lower_bound(problem)
    found = violations(problem, assignment, objective)
    return StepResult(
        method=method,
        termination=trusted_termination(
            Termination.FEASIBLE, proven=objective == bound, broken=bool(found)
        ),
        objective=objective,
        bound=bound,
        assignment=tuple(assignment),
        violations=found,
        seconds=seconds,
        tie_rule=tie_rule,
        scale=problem.scale,
    )


def _settled(problem: StepProblem, method: str) -> StepResult | None:
    """Answer the problems in which nothing can be chosen."""
    if (
        problem.token_capacity is not None
        and (problem.base > problem.token_capacity[:, None]).any()
    ):
        return _infeasible(problem, method)
    num_required = 0 if problem.required is None else int(problem.required.sum())
    if num_required > problem.num_admitted:
        return _infeasible(problem, method)
    if problem.num_admitted > 0:
        return None
    assignment = (None,) * problem.num_requests
    objective = problem.objective_value(assignment)
    return StepResult(
        method=method,
        termination=Termination.OPTIMAL,
        objective=objective,
        bound=objective,
        assignment=assignment,
        violations=violations(problem, assignment, objective),
        tie_rule=TieRule.LEXICOGRAPHIC,
        scale=problem.scale,
    )


def _infeasible(problem: StepProblem, method: str) -> StepResult:
    return StepResult(method=method, termination=Termination.INFEASIBLE, scale=problem.scale)


def _solved(
    problem: StepProblem, method: str, time_limit: float | None, hint: Assignment | None, seed: int
) -> StepResult:
    _, outcome, compile_seconds = run_backend(
        backend(method),
        lambda: StepProgram(problem),
        Limits(time_limit, seed),
        lambda _: None if hint is None else _columns(problem, hint),
    )
    return _result(problem, method, outcome, compile_seconds)


def _result(
    problem: StepProblem, method: str, outcome: Outcome, compile_seconds: float
) -> StepResult:
    assignment = None if outcome.values is None else _assignment(problem, outcome.values)
    objective = None if assignment is None else problem.objective_value(assignment)
    found = {} if assignment is None else violations(problem, assignment, objective)
    bound, kind = trusted_bound(outcome, lower_bound(problem), objective)
    proven = is_proven(objective, bound, kind)
    return StepResult(
        method=method,
        termination=trusted_termination(outcome.termination, proven=proven, broken=bool(found)),
        objective=objective,
        bound=None if outcome.termination is Termination.INFEASIBLE else bound,
        bound_kind=kind,
        assignment=assignment,
        violations=found,
        seconds=outcome.seconds,
        compile_seconds=compile_seconds,
        scale=problem.scale,
        solver=outcome.details,
    )


def _assignment(problem: StepProblem, values: FloatArray) -> tuple[int | None, ...]:
    x = values[: problem.num_requests * problem.num_workers]
    x = x.reshape(problem.num_requests, problem.num_workers)
    workers = x.argmax(axis=1)
    admitted = x.max(axis=1) > 0.5
    return tuple(int(g) if yes else None for g, yes in zip(workers, admitted, strict=True))


def _columns(problem: StepProblem, assignment: Assignment) -> FloatArray:
    """Write an assignment as a point of the standard form."""
    x = np.zeros((problem.num_requests, problem.num_workers))
    for i, worker in enumerate(assignment):
        if worker is not None:
            x[i, worker] = 1.0
    times = problem.loads(assignment) * problem.time_weights[:, None]
    parts = [x.reshape(-1), times.max(axis=0)]
    if problem.objective is Objective.GAP:
        parts.append(times.min(axis=0))
    return np.concatenate(parts).astype(np.float64)
