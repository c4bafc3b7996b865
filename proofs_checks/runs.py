"""Small runs of the decode engines for checks, and BF-IO in closed form."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift
from bfio.decode.policy import Policy
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.workloads.workload import Workload
from formulations.arrays import BoolArray, FloatArray, IntArray
from proofs_checks.claim import Context


def small_run(
    prompts: Sequence[int],
    outputs: Sequence[int],
    policy: str | Policy,
    workers: int,
    slots: int,
    *,
    drift: Drift | None = None,
    steps: int | None = None,
) -> Run:
    """Run a policy in the readable engine, with all requests in the pool at once."""
    cluster = Cluster(workers, slots, step_overhead_s=0.0, token_time_s=1.0)
    return full_run(prompts, outputs, policy, cluster, drift=drift, steps=steps)


def step_loads(run: Run) -> IntArray:
    """Return the loads of a run, shape (K, G) [tokens]."""
    if run.loads is None:
        raise ValueError("the run kept no trajectory")
    return run.loads


def random_requests(
    rng: np.random.Generator, count: int, largest: int, longest: int
) -> tuple[list[int], list[int]]:
    """Return prompts in 1..largest and outputs in 1..longest, uniform."""
    prompts: list[int] = rng.integers(1, largest + 1, count).tolist()
    outputs: list[int] = rng.integers(1, longest + 1, count).tolist()
    return prompts, outputs


def engines(context: Context) -> tuple[str, ...]:
    """Return the engines to check; loading the compiled one takes too long for quick effort."""
    both = ("reference", "compiled")
    return context.choose(("reference",), both, both)


def full_run(
    prompts: Sequence[int],
    outputs: Sequence[int],
    policy: str | Policy,
    cluster: Cluster,
    engine: str = "reference",
    *,
    drift: Drift | None = None,
    steps: int | None = None,
) -> Run:
    """Run a policy on an engine, with all requests in the pool at once.

    User-defined policies run on the readable engine.
    """
    workload = Workload(np.array(prompts, dtype=np.int64), np.array(outputs, dtype=np.int64))
    able = engine if isinstance(policy, str) else "reference"
    return simulate(
        workload, policy, cluster, engine=able, pool=len(workload), drift=drift, steps=steps
    )


# BF-IO with H = 0 on an overloaded instance whose pool holds plenty of every prompt size.
#
# Definition 1 lets the adversary choose how many requests arrive. With every size 1..s_max in the
# pool often enough, worker g can reach any load from a_g + c_g to a_g + s_max·c_g, where a_g is
# its load before admission and c_g its free slots. Raising all loads to T = max_g (a_g + c_g), as
# far as possible, minimises the gap and the imbalance at once: no maximum is smaller, and no
# worker can be higher without exceeding its reach. So the policy's optimum has a closed form, and
# replicas of large clusters run as arrays.


#: Chooses the sizes to admit, shape (R, G, B), used where a request ended: loads before admission,
#: shape (R, G), which requests ended, shape (R, G, B), s_max.
Admission = Callable[[IntArray, BoolArray, int, np.random.Generator], IntArray]


@dataclass(frozen=True)
class Cell:
    """One setting of the simulation.

    Parameters
    ----------
    workers, slots : int
        ``G`` and ``B``.
    completion : float
        ``p``.
    largest : int
        ``s_max``; prompts of the first fill are uniform on 1..s_max.
    increments : sequence of int
        Global-step drift, repeated periodically.
    """

    workers: int
    slots: int
    completion: float
    largest: int
    increments: Sequence[int] = (1,)


def level_sizes(
    before: IntArray, ends: BoolArray, largest: int, rng: np.random.Generator
) -> IntArray:
    """Sizes that BF-IO admits: each worker is filled up to level T if c_g sizes can reach it."""
    del rng
    free = ends.sum(axis=2)
    least = before + free
    level = least.max(axis=1, keepdims=True)
    totals = np.clip(level, least, before + largest * free) - before
    # Any split of the total is optimal; here the sizes differ by at most 1.
    each, rest = np.divmod(totals, np.maximum(free, 1))
    sizes: IntArray = each[..., None] + (np.cumsum(ends, axis=2) <= rest[..., None])
    return sizes


def two_sizes(
    before: IntArray, ends: BoolArray, largest: int, rng: np.random.Generator
) -> IntArray:
    """Sizes that BF-IO admits from an ample pool of sizes 1 and s_max only.

    Every worker is filled as high as possible up to a level T. T is tried over one period of the
    loads: beyond it both objectives repeat or get worse.
    """
    del rng
    free = ends.sum(axis=2)
    least, period = before + free, largest - 1
    best = np.zeros_like(free)
    lowest = np.full(len(free), np.iinfo(np.int64).max)
    for shift in range(period):
        room = least.max(axis=1, keepdims=True) + shift - least
        number = np.minimum(free, room // period)
        loads = least + period * number
        value = loads.shape[1] * loads.max(axis=1) - loads.sum(axis=1)
        better = value < lowest
        best[better], lowest[better] = number[better], value[better]
    sizes: IntArray = np.where(np.cumsum(ends, axis=2) <= best[..., None], largest, 1)
    return sizes


def blind_sizes(
    before: IntArray, ends: BoolArray, largest: int, rng: np.random.Generator
) -> IntArray:
    """Sizes that FCFS admits: independent and uniform on 1..s_max."""
    del before
    return rng.integers(1, largest + 1, ends.shape)


def mean_gaps(
    cell: Cell, replicas: int, steps: int, rng: np.random.Generator, admission: Admission
) -> tuple[FloatArray, FloatArray]:
    """Return mean gap and mean imbalance of each replica over the second half of the steps.

    Parameters
    ----------
    cell : Cell
        The setting.
    replicas, steps : int
        Independent runs, and steps of each.
    rng : numpy.random.Generator
        The only source of randomness.
    admission : callable
        `level_sizes` or `blind_sizes`.
    """
    shape = (replicas, cell.workers, cell.slots)
    ages = rng.geometric(cell.completion, shape) - 1
    # Initial ages use the mean increment; the first half of the run removes this transient.
    sizes = rng.integers(1, cell.largest + 1, shape) + ages * max(cell.increments)
    gaps, imbalances = [], []
    for step in range(steps):
        sizes += cell.increments[step % len(cell.increments)]
        ends = rng.random(shape) < cell.completion
        np.copyto(sizes, 0, where=ends)
        before = sizes.sum(axis=2)
        admitted = admission(before, ends, cell.largest, rng)
        np.copyto(sizes, admitted, where=ends)
        loads = sizes.sum(axis=2)
        if 2 * step >= steps:
            gaps.append(loads.max(axis=1) - loads.min(axis=1))
            imbalances.append(cell.workers * loads.max(axis=1) - loads.sum(axis=1))
    return np.mean(gaps, axis=0), np.mean(imbalances, axis=0)
