"""Rows that set a policy's run against the best schedule of the same requests in hindsight."""

import hashlib
from collections.abc import Mapping
from typing import Any

from bfio.decode.replay import run_violations
from bfio.hindsight.makespan.from_run import clocked_schedule
from bfio.studies.row import Context, RowResult, Value
from bfio.studies.row_kind import RowKind
from bfio.studies.row_kinds.arguments import Arguments
from bfio.studies.row_kinds.hindsight_ratio import excess
from bfio.studies.row_kinds.myopia_instance import (
    ARGUMENTS,
    arriving_workload,
    criteria_of,
    hindsight_problem,
    hindsight_result,
    instance_digest,
    myopia_instance,
    myopia_plan,
)
from bfio.studies.row_kinds.run_arguments import policy_digest
from bfio.studies.row_kinds.run_values import run_solves, run_timings
from formulations.hindsight_makespan import (
    MakespanProblem,
    MakespanResult,
    Objective,
    objective_value,
    violations,
)
from formulations.results import Termination

#: Starts and workers of all requests.
Schedule = tuple[tuple[int, ...], tuple[int, ...]]


def compute(arguments: Mapping[str, Any], context: Context) -> RowResult:
    """Run the policy and solve the programs; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, ARGUMENTS)
    plan, instance = myopia_plan(given), myopia_instance(given, context)
    workload = arriving_workload(instance)
    run = plan.run(workload)
    found = run_violations(run, workload, plan.cluster)
    schedule = clocked_schedule(run, workload)
    values: dict[str, Value] = {"requests": len(workload), "steps": run.steps}
    series, seconds, results = {}, 0.0, []
    for name in criteria_of(given):
        problem = hindsight_problem(instance, name)
        result = hindsight_result(instance, name)
        priced = price_values(problem, schedule, result)
        values |= {f"{name}.{key}": value for key, value in priced.items()}
        series[f"{name}.excess"] = excess(priced["price_at_least"])
        found |= {
            f"{name}.{key}": amount
            for key, amount in price_violations(problem, schedule, result).items()
        }
        seconds += result.seconds
        results.append(result)
    proven = sum(bool(values[f"{name}.is_proven"]) for name in criteria_of(given))
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
        stopped_by_clock=run_solves(run).unproven > 0 or (late and asked > 0),
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
        "optimum_gap": (best - bound) / best if best else 0.0,
        "is_proven": best == bound,
        "price_at_least": _price(attained, best),
        "price_at_most": _price(attained, bound),
        "has_no_limit": attained > 0 and bound == 0,
        "surely_optimal": attained == bound,
        "possibly_optimal": attained == best,
    }
    if problem.objective is Objective.IMBALANCE:
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


def _price(attained: int, other: int) -> float | None:
    if other:
        return attained / other
    return None if attained else 1.0


def instance(arguments: Mapping[str, Any], context: Context) -> str:
    """Check all arguments and return the digest of requests, arrivals and a user's policy."""
    given = Arguments(arguments, ARGUMENTS)
    criteria_of(given)
    digest = instance_digest(myopia_instance(given, context))
    source = policy_digest(myopia_plan(given).policy)
    return hashlib.sha256(f"{digest}{source}".encode()).hexdigest()[:16] if source else digest


KIND = RowKind(
    name="price-of-myopia",
    summary="what a policy's run costs over the best schedule in hindsight, as an interval",
    compute=compute,
    instance=instance,
)
