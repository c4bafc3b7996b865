"""Step problems harvested from runs: an observer keeps states in which there is a choice.

A *cold* start has every slot free: the first step of a run. A *warm* step comes one mean output
length or more after the cluster was first full. Steps in between are not used. A harvested
problem may be modified: discount, memory, speeds, or other requirements.
"""

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.requests import draw
from bfio.decode.cluster import Cluster
from bfio.decode.observers import StepView
from bfio.decode.policy import Policy
from bfio.decode.policy_registry import choose
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.studies.row_parts.arguments import refused
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.step import Objective, StepProblem
from formulations.step.problem import geometric_weights


def oldest_first(problem: StepProblem) -> list[int | None] | None:
    """Assign required requests first, then the oldest, each to the worker that ends first.

    Returns
    -------
    list of (int or None), optional
        Worker of each request; None if a request fits nowhere.
    """
    loads, free, first = problem.base.copy(), problem.capacity.copy(), problem.required
    most = problem.token_capacity
    order = list(range(problem.num_requests))
    if first is not None:
        order.sort(key=lambda i: not first[i])
    assignment: list[int | None] = [None] * problem.num_requests
    for i in order[: problem.num_admitted]:
        grown = loads + problem.contribution[i]
        fits = free > 0
        if most is not None:
            fits &= grown.max(axis=1) <= most
        if not fits.any():
            return None
        times = np.where(fits, grown.max(axis=1) * problem.time_weights, np.iinfo(np.int64).max)
        worker = int(times.argmin())
        loads[worker], assignment[i] = grown[worker], worker
        free[worker] -= 1
    return assignment


#: The modifications, with descriptions.
EXTRAS = {
    "memory": "token capacities bind on half the workers",
    "speeds": "workers of two speeds",
    "required": "half of the requests that start are required",
    "empty": "half of the requests that could start must wait",
    "max-load": "objective max-load",
    "gap": "objective gap",
}


def with_extra(problem: StepProblem, extra: str, seed: int) -> StepProblem:
    """Return the problem with one of the modifications `EXTRAS`; unchanged for any other word.

    Parameters
    ----------
    problem : StepProblem
        Data.
    extra : str
        Name of the modification.
    seed : int
        Seed for the choice of workers with binding memory, and for the speeds.
    """
    rng = np.random.default_rng(seed)
    admitted = problem.num_admitted
    if extra == "memory":
        return replace(problem, token_capacity=_binding_capacities(problem, rng))
    if extra == "speeds":
        return replace(problem, token_time=rng.integers(1, 3, problem.num_workers))
    if extra == "required":
        oldest = np.arange(problem.num_requests) < (admitted + 1) // 2
        return replace(problem, required=oldest)
    if extra == "empty":
        return replace(problem, admit=admitted // 2)
    if extra in EXTRAS:
        return replace(problem, objective=Objective(extra))
    return problem


def with_discount(problem: StepProblem, gamma: Fraction) -> StepProblem:
    """Return the problem with weights that decrease by a factor per step of the window."""
    weights, scale = geometric_weights(gamma, problem.num_steps)
    return replace(problem, weights=weights, scale=scale)


def _binding_capacities(problem: StepProblem, rng: np.random.Generator) -> IntArray:
    """Return memory limits that bind on half of the workers and keep one assignment feasible."""
    loads = problem.loads(oldest_first(problem) or []).max(axis=1)
    bound = rng.permutation(problem.num_workers) < (problem.num_workers + 1) // 2
    return np.where(bound, loads, 2 * int(loads.max()))


#: Longest window of harvested problems. Shorter windows use its first columns.
LONGEST = 80
#: Distance of the warm steps of a run, in fractions of the mean output length.
_STRIDES_PER_MEAN = 4
#: Requests drawn for filling, waiting and ending, in multiples of all slots. Where most outputs
#: are far below their mean, slots turn over many times before the last one is filled.
_SPARE_TURNOVERS = 60
_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})-r(\d{1,6})")


@dataclass(frozen=True)
class Size:
    """A cluster and its wait pool: workers ``G``, slots ``B`` per worker, pool ``R``."""

    workers: int
    slots: int
    pool: int

    @classmethod
    def parse(cls, text: str) -> "Size":
        """Parse a size such as ``16x72-r128``.

        Raises
        ------
        InputError
            If the text is not a size.
        """
        match = _SIZE.fullmatch(text)
        if match is None:
            raise refused("size", f"{text!r} is not a size", "write 16x72-r128")
        return cls(*map(int, match.groups()))

    def requests(self, turnovers: int) -> int:
        """Return the number of requests that fill all slots so often, and then the pool."""
        return self.workers * self.slots * turnovers + 8 * self.pool


@dataclass(frozen=True)
class Harvest:
    """The parameters that determine the step problems from a run.

    Parameters
    ----------
    size : Size
        The cluster.
    requests : str
        Name of requests in `benchmarks.requests.draw`.
    folder : Path
        Folder of trace files.
    output_mean : int
        Mean output length [tokens].
    projection : str
        Growth of loads over the window: ``constant`` or ``growing``.
    seed : int
        Seed of the run.
    warm : int
        Number of warm steps to keep.
    policy : str
        Policy of the run.
    predictor : str
        Predictor of the lengths of requests within the window.
    window_knows : str
        Requests that the predictor is asked about: ``active`` or ``all``.
    """

    size: Size
    requests: str
    folder: Path
    output_mean: int
    projection: str
    seed: int
    warm: int
    policy: str = "br-0"
    predictor: str = "none"
    window_knows: str = "active"


@lru_cache(maxsize=2)
def harvested(wanted: Harvest) -> tuple[StepProblem, ...]:
    """Return the problems of a run's cold start and of its warm steps.

    Raises
    ------
    InputError
        If the run ends before it has given enough steps.
    """
    collector = StepCollector(wanted.warm, wanted.output_mean)
    count = wanted.size.requests(_SPARE_TURNOVERS + wanted.warm // _STRIDES_PER_MEAN)
    requests = draw(wanted.requests, count, wanted.output_mean, wanted.seed, wanted.folder)
    names = ("projection", "predictor", "window_knows", "seed")
    how = {name: getattr(wanted, name) for name in names}
    decide = choose(wanted.policy, {"horizon": LONGEST}).make()
    if not collector.collect(requests, decide, wanted.size, **how):
        what = f"ended after {len(collector.warm)} warm steps"
        raise InputError(f"run of seed {wanted.seed}", what, "lower the number of warm steps")
    states = [*collector.cold, *collector.warm]
    return tuple(StepProblem.from_state(state, look_ahead=LONGEST) for state in states)


class StepCollector:
    """Observer that keeps the cold start of a run and evenly spaced warm steps.

    Parameters
    ----------
    num_warm : int
        Number of warm steps to keep.
    output_mean : int
        Mean output length [steps], which is the wait after the first full step. A quarter of it is
        the distance between kept steps.
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
        """Whether all wanted steps have been kept."""
        return len(self.warm) >= self._num_warm and len(self.cold) > 0

    def collect(self, requests: Workload, decide: Policy, size: Size, **how: Any) -> bool:
        """Run a policy until all wanted steps are kept; return whether they are."""
        simulate(
            requests,
            decide,
            Cluster(size.workers, size.slots),
            pool=size.pool,
            horizon=LONGEST,
            observers=[self],
            keep_trajectory=False,
            stop=lambda: self.is_done,
            **how,
        )
        return self.is_done

    def on_step(self, view: StepView) -> None:
        """Keep the state that the policy saw, if the step is due and allows a choice."""
        state = view.state
        if state is not None:
            if not state.running.any() and not self.cold:
                self.cold.append(state)
            elif (
                len(self.warm) < self._num_warm
                and self._next_step is not None
                and view.step >= self._next_step
            ):
                self.warm.append(state)
                self._next_step = view.step + self._stride
            if self._next_step is None and view.running.sum() == state.slots * state.num_workers:
                self._next_step = view.step + self._wait


def with_horizon(problem: StepProblem, look_ahead: int) -> StepProblem:
    """Return the problem with its window cut to ``H = look_ahead``."""
    columns = look_ahead + 1
    return replace(
        problem,
        base=problem.base[:, :columns],
        contribution=problem.contribution[:, :columns],
        weights=problem.weights[:columns],
    )
