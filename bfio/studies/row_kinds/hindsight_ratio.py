"""Rows that compare the total latency of an online algorithm with the hindsight optimum."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from bfio.hindsight.latency import HindsightResult, certified_bound, solve_hindsight
from bfio.kvcache import replay
from bfio.kvcache.simulation import serve
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import (
    ALGORITHM_ARGUMENTS,
    DRAWN_ARGUMENTS,
    Arguments,
    algorithm_digest,
    algorithm_of,
    digest_of,
    drawn_problem,
    excess,
    gap_to,
    quotient,
    time_limit_of,
)
from formulations.hindsight_latency import LatencyProblem, total_latency, violations

OF_RATIOS = """
    requests | requests | requests of the instance
    memory_limit | tokens | memory M of the instance
    optimum_at_least | rounds | lower bound on the least total latency, derived in integers
    optimum_at_most | rounds | total latency of the best known schedule
    optimum_gap | share | (`optimum_at_most` - `optimum_at_least`) / `optimum_at_most`
    proven | | whether the optimum is proven in integer arithmetic
"""
VALUES = descriptions(
    f"""
    {OF_RATIOS.strip()}
    total_latency | rounds | total latency of the algorithm; None if it does not finish
    ratio_at_least | 1 | `total_latency` / `optimum_at_most`
    ratio_at_most | 1 | `total_latency` / `optimum_at_least`
    surely_optimal | | whether `total_latency` equals the lower bound
    possibly_optimal | | whether no schedule better than the algorithm's is known
    verdict | | how the run ended
    excess | 1 | ratio to the best known schedule, minus 1, a series of one entry
    excess_over_bound | 1 | ratio to the lower bound, minus 1, a series of one entry
    """
)
TIMINGS = descriptions(
    """
    solve_s | s | wall-clock time of the solver, a timing
    schedule_s | s | wall-clock time of the first schedules, a timing
    prices_s | s | wall-clock time of the prices, a timing
    search_s | s | wall-clock time of the search, a timing
    """
)


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Return the planned computation of a row; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, (*DRAWN_ARGUMENTS, *ALGORITHM_ARGUMENTS, "time_limit"))
    problem, algorithm, limit = drawn_problem(given), algorithm_of(given), time_limit_of(given)
    return Planned(
        problem_digest(problem, algorithm_digest(algorithm)),
        partial(_compute, problem, algorithm, given.whole("seed", 0), limit, context.want_log),
    )


def _compute(
    problem: LatencyProblem, algorithm: str, seed: int, limit: float, want_log: bool
) -> RowResult:
    run = serve(problem, algorithm, seed=seed)
    hindsight = solve_hindsight(problem, limit, threads=1)
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
        log=repr(hindsight) if want_log else "",
    )


def ratio_values(
    problem: LatencyProblem, latency: int | None, hindsight: HindsightResult
) -> dict[str, Any]:
    """Return the certified interval of the ratio of a total latency to the optimum.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    latency : int, optional
        Total latency of the algorithm; None if it did not finish.
    hindsight : HindsightResult
        The bounds on the optimum. A better schedule of the algorithm counts too.
    """
    # Dividing by an upper bound of the optimum bounds the ratio from below, and vice versa.
    upper = hindsight.objective if latency is None else min(hindsight.objective, latency)
    lower = hindsight.bound
    return {
        "requests": problem.num_requests,
        "memory_limit": problem.memory,
        "total_latency": latency,
        "optimum_at_least": lower,
        "optimum_at_most": upper,
        "optimum_gap": gap_to(lower, upper),
        "proven": lower == upper,
        "ratio_at_least": quotient(latency, upper),
        "ratio_at_most": quotient(latency, lower),
        "surely_optimal": None if latency is None else latency == lower,
        "possibly_optimal": None if latency is None else latency == upper,
    }


def hindsight_violations(
    problem: LatencyProblem, hindsight: HindsightResult, latency: int | None = None
) -> dict[str, int]:
    """Check schedule, bound and certificate of a solve against the problem data alone.

    Returns
    -------
    dict
        Violations of the schedule under ``optimum.``; ``optimum.bound``: the amount by which a
        known schedule is below the bound; ``optimum.certificate``: the amount by which the
        certificate proves more than the claimed bound, which must be 0.
    """
    starts = list(hindsight.starts)
    found = {
        f"optimum.{name}": amount
        for name, amount in violations(problem, starts, hindsight.objective).items()
    }
    # A valid lower bound cannot exceed the latency of any known schedule.
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
    spent = (seconds.total, seconds.schedule, seconds.prices, seconds.search)
    return dict(zip((entry.name for entry in TIMINGS), spent, strict=True))


def problem_digest(problem: LatencyProblem, more: str = "") -> str:
    """Return a digest, 16 hexadecimal digits, of a problem and any further data of a row."""
    return digest_of(f"{problem.to_mapping()}{more}")


KIND = planned_kind(
    "hindsight-ratio",
    "ratio of an online algorithm's total latency to the hindsight optimum, as an interval",
    plan,
    [*VALUES, *TIMINGS],
)
