"""Rows that compare a policy's run with the best hindsight schedule of the same requests.

The price of myopia is the cost of the run divided by the cost of an optimal schedule that knows
all requests in advance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np

from bfio.decode.replay import run_violations
from bfio.hindsight.makespan import list_interval, solve_makespan
from bfio.hindsight.makespan.from_run import clocked_schedule
from bfio.hindsight.makespan.solve import best_list
from bfio.studies.row import RowContext, RowResult, Value
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments, excess, gap_to, generator, refused
from bfio.studies.row_parts.runs import (
    POLICY_ARGUMENTS,
    TIMINGS,
    RunPlan,
    run_plan,
    run_solves,
    run_timings,
    with_sources,
)
from bfio.studies.row_parts.workload_arguments import (
    WORKLOAD_ARGUMENTS,
    WorkloadChoice,
    chosen_workload,
    lengths_digest,
)
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray, frozen
from formulations.hindsight_makespan import (
    MakespanObjective,
    MakespanProblem,
    MakespanResult,
    objective_value,
    violations,
)
from formulations.results import Termination

#: Per criterion: the objective, whether work is conserved, and whether steps have an overhead.
CRITERIA = {
    "wall_clock": (MakespanObjective.WALL_CLOCK, False, True),
    "wall_clock_conserving": (MakespanObjective.WALL_CLOCK, True, True),
    "peaks": (MakespanObjective.WALL_CLOCK, False, False),
    "peaks_conserving": (MakespanObjective.WALL_CLOCK, True, False),
    "imbalance": (MakespanObjective.IMBALANCE, True, False),
    "latency": (MakespanObjective.LATENCY, False, False),
}
#: Criteria whose optimum does not depend on arrivals: idling until the last arrival is free.
_TIMELESS = ("wall_clock", "peaks")
#: C / t_l of the published simulator [tokens].
DEFAULT_OVERHEAD = 48_620
#: Time limit for each optimum [s].
DEFAULT_LIMIT = 10.0
ARRIVALS = ("at-once", "poisson")
_MACHINE = ("workers", "slots", "memory")
_RUN = (
    "pool", "pool_per_worker", "pool_per_slot", "projection", "predictor", "window_knows",
    "engine",
)  # fmt: skip
_OWN = ("arrivals", "load", "overhead", "criteria", "hindsight_limit")
#: Arguments of a row.
ARGUMENTS = (*WORKLOAD_ARGUMENTS, *_MACHINE, *_RUN, *POLICY_ARGUMENTS, *_OWN)
#: Separates the random stream of arrivals from those of requests and policies.
_STREAM = 0x7374657073


@dataclass(frozen=True)
class MyopiaInstance:
    """Requests and machine of a row; equal instances have equal hindsight optima.

    Parameters
    ----------
    choice : WorkloadChoice
        The requests.
    workers, slots : int
        ``G`` and ``B``.
    load : float, optional
        Offered load of Poisson arrivals; None if all requests arrive at step 0.
    seed : int
        Seed of the arrivals.
    overhead : int
        ``C / t_l`` [tokens].
    limit : float
        Time limit for each optimum [s]. With 0 there is no search: the combinatorial bound and the
        best list or insertion schedule are used.
    memory : tuple of int, optional
        Memory of each worker [tokens].
    """

    choice: WorkloadChoice
    workers: int
    slots: int
    load: float | None
    seed: int
    overhead: int
    limit: float
    memory: tuple[int, ...] | None = None


def myopia_instance(arguments: Arguments, plan: RunPlan) -> MyopiaInstance:
    """Read the instance of a row, given the plan of its run.

    Raises
    ------
    InputError
        If an argument is out of range or another one is missing.
    """
    timed = arguments.choice("arrivals", ARRIVALS)
    load = arguments.optional_number("load")
    if (timed == "poisson") != (load is not None):
        what = "load and arrivals = 'poisson' need each other"
        raise refused("load", what, "give both or neither")
    if load is not None and not 0 < load <= 1e6:
        raise refused("load", f"{load} is out of range", "use 0 < load <= 1000000")
    pool, slots = plan.options.pool, plan.cluster.total_slots
    if load is None and pool < min(len(plan.workload), slots):
        what = f"a pool of {pool} cannot fill all slots at once"
        raise refused("pool", what, "use pool_per_slot = 1")
    return MyopiaInstance(
        choice=plan.choice,
        workers=plan.cluster.workers,
        slots=plan.cluster.alike("slots", "price-of-myopia"),
        load=load,
        seed=arguments.whole("seed", 0) if load is not None else 0,
        overhead=arguments.whole("overhead", DEFAULT_OVERHEAD, maximum=10**9),
        limit=arguments.seconds("hindsight_limit", DEFAULT_LIMIT),
        memory=None
        if plan.cluster.memory is None
        else tuple(plan.cluster.worker_memory().tolist()),
    )


def criteria_of(arguments: Arguments) -> tuple[str, ...]:
    """Return the cost criteria of a row, in the order of `CRITERIA`.

    Raises
    ------
    InputError
        If a criterion is unknown, does not depend on the given arrivals, or is not defined for
        workers with a memory limit.
    """
    timed, limited = arguments.has("load"), arguments.has("memory")
    usual = [
        name
        for name, (_, conserves, _) in CRITERIA.items()
        if not (timed and name in _TIMELESS) and not (limited and conserves)
    ]
    asked = arguments.text("criteria", " ".join(usual)).split()
    for name in asked:
        if name not in CRITERIA:
            known = ", ".join(CRITERIA)
            raise refused("criteria", f"{name!r} is unknown", f"use some of {known}")
        if limited and CRITERIA[name][1]:
            raise refused("criteria", f"{name} is not defined with a memory", "use latency")
        if name not in usual:
            remedy = "use latency" if limited else f"use {name}_conserving"
            raise refused("criteria", f"{name} ignores arrivals", remedy)
    return tuple(name for name in CRITERIA if name in asked)


def myopia_plan(arguments: Arguments, context: RowContext) -> RunPlan:
    """Return the plan of the run, with steps of one second, so that times are step numbers.

    With a memory limit, workers reserve the peak of each request, so that no request is preempted.
    """
    own: Mapping[str, Any] = {
        "arrivals": "timed" if arguments.has("load") else "pool",
        "step_overhead": 1.0,
        "token_time": 0.0,
        **({"overflow": "reserve"} if arguments.has("memory") else {}),
    }
    kept = {name: value for name, value in arguments.given.items() if name not in _OWN}
    return run_plan(Arguments({**kept, **own}, (*arguments.known, *own)), context)


@lru_cache(maxsize=64)
def arriving_workload(instance: MyopiaInstance) -> Workload:
    """Return the requests with their arrival steps as arrival times [s]."""
    drawn = chosen_workload(instance.choice)
    times = tuple(map(Fraction, arrival_steps(instance).tolist()))
    return Workload(drawn.prompt_tokens, drawn.output_tokens, times, drawn.name, drawn.provenance)


@lru_cache(maxsize=64)
def arrival_steps(instance: MyopiaInstance) -> IntArray:
    """Return the step at which each request arrives, shape (n,).

    Gaps are exponential with mean ``mean output / (load · G·B)`` steps; the first arrives at 0.
    """
    drawn = chosen_workload(instance.choice)
    if instance.load is None or len(drawn) == 0:
        return frozen(np.zeros(len(drawn), dtype=np.int64))
    slots = instance.workers * instance.slots
    gap = float(drawn.output_tokens.mean()) / (instance.load * slots)
    times = generator(instance.seed, _STREAM).exponential(gap, len(drawn)).cumsum()
    return frozen((times - times[0]).astype(np.int64))


def hindsight_problem(instance: MyopiaInstance, criterion: str) -> MakespanProblem:
    """Return the hindsight problem; its unit of time is the step time per token of peak load."""
    objective, conserving, with_overhead = CRITERIA[criterion]
    drawn = chosen_workload(instance.choice)
    return MakespanProblem(
        workers=instance.workers,
        slots=instance.slots,
        arrival=arrival_steps(instance),
        prompt=drawn.prompt_tokens,
        output=drawn.output_tokens,
        step_overhead=Fraction(instance.overhead if with_overhead else 0),
        token_time=Fraction(1),
        objective=objective,
        work_conserving=conserving,
        memory=None if instance.memory is None else np.array(instance.memory),
    )


@lru_cache(maxsize=20_000)
def hindsight_result(instance: MyopiaInstance, criterion: str) -> MakespanResult:
    """Solve the hindsight problem; the result is cached for all policies on an instance."""
    problem = hindsight_problem(instance, criterion)
    if instance.limit == 0:
        return list_interval(problem)
    return solve_makespan(problem, time_limit=instance.limit)


@lru_cache(maxsize=20_000)
def least_list(instance: MyopiaInstance, criterion: str) -> int:
    """Return the cost of the best list schedule."""
    return best_list(hindsight_problem(instance, criterion))[0]


#: Start steps and workers of all requests.
Schedule = tuple[tuple[int, ...], tuple[int, ...]]
VALUES = descriptions(
    """
    requests | requests | requests of the instance
    steps | steps | steps of the run
    attained | | cost of the run; this and the next values exist for each criterion
    best_known | | cost of the best known schedule; the run counts as one
    bound | | lower bound on the cost of any schedule
    optimum_gap | share | (`best_known` - `bound`) / `best_known`
    lists_gap | share | the same with only list schedules and the run known, if nothing is searched
    is_proven | | whether the optimum was proven
    price_at_least | 1 | `attained` / `best_known`; 1 if both are 0
    price_at_most | 1 | `attained` / `bound`; None if only `bound` is 0
    has_no_limit | | whether `bound` is 0 and `attained` is not
    surely_optimal | | whether the cost of the run equals the lower bound
    possibly_optimal | | whether no schedule better than the run is known
    avoidable_idle_at_least | share | (`attained` - `best_known`) / (G · sum of the run's peaks)
    avoidable_idle_at_most | share | (`attained` - `bound`) / (G · sum of the run's peaks)
    excess | 1 | price relative to the best known schedule, minus 1, a series of one entry
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
    """Return the planned computation of a row; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, ARGUMENTS)
    criteria, run = criteria_of(given), myopia_plan(given, context)
    instance = myopia_instance(given, run)
    drawn = chosen_workload(instance.choice)
    data = lengths_digest(drawn.prompt_tokens, drawn.output_tokens, arrival_steps(instance))
    return Planned(
        with_sources(data.hexdigest()[:16], *run.sources),
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
            values[f"{name}.lists_gap"] = gap_to(priced["bound"], listed)
        series[f"{name}.excess"] = excess(priced["price_at_least"])
        broken = price_violations(problem, schedule, result)
        found |= {f"{name}.{key}": amount for key, amount in broken.items()}
        seconds += result.seconds
        results.append(result)
    proven = sum(bool(values[f"{name}.is_proven"]) for name in criteria)
    # With a limit of 0 there is no search that a time limit could stop.
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
    """Return the certified interval of the price of myopia, and the values behind it.

    Parameters
    ----------
    problem : MakespanProblem
        Data and objective.
    schedule : Schedule
        The schedule of the policy's run.
    result : MakespanResult
        The hindsight result. The run itself also counts as a known schedule.

    Returns
    -------
    dict
        ``price_at_least`` and ``price_at_most`` are None where the run has a cost and the schedule
        or bound to compare with has cost 0.
    """
    attained = objective_value(problem, *schedule)
    best = attained if result.objective is None else min(result.objective, attained)
    bound = 0 if result.bound is None else result.bound
    values = {
        "attained": attained,
        "best_known": best,
        "bound": bound,
        "optimum_gap": gap_to(bound, best),
        "is_proven": best == bound,
        "price_at_least": _price(attained, best),
        "price_at_most": _price(attained, bound),
        "has_no_limit": attained > 0 and bound == 0,
        "surely_optimal": attained == bound,
        "possibly_optimal": attained == best,
    }
    if problem.objective is MakespanObjective.IMBALANCE:
        # Imbalance plus work is the total capacity: G times the sum of peaks.
        capacity = attained + problem.work
        values["avoidable_idle_at_least"] = (attained - best) / capacity if capacity else 0.0
        values["avoidable_idle_at_most"] = (attained - bound) / capacity if capacity else 0.0
    return values


def price_violations(
    problem: MakespanProblem, schedule: Schedule, result: MakespanResult
) -> dict[str, int]:
    """Check the run and the hindsight schedule against the problem, and the bound against both.

    Returns
    -------
    dict
        Violations of the run under their own names, those of the hindsight schedule under
        ``optimum.``, and ``optimum.bound``: the amount by which a known schedule is below the
        bound.
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


KIND = planned_kind(
    "price-of-myopia",
    "ratio of a run's cost to that of the best hindsight schedule, as an interval",
    plan,
    [*VALUES, *TIMINGS],
    {f"{name}.": _TEXTS[name] for name in CRITERIA},
)
