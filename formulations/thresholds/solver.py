"""Solve the threshold programs by iteration, a backend or enumeration; prove what is claimed."""

import time
from collections.abc import Callable
from typing import Any

from formulations.backends import Limits, ModelProgram, Outcome, backend, run_backend
from formulations.results import Termination
from formulations.thresholds.least import (
    ThresholdProblem,
    brute_force,
    least_thresholds,
    memory_bound,
    violation_checker,
)
from formulations.thresholds.result import ThresholdResult
from formulations.thresholds.wait_problem import WaitProblem, policy_memory
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
    problem : WaitProblem or NestedProblem
        Data.
    method : str
        ``fixed-point`` (least solution by iteration, in rationals), ``brute-force``, or a backend
        for the integer program: ``cp-sat``, ``highs``, ``pyomo``, ``pyomo:SOLVER``.
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
    if method == "fixed-point":
        return _proven(problem, method, lambda: least_thresholds(problem))
    if method == "brute-force":
        return _proven(problem, method, lambda: (brute_force(problem), 0))
    solver = backend(method)
    if problem.load >= 1:
        return ThresholdResult(method=method, termination=Termination.INFEASIBLE)
    program, outcome, compile_seconds = run_backend(
        solver,
        lambda: ModelProgram(_state(problem)),
        Limits(time_limit, seed),
        lambda program: None,
    )
    vector = None
    if outcome.values is not None:
        columns = [f"n[{i}]" for i in program.model.n]
        index = program.standard_form.column_index()
        vector = tuple(round(outcome.values[index[name]]) for name in columns)
    return _result(problem, method, outcome, vector, compile_seconds)


def _state(problem: ThresholdProblem) -> Any:
    from formulations.thresholds import nested_program, wait_program

    if isinstance(problem, WaitProblem):
        return wait_program.build(problem)
    return nested_program.build(problem)


def _proven(
    problem: ThresholdProblem,
    method: str,
    find: Callable[[], tuple[tuple[int, ...] | None, int]],
) -> ThresholdResult:
    """Return what a proving method of ours finds."""
    began = time.perf_counter()
    vector, rounds = find()
    seconds = time.perf_counter() - began
    found = {} if vector is None else violation_checker(problem)(vector)
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


def _result(
    problem: ThresholdProblem,
    method: str,
    outcome: Outcome,
    vector: tuple[int, ...] | None,
    compile_seconds: float,
) -> ThresholdResult:
    objective = None if vector is None else policy_memory(problem.weights, vector)
    found = {} if vector is None else violation_checker(problem)(vector)
    bound, kind = trusted_bound(outcome, memory_bound(problem), objective)
    infeasible = outcome.termination is Termination.INFEASIBLE
    return ThresholdResult(
        method=method,
        termination=trusted_termination(
            outcome.termination,
            proven=is_proven(objective, bound, kind),
            broken=bool(found),
            # Without the memory every load below 1 has thresholds.
            always_feasible=not problem.within_memory,
        ),
        objective=objective,
        bound=None if infeasible else bound,
        bound_kind=kind,
        thresholds=vector,
        violations=found,
        seconds=outcome.seconds,
        compile_seconds=compile_seconds,
        solver=outcome.details,
    )
