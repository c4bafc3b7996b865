"""Several policies on the same requests: the main job."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bfio.common.options import spelled_out
from bfio.common.processes import in_processes
from bfio.decode.cluster import Cluster
from bfio.decode.energy_model import EnergyModel
from bfio.decode.observers import ProgressObserver, StepView
from bfio.decode.options import RunOptions
from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_parsing import parse_policy
from bfio.decode.policy_registry import find
from bfio.decode.run import Run
from bfio.decode.settings import settings
from bfio.decode.simulation import describe_run, simulate
from bfio.workloads.workload import Workload
from formulations.arrays import integer
from formulations.errors import InputError

#: Called with a policy's label and the number of requests it has completed so far.
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
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
    """

    labels: tuple[str, ...]
    runs: tuple[Run, ...]
    energy_model: EnergyModel = field(default_factory=EnergyModel)
    workload: Workload | None = None

    @property
    def settings(self) -> str:
        """One line: requests, machine, arrivals, look-ahead, predictor, seed, version."""
        if self.workload is None:
            return ""
        first = self.runs[0]
        return settings(self.workload, first.cluster, [run.options for run in self.runs])

    def documents(self) -> list[dict[str, Any]]:
        """Return one JSON document per policy; see `bfio.decode.simulation.describe_run`."""
        return [
            describe_run(run, label, self.energy_model)
            for label, run in zip(self.labels, self.runs, strict=True)
        ]


@spelled_out(RunOptions)
def compare(
    workload: Workload,
    policies: Sequence[str],
    cluster: Cluster | None = None,
    *,
    policy_options: PolicyOptions | None = None,
    energy_model: EnergyModel | None = None,
    engine: str = "auto",
    jobs: int = 1,
    progress: Progress | None = None,
    options: RunOptions | None = None,
) -> Comparison:
    """Simulate each policy on the same requests.

    Parameters
    ----------
    workload : Workload
        The requests.
    policies : sequence of str
        Names as `bfio.simulate` takes them, each once.
    cluster, policy_options, engine, options
        As `bfio.simulate` takes them.
    energy_model : EnergyModel, optional
        Constants of the energy metrics.
    jobs : int
        Processes; wall-clock times are comparable only with 1.
    progress : callable, optional
        Called now and then with a label and its completed requests.

    Returns
    -------
    Comparison
        One run per policy.
    """
    task = RunTask(workload, cluster, policy_options, engine, options or RunOptions())
    runs = compare_each(task, policies, jobs=jobs, progress=progress)
    return Comparison(tuple(policies), tuple(runs), energy_model or EnergyModel(), workload)


@dataclass(frozen=True)
class RunTask:
    """What every policy of a comparison is run on, as `bfio.simulate` takes it."""

    workload: Workload
    cluster: Cluster | None = None
    policy_options: PolicyOptions | None = None
    engine: str = "auto"
    options: RunOptions = field(default_factory=RunOptions)

    def run(self, label: str, progress: Progress | None = None) -> Run:
        """Simulate one policy."""
        observers = []
        if progress is not None:
            observers.append(ProgressObserver(_reporter(label, progress)))
        return simulate(
            self.workload,
            label,
            self.cluster,
            policy_options=self.policy_options,
            engine=self.engine,
            observers=observers,
            options=self.options,
        )


def compare_each(
    task: RunTask, policies: Sequence[str], *, jobs: int = 1, progress: Progress | None = None
) -> Iterator[Run]:
    """Yield the run of each policy as soon as it and those before it are done; see `compare`."""
    _check_names(policies)
    integer(jobs, "jobs", minimum=1, maximum=1024)
    if jobs == 1:
        for label in policies:
            yield task.run(label, progress)
        return
    for label, run in zip(policies, in_processes(task.run, policies, jobs), strict=True):
        if progress is not None:
            progress(label, run.completed)
        yield run


def _reporter(label: str, progress: Progress) -> Callable[[StepView], None]:
    return lambda view: progress(label, view.completed)


def _check_names(policies: Sequence[str]) -> None:
    if not policies:
        raise InputError("policies", "none named", "name at least one, e.g. fcfs,br-0")
    for label in policies:
        if policies.count(label) > 1:
            raise InputError("policies", f"{label} is named twice", "name each policy once")
        # An unknown name is an error now, not after the policies before it have run.
        find(parse_policy(label, PolicyOptions())[0])
