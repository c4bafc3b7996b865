"""Rows that set an online algorithm against the hindsight optimum of total latency."""

import hashlib
from collections.abc import Mapping
from typing import Any

from bfio.hindsight.latency import HindsightResult, certified_bound, solve_hindsight
from bfio.kvcache import replay
from bfio.kvcache.simulation import serve
from bfio.studies.row import Context, RowResult
from bfio.studies.row_kind import RowKind
from bfio.studies.row_kinds.arguments import Arguments
from bfio.studies.row_kinds.cache_arguments import (
    ALGORITHM_ARGUMENTS,
    DRAWN_ARGUMENTS,
    algorithm_digest,
    algorithm_of,
    drawn_problem,
    time_limit_of,
)
from formulations.hindsight_latency import LatencyProblem, total_latency, violations

#: Arguments of a row.
ARGUMENTS = (*DRAWN_ARGUMENTS, *ALGORITHM_ARGUMENTS, "time_limit")


def compute(arguments: Mapping[str, Any], context: Context) -> RowResult:
    """Run the algorithm, solve the program; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, ARGUMENTS)
    problem = drawn_problem(given)
    run = serve(problem, algorithm_of(given), seed=given.whole("seed", 0))
    hindsight = solve_hindsight(problem, time_limit_of(given), threads=1)
    latency = run.total_latency
    values = ratio_values(problem, latency, hindsight)
    found = replay.violations(run)
    if latency is not None:
        found |= violations(problem, run.start.tolist(), latency)
    found |= hindsight_violations(problem, hindsight, latency)
    return RowResult(
        values={**values, "verdict": run.verdict.value},
        series={
            "excess": excess(values["ratio_at_least"]),
            "excess_over_bound": excess(values["ratio_at_most"]),
        },
        timings=solve_timings(hindsight),
        solves=1,
        unproven=int(not values["proven"]),
        violations=found,
        stopped_by_clock=hindsight.stopped_by_time,
        log=repr(hindsight) if context.want_log else "",
    )


def ratio_values(
    problem: LatencyProblem, latency: int | None, hindsight: HindsightResult
) -> dict[str, Any]:
    """Return the ratio of a total latency to the optimum, as the interval that is certified.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    latency : int, optional
        What an algorithm attains; None if it did not finish.
    hindsight : HindsightResult
        What is known of the optimum. A better schedule of the algorithm counts as well.
    """
    upper = hindsight.objective if latency is None else min(hindsight.objective, latency)
    lower = hindsight.bound
    return {
        "requests": problem.num_requests,
        "memory_limit": problem.memory,
        "total_latency": latency,
        "optimum_at_least": lower,
        "optimum_at_most": upper,
        "optimum_gap": (upper - lower) / upper if upper else 0.0,
        "proven": lower == upper,
        "ratio_at_least": _quotient(latency, upper),
        "ratio_at_most": _quotient(latency, lower),
        "surely_optimal": None if latency is None else latency == lower,
        "possibly_optimal": None if latency is None else latency == upper,
    }


def excess(ratio: float | None) -> list[float]:
    """Return a ratio minus 1 as a series of one entry, for histograms over rows."""
    return [] if ratio is None else [ratio - 1]


def hindsight_violations(
    problem: LatencyProblem, hindsight: HindsightResult, latency: int | None = None
) -> dict[str, int]:
    """Check schedule, bound and certificate of a solve against the problem data alone.

    Returns
    -------
    dict
        Broken rules of the schedule under ``optimum.``; ``optimum.bound``: by how much a schedule
        in hand undercuts the bound; ``optimum.certificate``: by how much the certificate proves
        more than the bound claims, which it must not.
    """
    starts = list(hindsight.starts)
    found = {
        f"optimum.{name}": amount
        for name, amount in violations(problem, starts, hindsight.objective).items()
    }
    attained = min(filter(None, (latency, total_latency(problem, starts))), default=0)
    if (excess := hindsight.bound - attained) > 0:
        found["optimum.bound"] = excess
    if hindsight.certificate is not None:
        proven = certified_bound(problem, hindsight.certificate)
        if (excess := proven - hindsight.bound) > 0:
            found["optimum.certificate"] = excess
    return found


def solve_timings(hindsight: HindsightResult) -> dict[str, float]:
    """Return the time of each phase of a solve [s]."""
    seconds = hindsight.seconds
    return {
        "solve_s": seconds.total,
        "schedule_s": seconds.schedule,
        "prices_s": seconds.prices,
        "search_s": seconds.search,
    }


def problem_digest(problem: LatencyProblem, more: str = "") -> str:
    """Return 16 hexadecimal digits for a problem, and for what else a row depends on."""
    return hashlib.sha256(f"{problem.to_mapping()}{more}".encode()).hexdigest()[:16]


def _quotient(numerator: int | None, denominator: int) -> float | None:
    return None if numerator is None or not denominator else numerator / denominator


def instance(arguments: Mapping[str, Any], context: Context) -> str:
    """Check all arguments and return the digest of the drawn problem."""
    del context
    given = Arguments(arguments, ARGUMENTS)
    time_limit_of(given)
    return problem_digest(drawn_problem(given), algorithm_digest(algorithm_of(given)))


KIND = RowKind(
    name="hindsight-ratio",
    summary="total latency of an online algorithm over the hindsight optimum, as an interval",
    compute=compute,
    instance=instance,
)
