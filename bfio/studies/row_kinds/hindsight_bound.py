"""Rows that say how tightly a method encloses the hindsight optimum of a drawn instance."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bfio.hindsight.latency import solve_hindsight
from bfio.kvcache.simulation import serve
from bfio.studies.row import Context, RowResult, Value
from bfio.studies.row_kind import RowKind
from bfio.studies.row_kinds.arguments import Arguments
from bfio.studies.row_kinds.cache_arguments import (
    DRAWN_ARGUMENTS,
    drawn_problem,
    time_limit_of,
)
from bfio.studies.row_kinds.hindsight_ratio import (
    hindsight_violations,
    problem_digest,
    solve_timings,
)
from formulations.errors import InputError
from formulations.hindsight_latency import LatencyProblem, LatencyProgram, lower_bound, solve
from formulations.results import BoundKind, Termination

#: Arguments of a row.
ARGUMENTS = (*DRAWN_ARGUMENTS, "method", "time_limit")


@dataclass(frozen=True)
class Enclosure:
    """What a method says of an optimum.

    Parameters
    ----------
    bound : int
        Lower bound.
    in_integers : bool
        Whether integers prove it, rather than a float solver's word.
    latency : int, optional
        Total latency of the schedule it found; None if it found none.
    violations : mapping
        What the checker found.
    timings : mapping
        Time it took [s].
    stopped_by_clock : bool
        Whether the time limit ended it.
    """

    bound: int
    in_integers: bool
    latency: int | None
    violations: Mapping[str, int] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    stopped_by_clock: bool = False


def compute(arguments: Mapping[str, Any], context: Context) -> RowResult:
    """Enclose the optimum by one method; see ``docs/row-kinds.md``."""
    del context
    given = Arguments(arguments, ARGUMENTS)
    problem, limit = drawn_problem(given), time_limit_of(given)
    found = _METHODS[_method(given)](problem, limit)
    # Of a common schedule, so that bounds are compared and not luck with incumbents.
    usual = serve(problem, "mc-sf").total_latency
    relaxation = LatencyProgram(problem).relaxation_value()
    asks_for_optimum = _method(given) != "lp"
    values = enclosure_values(problem, found, usual, relaxation)
    return RowResult(
        values=values,
        timings=found.timings,
        solves=int(asks_for_optimum),
        unproven=int(asks_for_optimum and not values["proven"]),
        violations=found.violations,
        stopped_by_clock=found.stopped_by_clock,
    )


def enclosure_values(
    problem: LatencyProblem, found: Enclosure, usual: int | None, relaxation: float | None
) -> dict[str, Value]:
    """Return gaps of an enclosure.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    found : Enclosure
        What a method says.
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
        "optimum_gap": _gap(found.bound, upper),
        "own_gap": None if own is None else _gap(found.bound, own),
        "below_mc_sf": None if usual is None else _gap(found.bound, usual),
        "proven": found.in_integers and own is not None and own == found.bound,
        "closed": own is not None and own == found.bound,
        "relaxation": relaxation,
        "beats_relaxation": None if relaxation is None else found.bound > relaxation,
    }


def _gap(bound: int, latency: int) -> float:
    return (latency - bound) / latency if latency else 0.0


def _exact(problem: LatencyProblem, limit: float) -> Enclosure:
    found = solve_hindsight(problem, limit, threads=1)
    return Enclosure(
        found.bound,
        in_integers=True,
        latency=found.objective,
        violations=hindsight_violations(problem, found),
        timings=solve_timings(found),
        stopped_by_clock=found.stopped_by_time,
    )


def _relaxation(problem: LatencyProblem, limit: float) -> Enclosure:
    began = time.perf_counter()
    value = LatencyProgram(problem).relaxation_value(time_limit=limit)
    area = lower_bound(problem)
    # Rounded up as the bounds of other float solvers are, and no more than their word.
    claimed = area if value is None else math.ceil(value - 1e-6 * max(1.0, abs(value)))
    seconds = time.perf_counter() - began
    return Enclosure(max(area, claimed), claimed <= area, None, {}, {"solve_s": seconds})


def _backend(name: str) -> Callable[[LatencyProblem, float], Enclosure]:
    def enclose(problem: LatencyProblem, limit: float) -> Enclosure:
        found = solve(problem, backend=name, time_limit=limit)
        bound = lower_bound(problem) if found.bound is None else found.bound
        return Enclosure(
            bound,
            found.bound_kind is BoundKind.INTEGER,
            found.objective,
            found.violations,
            {"solve_s": found.seconds, "build_s": found.compile_seconds},
            found.termination is Termination.TIME_LIMIT,
        )

    return enclose


_METHODS: dict[str, Callable[[LatencyProblem, float], Enclosure]] = {
    "exact": _exact,
    "lp": _relaxation,
    "highs": _backend("highs"),
    "cp-sat": _backend("cp-sat"),
}


def _method(given: Arguments) -> str:
    name = given.text("method", "exact")
    if name not in _METHODS:
        raise InputError(
            "argument method", f"{name!r} is unknown", f"use one of {', '.join(_METHODS)}"
        )
    return name


def instance(arguments: Mapping[str, Any], context: Context) -> str:
    """Check all arguments and return the digest of the drawn problem."""
    del context
    given = Arguments(arguments, ARGUMENTS)
    _method(given)
    time_limit_of(given)
    return problem_digest(drawn_problem(given))


KIND = RowKind(
    name="hindsight-bound",
    summary="certified interval of the hindsight optimum by one method, and its gap",
    compute=compute,
    instance=instance,
)
