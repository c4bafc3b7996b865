"""Rows that measure how tightly a method bounds the hindsight optimum of a drawn instance."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bfio.hindsight.latency import solve_hindsight
from bfio.kvcache.simulation import serve
from bfio.studies.row import RowContext, RowResult, Value
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_kinds.hindsight_ratio import (
    OF_RATIOS,
    TIMINGS,
    hindsight_violations,
    problem_digest,
    solve_timings,
)
from bfio.studies.row_parts.arguments import (
    DRAWN_ARGUMENTS,
    Arguments,
    drawn_problem,
    gap_to,
    time_limit_of,
)
from formulations.hindsight_latency import LatencyProblem, LatencyProgram, lower_bound, solve
from formulations.results import BoundKind, Termination

VALUES = descriptions(
    f"""
    {OF_RATIOS.strip()}
    mc_sf_latency | rounds | total latency of MC-SF
    incumbent | rounds | total latency of the method's schedule; None if it found none
    own_gap | share | (`incumbent` - bound) / `incumbent`
    mc_sf_ratio | 1 | `mc_sf_latency` / `incumbent`
    mc_sf_stands | | whether the method found no schedule better than MC-SF's
    below_mc_sf | share | (`mc_sf_latency` - bound) / `mc_sf_latency`
    closed | | whether the method's bound equals `incumbent`, possibly in floats only
    relaxation | rounds | value of the linear relaxation by a float solver
    beats_relaxation | | whether the bound exceeds `relaxation`
    build_s | s | wall-clock time of building the program, a timing
    """
)


@dataclass(frozen=True)
class Enclosure:
    """Lower and upper bound on an optimum, found by a method.

    Parameters
    ----------
    bound : int
        Lower bound.
    in_integers : bool
        Whether the bound is proven in integers, not only claimed by a float solver.
    latency : int, optional
        Total latency of the schedule found; None if none was found.
    violations : mapping
        Violations found by the checker.
    timings : mapping
        Time per phase [s].
    stopped_by_clock : bool
        Whether the time limit stopped the method.
    """

    bound: int
    in_integers: bool
    latency: int | None
    violations: Mapping[str, int] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    stopped_by_clock: bool = False


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Return the planned computation of a row; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, (*DRAWN_ARGUMENTS, "method", "time_limit"))
    method = given.choice("method", tuple(_METHODS))
    problem, limit = drawn_problem(given), time_limit_of(given)
    return Planned(problem_digest(problem), partial(_compute, problem, method, limit))


def _compute(problem: LatencyProblem, method: str, limit: float) -> RowResult:
    enclosure = _METHODS[method](problem, limit)
    # Use one common schedule, so that bounds are compared independently of the incumbents.
    usual = serve(problem, "mc-sf").total_latency
    relaxation = LatencyProgram(problem).relaxation_value()
    asks_for_optimum = method != "lp"
    values = enclosure_values(problem, enclosure, usual, relaxation)
    return RowResult(
        values=values,
        timings=enclosure.timings,
        solves=int(asks_for_optimum),
        unproven=int(asks_for_optimum and not values["proven"]),
        violations=enclosure.violations,
        stopped_by_clock=enclosure.stopped_by_clock,
    )


def enclosure_values(
    problem: LatencyProblem, found: Enclosure, usual: int | None, relaxation: float | None
) -> dict[str, Value]:
    """Return the gaps between bound and schedules as row values.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    found : Enclosure
        The bounds found by a method.
    usual : int, optional
        Total latency of MC-SF.
    relaxation : float, optional
        Value of the linear relaxation.
    """
    upper = min((x for x in (found.latency, usual) if x is not None), default=found.bound)
    own = found.latency
    return {
        "requests": problem.num_requests,
        "memory_limit": problem.memory,
        "mc_sf_latency": usual,
        "optimum_at_least": found.bound,
        "optimum_at_most": upper,
        "incumbent": own,
        "optimum_gap": gap_to(found.bound, upper),
        "own_gap": None if own is None else gap_to(found.bound, own),
        "mc_sf_ratio": None if usual is None or not own else usual / own,
        "mc_sf_stands": None if usual is None else own is None or own >= usual,
        "below_mc_sf": None if usual is None else gap_to(found.bound, usual),
        "proven": found.in_integers and own is not None and own == found.bound,
        "closed": own is not None and own == found.bound,
        "relaxation": relaxation,
        "beats_relaxation": None if relaxation is None else found.bound > relaxation,
    }


def _exact(problem: LatencyProblem, limit: float) -> Enclosure:
    found = solve_hindsight(problem, limit, threads=1)
    broken, timings = hindsight_violations(problem, found), solve_timings(found)
    late = found.stopped_by_time
    return Enclosure(found.bound, True, found.objective, broken, timings, late)


def _relaxation(problem: LatencyProblem, limit: float) -> Enclosure:
    began = time.perf_counter()
    value = LatencyProgram(problem).relaxation_value(time_limit=limit)
    area = lower_bound(problem)
    # Rounded up like the bounds of other float solvers, and not proven either.
    claimed = area if value is None else math.ceil(value - 1e-6 * max(1.0, abs(value)))
    seconds = time.perf_counter() - began
    return Enclosure(max(area, claimed), claimed <= area, None, {}, {"solve_s": seconds})


def _backend(
    name: str, problem: LatencyProblem, limit: float, *, from_mc_sf: bool = False
) -> Enclosure:
    """Solve the integer program with a backend, optionally starting from MC-SF's schedule."""
    hint = tuple(serve(problem, "mc-sf").start.tolist()) if from_mc_sf else None
    found = solve(problem, backend=name, time_limit=limit, hint=hint)
    return Enclosure(
        lower_bound(problem) if found.bound is None else found.bound,
        found.bound_kind is BoundKind.INTEGER,
        found.objective,
        found.violations,
        {"solve_s": found.seconds, "build_s": found.compile_seconds},
        found.termination is Termination.TIME_LIMIT,
    )


_METHODS: dict[str, Callable[[LatencyProblem, float], Enclosure]] = {
    "exact": _exact,
    "lp": _relaxation,
    "highs": partial(_backend, "highs"),
    "highs-from-mc-sf": partial(_backend, "highs", from_mc_sf=True),
    "cp-sat": partial(_backend, "cp-sat"),
}


KIND = planned_kind(
    "hindsight-bound",
    "certified interval of the hindsight optimum by one method, and its gap",
    plan,
    [*VALUES, *TIMINGS],
)
