"""Solve a hindsight latency problem by any method: ours, enumeration, or a backend."""

import time
from contextlib import suppress
from dataclasses import replace
from math import inf

from bfio.hindsight.latency.prepare import prepare
from bfio.hindsight.latency.solve import solve_hindsight
from formulations.deadline import Deadline, OutOfTime, TimeLimit
from formulations.errors import CapabilityError
from formulations.hindsight_latency import LatencyProblem, LatencyProgram, LatencyResult
from formulations.hindsight_latency.check import brute_force
from formulations.results import BoundKind, Termination
from formulations.work import DEFAULT_WORK_LIMIT

#: Few requests are enumerated first where the memory is above this, since the tables of our own
#: method grow with it: so many starts are tried, in some 0.2 s.
_FEW, _LARGE_MEMORY, _TRIED = 8, 100, 100_000


def solve_latency(
    problem: LatencyProblem,
    *,
    method: str = "exact",
    time_limit: TimeLimit = None,
    seed: int = 0,
) -> LatencyResult:
    """Solve one hindsight latency problem and check the answer.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    method : str
        ``exact`` (our own; CP-SAT goes on from what it leaves open, for the rest of the time
        limit, or some seconds if there is none), ``brute-force`` (tiny problems), or a backend:
        ``cp-sat``, ``highs``, ``pyomo``, ``pyomo:SOLVER``.
    time_limit : float or Deadline, optional
        Wall-clock seconds.
    seed : int
        Random seed of the backends.

    Returns
    -------
    LatencyResult
        ``termination`` is optimal only with a proof in integers.

    Raises
    ------
    InputError
        If the method is unknown or the time limit negative.
    CapabilityError
        If the problem is too large for a backend or for enumeration.
    """
    deadline = Deadline.of(time_limit)
    return LatencyProgram.solve_by(
        problem,
        method,
        time_limit=deadline,
        seed=seed,
        own={"exact": lambda: _exact(problem, deadline)},
    )


def _exact(problem: LatencyProblem, deadline: Deadline) -> LatencyResult:
    if problem.num_requests <= _FEW and problem.memory > _LARGE_MEMORY:
        with suppress(CapabilityError, OutOfTime):
            return _enumerated(problem, deadline)
    if deadline.at < inf:
        with deadline.stopped():
            prepare()
    try:
        found = solve_hindsight(problem, deadline).to_latency_result(problem)
        if found.is_optimal or deadline.is_over:
            return found
        return _closed_by_cp_sat(problem, found, deadline)
    except OutOfTime:
        program = LatencyProgram(problem)
        return program.answer(None, Termination.TIME_LIMIT, None, method="exact")


def _enumerated(problem: LatencyProblem, deadline: Deadline) -> LatencyResult:
    began = time.perf_counter()
    with deadline.interrupting():
        objective, starts = brute_force(problem, _TRIED)
    best = objective, tuple(starts)
    return LatencyProgram(problem).enumerated(best, time.perf_counter() - began, "exact")


def _closed_by_cp_sat(
    problem: LatencyProblem, own: LatencyResult, deadline: Deadline
) -> LatencyResult:
    """Let CP-SAT go on from our own answer; keep the better schedule and the better bound."""
    work = DEFAULT_WORK_LIMIT if deadline.at == inf else None
    watched = deadline.mapped(lambda _: replace(own, termination=Termination.TIME_LIMIT))
    try:
        other = LatencyProgram.solve(problem, time_limit=watched, hint=own.starts, work_limit=work)
    except CapabilityError:
        # Too large for CP-SAT: ours is the answer.
        return own
    assert own.objective is not None
    assert own.bound is not None
    best = own
    if other.objective is not None and not other.violations and other.objective < own.objective:
        best = other
    bound, proof, solver = own.bound, own.proof, own.solver
    if other.bound is not None and other.bound_kind is BoundKind.INTEGER and other.bound > bound:
        bound, proof = other.bound, "the bound of CP-SAT, derived in integers"
        solver = {**solver, "proof": "cp-sat"}
    return LatencyProgram(problem).answer(
        best.starts,
        Termination.TIME_LIMIT if deadline.is_over else own.termination,
        bound,
        method="exact",
        seconds=own.seconds + other.seconds,
        compile_seconds=other.compile_seconds,
        solver=solver,
        proof=proof,
    )
