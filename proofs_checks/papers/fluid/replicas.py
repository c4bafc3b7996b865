"""Many independent runs of WAIT at once, as arrays; checks compare some of them with the engine.

A class starts its next cohort once n_j more of it have arrived, so a run needs no queues: with c_j
cohorts started, class j is ready at its arrival number ``(c_j + 1)·n_j``. The next batch starts
when the engine is free and some class is ready, and serves all that are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bfio.wait.instance import StageClock, StageInstance
from formulations.arrays import FloatArray, IntArray
from formulations.fluid import FluidProblem
from proofs_checks.evidence import Estimate
from proofs_checks.papers.fluid.cases import stage_sum
from proofs_checks.statistics import mean_estimate

#: Later than any time of a run [clock units].
_NEVER = 2**62


@dataclass(frozen=True)
class Replicas:
    """R runs of WAIT.

    Parameters
    ----------
    problem : FluidProblem
        Classes and one engine.
    thresholds : tuple of int
        One per class.
    arrivals : tuple of IntArray
        Shape (R, N_j) for each class, sorted; `_NEVER` where fewer arrive [clock units].
    ends : tuple of IntArray
        Shape (R, K_j): when the batches that serve the class end.
    """

    problem: FluidProblem
    thresholds: tuple[int, ...]
    arrivals: tuple[IntArray, ...]
    ends: tuple[IntArray, ...]

    def served(self, j: int, stage: int) -> IntArray:
        """Return when each request of a class passes a stage, shape (R, N_j)."""
        ends = self.ends[j]
        batch = np.arange(self.arrivals[j].shape[1]) // self.thresholds[j] + stage
        passed = ends[:, np.minimum(batch, ends.shape[1] - 1)]
        return np.where(batch < ends.shape[1], passed, _NEVER)

    def unfinished(self, duration: int) -> IntArray:
        """Return the stages of requests arrived before, not completed by, a time, shape (R,)."""
        total = np.zeros(len(self.arrivals[0]), dtype=np.int64)
        for j, kind in enumerate(self.problem.classes):
            open_ = (self.arrivals[j] < duration) & (self.served(j, kind.output) > duration)
            total += kind.iterations * open_.sum(axis=1)
        return total

    def delays(self, duration: int, stages: Sequence[int]) -> FloatArray:
        """Return the mean time from arrival to the end of a stage of each class, shape (R,).

        Over requests that have passed it by the duration [s].
        """
        total, count = np.zeros((2, len(self.arrivals[0])))
        for j, stage in enumerate(stages):
            if stage >= 0:
                done = self.served(j, stage)
                counts = done <= duration
                total += np.where(counts, done - self.arrivals[j], 0).sum(axis=1)
                count += counts.sum(axis=1)
        units = StageClock.of(self.problem.single_worker()).units_per_second
        return np.asarray(total / np.maximum(count, 1) / units)

    def instance(self, replica: int) -> StageInstance:
        """Return one run's requests for the engine."""
        rows = sorted(
            (int(t), j)
            for j, column in enumerate(self.arrivals)
            for t in column[replica]
            if t < _NEVER
        )
        times, kinds = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
        lengths = np.array([(k.prompt, k.output) for k in self.problem.classes])
        worker = self.problem.single_worker()
        return StageInstance(
            worker.memory, StageClock.of(worker), times, lengths[kinds, 0], lengths[kinds, 1]
        )


def wait_replicas(
    problem: FluidProblem,
    thresholds: Sequence[int],
    seconds: int,
    replicas: int,
    rng: np.random.Generator,
) -> Replicas:
    """Draw Poisson arrivals over a duration and serve them with WAIT, without draining."""
    clock = StageClock.of(problem.single_worker())
    duration = seconds * clock.units_per_second
    arrivals = tuple(
        _arrivals(float(kind.rate) * seconds, duration, replicas, rng) for kind in problem.classes
    )
    return Replicas(
        problem,
        tuple(thresholds),
        arrivals,
        _served(problem, thresholds, clock, duration, arrivals),
    )


def _arrivals(mean: float, duration: int, replicas: int, rng: np.random.Generator) -> IntArray:
    counts = rng.poisson(mean, replicas)
    times = np.sort(rng.integers(1, duration, (replicas, int(counts.max()) + 1)), axis=1)
    # A sorted row's first entries would come too early: the others are made late before sorting.
    late = np.arange(times.shape[1]) >= counts[:, None]
    shuffled = rng.permuted(times, axis=1)
    return np.sort(np.where(late, _NEVER, shuffled), axis=1)


def _served(
    problem: FluidProblem,
    thresholds: Sequence[int],
    clock: StageClock,
    duration: int,
    arrivals: Sequence[IntArray],
) -> tuple[IntArray, ...]:
    """Return when the batches of each class end."""
    replicas, m = len(arrivals[0]), len(arrivals)
    row = np.arange(replicas)
    ready = [_ready(column, n) for column, n in zip(arrivals, thresholds, strict=True)]
    tokens = [
        np.array([n * stage_sum(k.prompt, last) for last in range(k.output + 1)])
        for k, n in zip(problem.classes, thresholds, strict=True)
    ]
    ends = [np.full((replicas, column.shape[1]), _NEVER) for column in ready]
    cohorts = np.zeros((m, replicas), dtype=np.int64)
    free = np.zeros(replicas, dtype=np.int64)
    while True:
        when = np.array([column[row, c] for column, c in zip(ready, cohorts, strict=True)])
        start = np.maximum(free, when.min(axis=0))
        if not (runs := start < duration).any():
            return tuple(ends)
        serves = (when <= start) & runs
        load = np.zeros(replicas, dtype=np.int64)
        for j in range(m):
            load += serves[j] * tokens[j][np.minimum(cohorts[j], len(tokens[j]) - 1)]
        free = np.where(runs, start + clock.fixed + clock.per_token * load, free)
        for j in range(m):
            ends[j][row[serves[j]], cohorts[j][serves[j]]] = free[serves[j]]
        cohorts += serves


def _ready(arrivals: IntArray, threshold: int) -> IntArray:
    """Return when each cohort of a class is complete, and never one more."""
    ready = arrivals[:, threshold - 1 :: threshold]
    return np.column_stack((ready, np.full(len(ready), _NEVER)))


def exponent_estimate(
    name: str,
    horizons: Sequence[int],
    values: FloatArray,
    groups: int,
    rule: str,
    accept: Callable[[float, float], bool],
) -> Estimate:
    """Estimate the exponent with which a mean scales with the duration.

    Parameters
    ----------
    name : str
        What scales.
    horizons : sequence of int
        H of them.
    values : FloatArray
        Shape (R, H): one row per independent run, seen at all horizons.
    groups : int
        The runs are split into so many; each gives one slope of its mean in logarithms.
    rule, accept
        As in `mean_estimate`, on the interval of the mean slope.
    """
    x = np.log(np.asarray(horizons, dtype=np.float64))
    x -= x.mean()
    means = [part.mean(axis=0) for part in np.array_split(values, groups)]
    slopes = [float(x @ np.log(mean)) / float(x @ x) for mean in means]
    return mean_estimate(name, slopes, rule, accept)
