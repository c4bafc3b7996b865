"""Several policies on the same requests: the main job."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bfio.common.options import spelled_out
from bfio.common.processes import in_processes, packed
from bfio.decode.cluster import Cluster
from bfio.decode.energy_model import EnergyModel
from bfio.decode.observers import ProgressObserver, StepView
from bfio.decode.options import Dispatch, RunOptions
from bfio.decode.own_metrics import ChosenMetric, MetricChoice, chosen_metrics
from bfio.decode.policy import Policy, policy_name
from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_parsing import check_options_are_read, own_options, spelt_out
from bfio.decode.power import DEFAULT_PARTS, power_over_time
from bfio.decode.run import Run
from bfio.decode.settings import remarks, settings
from bfio.decode.simulation import check_arguments, describe_run, simulate
from bfio.workloads.workload import Workload
from formulations.arrays import integer
from formulations.errors import InputError
from formulations.frames import data_frame, html_paragraphs, html_table

if TYPE_CHECKING:
    from bfio.decode.plots import ShownFigure

#: Processes of one comparison at most.
MAX_JOBS = 1024
#: Called with a policy's label and the number of requests it has completed so far.
Progress = Callable[[str, int], None]


@dataclass(frozen=True, repr=False)
class Comparison:
    """The runs of several policies on one workload, in the order asked for.

    Parameters
    ----------
    labels : tuple of str
        Policies as they were named, options included.
    runs : tuple of Run
        Their records.
    energy_model : EnergyModel
        Constants of the energy metrics.
    workload : Workload, optional
        The requests, for what tables and plots say of themselves.
    metrics : MetricChoice
        What is measured, and what tables show of it.
    """

    labels: tuple[str, ...]
    runs: tuple[Run, ...]
    energy_model: EnergyModel = field(default_factory=EnergyModel)
    workload: Workload | None = None
    metrics: MetricChoice = field(default_factory=MetricChoice)

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.labels)}: {self.settings}>"

    def to_frame(self) -> Any:
        """Return every metric as a data frame of pandas: a line per policy and part of the run.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        lines = []
        for document in self.documents():
            parts = {"whole": document, "steady": document["steady"]}
            for part, values in parts.items():
                if values is not None:
                    metrics = {entry.name: values[entry.name] for entry in self.metrics.table}
                    lines.append({"policy": document["policy"], "part": part} | metrics)
        return data_frame(lines)

    def power_to_frame(self, parts: int = DEFAULT_PARTS) -> Any:
        """Return power over time as a data frame: a line per policy and part of its time.

        Parameters
        ----------
        parts : int
            Equal parts of the time of each run; `bfio.decode.power` says what power they have.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        lines = []
        for label, run in zip(self.labels, self.runs, strict=True):
            curve = power_over_time(run, self.energy_model, parts=parts)
            if curve is not None:
                for time, power in zip(curve.edges_s[:-1], curve.power_w, strict=True):
                    lines.append({"policy": label, "time_s": time, "power_w": power})
        return data_frame(lines)

    def plot(self) -> ShownFigure:
        """Return the load of every worker over the steps, a panel per policy."""
        from bfio.decode.plots import trajectory_figure

        return trajectory_figure(self)

    def _repr_html_(self) -> str:
        """Return the table of the steady part, or of the whole run without one, for notebooks."""
        documents = self.documents()
        steady = [document["steady"] for document in documents]
        part = "whole run" if None in steady else "steady part"
        values = documents if None in steady else steady
        columns = self.metrics.table.cells(values, self.metrics.shown)
        headings, cells = zip(*columns, strict=True)
        rows = list(zip(self.labels, *cells, strict=True))
        table = html_table([f"policy ({part})", *headings], rows, self.settings)
        return table + html_paragraphs(self.remarks())

    def remarks(self) -> list[str]:
        """Return what a reader of the metrics might not expect, a sentence each."""
        return [] if self.workload is None else list(remarks(self.workload, self.runs))

    @property
    def settings(self) -> str:
        """One line: requests, machine, arrivals, look-ahead, predictor, seed, version."""
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
            describe_run(run, label, self.energy_model, self.metrics.table)
            for label, run in zip(self.labels, self.runs, strict=True)
        ]


@spelled_out(RunOptions)
def compare(
    workload: Workload,
    policies: str | Policy | Sequence[str | Policy],
    cluster: Cluster | None = None,
    *,
    policy_options: PolicyOptions | None = None,
    energy_model: EnergyModel | None = None,
    engine: str = "auto",
    jobs: int = 1,
    progress: Progress | None = None,
    metrics: ChosenMetric | Sequence[ChosenMetric] | None = None,
    options: RunOptions | None = None,
) -> Comparison:
    """Simulate each policy on the same requests.

    Parameters
    ----------
    workload : Workload
        The requests.
    policies : str, callable, or sequence of them
        Policies as `bfio.simulate` takes them, each once; callables go by their own name.
    cluster, policy_options, engine, options
        As `bfio.simulate` takes them.
    energy_model : EnergyModel, optional
        Constants of the energy metrics.
    jobs : int
        Processes; wall-clock times are comparable only with 1.
    progress : callable, optional
        Called now and then with a label and its completed requests.
    metrics : str, callable, or sequence of them, optional
        What tables show: names of metrics, or functions of one's own of a
        `bfio.decode.metrics.RunPart`, which are measured besides; by default the columns of
        BF-IO's table, with timed arrivals also latency, TTFT and queueing delay, with limits
        (``slo``) also goodput.

    Returns
    -------
    Comparison
        One run per policy.
    """
    form = "compare(workload, policies, cluster)"
    check_arguments(workload, "", cluster, form)
    if not isinstance(policies, str | Iterable) and not callable(policies):
        what = f"a {type(policies).__name__} is no policy and no list of them"
        raise InputError("policies", what, f"write {form}")
    task = RunTask(workload, cluster, policy_options, engine, options or RunOptions())
    chosen = [policies] if isinstance(policies, str) or callable(policies) else list(policies)
    has_limits = task.options.slo is not None
    shown = chosen_metrics(metrics, task.options.arrivals, has_limits=has_limits)
    runs = tuple(compare_each(task, chosen, jobs=jobs, progress=progress))
    labels = tuple(map(label_of, chosen))
    return Comparison(labels, runs, energy_model or EnergyModel(), workload, shown)


def label_of(policy: str | Policy) -> str:
    """Return what a policy is called in tables: its text, options included, or its own name."""
    return policy if isinstance(policy, str) else policy_name(policy)


@dataclass(frozen=True)
class RunTask:
    """What every policy of a comparison is run on, as `bfio.simulate` takes it."""

    workload: Workload
    cluster: Cluster | None = None
    policy_options: PolicyOptions | None = None
    engine: str = "auto"
    options: RunOptions = field(default_factory=RunOptions)

    def run(self, policy: str | Policy, progress: Progress | None = None) -> Run:
        """Simulate one policy."""
        observers = []
        if progress is not None:
            observers.append(ProgressObserver(_reporter(label_of(policy), progress)))
        given, dispatch = self.policy_options or PolicyOptions(), self.options.dispatch
        return simulate(
            self.workload,
            policy,
            self.cluster,
            policy_options=own_options(policy, given, dispatch)
            if isinstance(policy, str)
            else given,
            engine=self.engine,
            observers=observers,
            options=self.options,
        )


def compare_each(
    task: RunTask,
    policies: Sequence[str | Policy],
    *,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Iterator[Run]:
    """Yield the run of each policy as soon as it and those before it are done; see `compare`."""
    given, dispatch = task.policy_options or PolicyOptions(), task.options.dispatch
    _check_names(policies, given, dispatch)
    named = [policy for policy in policies if isinstance(policy, str)]
    check_options_are_read(named, given, dispatch=dispatch, place=str)
    integer(jobs, "jobs", minimum=1, maximum=MAX_JOBS)
    if jobs == 1:
        for policy in policies:
            yield task.run(policy, progress)
        return
    for policy in policies:
        packed(policy, f"policy {label_of(policy)}")
    for policy, run in zip(policies, in_processes(task.run, policies, jobs), strict=True):
        if progress is not None:
            progress(label_of(policy), run.completed)
        yield run


def _reporter(label: str, progress: Progress) -> Callable[[StepView], None]:
    return lambda view: progress(label, view.completed)


def _check_names(
    policies: Sequence[str | Policy], options: PolicyOptions, dispatch: Dispatch
) -> None:
    if not policies:
        raise InputError("policies", "none named", "name at least one, e.g. fcfs,br-0")
    labels = list(map(label_of, policies))
    seen: dict[Hashable, str] = {}
    for policy, label in zip(policies, labels, strict=True):
        if labels.count(label) > 1:
            raise InputError("policies", f"{label} is named twice", "name each policy once")
        # An unknown name is an error now, not after the policies before it have run.
        if isinstance(policy, str):
            if "," in policy:
                what = f"{policy!r:.60} is one text"
                raise InputError("policies", what, 'give a list: ["fcfs", "br-0"]')
            first = seen.setdefault(spelt_out(policy, options, dispatch), label)
            if first != label:
                what = f"{label} and {first} are one policy, spelt twice"
                raise InputError("policies", what, "name each policy once")
        elif not callable(policy):
            what = f"a {type(policy).__name__} is no policy"
            raise InputError("policies", what, "give a name or a function of the state")
