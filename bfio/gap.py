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
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from bfio.common.options import spelled_out
from bfio.common.text import number
from bfio.decode.cluster import Cluster
from bfio.decode.features.registry import unseen
from bfio.decode.observers import Observer, StepView
from bfio.decode.option_kinds import HORIZON
from bfio.decode.options import Dispatch, RunOptions, Ties
from bfio.decode.policy import Assignment, Policy
from bfio.decode.policy_registry import all_options, built_in, given_to, look_ahead
from bfio.decode.run import Run
from bfio.decode.simulation import check_arguments, simulate
from bfio.decode.state import DecodeState
from bfio.step.interval_bound import interval_bound
from bfio.step.solve import solve_step
from bfio.workloads.workload import Workload
from formulations.arrays import integer
from formulations.deadline import checked_work_limit, work_limit_beside
from formulations.errors import InputError, check_kind
from formulations.problem_data import member
from formulations.results import Termination, data_frame, html_table
from formulations.scalars import exact_rational, percent
from formulations.step import Objective, StepProblem, StepResult

if TYPE_CHECKING:
    from bfio.common.figure_style import ShownFigure

#: The rule by which `keep_worst` selects the steps to keep.
RULE = "largest objective minus bound, steps without a bound first; ties go to the earliest step"
#: Columns of tables: two over steps with a proven optimum, one over all solved steps.
COLUMNS = ("same number admitted", "full use of slots", "certified gap, every step")


@dataclass(frozen=True)
class StepRegret:
    """The objective of one decision, compared with the optimum of its step.

    Objectives are integers: tokens times ``GapReport.scale``. None: no bound or no solution found.

    Parameters
    ----------
    step : int
        Decode step.
    waiting, admitted : int
        Number of waiting requests, and number of requests that the policy admitted.
    objective : int
        Objective of the decision.
    optimum : int or None
        Least objective with the same number of admissions, if proven.
    bound : int or None
        Best proven lower bound on this least objective; `measure_gap` always gives one.
    full_use_optimum : int or None
        Least objective among decisions that fill as many slots as possible, if proven.
    seconds : float
        Time of the solve [s].
    ticks : int or None
        Ticks of the solve (`formulations.deadline`); None if they are not counted.
    is_clocked : bool
        Whether the time limit left an optimum unproven. The result may then differ on another
        machine.
    """

    step: int
    waiting: int
    admitted: int
    objective: int
    optimum: int | None
    bound: int | None
    full_use_optimum: int | None
    seconds: float
    ticks: int | None = None
    is_clocked: bool = False

    @property
    def regret(self) -> int | None:
        """Regret: objective minus optimum; None if the optimum is unproven."""
        return None if self.optimum is None else self.objective - self.optimum

    @property
    def regret_at_most(self) -> int | None:
        """Certified gap: objective minus bound, an upper bound on the regret."""
        return None if self.bound is None else self.objective - self.bound

    @property
    def full_use_regret(self) -> int | None:
        """Objective minus `full_use_optimum`; negative if admitting fewer requests is better."""
        return None if self.full_use_optimum is None else self.objective - self.full_use_optimum


@dataclass(frozen=True)
class KeptStep:
    """A step of a run with its program, decision and regret.

    Parameters
    ----------
    problem : StepProblem
        Program of the step; it admits as many requests as the decision.
    decision : tuple of (int or None)
        Decision of the policy.
    row : StepRegret
        Measurements of the step.
    """

    problem: StepProblem
    decision: tuple[int | None, ...]
    row: StepRegret


def keep_worst(kept: list[KeptStep], step: KeptStep, count: int) -> None:
    """Keep a step if it is among the ``count`` steps with the largest possible regret.

    Steps without a bound come first, then steps by decreasing objective minus bound (the regret if
    the optimum is proven). Ties go to the earlier step.
    """

    def rank(one: KeptStep) -> float:
        at_most = one.row.regret_at_most
        return -inf if at_most is None else -at_most

    kept.append(step)
    # The sort is stable: among equal steps the earliest stays in front.
    kept.sort(key=rank)
    del kept[count:]


@dataclass(frozen=True, repr=False)
class GapReport:
    """The regret of a policy's decisions.

    Parameters
    ----------
    rows : tuple of StepRegret
        One per solved decision.
    num_decisions : int
        Decisions taken; more than ``rows`` if only every n-th was solved.
    scale : int
        Factor by which the objectives of the rows are scaled, due to a fractional discount or to
        unequal workers; their tokens are those that the fastest worker computes in the same time.
    unseen : tuple of str
        One sentence per event schedule of the run (e.g. failures) of which no event took place.
    """

    rows: tuple[StepRegret, ...]
    num_decisions: int
    scale: int = 1
    unseen: tuple[str, ...] = ()

    def __repr__(self) -> str:
        proven = len(self.regrets())
        return f"<GapReport: {proven:,} of {len(self.rows):,} solved steps proven>"

    def to_frame(self) -> Any:
        """Return the solved steps as a data frame of pandas; objectives are scaled."""
        return data_frame([_document(row) for row in self.rows])

    def plot(self, label: str = "regret") -> ShownFigure:
        """Draw the distribution of the regret over the steps with a regret above 0."""
        from matplotlib.ticker import MaxNLocator

        from bfio.common.figure_style import styled

        regrets = np.array(self.regrets(), dtype=np.float64) / self.scale
        positive = regrets[regrets > 0]
        with styled(7, 3.4) as (figure, axes):
            if len(positive):
                edges = np.geomspace(positive.min(), positive.max() * 1.0001, 40)
                axes.hist(positive, bins=edges.tolist(), color="C0")
                axes.set_xscale("log")
            share = percent(float(np.mean(regrets == 0)) if len(regrets) else 0.0)
            proven = f"{share} of {len(regrets)} proven steps decided optimally; the others:"
            axes.set(title=f"{label}: {proven}")
            axes.set(xlabel="regret: objective minus optimum [tokens]", ylabel="steps")
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        return figure

    def _repr_html_(self) -> str:
        """Return the distribution of the regret as a table, for notebooks."""
        kinds = (self.regrets(), self.full_use_regrets(), self.certified_gaps())
        parts = [self._distribution(regrets) for regrets in kinds]
        show = {"share_optimal": percent}
        names = ("count", "share_optimal", "mean", "median", "p95", "p99", "max")
        rows = [(name, *(show.get(name, number)(part[name]) for part in parts)) for name in names]
        head = ("regret per step [tokens]", *COLUMNS)
        return html_table(head, rows, f"{self!r}")

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document: counts, distribution of the regret, and the rows.

        Regrets, objectives and optima are in tokens, summed over the look-ahead window with the
        discount weights. The two means are over the proven steps; certified gaps are over all
        steps.
        """
        proven = [row for row in self.rows if row.optimum is not None]
        worst = max(proven, key=lambda row: (row.regret or 0, -row.step), default=None)
        unproven = [row.regret_at_most for row in self.rows if row.optimum is None]
        return {
            "decisions": self.num_decisions,
            "solved": len(self.rows),
            "proven": len(proven),
            "unproven": len(self.rows) - len(proven),
            "proven_share": _share(len(proven), len(self.rows)),
            "scale": self.scale,
            "regret_per_step": self._distribution(self.regrets()),
            "regret_per_step_full_use": self._distribution(self.full_use_regrets()),
            "unproven_regret_at_most": self._distribution(
                [most for most in unproven if most is not None]
            ),
            "certified_gap_per_step": self._distribution(self.certified_gaps()),
            "relative_certified_gap": self.relative_certified_gap(),
            "objective_mean": _spread([row.objective / self.scale for row in proven])["mean"],
            "optimum_mean": _spread([(row.optimum or 0) / self.scale for row in proven])["mean"],
            "worst_step": None if worst is None else worst.step,
            "solve_seconds": _spread([row.seconds for row in self.rows]),
            "solve_ticks": _spread([row.ticks for row in self.rows if row.ticks is not None]),
            "clocked": sum(row.is_clocked for row in self.rows),
            "rows": [_document(row) for row in self.rows],
        }

    def regrets(self) -> list[int]:
        """Return the scaled regret of every proven step, in order."""
        return [row.regret for row in self.rows if row.regret is not None]

    def full_use_regrets(self) -> list[int]:
        """Return the scaled `full_use_regret` of every step where it is proven, in order."""
        return [row.full_use_regret for row in self.rows if row.full_use_regret is not None]

    def certified_gaps(self) -> list[int]:
        """Return the scaled certified gap of every solved step, with a proven optimum or not."""
        return [row.regret_at_most for row in self.rows if row.regret_at_most is not None]

    def relative_certified_gap(self) -> float | None:
        """Return (sum of certified gaps) / (sum of objectives); None if the latter is 0."""
        bounded = [row for row in self.rows if row.bound is not None]
        return _share(sum(self.certified_gaps()), sum(row.objective for row in bounded))

    def _distribution(self, regrets: list[int]) -> dict[str, float | int | None]:
        """Return statistics of the regrets [tokens]; each is None if there are no regrets."""
        optimal = sum(regret == 0 for regret in regrets)
        return _spread([regret / self.scale for regret in regrets]) | {
            "share_optimal": _share(optimal, len(regrets))
        }


def _document(row: StepRegret) -> dict[str, Any]:
    return asdict(row) | {"regret": row.regret, "certified_gap": row.regret_at_most}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _spread(values: Sequence[float]) -> dict[str, float | int | None]:
    """Return count, mean, quantiles and extremes; None if there are no values."""
    names = ("mean", "median", "p95", "p99", "min", "max")
    if not values:
        return {"count": 0, **dict.fromkeys(names)}
    numbers = (float(np.mean(values)), *np.percentile(values, (50, 95, 99)).tolist())
    extremes = min(values), max(values)
    return {"count": len(values), **dict(zip(names, (*numbers, *extremes), strict=True))}


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
        Number of steps to keep in ``worst``, by largest certified gap (`keep_worst`).
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
            what = f"{self.method!r} cannot prove the optimum of a step"
            raise InputError("method", what, f"use one of {', '.join(PROVING_METHODS)}")
        integer(self.every, "every", minimum=1)
        integer(self.keep, "keep")
        HORIZON.checked(self.horizon, "horizon")
        self.gamma = exact_rational(self.gamma, "gamma")
        self.objective = member(Objective, self.objective, "objective")
        checked_work_limit(self.work_limit)
        # Enumeration counts no ticks, so `solve_step` would refuse a work limit.
        if self.method != "brute-force":
            self.work_limit = work_limit_beside(self.time_limit, self.work_limit)
        self.rows: list[StepRegret] = []
        self.worst: list[KeptStep] = []
        self.num_decisions = 0
        self._scale = 1

    def on_step(self, view: StepView) -> None:
        """Solve the program of the step, if the policy took a decision."""
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
            # A memory limit may keep slots empty, so there is no optimum with full use of slots.
            # If the decision exceeds the memory in the look-ahead window, the capacity of the
            # program is raised to the use of the decision.
            held = problem.loads(view.decision).max(axis=1)
            problem = replace(problem, token_capacity=np.maximum(problem.token_capacity, held))
        self._scale = problem.units_per_token
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
        The program to solve, and the solver settings. By default the objective is the imbalance,
        solved exactly, over the look-ahead ``horizon`` if given, else over the current step alone.
    **policy_options
        Options of the policy. Without an observer, ``horizon`` also applies to the program.

    Returns
    -------
    GapReport
        One row per decision.

    Raises
    ------
    InputError
        For an error of `bfio.simulate`; with immediate dispatch, since the program decides when
        requests start; with a policy that pauses requests; with token budgets, which the program
        does not model.
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
        what = "immediate dispatch assigns requests on arrival, the step program when they start"
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
    """Run a policy as `bfio.simulate`, with observers that see ``horizon`` look-ahead steps.

    If ``horizon`` > 0 or policies see reports (`telemetry`), a second run repeats the recorded
    decisions for the observers: the policy does not see the window, nor observers the reports.
    With ``until``, the run ends with the first decision at or after this step.
    """
    recorded, repeated = Decisions(until), Decisions(until)
    again = deepcopy(options.predictor)
    repeats = horizon > 0 or options.telemetry is not None
    run = simulate(
        workload,
        policy,
        cluster,
        engine=engine,
        observers=[recorded, *(() if repeats else observers)],
        keep_trajectory=False,
        stop=recorded.is_over,
        options=options,
        **policy_options,
    )
    if run.rests is not None and until is None:
        raise _rests(run.policy)
    if repeats:
        # The recorded decisions name the workers by their own numbers, whatever the rule for ties.
        simulate(
            workload,
            recorded.again,
            cluster,
            observers=[repeated, *observers],
            keep_trajectory=False,
            stop=repeated.is_over,
            options=replace(options, predictor=again, telemetry=None, ties=Ties.LOWEST),
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
        """End the run after the first decision at or after the step ``until``."""
        if self._until is not None and view.step >= self._until and view.state is not None:
            self._is_over = True

    def is_over(self) -> bool:
        """Return whether the last required decision has been taken."""
        return self._is_over

    def again(self, state: DecodeState) -> Assignment:
        """Return the next recorded decision."""
        del state
        return self._answers.popleft()


def _rests(policy: str) -> InputError:
    what = "pauses active requests, but the step program runs all of them"
    return InputError(f"policy {policy}", what, "measure its routing policy, without pauses")
