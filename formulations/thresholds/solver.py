"""Solve the threshold programs by iteration, a backend or enumeration; prove what is claimed."""

import time
from collections.abc import Callable
from typing import Any

from formulations.backends import (
    Limits,
    ModelProgram,
    Outcome,
    backend,
    check_method,
    run_backend,
)
from formulations.results import Termination
from formulations.thresholds.check import threshold_violations
from formulations.thresholds.conditions import ThresholdProblem, policy_memory
from formulations.thresholds.least import brute_force, least_thresholds
from formulations.thresholds.result import ThresholdResult
from formulations.trust import is_proven, trusted_bound, trusted_termination


def solve(
    problem: ThresholdProblem,
    *,
    method: str = "fixed-point",
    time_limit: float | None = None,
    seed: int = 0,
) -> ThresholdResult:
    """Return the thresholds of least memory.

    Parameters
    ----------
    problem : WaitProblem, NestedProblem, GroupedProblem or TimeVaryingProblem
        Data.
    method : str
        ``fixed-point`` (least solution by iteration, in rationals), ``brute-force``, or a backend
        for the integer program (constant rates): ``cp-sat``, ``highs``, ``pyomo``,
        ``pyomo:SOLVER``.
    time_limit : float, optional
        Seconds for a backend.
    seed : int
        Random seed of a backend.

    Returns
    -------
    ThresholdResult
        ``INFEASIBLE`` for a load of 1 or more, and where the memory is enforced and too small.

    Raises
    ------
    InputError
        If the method is unknown.
    CapabilityError
        If the scaled program leaves the integers a backend can hold, or is too large to enumerate.
    """
    check_method(method, ("fixed-point", "brute-force"))
    if method == "fixed-point":
        return _by_ourselves(problem, method, lambda: least_thresholds(problem))
    if method == "brute-force":
        return _by_ourselves(problem, method, lambda: (brute_force(problem), 0))
    if problem.load >= 1:
        return ThresholdResult(method=method, termination=Termination.INFEASIBLE)
    return _by_backend(problem, method, Limits(time_limit, seed))


def _by_ourselves(
    problem: ThresholdProblem,
    method: str,
    find: Callable[[], tuple[tuple[int, ...] | None, int]],
) -> ThresholdResult:
    """Return what a proving method of ours finds."""
    began = time.perf_counter()
    vector, rounds = find()
    seconds = time.perf_counter() - began
    found = {} if vector is None else threshold_violations(problem, vector)
    if vector is None or set(found) == {"memory"}:
        return ThresholdResult(
            method=method, termination=Termination.INFEASIBLE, seconds=seconds, iterations=rounds
        )
    memory = policy_memory(problem.weights, vector)
    return ThresholdResult(
        method=method,
        termination=Termination.FAILED if found else Termination.OPTIMAL,
        objective=memory,
        bound=memory,
        thresholds=vector,
        violations=found,
        seconds=seconds,
        iterations=rounds,
    )


def _by_backend(problem: ThresholdProblem, method: str, limits: Limits) -> ThresholdResult:
    from formulations.thresholds.threshold_program import build

    program, outcome, compile_seconds = run_backend(
        backend(method), lambda: ModelProgram(build(problem)), limits, lambda program: None
    )
    vector = objective = None
    found: dict[str, int] = {}
    if outcome.values is not None:
        index = program.standard_form.column_index()
        columns = [index[f"n[{g},{i}]"] for g, i in program.model.segments]
        vector = tuple(round(outcome.values[j]) for j in columns)
        objective = policy_memory(problem.weights, vector)
        found = threshold_violations(problem, vector)
    conditions = problem.conditions
    return ThresholdResult(
        **judged(
            outcome,
            objective,
            conditions.memory_bound(),
            found,
            always_feasible=not conditions.within_memory,
        ),
        method=method,
        compile_seconds=compile_seconds,
        thresholds=vector,
    )


def judged(
    outcome: Outcome,
    objective: int | None,
    own_bound: int,
    found: dict[str, int],
    *,
    always_feasible: bool,
) -> dict[str, Any]:
    """Return the fields of a `ThresholdResult` that judge what a backend said.

    Parameters
    ----------
    outcome : Outcome
        What it said.
    objective : int, optional
        Of the solution, recomputed.
    own_bound : int
        A lower bound that integers prove.
    found : dict of str to int
        What the checker found.
    always_feasible : bool
        Whether there is a solution: without the memory every load below 1 has thresholds.
    """
    bound, kind = trusted_bound(outcome, own_bound, objective)
    termination = trusted_termination(
        outcome.termination,
        proven=is_proven(objective, bound, kind),
        broken=bool(found),
        always_feasible=always_feasible,
    )
    return {
        "termination": termination,
        "objective": objective,
        "bound": None if outcome.termination is Termination.INFEASIBLE else bound,
        "bound_kind": kind,
        "violations": found,
        "seconds": outcome.seconds,
        "solver": outcome.details,
    }
