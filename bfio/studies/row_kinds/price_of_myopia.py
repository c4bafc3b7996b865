"""Rows that set a policy's run against the best schedule of the same requests in hindsight."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bfio.decode.replay import run_violations
from bfio.hindsight.makespan.from_run import clocked_schedule
from bfio.studies.row import RowContext, RowResult, Value
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments, excess
from bfio.studies.row_parts.myopia_instance import (
    ARGUMENTS,
    CRITERIA,
    MyopiaInstance,
    arriving_workload,
    criteria_of,
    hindsight_problem,
    hindsight_result,
    instance_digest,
    least_list,
    myopia_instance,
    myopia_plan,
)
from bfio.studies.row_parts.run_arguments import RunPlan, with_sources
from bfio.studies.row_parts.run_values import TIMINGS, run_solves, run_timings
from formulations.hindsight_makespan import (
    MakespanObjective,
    MakespanProblem,
    MakespanResult,
    objective_value,
    violations,
)
from formulations.results import Termination

#: Starts and workers of all requests.
Schedule = tuple[tuple[int, ...], tuple[int, ...]]
VALUES = descriptions(
    """
    requests | requests | requests of the instance
    steps | steps | steps of the run
    attained | | what the run costs (under each criterion, as what follows)
    best_known | | what the best schedule in hand costs, the run if need be
    bound | | lower bound on what any schedule costs
    optimum_gap | share | (best schedule in hand - bound) over the former
    lists_gap | share | the same with only lists and the run in hand, where nothing is searched
    is_proven | | whether the optimum was proven
    price_at_least | 1 | cost of the run over that of the best schedule in hand; 1 if both are 0
    price_at_most | 1 | cost of the run over the lower bound; None if only the latter is 0
    has_no_limit | | whether the bound is 0 and the run costs something
    surely_optimal | | whether the run meets the lower bound
    possibly_optimal | | whether nothing better than the run is known
    avoidable_idle_at_least | share | (run - best schedule in hand) over G times the run's peaks
    avoidable_idle_at_most | share | (run - lower bound) over G times the run's peaks
    excess | 1 | price against the best schedule in hand, minus 1, a series of one entry
    hindsight_s | s | wall-clock time of all hindsight optima of the row, a timing
    """
)
_TEXTS = {
    "wall_clock": "for the time of all steps",
    "wall_clock_conserving": "for the time of all steps, hindsight conserving work",
    "peaks": "for the sum of peaks (a step costs its largest load only)",
    "peaks_conserving": "for the sum of peaks, hindsight conserving work",
    "imbalance": "for the total imbalance",
    "latency": "for the total latency in steps",
}


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Read the arguments; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, ARGUMENTS)
    criteria, run = criteria_of(given), myopia_plan(given, context)
    instance = myopia_instance(given, run)
    return Planned(
        with_sources(instance_digest(instance), *run.sources),
        partial(_compute, run, instance, criteria),
        unread=run.unread,
    )


def _compute(plan: RunPlan, instance: MyopiaInstance, criteria: Sequence[str]) -> RowResult:
    workload = arriving_workload(instance)
    run = plan.run(workload)
    found = run_violations(run, workload, plan.cluster)
    schedule = clocked_schedule(run, workload)
    values: dict[str, Value] = {"requests": len(workload), "steps": run.steps}
    series, seconds, results = {}, 0.0, []
    for name in criteria:
        problem = hindsight_problem(instance, name)
        result = hindsight_result(instance, name)
        priced = price_values(problem, schedule, result)
        values |= {f"{name}.{key}": value for key, value in priced.items()}
        if instance.limit == 0:
            listed = min(least_list(instance, name), priced["attained"])
            values[f"{name}.lists_gap"] = _gap(listed, priced["bound"])
        series[f"{name}.excess"] = excess(priced["price_at_least"])
        broken = price_violations(problem, schedule, result)
        found |= {f"{name}.{key}": amount for key, amount in broken.items()}
        seconds += result.seconds
        results.append(result)
    proven = sum(bool(values[f"{name}.is_proven"]) for name in criteria)
    # Without time no optimum is asked for, and no clock decides.
    asked, unproven = (len(results), len(results) - proven) if instance.limit > 0 else (0, 0)
    late = any(result.termination is Termination.TIME_LIMIT for result in results)
    return RowResult(
        values=values,
        series=series,
        timings=run_timings(run) | {"hindsight_s": seconds},
        solves=asked,
        unproven=unproven,
        violations=found,
        stopped_by_clock=run_solves(run).clocked > 0 or (late and asked > 0),
    )


def price_values(
    problem: MakespanProblem, schedule: Schedule, result: MakespanResult
) -> dict[str, Any]:
    """Return the price of myopia as the interval that is certified.

    Parameters
    ----------
    problem : MakespanProblem
        Data and what is to be least.
    schedule : Schedule
        What the policy did.
    result : MakespanResult
        What is known of the optimum. The run counts as a schedule as well.

    Returns
    -------
    dict
        ``price_at_least`` and ``price_at_most`` are None where the run costs something and what
        it is compared with costs nothing.
    """
    attained = objective_value(problem, *schedule)
    best = attained if result.objective is None else min(result.objective, attained)
    bound = 0 if result.bound is None else result.bound
    values = {
        "attained": attained,
        "best_known": best,
        "bound": bound,
        "optimum_gap": _gap(best, bound),
        "is_proven": best == bound,
        "price_at_least": _price(attained, best),
        "price_at_most": _price(attained, bound),
        "has_no_limit": attained > 0 and bound == 0,
        "surely_optimal": attained == bound,
        "possibly_optimal": attained == best,
    }
    if problem.objective is MakespanObjective.IMBALANCE:
        # Imbalance and work are all the capacity there is: G times the sum of peaks.
        capacity = attained + problem.work
        values["avoidable_idle_at_least"] = (attained - best) / capacity if capacity else 0.0
        values["avoidable_idle_at_most"] = (attained - bound) / capacity if capacity else 0.0
    return values


def price_violations(
    problem: MakespanProblem, schedule: Schedule, result: MakespanResult
) -> dict[str, int]:
    """Check the run and the hindsight schedule against the program, and the bound against both.

    Returns
    -------
    dict
        Broken rules of the run, as they are; of the hindsight schedule under ``optimum.``;
        ``optimum.bound``: by how much a schedule in hand undercuts the bound.
    """
    found = violations(problem, *schedule)
    attained = [objective_value(problem, *schedule)]
    if result.starts is not None and result.workers is not None:
        broken = violations(problem, result.starts, result.workers, result.objective)
        found |= {f"optimum.{name}": amount for name, amount in broken.items()}
        attained.append(objective_value(problem, result.starts, result.workers))
    if result.bound is not None and result.bound > min(attained):
        found["optimum.bound"] = result.bound - min(attained)
    return found


def _gap(best: int, bound: int) -> float:
    return (best - bound) / best if best else 0.0


def _price(attained: int, other: int) -> float | None:
    if other:
        return attained / other
    return None if attained else 1.0


KIND = planned_kind(
    "price-of-myopia",
    "what a policy's run costs over the best schedule in hindsight, as an interval",
    plan,
    [*VALUES, *TIMINGS],
    {f"{name}.": _TEXTS[name] for name in CRITERIA},
)
