"""Solve the hindsight latency program with a backend, and say only what is proven."""

import time
from collections.abc import Sequence

import numpy as np

from formulations.arrays import FloatArray
from formulations.backends import Limits, Outcome, backend, run_backend
from formulations.hindsight_latency.bound import lower_bound
from formulations.hindsight_latency.brute_force import brute_force
from formulations.hindsight_latency.check import total_latency, violations
from formulations.hindsight_latency.kinds import kinds
from formulations.hindsight_latency.latency_program import LatencyProgram
from formulations.hindsight_latency.problem import LatencyProblem
from formulations.hindsight_latency.result import LatencyResult
from formulations.results import Termination
from formulations.trust import is_proven, trusted_bound, trusted_termination


def solve(
    problem: LatencyProblem,
    *,
    backend: str = "cp-sat",
    time_limit: float | None = None,
    hint: Sequence[int] | None = None,
    seed: int = 0,
    aggregate: bool = True,
) -> LatencyResult:
    """Solve the hindsight latency program.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    backend : str
        ``cp-sat``, ``highs``, ``pyomo`` or ``pyomo:SOLVER``.
    time_limit : float, optional
        Wall-clock seconds for the solve itself.
    hint : sequence of int, optional
        Feasible starts to begin with.
    seed : int
        Random seed of the solver.
    aggregate : bool
        Whether identical requests form one kind of integer variables.

    Raises
    ------
    InputError
        If the backend is unknown.
    CapabilityError
        If the program is too large to write.
    """
    if problem.num_requests == 0:
        return LatencyResult(
            method=backend, termination=Termination.OPTIMAL, objective=0, bound=0, starts=()
        )
    return _solved(problem, backend, Limits(time_limit, seed), hint, aggregate)


def solve_by_enumeration(problem: LatencyProblem) -> LatencyResult:
    """Solve a tiny problem by `brute_force`."""
    began = time.perf_counter()
    objective, starts = brute_force(problem)
    return LatencyResult(
        method="brute-force",
        termination=Termination.OPTIMAL,
        objective=objective,
        bound=objective,
        starts=tuple(starts),
        violations=violations(problem, starts, objective),
        seconds=time.perf_counter() - began,
    )


def _solved(
    problem: LatencyProblem,
    method: str,
    limits: Limits,
    hint: Sequence[int] | None,
    aggregate: bool,
) -> LatencyResult:
    _, outcome, compile_seconds = run_backend(
        backend(method),
        lambda: LatencyProgram(problem, aggregate=aggregate),
        limits,
        lambda program: None if hint is None else _columns(problem, program, hint),
    )
    return _result(problem, method, outcome, compile_seconds, aggregate)


def _result(
    problem: LatencyProblem, method: str, outcome: Outcome, compile_seconds: float, aggregate: bool
) -> LatencyResult:
    starts = None if outcome.values is None else _starts(problem, outcome.values, aggregate)
    objective = None if starts is None else total_latency(problem, starts)
    found = {} if starts is None else violations(problem, starts, objective)
    bound, kind = trusted_bound(outcome, lower_bound(problem), objective)
    proven = is_proven(objective, bound, kind)
    return LatencyResult(
        method=method,
        termination=trusted_termination(
            # One request after the other is always feasible.
            outcome.termination,
            proven=proven,
            broken=bool(found),
            always_feasible=True,
        ),
        objective=objective,
        bound=bound,
        bound_kind=kind,
        starts=starts,
        violations=found,
        seconds=outcome.seconds,
        compile_seconds=compile_seconds,
        solver=outcome.details,
    )


def _starts(problem: LatencyProblem, values: FloatArray, aggregate: bool) -> tuple[int, ...]:
    """Read starts off a point; members of a kind start in order."""
    counts = np.round(values).astype(np.int64)
    starts = problem.arrival.tolist()
    offset = 0
    for kind in kinds(problem, aggregate=aggregate):
        size = kind.last_start - kind.arrival + 1
        rounds = kind.arrival + np.arange(size, dtype=np.int64)
        chosen = np.repeat(rounds, np.maximum(counts[offset : offset + size], 0)).tolist()
        # A point that starts too few or too many of a kind is caught by its objective or bound.
        for member, start in zip(kind.members, chosen, strict=False):
            starts[member] = start
        offset += size
    return tuple(int(start) for start in starts)


def _columns(
    problem: LatencyProblem, program: LatencyProgram, starts: Sequence[int]
) -> FloatArray | None:
    """Write starts as a point of the standard form; None if they are not within its horizon."""
    index = program.standard_form.column_index()
    values = np.zeros(program.standard_form.num_columns)
    for c, kind in enumerate(kinds(problem, aggregate=program.aggregate)):
        for member in kind.members:
            column = index.get(f"x[{c},{starts[member]}]")
            if column is None:
                return None
            values[column] += 1.0
    return values
