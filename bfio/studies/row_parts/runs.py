"""Read the arguments of a decode run, and return the values a row reports about it."""

import hashlib
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bfio.batching.registry import is_own as is_own_batching
from bfio.common.kernel_groups import Engine
from bfio.common.metrics import MetricTable
from bfio.common.options import LOOK_AHEAD, drawing, from_mapping, names_of, options_of
from bfio.common.plugins import users_digest
from bfio.common.statistics import batch_means
from bfio.decode.cluster import Cluster
from bfio.decode.compatibility import POLICIES, Asked, check_together
from bfio.decode.energy_model import EnergyModel
from bfio.decode.features.registry import idle
from bfio.decode.measured import AUTO, repeats
from bfio.decode.metrics import METRICS, half_widths, measure, measure_steady, measured_of
from bfio.decode.options import RunOptions
from bfio.decode.policies.bf_io import is_own_backend
from bfio.decode.policy_registry import (
    ChosenPolicy,
    all_options,
    check_options_are_read,
    choose,
    given_to,
    unread_options,
)
from bfio.decode.replay import run_violations
from bfio.decode.run import Run, RunPart
from bfio.decode.settings import (
    blind_windows,
    is_blind,
    learns,
    setting_parts,
    unasked_predictor,
    unused_arrivals,
    unused_history,
    unused_projection,
    unused_window_knows,
)
from bfio.decode.simulation import second_proven_share, simulate
from bfio.prediction import registry as predictors
from bfio.studies.row import MAX_POINTS, RowContext, Value, label
from bfio.studies.row_kind import MEASURED_PART, STEADY, described_metrics, descriptions
from bfio.studies.row_parts.arguments import Arguments, refused
from bfio.studies.row_parts.workload_arguments import (
    WORKLOAD_ARGUMENTS,
    WorkloadChoice,
    chosen_workload,
    request_facts,
    workload_choice,
)
from bfio.workloads.workload import Workload
from formulations.errors import InputError
from formulations.named_objects import is_users
from formulations.problem_data import member

#: The metrics of a run, and the parts of a run for which they are also reported.
RUN_VALUES = described_metrics(METRICS)
PARTS = {
    MEASURED_PART: "of the measured part of the run",
    STEADY: "of the steady part of the run",
}
TIMINGS = descriptions(
    """
    decide_s | s | wall-clock time of the decisions, a timing
    solve_s | s | wall-clock time of the solver, a timing
    second_s | s | wall-clock time of choosing among optima, a timing
    """
)


@dataclass(frozen=True)
class Solves:
    """Numbers of optima that a run requested, left unproven, or ended at a time limit."""

    asked: int
    unproven: int
    clocked: int


def run_values(
    run: Run,
    energy: EnergyModel,
    warm_up: int = 0,
    table: MetricTable[RunPart] = METRICS,
    measured: Run | None = None,
) -> dict[str, Value]:
    """Return all metrics of a run and of its parts as row values; those of parts have intervals.

    Parameters
    ----------
    run : Run
        The run.
    energy : EnergyModel
        Constants of the energy metrics.
    warm_up : int
        Steps at the beginning that are excluded from the steady part.
    table : MetricTable
        The metrics.
    measured : Run, optional
        The run whose measured part is reported, if the requests were repeated; by default ``run``.

    Returns
    -------
    dict
        ``NAME`` for the whole run; ``measured.NAME`` and ``steady.NAME`` for its parts, None if
        the part does not exist. Metrics of a part also have ``.half_width``, half the 95 %
        interval by batch means. Further ``is_drained``, ``proven_share`` of the solved steps, and
        ``second_proven_share`` if a secondary objective chose among their optima.
    """
    solves = run_solves(run)
    no_part: dict[str, Value] = dict.fromkeys(entry.name for entry in table)
    steady = measure_steady(run, energy, warm_up, table) or no_part
    widths = half_widths(run, run.steady_mask(warm_up))
    part = measured_of(measured or run, energy)
    inside = no_part if part is None else table.measure(part)
    inner = dict.fromkeys(widths) if part is None else table.half_widths(part)
    return {
        **measure(run, energy, table),
        **{f"measured.{name}": value for name, value in inside.items()},
        **{f"measured.{name}.half_width": width for name, width in inner.items()},
        **{f"steady.{name}": value for name, value in steady.items()},
        **{f"steady.{name}.half_width": width for name, width in widths.items()},
        "is_drained": run.is_drained,
        "proven_share": 1 - solves.unproven / solves.asked if solves.asked else None,
        **second_proven_share(run.statistics),
    }


def run_series(run: Run) -> dict[str, list[float]]:
    """Return imbalance, largest and mean load [tokens] and idle fraction over the steps.

    Each series has at most `MAX_POINTS` points, means over equally many consecutive steps.
    """
    series = {
        "imbalance": run.imbalance,
        "max_load": run.max_load,
        "mean_load": run.total_load / run.cluster.workers,
        "idle_fraction": run.idle_fractions(),
    }
    return {
        name: batch_means(values.astype(np.float64), MAX_POINTS).tolist()
        for name, values in series.items()
    }


def run_timings(run: Run) -> dict[str, float]:
    """Return the wall-clock time of the simulation, of its decisions and of its solver [s]."""
    timings = {"wall_s": run.wall_s, "decide_s": run.decide_s}
    for name in ("solve_s", "second_s"):
        if isinstance(spent := run.statistics.get(name), float):
            timings[name] = spent
    return timings


def run_solves(run: Run) -> Solves:
    """Return the numbers of requested, unproven and time-limited optima of a run.

    Unproven steps count as time-limited unless the policy reports a separate count.
    """
    proven, unproven = (run.statistics.get(f"{kind}_steps") for kind in ("proven", "unproven"))
    if not isinstance(proven, int) or not isinstance(unproven, int):
        return Solves(0, 0, 0)
    clocked = run.statistics.get("clocked_steps")
    return Solves(proven + unproven, unproven, clocked if isinstance(clocked, int) else unproven)


MACHINE_ARGUMENTS = names_of(Cluster, EnergyModel)
RUN_ARGUMENTS = (
    *names_of(RunOptions), "pool_per_worker", "pool_per_slot", "engine", "warm_up",
)  # fmt: skip
POLICY_ARGUMENTS = ("policy", *all_options())
#: All arguments of a row with a run of one policy.
ARGUMENTS = (*WORKLOAD_ARGUMENTS, *MACHINE_ARGUMENTS, *RUN_ARGUMENTS, *POLICY_ARGUMENTS)
#: The same for rows that measure a part of the run on requests that may be repeated.
MEASURED_ARGUMENTS = (*ARGUMENTS, "repeat")
#: Run arguments that are not among the options of the policy or run in the line of settings.
_UNTOLD = ("policy", "engine", "warm_up")


@dataclass(frozen=True)
class RunPlan:
    """A run whose arguments have been read, before its requests are read.

    Parameters
    ----------
    policy : ChosenPolicy
        Policy with its options.
    cluster : Cluster
        The machine.
    policy_options : mapping
        Options that the policy reads, except those given in its name.
    engine : str
        Name of the engine.
    options : RunOptions
        Options of the run.
    energy : EnergyModel
        Constants of the energy metrics.
    warm_up : int
        Steps at the beginning that are excluded from the steady part.
    repeat : int or "auto"
        Number of passes over the requests in the measured run (`bfio.decode.measured.repeats`).
    choice : WorkloadChoice
        The requests.
    metrics : tuple of str
        Names of users' own metrics to measure in addition.
    others : mapping of str to value
        Arguments of the row other than those of machine, run, requests and policy options.
    unread : mapping of str to InputError
        Arguments that the row does not read, with the error for each.
    folder : Path
        Base folder of relative file names.
    """

    policy: ChosenPolicy
    cluster: Cluster
    policy_options: Mapping[str, object]
    engine: str
    options: RunOptions
    energy: EnergyModel
    warm_up: int
    repeat: int | str
    choice: WorkloadChoice
    metrics: tuple[str, ...] = ()
    others: Mapping[str, Value] = field(default_factory=dict)
    unread: Mapping[str, InputError] = field(default_factory=dict)
    folder: Path = Path()

    def setting(self, *others: "RunPlan") -> dict[str, str]:
        """Return the settings of this run and of other runs of the row with other policies."""
        facts = request_facts(self.choice)
        options = [plan.options for plan in (self, *others)]
        policies = [(plan.policy.text, plan.in_force) for plan in (self, *others)]
        parts = setting_parts(facts.used, self.cluster, options, policies, self.energy)
        return parts | {name: f"{name} {label(value)}" for name, value in self.others.items()}

    @property
    def in_force(self) -> dict[str, object]:
        """Options that the policy reads, by name."""
        used = self.policy.in_force(self.options, self.cluster)
        return used | ({LOOK_AHEAD: self.look_ahead} if self.policy.is_own else {})

    @property
    def look_ahead(self) -> int:
        """Look-ahead of the run [steps]."""
        return _horizon(self.policy, self.sources[0])

    @property
    def meaning(self) -> Hashable:
        """Hashable value, equal for runs that differ only in spelling of policy or predictor."""
        predictor = predictors.spelt_out(str(self.options.predictor))
        return (
            self.policy.spelt_out(self.options, self.cluster),
            replace(self.options, predictor="none"),
            *(predictor, self.cluster, self.engine, self.energy, self.warm_up, self.repeat),
            *(self.choice, self.metrics),
        )

    def told(self, *others: "RunPlan", look_ahead: int = 0) -> tuple[list[str], list[str]]:
        """Return the remarks on this row, and remarks of other rows that this row contradicts.

        Parameters
        ----------
        others : RunPlan
            Other runs of the row.
        look_ahead : int
            Look-ahead [steps] that another part of the row uses.
        """
        facts = request_facts(self.choice)
        remarks = [
            *unused_arrivals(facts.has_arrival_times, self.options),
            *unused_window_knows(self.options),
            *idle(
                [plan.policy.name for plan in (self, *others)],
                self.cluster,
                self.options,
                tells_prompts=facts.tells_prompts,
            ),
        ]
        refuted: list[str] = []
        asked = look_ahead or any(plan.look_ahead for plan in (self, *others))
        if asked:
            sentence = blind_windows()
            (remarks if is_blind(self.options) else refuted).append(sentence)
        (refuted if asked else remarks).extend(unused_projection(self.options))
        if self.options.predictor != "none":
            sentence = unasked_predictor(self.options)
            (refuted if asked else remarks).append(sentence)
        if facts.past:
            sentence = unused_history(facts.past, "No predictor of these rows learns")
            (refuted if learns(self.options) else remarks).append(sentence)
        return remarks, refuted

    @property
    def workload(self) -> Workload:
        """The requests."""
        return chosen_workload(self.choice)

    @property
    def sources(self) -> tuple[str, ...]:
        """Digests of the sources of a user's own policy, predictor, backend, batches and metrics.

        The code version stored with a row covers only the row's kind, not users' modules.
        """
        policy = self.policy
        predictor = str(self.options.predictor)
        return tuple(
            users_digest(name) if is_own(name) else ""
            for name, is_own in (
                (policy.name, is_users),
                (predictor, predictors.is_own),
                (getattr(policy.options, "backend", ""), is_own_backend),
                (self.options.batching, is_own_batching),
                *((metric, is_users) for metric in self.metrics),
            )
        )

    @property
    def files(self) -> dict[str, Path]:
        """Files named by options of the run, by option field."""
        values = {entry: getattr(self.options, entry.field) for entry in options_of(RunOptions)}
        return {e.field: self.folder / v for e, v in values.items() if e.kind.is_file(v)}

    @property
    def found_options(self) -> RunOptions:
        """Options of the run, with file names relative to the row's folder made absolute."""
        found: dict[str, Any] = {name: str(path) for name, path in self.files.items()}
        return replace(self.options, **found)

    def draws(self, look_ahead: int = 0) -> bool:
        """Return whether the run may draw random numbers if it looks ahead at least this far."""
        # Without look-ahead, no predictor is called.
        asks = LOOK_AHEAD in self.policy.table or look_ahead > 0
        drawn = drawing(self.options) - (frozenset() if asks else {"predictor"})
        return self.policy.draws or bool(drawn)

    def measured_run(self, run: Run) -> Run:
        """Return the run whose measured part is reported: ``run``, or one of repeated requests."""
        passes = repeats(self.workload, self.cluster, self.options, self.repeat)
        return run if passes == 1 else self.run(self.workload.repeated(passes))

    def violations(self, run: Run, measured: Run) -> dict[str, int]:
        """Return the checker's violations of the run and of the measured run, if they differ."""
        found = run_violations(run, self.workload, self.cluster)
        if measured is run:
            return found
        repeated = self.workload.repeated(measured.num_requests // run.num_requests)
        again = run_violations(measured, repeated, self.cluster)
        return found | {f"measured.{rule}": amount for rule, amount in again.items()}

    def run(self, workload: Workload | None = None) -> Run:
        """Simulate the run on its own requests, or on another workload."""
        return simulate(
            self.workload if workload is None else workload,
            self.policy.text,
            self.cluster,
            engine=self.engine,
            options=self.found_options,
            **self.policy_options,
        )


def run_plan(
    arguments: Arguments,
    context: RowContext,
    policy: str | None = None,
    reads: Collection[str] = (),
) -> RunPlan:
    """Read and check all arguments of a run.

    Parameters
    ----------
    arguments : Arguments
        Arguments of a row.
    context : RowContext
        Has the base folder of relative file names.
    policy : str, optional
        By default the argument ``policy``.
    reads : collection of str
        Policy options that another part of the row reads.

    Raises
    ------
    InputError
        If an argument is out of its domain or the policy does not exist.
    """
    place = "argument {}".format
    text = policy or arguments.optional_text("policy")
    if text is None:
        raise refused("policy", "missing", "name a policy")
    cluster = from_mapping(Cluster, arguments.given)
    given = policy_options(arguments)
    predictors.find(arguments.text("predictor", "none"))
    arguments.exclude("pool", "pool_per_worker", "pool_per_slot")
    pool = arguments.whole("pool", 128, minimum=1)
    for name, units in (
        ("pool_per_worker", cluster.workers),
        ("pool_per_slot", cluster.total_slots),
    ):
        per_unit = arguments.optional_whole(name, minimum=1, maximum=10**6)
        pool = pool if per_unit is None else per_unit * units
    steps, seed = arguments.optional_whole("steps", minimum=1), arguments.whole("seed", 0)
    options = from_mapping(RunOptions, arguments.given, pool=pool, steps=steps, seed=seed)
    chosen = choose(text, given, place)
    check_options_are_read([chosen], {}, options, cluster)
    told = {name for name in ARGUMENTS if name not in (*_UNTOLD, *reads)}
    repeat = arguments.given.get("repeat", 1)
    plan = RunPlan(
        policy=chosen,
        cluster=cluster,
        policy_options=given_to(text, given, options, cluster),
        engine=member(Engine, arguments.text("engine", "auto"), "argument engine"),
        options=options,
        energy=from_mapping(EnergyModel, arguments.given),
        warm_up=arguments.whole("warm_up", 0),
        repeat=repeat if repeat == AUTO else arguments.whole("repeat", 1, minimum=1),
        choice=workload_choice(arguments, cluster.total_slots, context),
        others={n: v for n, v in arguments.given.items() if n not in told},
        unread=unread_options([chosen], given, options, cluster, reads, place),
        folder=context.folder,
    )
    check_together(Asked(chosen.name, chosen.spec, cluster, options), POLICIES)
    return plan


def policy_options(arguments: Arguments) -> dict[str, Any]:
    """Return the policy options given as arguments of a row."""
    return {
        name: next(iter(tables.values())).value(arguments.given[name], f"argument {name}")
        for name, tables in all_options().items()
        if arguments.has(name)
    }


@lru_cache(maxsize=1024)
def _horizon(policy: ChosenPolicy, source: str) -> int:
    """Return the look-ahead of a policy [steps], cached by the digest of its source."""
    try:
        return policy.look_ahead()
    except InputError:
        # The rows of this policy fail, each with this error.
        return 0


def runs_digest(*plans: RunPlan) -> str:
    """Return a digest, 16 hexadecimal digits, of a row's requests and users' own policies.

    Parameters
    ----------
    plans : RunPlan
        The runs of the row. All use the same requests and machine.

    Raises
    ------
    InputError
        If the requests cannot be read, or lack the arrival times that a run needs.
    """
    facts = request_facts(plans[0].choice)
    is_timed = any(plan.options.arrivals == "timed" for plan in plans)
    if is_timed and not facts.has_arrival_times:
        raise refused("arrivals", "the requests have no arrival times", 'use arrivals = "pool"')
    sources = [source for plan in plans for source in plan.sources]
    for name, path in plans[0].files.items():
        try:
            sources.append(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}")
        except OSError as error:
            what = f"cannot read {path.name!r}: {error.strerror}"
            remedy = "name a file of the data folder"
            raise refused(name, what, remedy) from None
    return with_sources(facts.digest, *sources)


def with_sources(digest: str, *sources: str) -> str:
    """Return a digest of data combined with digests of users' own sources, if any."""
    if not any(sources):
        return digest
    return hashlib.sha256("".join((digest, *sources)).encode()).hexdigest()[:16]
