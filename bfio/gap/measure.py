"""Regret of a policy: the distance of each decision from the proven optimum of its step.

A run is simulated once. An observer formulates every step that the policy decided as the integer
program (IO) and solves this program. If the program looks ahead, a second run repeats the
decisions of the first run with the look-ahead window of the program, so that the policy itself
never sees this window. The *regret* of a step is the objective of the decision minus the optimum,
in tokens. Steps without a proven optimum are counted separately, with an interval that contains
their regret; they are never dropped. The *certified gap* of a step is the objective of the
decision minus the best proven bound. It equals the regret if the optimum is proven, and is an
upper bound on the regret otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from bfio.common.options import spelled_out
from bfio.decode.cluster import Cluster
from bfio.decode.features.registry import unseen
from bfio.decode.observers import Observer, StepView
from bfio.decode.option_kinds import HORIZON
from bfio.decode.options import Dispatch, RunOptions
from bfio.decode.policy import Assignment, Policy
from bfio.decode.policy_registry import all_options, built_in, given_to, look_ahead
from bfio.decode.run import Run
from bfio.decode.simulation import check_arguments, simulate
from bfio.decode.state import DecodeState
from bfio.gap.report import GapReport, KeptStep, StepRegret, keep_worst
from bfio.step.interval_bound import interval_bound
from bfio.step.solve import solve_step
from bfio.workloads.workload import Workload
from formulations.arrays import integer
from formulations.deadline import checked_work_limit, work_limit_beside
from formulations.errors import InputError, check_kind
from formulations.problem_data import member
from formulations.results import Termination
from formulations.scalars import exact_rational
from formulations.step import Objective, StepProblem, StepResult

#: Methods of `bfio.solve_step` that prove optima.
PROVING_METHODS = ("exact", "cp-sat", "brute-force")


@dataclass(kw_only=True, eq=False, repr=False)
class GapObserver:
    """Observer that solves the step program of every decision.

    Parameters
    ----------
    method : str
        One of `PROVING_METHODS`.
    horizon, gamma, objective
        The program; see `StepProblem.from_state`.
    work_limit : int, optional
        Ticks of each solve (`formulations.deadline`), the same on every machine; by default
        1,000,000, or no limit if there is a time limit or the method is ``brute-force``.
    time_limit : float, optional
        Wall-clock limit of each solve [s].
    every : int
        Solve every ``every``-th decision.
    keep : int
        Number of problems to keep in ``worst``: the steps with the largest possible regret.
    on_solved : callable, optional
        Called with each row, for progress.
    """

    method: str = "exact"
    horizon: int = 0
    gamma: Fraction = Fraction(1)
    objective: Objective = Objective.IMBALANCE
    work_limit: int | None = None
    time_limit: float | None = None
    every: int = 1
    keep: int = 0
    on_solved: Callable[[StepRegret], None] | None = None

    def __post_init__(self) -> None:
        """Validate."""
        if self.method not in PROVING_METHODS:
            what, remedy = (
                f"{self.method!r} cannot prove the optimum of a step",
                ", ".join(PROVING_METHODS),
            )
            raise InputError("method", what, f"use one of {remedy}")
        integer(self.every, "every", minimum=1)
        integer(self.keep, "keep")
        HORIZON.checked(self.horizon, "horizon")
        self.gamma = exact_rational(self.gamma, "gamma")
        self.objective = member(Objective, self.objective, "objective")
        checked_work_limit(self.work_limit)
        # Enumeration counts no ticks: `solve_step` refuses a limit.
        if self.method != "brute-force":
            self.work_limit = work_limit_beside(self.time_limit, self.work_limit)
        self.rows: list[StepRegret] = []
        self.worst: list[KeptStep] = []
        self.num_decisions = 0
        self._scale = 1

    def on_step(self, view: StepView) -> None:
        """Solve the step if the policy decided something."""
        if view.state is None or view.decision is None:
            return
        self.num_decisions += 1
        if (self.num_decisions - 1) % self.every:
            return
        admitted = sum(worker is not None for worker in view.decision)
        problem = StepProblem.from_state(
            view.state,
            look_ahead=self.horizon,
            gamma=self.gamma,
            objective=self.objective,
            admit=admitted,
        )
        if problem.token_capacity is not None:
            # Memory may keep slots empty, so full use of slots is no option. A decision may also
            # exceed the capacity of the window: then the program gets the capacity that the
            # decision uses.
            held = problem.loads(view.decision).max(axis=1)
            problem = replace(problem, token_capacity=np.maximum(problem.token_capacity, held))
        self._scale = problem.scale
        self.rows.append(self._row(view, problem, admitted))
        keep_worst(self.worst, KeptStep(problem, view.decision, self.rows[-1]), self.keep)
        if self.on_solved is not None:
            self.on_solved(self.rows[-1])

    def report(self) -> GapReport:
        """Return the report of the decisions so far."""
        return GapReport(tuple(self.rows), self.num_decisions, self._scale)

    def _row(self, view: StepView, problem: StepProblem, admitted: int) -> StepRegret:
        assert view.state is not None
        assert view.decision is not None
        objective = problem.objective_value(view.decision)
        result = self._solve(problem)
        bound = _bound(problem, result)
        # A decision that meets the bound is optimal, even if the solver did not find it.
        best = objective if result.objective is None else min(objective, result.objective)
        optimum = best if best == bound else None
        full_use, full_use_optimum = result, optimum
        if admitted < view.state.num_admissible and problem.token_capacity is None:
            every_slot = replace(problem, admit=None)
            full_use = self._solve(every_slot)
            proven = full_use.objective == _bound(every_slot, full_use)
            full_use_optimum = full_use.objective if proven else None
        return StepRegret(
            step=view.step,
            waiting=view.state.num_waiting,
            admitted=admitted,
            objective=objective,
            optimum=optimum,
            bound=bound,
            full_use_optimum=full_use_optimum,
            seconds=result.seconds,
            ticks=result.ticks,
            is_clocked=Termination.TIME_LIMIT in (result.termination, full_use.termination),
        )

    def _solve(self, problem: StepProblem) -> StepResult:
        return solve_step(
            problem, method=self.method, time_limit=self.time_limit, work_limit=self.work_limit
        )


def _bound(problem: StepProblem, result: StepResult) -> int:
    """Return the best proven lower bound: the optimum if it is proven."""
    if result.is_optimal and result.objective is not None:
        return result.objective
    free = interval_bound(problem)
    return free if result.bound is None else max(free, result.bound)


@spelled_out(RunOptions, all_options)
def measure_gap(
    workload: Workload,
    policy: str | Policy,
    cluster: Cluster | None = None,
    *,
    observer: GapObserver | None = None,
    engine: str = "auto",
    observers: Sequence[Observer] = (),
    options: RunOptions | None = None,
    **policy_options: object,
) -> GapReport:
    """Run a policy and measure the regret of its decisions.

    Parameters
    ----------
    workload, policy, cluster, engine, observers, options
        As in `bfio.simulate`.
    observer : GapObserver, optional
        The program to solve, and the solver settings. The default is the imbalance objective,
        solved exactly, with the look-ahead ``horizon`` if given, else over the current step alone.
    **policy_options
        Options of the policy. Without an observer, the program reads ``horizon`` as well.

    Returns
    -------
    GapReport
        One row per decision.

    Raises
    ------
    InputError
        As `bfio.simulate`. Also with immediate dispatch, since the program decides when requests
        start; with a policy that pauses requests; and with token budgets, which the program does
        not model.
    """
    check_arguments(workload, policy, cluster, "measure_gap(workload, policy, cluster)")
    name = policy.partition(":")[0] if isinstance(policy, str) else ""
    if name in built_in() and built_in()[name].pauses:
        raise _rests(name)
    if cluster is not None and cluster.token_budget is not None:
        what = "loads depend on batches, which the step program does not model"
        raise InputError("token_budget", what, "measure gaps without token budgets")
    asked = options or RunOptions()
    if observer is not None:
        check_kind(observer, GapObserver, "observer", "observer=GapObserver(...)")
        gaps = observer
    else:
        given = policy_options.get("horizon")
        horizon: Any = 0 if given is None else given
        gaps = GapObserver(horizon=horizon)
        read = given_to(policy, policy_options, asked, cluster or Cluster())
        if "horizon" not in read:
            policy_options.pop("horizon", None)
    if asked.dispatch is Dispatch.IMMEDIATE:
        what = "the program decides when requests start, and immediate dispatch binds them before"
        raise InputError("dispatch", what, "use dispatch pooled")
    run = observed_run(
        workload,
        policy,
        cluster,
        [*observers, gaps],
        gaps.horizon,
        engine=engine,
        options=asked,
        policy_options=policy_options,
    )
    return replace(gaps.report(), unseen=tuple(unseen([run])))


def observed_run(
    workload: Workload,
    policy: str | Policy,
    cluster: Cluster | None,
    observers: Sequence[Observer],
    horizon: int,
    *,
    policy_options: Mapping[str, object],
    options: RunOptions,
    engine: str = "auto",
    until: int | None = None,
) -> Run:
    """Run a policy as `bfio.simulate` does, while observers see a window of ``horizon`` steps.

    With ``until``, the run ends with the first decision at or after this step.
    """
    recorded, repeated = Decisions(until), Decisions(until)
    again = deepcopy(options.predictor)
    run = simulate(
        workload,
        policy,
        cluster,
        engine=engine,
        observers=[recorded, *(() if horizon else observers)],
        keep_trajectory=False,
        stop=recorded.is_over,
        options=options,
        **policy_options,
    )
    if run.rests is not None and until is None:
        raise _rests(run.policy)
    if horizon:
        simulate(
            workload,
            recorded.again,
            cluster,
            observers=[repeated, *observers],
            keep_trajectory=False,
            stop=repeated.is_over,
            options=replace(options, predictor=again),
            horizon=max(horizon, look_ahead(run.policy_options)),
        )
    return run


class Decisions:
    """Records the decisions of a policy up to a step, and replays them in a second run."""

    def __init__(self, until: int | None) -> None:
        self._until, self._is_over = until, False
        self._answers: deque[Assignment] = deque()

    def on_ask(self, decision: Assignment) -> None:
        """Record a decision."""
        self._answers.append(decision)

    def on_step(self, view: StepView) -> None:
        """Note the first decision at or after the last step."""
        if self._until is not None and view.step >= self._until and view.state is not None:
            self._is_over = True

    def is_over(self) -> bool:
        """Return whether the run may end."""
        return self._is_over

    def again(self, state: DecodeState) -> Assignment:
        """Return the next recorded decision."""
        del state
        return self._answers.popleft()


def _rests(policy: str) -> InputError:
    what = "pauses active requests, but the step program runs all of them"
    return InputError(f"policy {policy}", what, "measure the gap of the policy that routes")
