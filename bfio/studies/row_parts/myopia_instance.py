"""Instances of the price of myopia: requests, their arrivals in steps, and what is to be least."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from bfio.hindsight.makespan import list_interval, solve_makespan
from bfio.hindsight.makespan.solve import best_list
from bfio.studies.row import RowContext
from bfio.studies.row_parts.arguments import Arguments
from bfio.studies.row_parts.run_arguments import POLICY_ARGUMENTS, RunPlan, run_plan
from bfio.studies.row_parts.workload_arguments import (
    WORKLOAD_ARGUMENTS,
    WorkloadChoice,
    chosen_workload,
    lengths_digest,
)
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray, frozen
from formulations.errors import InputError
from formulations.hindsight_makespan import MakespanObjective, MakespanProblem, MakespanResult

#: What a criterion minimises, whether work is conserved, and whether steps cost anything.
CRITERIA = {
    "wall_clock": (MakespanObjective.WALL_CLOCK, False, True),
    "wall_clock_conserving": (MakespanObjective.WALL_CLOCK, True, True),
    "peaks": (MakespanObjective.WALL_CLOCK, False, False),
    "peaks_conserving": (MakespanObjective.WALL_CLOCK, True, False),
    "imbalance": (MakespanObjective.IMBALANCE, True, False),
    "latency": (MakespanObjective.LATENCY, False, False),
}
#: What arrivals do not touch: nothing is lost by starting after the last of them.
_TIMELESS = ("wall_clock", "peaks")
#: C / t_l of the released simulator [tokens].
DEFAULT_OVERHEAD = 48_620
#: Time for each optimum [s].
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
#: Sets the stream of arrivals apart from those of requests and policies.
_STREAM = 0x7374657073


@dataclass(frozen=True)
class MyopiaInstance:
    """Requests and machine, without a policy; equal ones have equal hindsight optima.

    Parameters
    ----------
    choice : WorkloadChoice
        The requests.
    workers, slots : int
        ``G`` and ``B``.
    load : float, optional
        Offered load of Poisson arrivals; None if all requests are there at step 0.
    seed : int
        Seed of the arrivals.
    overhead : int
        ``C / t_l`` [tokens].
    limit : float
        Time for each optimum [s]; at 0 the combinatorial bound and first schedules stand for it.
    memory : tuple of int, optional
        Most tokens that each worker holds.
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
    """Read what a row says of its instance, which the given run is about.

    Raises
    ------
    InputError
        If an argument is out of range, or needs another.
    """
    timed = arguments.choice("arrivals", ARRIVALS)
    load = arguments.optional_number("load")
    if (timed == "poisson") != (load is not None):
        raise InputError("argument load", "it goes with poisson arrivals", "give both or neither")
    if load is not None and not 0 < load <= 1e6:
        raise InputError("argument load", f"{load} is out of range", "use 0 < load <= 1000000")
    pool, slots = plan.options.pool, plan.cluster.total_slots
    if load is None and pool < min(len(plan.workload), slots):
        raise InputError(
            "argument pool", f"{pool} cannot fill all slots at once", "use pool_per_slot = 1"
        )
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
    """Return the criteria of a row, in the order of `CRITERIA`.

    Raises
    ------
    InputError
        If one is unknown, ignores the arrivals that the row has, or is not defined where its
        workers have a memory.
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
            raise InputError("argument criteria", f"{name!r} is unknown", f"use some of {known}")
        if limited and CRITERIA[name][1]:
            raise InputError(
                "argument criteria", f"{name} is not defined with a memory", "use latency"
            )
        if name not in usual:
            raise InputError(
                "argument criteria", f"{name} ignores arrivals", f"use {name}_conserving"
            )
    return tuple(name for name in CRITERIA if name in asked)


def myopia_plan(arguments: Arguments, context: RowContext) -> RunPlan:
    """Return the run of a row: every step takes a second, so that times are steps.

    With a memory the peak of each request is reserved, so that none is interrupted.
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
    """Return the requests with their arrival steps as times [s]."""
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
    seed = np.random.SeedSequence(instance.seed, spawn_key=(_STREAM,))
    slots = instance.workers * instance.slots
    gap = float(drawn.output_tokens.mean()) / (instance.load * slots)
    times = np.random.default_rng(seed).exponential(gap, len(drawn)).cumsum()
    return frozen((times - times[0]).astype(np.int64))


def hindsight_problem(instance: MyopiaInstance, criterion: str) -> MakespanProblem:
    """Return the hindsight program; one token of a peak is the unit of time."""
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
    """Solve the hindsight program, once per process: policies on one instance share it."""
    problem = hindsight_problem(instance, criterion)
    if instance.limit == 0:
        return list_interval(problem)
    return solve_makespan(problem, time_limit=instance.limit)


@lru_cache(maxsize=20_000)
def least_list(instance: MyopiaInstance, criterion: str) -> int:
    """Return the objective of the best list schedule."""
    return best_list(hindsight_problem(instance, criterion))[0]


def instance_digest(instance: MyopiaInstance) -> str:
    """Return 16 hexadecimal digits for requests and arrivals."""
    drawn = chosen_workload(instance.choice)
    lengths = (drawn.prompt_tokens, drawn.output_tokens, arrival_steps(instance))
    return lengths_digest(*lengths).hexdigest()[:16]
