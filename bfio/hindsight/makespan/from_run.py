"""A finished run of the decode engine as a schedule of an offline makespan problem."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np

from bfio.decode.drift import LLM
from bfio.decode.options import NO_EVENTS
from bfio.decode.run import Run
from bfio.workloads.workload import Workload
from formulations.errors import InputError
from formulations.hindsight_makespan import (
    MakespanObjective,
    MakespanProblem,
    objective_value,
    violations,
)
from formulations.problem_data import member


class Revealed(StrEnum):
    """Earliest starts of requests in the offline problem."""

    #: Every request at step 0. This relaxes the policy's problem, with a pool and with timed
    #: arrivals.
    AT_ONCE = "at-once"
    #: At the step at which the request became visible to the policy. These steps depend on the run
    #: (a pool is refilled as requests start, and arrivals depend on the durations of steps). So
    #: the optimum holds for the releases of this run and does not bound other runs.
    AS_SEEN = "as-seen"


@dataclass(frozen=True)
class RunSchedule:
    """A run as a schedule of an offline problem.

    Parameters
    ----------
    problem : MakespanProblem
        Requests and machine of the run, with an objective.
    starts, workers : tuple of int
        Start and worker of each request in the run.
    objective : int
        Objective of the run as an integer (`MakespanProblem.scale` per unit).
    """

    problem: MakespanProblem
    starts: tuple[int, ...]
    workers: tuple[int, ...]
    objective: int

    @property
    def value(self) -> float:
        """The objective in seconds, tokens or steps."""
        return self.objective / self.problem.scale

    def price_of_myopia(self, hindsight: int) -> float | None:
        """Return the run's objective divided by an offline optimum or bound; None if that is 0."""
        return self.objective / hindsight if hindsight else None


def hindsight_of_run(
    run: Run,
    workload: Workload,
    *,
    objective: MakespanObjective = MakespanObjective.WALL_CLOCK,
    work_conserving: bool | None = None,
    revealed: Revealed = Revealed.AT_ONCE,
    step_overhead: Fraction | None = None,
    token_time: Fraction | None = None,
) -> RunSchedule:
    """Return the offline problem of a drained run, and the run as one of its schedules.

    Steps are those of the engine, which only counts busy steps: idle time between timed arrivals
    is omitted, as in the objective.

    Parameters
    ----------
    run : Run
        A run in which every request finished.
    workload : Workload
        Workload of the run.
    objective, work_conserving
        See `MakespanProblem`. Baselines and BF-IO fill every slot; for other policies leave
        ``work_conserving`` off.
    revealed : Revealed
        Earliest starts of requests in the problem.
    step_overhead, token_time : Fraction, optional
        Times that replace those of the machine; by default the decimal form of its floats. CP-SAT
        and other solvers need times with few digits. With one token as the unit of time
        (``token_time`` 1, ``step_overhead`` 48620 for the default machine) the problem is nearly
        the same.

    Raises
    ------
    InputError
        If the run did not drain, its loads do not grow by one token per step, the duration of a
        step depends on the mean load, requests were interrupted or paused, or the schedule
        violates the problem (for example, slots are idle but work conservation is required; a
        problem with a memory cannot require it).
    """
    _check(run, workload)
    cluster = run.cluster
    as_seen = member(Revealed, revealed, "revealed") is Revealed.AS_SEEN
    seen = run.reveal_step if as_seen else np.zeros_like(run.start_step)
    overhead_s, token_time_s = (float(each[0]) for each in cluster.worker_times())
    problem = MakespanProblem(
        workers=cluster.workers,
        slots=cluster.alike("slots", "hindsight"),
        arrival=seen,
        prompt=workload.prompt_tokens,
        output=workload.output_tokens,
        step_overhead=_decimal(overhead_s) if step_overhead is None else step_overhead,
        token_time=_decimal(token_time_s) if token_time is None else token_time,
        objective=objective,
        work_conserving=work_conserving,
        memory=None if cluster.memory is None else cluster.worker_memory(),
    )
    starts, workers = tuple(run.start_step.tolist()), tuple(run.worker.tolist())
    for name, amount in violations(problem, starts, workers).items():
        remedy = "use another objective, work_conserving=False or revealed=as-seen"
        raise InputError(f"run of {run.policy}", f"breaks {name} by {amount}", remedy)
    return RunSchedule(problem, starts, workers, objective_value(problem, starts, workers))


def _decimal(seconds: float) -> Fraction:
    return Fraction(repr(seconds))


def clocked_schedule(run: Run, workload: Workload) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return starts and workers of a drained run in which every step takes one second.

    Then each second is one step, busy or idle. Requests that arrive at whole seconds ``a_i`` (0 in
    a pool) start at whole seconds. The ``a_i`` do not depend on the policy, so the optimum of the
    problem with these arrivals bounds all policies.

    Raises
    ------
    InputError
        See `hindsight_of_run`; also if a step does not take one second, or starts are not
        integers.
    """
    _check(run, workload)
    starts = run.start_s[run.start_step]
    if (run.duration_s != 1).any() or (starts != np.rint(starts)).any():
        what = "event times are not step numbers"
        remedy = "use step_overhead 1, token_time 0 and whole arrival times"
        raise InputError(f"run of {run.policy}", what, remedy)
    return tuple(starts.astype(np.int64).tolist()), tuple(run.worker.tolist())


def _check(run: Run, workload: Workload) -> None:
    where = f"run of {run.policy}"
    if len(workload) != run.num_requests:
        what = f"{run.num_requests} requests, but the workload has {len(workload)}"
        raise InputError(where, what, "give the workload of this run")
    cluster, options = run.cluster, run.options
    prompts = "the workers that decode compute the prompts as well"
    num_rests = 0 if run.rests is None else len(run.rests)
    paused = f"active requests were paused {num_rests} times"
    slow, failed = options.stragglers != NO_EVENTS, options.failures != NO_EVENTS
    reserve = "simulate without failures" if failed else 'use overflow="reserve"'
    for is_so, what, remedy in (
        (run.cancelled, "requests were cancelled", "simulate without cancellations"),
        (not run.is_drained, "the run did not drain", "simulate without a step limit"),
        (options.drift != LLM, "loads do not grow by a token per step", "use the llm drift"),
        (not cluster.keeps_one_pace, "workers differ in speed", "use equal workers"),
        (slow, "workers were slow at times", "simulate without stragglers"),
        (cluster.token_budget is not None, prompts, "simulate without token_budget"),
        (num_rests, paused, "use a policy that does not pause"),
        (len(run.interruptions), "requests were interrupted", reserve),
        (cluster.mean_time_s != 0, "step times depend on the mean load", "use mean_time_s = 0"),
    ):
        if is_so:
            raise InputError(where, what, remedy)
