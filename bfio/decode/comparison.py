"""Compare several policies on the same requests."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from bfio.common.options import spelled_out
from bfio.common.processes import in_processes, packed
from bfio.decode.cluster import Cluster
from bfio.decode.energy import DEFAULT_PARTS, power_over_time
from bfio.decode.energy_model import EnergyModel
from bfio.decode.measured import AUTO, repeats
from bfio.decode.metrics import ChosenMetric, MetricChoice, chosen_metrics
from bfio.decode.observers import ProgressObserver
from bfio.decode.options import RunOptions
from bfio.decode.policy import Policy, policy_name
from bfio.decode.policy_registry import (
    ChosenPolicy,
    all_options,
    check_options_are_read,
    choose,
    given_to,
)
from bfio.decode.run import Run
from bfio.decode.settings import remarks, settings
from bfio.decode.simulation import check_arguments, describe_run, simulate
from bfio.workloads.workload import Workload
from formulations.arrays import integer
from formulations.errors import InputError, check_kind, kind_of
from formulations.results import data_frame, html_paragraphs, html_table

if TYPE_CHECKING:
    from bfio.common.figure_style import ShownFigure

#: Largest number of processes of one comparison.
MAX_JOBS = 1024
#: Called with a policy's label and the number of requests it has completed so far.
Progress = Callable[[str, int], None]
#: The run of a policy on the requests once, and the run whose measured part is used.
RunPair: TypeAlias = tuple[Run, Run]


@dataclass(frozen=True, repr=False)
class Comparison:
    """The runs of several policies on one workload, in the order requested.

    Parameters
    ----------
    labels : tuple of str
        Policies as the user wrote them, including options.
    runs : tuple of Run
        The run of each policy.
    energy_model : EnergyModel
        Constants of the energy metrics.
    workload : Workload, optional
        The requests, for the settings and remarks of tables and plots.
    metrics : MetricChoice
        Metrics to compute, and those that tables show.
    repeated : tuple of Run
        Runs of the same policies on the repeated requests, from which metrics are measured. Empty
        if the requests suffice without repetition (`bfio.decode.measured`).
    """

    labels: tuple[str, ...]
    runs: tuple[Run, ...]
    energy_model: EnergyModel = field(default_factory=EnergyModel)
    workload: Workload | None = None
    metrics: MetricChoice = field(default_factory=MetricChoice)
    repeated: tuple[Run, ...] = ()

    @property
    def measured(self) -> tuple[Run, ...]:
        """The runs from which metrics are measured."""
        return self.repeated or self.runs

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.labels)}: {self.settings}>"

    def to_frame(self) -> Any:
        """Return all metrics as a pandas data frame: one row per policy and part of the run."""
        lines = []
        for document in self.documents():
            parts = {"whole": document, "measured": document["measured"]}
            for part, values in parts.items():
                if values is not None:
                    metrics = {entry.name: values[entry.name] for entry in self.metrics.table}
                    lines.append({"policy": document["policy"], "part": part} | metrics)
        return data_frame(lines)

    def power_to_frame(self, parts: int = DEFAULT_PARTS) -> Any:
        """Return power over time as a data frame: one row per policy and time interval.

        The runs are those from which metrics are measured. The intervals of a run have equal
        length; see `bfio.decode.energy` for the power in them.
        """
        lines = []
        for label, run in zip(self.labels, self.measured, strict=True):
            curve = power_over_time(run, self.energy_model, parts=parts)
            if curve is not None:
                for time, power in zip(curve.edges_s[:-1], curve.power_w, strict=True):
                    lines.append({"policy": label, "time_s": time, "power_w": power})
        return data_frame(lines)

    def plot(self) -> ShownFigure:
        """Return a plot of the load of every worker over the steps, one panel per policy."""
        from bfio.decode.plots import trajectory_figure

        return trajectory_figure(self)

    def _repr_html_(self) -> str:
        """Return the table of the measured part, or of the whole run if there is none, in HTML."""
        documents = self.documents()
        measured = [document["measured"] for document in documents]
        part = "whole run" if None in measured else "measured part"
        values = documents if None in measured else measured
        columns = self.metrics.table.cells(values, self.metrics.shown)
        headings, cells = zip(*columns, strict=True)
        rows = list(zip(self.labels, *cells, strict=True))
        table = html_table([f"policy ({part})", *headings], rows, self.settings)
        return table + html_paragraphs(self.remarks())

    def remarks(self) -> list[str]:
        """Return remarks that a reader of the metrics should know, one sentence each."""
        if self.workload is None:
            return []
        return list(remarks(self.workload, self.runs, self.measured))

    @property
    def settings(self) -> str:
        """One line of text: requests, machine, arrivals, look-ahead, predictor, seed, version."""
        if self.workload is None:
            return ""
        first = self.runs[0]
        options = [run.options for run in self.runs]
        limits = [run.statistics for run in self.runs]
        used = [run.policy_options for run in self.runs]
        policies = list(zip(self.labels, used, strict=True))
        return settings(self.workload, first.cluster, options, limits, self.energy_model, policies)

    def documents(self) -> list[dict[str, Any]]:
        """Return one JSON document per policy; see `bfio.decode.simulation.describe_run`."""
        return [
            describe_run(run, label, self.energy_model, self.metrics.table, measured)
            for label, run, measured in zip(self.labels, self.runs, self.measured, strict=True)
        ]


@spelled_out(RunOptions, all_options)
def compare(
    workload: Workload,
    policies: str | Policy | Sequence[str | Policy],
    cluster: Cluster | None = None,
    *,
    energy_model: EnergyModel | None = None,
    engine: str = "auto",
    jobs: int = 1,
    progress: Progress | None = None,
    metrics: ChosenMetric | Sequence[ChosenMetric] | None = None,
    repeat: int | str = AUTO,
    options: RunOptions | None = None,
    **policy_options: object,
) -> Comparison:
    """Simulate each policy on the same requests, and measure the same part of each run.

    Parameters
    ----------
    workload : Workload
        The requests.
    policies : str, callable, or sequence of them
        Policies in the form that `bfio.simulate` accepts, each once; callables are shown by their
        name.
    cluster, engine, options
        As `bfio.simulate` takes them.
    energy_model : EnergyModel, optional
        Constants of the energy metrics.
    jobs : int
        Number of processes; wall-clock times are comparable only with 1.
    progress : callable, optional
        Called from time to time with a label and its number of completed requests.
    metrics : str, callable, or sequence of them, optional
        Metrics that tables show: names of metrics, or functions of a
        `bfio.decode.metrics.RunPart`, which are computed in addition. By default the columns of
        BF-IO's table; with timed arrivals also latency, TTFT and queueing delay; with limits
        (``slo``) also goodput.
    repeat : int or "auto"
        Number of times that the requests are repeated, one pass after the other, in the measured
        runs. With 1 the requests are not repeated. By default the number is what the measured part
        needs (`bfio.decode.measured`).
    **policy_options
        Options of the policies. Each policy receives the options that it declares; each option
        must be read by at least one policy.

    Returns
    -------
    Comparison
        One run per policy on the requests, and one on the repeated requests if they are repeated.
    """
    form = "compare(workload, policies, cluster)"
    check_arguments(workload, "", cluster, form)
    if not isinstance(policies, str | Iterable) and not callable(policies):
        what = f"{kind_of(policies)} is neither a policy nor a list of policies"
        raise InputError("policies", what, f"write {form}")
    if progress is not None and not callable(progress):
        what = f"{kind_of(progress)} cannot be called"
        raise InputError("progress", what, "give a function")
    if energy_model is not None:
        check_kind(energy_model, EnergyModel, "energy_model", "energy_model=EnergyModel(...)")
    asked = options or RunOptions()
    passes = repeats(workload, cluster or Cluster(), asked, repeat)
    task = RunTask(workload, cluster or Cluster(), policy_options, engine, asked, passes)
    chosen = [policies] if isinstance(policies, str) or callable(policies) else list(policies)
    has_limits = task.options.slo is not None
    shown = chosen_metrics(metrics, task.options.arrivals, has_limits=has_limits)
    pairs = list[RunPair]()
    for found in compare_each(task, chosen, jobs=jobs, progress=progress):
        if isinstance(found, InputError):
            raise found
        pairs.append(found)
    labels = tuple(map(label_of, chosen))
    return compared(labels, pairs, energy_model or EnergyModel(), workload, shown)


def compared(
    labels: tuple[str, ...],
    pairs: Sequence[RunPair],
    energy_model: EnergyModel,
    workload: Workload,
    metrics: MetricChoice | None = None,
) -> Comparison:
    """Return a `Comparison` made from the runs that `compare_each` yields."""
    runs = tuple(run for run, _ in pairs)
    repeated = tuple(measured for run, measured in pairs if measured is not run)
    return Comparison(labels, runs, energy_model, workload, metrics or MetricChoice(), repeated)


def label_of(policy: str | Policy) -> str:
    """Return the label of a policy in tables: its text with options, or the name of the object."""
    return policy if isinstance(policy, str) else policy_name(policy)


@dataclass(frozen=True)
class RunTask:
    """The arguments of `bfio.simulate` that all runs of a comparison share."""

    workload: Workload
    cluster: Cluster = field(default_factory=Cluster)
    policy_options: Mapping[str, object] = field(default_factory=dict)
    engine: str = "auto"
    options: RunOptions = field(default_factory=RunOptions)
    repeat: int = 1

    @property
    def num_requests(self) -> int:
        """Number of requests of both runs of a policy together."""
        return len(self.workload) * (1 if self.repeat == 1 else 1 + self.repeat)

    def run(self, policy: str | Policy, progress: Progress | None = None) -> RunPair | InputError:
        """Simulate one policy on the requests, and on the repeated requests if there are any.

        If the policy fails, the error is returned.
        """
        try:
            run = self._run(self.workload, policy, progress, 0)
            if self.repeat == 1:
                return run, run
            return run, self._run(self._repeated, policy, progress, run.completed)
        except InputError as error:
            return error

    @cached_property
    def _repeated(self) -> Workload:
        return self.workload.repeated(self.repeat)

    def _run(
        self, workload: Workload, policy: str | Policy, progress: Progress | None, before: int
    ) -> Run:
        observers = []
        if progress is not None:
            label = label_of(policy)
            show = ProgressObserver(lambda view: progress(label, before + view.completed))
            observers.append(show)
        given = given_to(policy, self.policy_options, self.options, self.cluster)
        return simulate(
            workload,
            policy,
            self.cluster,
            engine=self.engine,
            observers=observers,
            options=self.options,
            **given,
        )


def compare_each(
    task: RunTask,
    policies: Sequence[str | Policy],
    *,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Iterator[RunPair | InputError]:
    """Yield the runs of each policy, or its error, in order, as soon as they are done.

    See `compare`.
    """
    chosen = list(_chosen(policies, task))
    check_options_are_read(chosen, task.policy_options, task.options, task.cluster)
    integer(jobs, "jobs", minimum=1, maximum=MAX_JOBS)
    if jobs == 1:
        for policy in policies:
            yield task.run(policy, progress)
        return
    for policy in policies:
        packed(policy, f"policy {label_of(policy)}")
    for policy, found in zip(policies, in_processes(task.run, policies, jobs), strict=True):
        if progress is not None and not isinstance(found, InputError):
            progress(label_of(policy), task.num_requests)
        yield found


def _chosen(policies: Sequence[str | Policy], task: RunTask) -> Iterator[ChosenPolicy]:
    """Yield the policies with their options; raise InputError if two are the same."""
    if not policies:
        raise InputError("policies", "no policy is given", "name at least one, e.g. fcfs,br-0")
    labels, seen = list(map(label_of, policies)), dict[Hashable, str]()
    for policy, label in zip(policies, labels, strict=True):
        if labels.count(label) > 1:
            raise InputError("policies", f"{label} is named twice", "name each policy once")
        if isinstance(policy, str) and "," in policy:
            what = f"{policy!r:.60} is a single text"
            raise InputError("policies", what, 'give a list: ["fcfs", "br-0"]')
        if not callable(policy) and not isinstance(policy, str):
            what = f"{kind_of(policy)} is not a policy"
            raise InputError("policies", what, "give a name or a function of the state")
        # Check all names first, so that an unknown name fails before the first run.
        chosen = choose(policy, task.policy_options)
        first = seen.setdefault(chosen.spelt_out(task.options, task.cluster), label)
        if first != label:
            what = f"{label} and {first} are the same policy"
            raise InputError("policies", what, "name each policy once")
        yield chosen
