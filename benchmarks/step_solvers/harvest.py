"""Step problems as runs meet them: an observer keeps states in which there is something to choose.

A *cold* start has every slot free: the first step of a run. A *warm* step comes after the cluster
was full and one mean output length has passed. The steps of the fill between are neither.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.workloads import draw
from bfio.decode.cluster import Cluster
from bfio.decode.observers import StepView
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.decode.step_problem import step_problem
from formulations.errors import InputError
from formulations.step.problem import StepProblem

#: Runs (seeds) of one harvest at most; each gives one cold start.
MAX_RUNS = 10
#: Warm steps of one run are a quarter of the mean output length apart.
_STRIDES_PER_MEAN = 4
#: Requests drawn for the fill, the wait and the end, in multiples of all slots: where most outputs
#: are far below their mean, slots turn over many times before the last one is taken.
_SPARE_TURNOVERS = 60


@dataclass(frozen=True)
class Size:
    """A cluster and its wait pool: workers ``G``, slots ``B`` per worker, pool ``R``."""

    workers: int
    slots: int
    pool: int

    @property
    def label(self) -> str:
        """Short name, e.g. ``16x72-r128``."""
        return f"{self.workers}x{self.slots}-r{self.pool}"


@dataclass(frozen=True)
class Harvest:
    """Everything that decides which step problems come out.

    Parameters
    ----------
    size : Size
        The cluster.
    workload : str
        Name known to `benchmarks.workloads.draw`.
    output_mean : int
        Mean output length [tokens].
    projection : str
        ``constant`` or ``growing``: how loads move over the window.
    horizon : int
        Longest window ``H``; shorter ones are its first columns.
    instances : int
        Warm steps.
    seed : int
        Seed of the first run; the following runs take the following seeds.
    policy : str
        Decides in the runs.
    """

    size: Size
    workload: str
    output_mean: int
    projection: str
    horizon: int
    instances: int
    seed: int
    policy: str = "br-0"

    @property
    def label(self) -> str:
        """Name of the stored file."""
        return (
            f"{self.size.label}_{self.workload}_mean{self.output_mean}_{self.projection}"
            f"_h{self.horizon}_n{self.instances}_s{self.seed}_{self.policy}"
        )

    @property
    def num_runs(self) -> int:
        """Number of runs, which is also the number of cold starts."""
        return min(MAX_RUNS, self.instances)

    def warm_steps_of(self, run: int) -> int:
        """Return how many warm steps a run gives: as equal shares as possible."""
        return self.instances // self.num_runs + (run < self.instances % self.num_runs)

    def to_mapping(self) -> dict[str, Any]:
        """Return the header of the stored file."""
        return asdict(self)


@dataclass(frozen=True)
class StepInstance:
    """One harvested problem: ``cold`` or ``warm``, the run's seed, its step, the problem."""

    kind: str
    seed: int
    step: int
    problem: StepProblem


def harvest(wanted: Harvest, data: Path) -> Iterator[StepInstance]:
    """Run the simulations of a harvest and yield its instances, run by run.

    Raises
    ------
    InputError
        If a run ends before it has given its share.
    """
    for run in range(wanted.num_runs):
        seed = wanted.seed + run
        collector = StepCollector(wanted.warm_steps_of(run), wanted.output_mean)
        _simulate(wanted, seed, collector, data)
        if not collector.is_done:
            raise InputError(
                f"harvest {wanted.label}",
                f"the run of seed {seed} ended after {len(collector.warm)} warm steps",
                "ask for fewer instances",
            )
        for kind, states in (("cold", collector.cold), ("warm", collector.warm)):
            for state in states:
                problem = step_problem(state, horizon=wanted.horizon)
                yield StepInstance(kind, seed, state.step, problem)


class StepCollector:
    """Keeps the cold start of a run and its warm steps at even distances.

    Parameters
    ----------
    num_warm : int
        Warm steps to keep.
    output_mean : int
        Mean output length [steps]: the wait after the first full step; a quarter of it is the
        distance between two kept steps.
    """

    def __init__(self, num_warm: int, output_mean: int) -> None:
        self.cold: list[DecodeState] = []
        self.warm: list[DecodeState] = []
        self._num_warm = num_warm
        self._wait = output_mean
        self._stride = max(1, output_mean // _STRIDES_PER_MEAN)
        self._next_step: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether nothing more is wanted of this run."""
        return len(self.warm) >= self._num_warm and len(self.cold) > 0

    def on_step(self, view: StepView) -> None:
        """Keep what the policy saw, if this step is due and left a choice."""
        state = view.state
        if state is not None:
            if not state.running.any() and not self.cold:
                self.cold.append(state)
            elif self._is_due(view.step):
                self.warm.append(state)
                self._next_step = view.step + self._stride
            if self._next_step is None and view.running.sum() == _total_slots(state):
                self._next_step = view.step + self._wait

    def _is_due(self, step: int) -> bool:
        wanted = len(self.warm) < self._num_warm
        return wanted and self._next_step is not None and step >= self._next_step


def _total_slots(state: DecodeState) -> int:
    return state.slots * state.num_workers


def _simulate(wanted: Harvest, seed: int, collector: StepCollector, data: Path) -> None:
    size = wanted.size
    turnovers = _SPARE_TURNOVERS + wanted.warm_steps_of(0) // _STRIDES_PER_MEAN
    num_requests = size.workers * size.slots * turnovers + 8 * size.pool
    simulate(
        draw(wanted.workload, num_requests, wanted.output_mean, seed, data),
        wanted.policy,
        Cluster(size.workers, size.slots),
        pool=size.pool,
        horizon=wanted.horizon,
        projection=wanted.projection,
        seed=seed,
        observers=[collector],
        keep_trajectory=False,
        stop=lambda: collector.is_done,
    )
