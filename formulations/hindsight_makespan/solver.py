"""Solve the hindsight makespan program with a backend, and say only what is proven."""

import time

from formulations.backends import Limits, Outcome, backend, run_backend
from formulations.hindsight_makespan.bound import lower_bound
from formulations.hindsight_makespan.brute_force import brute_force
from formulations.hindsight_makespan.check import objective_value, violations
from formulations.hindsight_makespan.makespan_program import MakespanProgram
from formulations.hindsight_makespan.points import point_of, schedule_of
from formulations.hindsight_makespan.problem import MakespanProblem
from formulations.hindsight_makespan.result import MakespanResult
from formulations.results import Termination
from formulations.trust import is_proven, trusted_bound, trusted_termination


def solve(
    problem: MakespanProblem,
    *,
    backend: str = "cp-sat",
    time_limit: float | None = None,
    hint: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
    seed: int = 0,
    aggregate: bool = True,
) -> MakespanResult:
    """Solve the hindsight makespan program.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    backend : str
        ``cp-sat``, ``highs``, ``pyomo`` or ``pyomo:SOLVER``.
    time_limit : float, optional
        Wall-clock seconds for the solve itself.
    hint : pair of tuples of int, optional
        Starts and workers of a feasible schedule to begin with.
    seed : int
        Random seed of the solver.
    aggregate : bool
        Whether requests alike form one kind of integer variables.

    Raises
    ------
    InputError
        If the backend is unknown.
    CapabilityError
        If the program is too large to write.
    """
    if problem.num_requests == 0:
        return _without_requests(problem, backend)
    return _solved(problem, backend, Limits(time_limit, seed), hint, aggregate)


def solve_by_enumeration(problem: MakespanProblem) -> MakespanResult:
    """Solve a tiny problem by `brute_force`."""
    began = time.perf_counter()
    objective, starts, workers = brute_force(problem)
    return MakespanResult(
        method="brute-force",
        termination=Termination.OPTIMAL,
        objective=objective,
        bound=objective,
        starts=tuple(starts),
        workers=tuple(workers),
        scale=problem.scale,
        violations=violations(problem, starts, workers, objective),
        seconds=time.perf_counter() - began,
    )


def _without_requests(problem: MakespanProblem, method: str) -> MakespanResult:
    return MakespanResult(
        method=method,
        termination=Termination.OPTIMAL,
        objective=0,
        bound=0,
        starts=(),
        workers=(),
        scale=problem.scale,
    )


def _solved(
    problem: MakespanProblem,
    method: str,
    limits: Limits,
    hint: tuple[tuple[int, ...], tuple[int, ...]] | None,
    aggregate: bool,
) -> MakespanResult:
    program, outcome, compile_seconds = run_backend(
        backend(method),
        lambda: MakespanProgram(problem, aggregate=aggregate),
        limits,
        lambda program: None if hint is None else point_of(program, *hint),
    )
    return _result(program, method, outcome, compile_seconds)


def _result(
    program: MakespanProgram, method: str, outcome: Outcome, compile_seconds: float
) -> MakespanResult:
    problem = program.problem
    schedule = None if outcome.values is None else schedule_of(program, outcome.values)
    found: dict[str, int] = {}
    objective = None
    if schedule is not None:
        # A broken schedule keeps its value; the violations say that it is none.
        objective = objective_value(problem, *schedule)
        found = violations(problem, *schedule, objective)
    bound, kind = trusted_bound(outcome, lower_bound(problem), objective)
    return MakespanResult(
        method=method,
        termination=trusted_termination(
            # A list schedule is always feasible.
            outcome.termination,
            proven=is_proven(objective, bound, kind),
            broken=bool(found),
            always_feasible=True,
        ),
        objective=objective,
        bound=bound,
        bound_kind=kind,
        starts=None if schedule is None else schedule[0],
        workers=None if schedule is None else schedule[1],
        scale=problem.scale,
        violations=found,
        seconds=outcome.seconds,
        compile_seconds=compile_seconds,
        solver=outcome.details,
    )
