"""Small runs of the decode engines, BF-IO in closed form, and load vectors of small steps."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product

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
    """Return a run of a policy in the reference engine; all requests wait from the start."""
    cluster = Cluster(workers, slots, step_overhead_s=0.0, token_time_s=1.0)
    return full_run(prompts, outputs, policy, cluster, drift=drift, steps=steps)


def step_loads(run: Run) -> IntArray:
    """Return the loads of a run, shape (K, G) [tokens]."""
    if run.loads is None:
        raise ValueError("the run has no trajectory: simulate with the trajectory kept")
    return run.loads


def random_requests(
    rng: np.random.Generator, count: int, largest: int, longest: int
) -> tuple[list[int], list[int]]:
    """Return prompts in 1..largest and outputs in 1..longest, uniform."""
    prompts: list[int] = rng.integers(1, largest + 1, count).tolist()
    outputs: list[int] = rng.integers(1, longest + 1, count).tolist()
    return prompts, outputs


def engines(context: Context) -> tuple[str, ...]:
    """Return the engines to check: both, but at quick effort only the reference engine."""
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
    """Return a run of a policy on an engine; all requests wait from the start.

    User-defined policies run on the reference engine.
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
    """One setting of the simulation with geometric outputs.

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
    """Return the sizes that BF-IO admits from an ample pool of all sizes 1..s_max."""
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
    before: IntArray,
    ends: BoolArray,
    largest: int,
    rng: np.random.Generator,
    *,
    by_gap: bool = False,
) -> IntArray:
    """Return the sizes that BF-IO admits from an ample pool of sizes 1 and s_max only.

    It minimises the imbalance, or the gap.

    Every worker is filled as high as possible up to a level T. T is tried over one period of the
    loads; beyond this period both objectives repeat or get worse.
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
        if by_gap:
            value = np.ptp(loads, axis=1)
        better = value < lowest
        best[better], lowest[better] = number[better], value[better]
    sizes: IntArray = np.where(np.cumsum(ends, axis=2) <= best[..., None], largest, 1)
    return sizes


def blind_sizes(
    before: IntArray, ends: BoolArray, largest: int, rng: np.random.Generator
) -> IntArray:
    """Return the sizes that FCFS admits: independent and uniform on 1..s_max."""
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


#: Loads of the workers, in worker order [tokens].
Loads = tuple[int, ...]


def reachable_loads(base: Sequence[int], slots: Sequence[int], sizes: Sequence[int]) -> set[Loads]:
    """Return the loads of all assignments that fill as many slots as the requests allow.

    Parameters
    ----------
    base : sequence of int
        Shape (G,): load of each worker before admission [tokens].
    slots : sequence of int
        Shape (G,): free slots.
    sizes : sequence of int
        Shape (N,): prompt sizes of the waiting requests.
    """
    # A state is one Python integer: per worker a field for its load above the least and one for
    # its free slots, then the total of free slots. Admitting a request adds one number to it.
    # Integers in arrays would overflow.
    base, slots, sizes = ([int(value) for value in given] for given in (base, slots, sizes))
    G, lowest = len(slots), min(base)
    width = (max(base) - lowest + sum(sizes) + sum(slots) + 1).bit_length()
    field, top = (1 << width) - 1, 2 * G * width
    states = {
        sum(
            (load - lowest << g * width) + (free << (G + g) * width)
            for g, (load, free) in enumerate(zip(base, slots, strict=True))
        )
        + (sum(slots) << top)
    }
    may_wait = len(sizes) > sum(slots)
    for position, size in enumerate(sizes):
        left = len(sizes) - position - 1
        grown = set(states) if may_wait else set()
        for g in range(G):
            place = (G + g) * width
            taken = field << place
            change = (size << g * width) - (1 << place) - (1 << top)
            grown |= {state + change for state in states if state & taken}
        # A request may stay in the queue only if the remaining ones can still fill every slot.
        states = {s for s in grown if s >> top <= left} if may_wait else grown
    return {tuple((s >> g * width & field) + lowest for g in range(G)) for s in states}


def groups_with_loads(
    base: Sequence[int], slots: Sequence[int], sizes: Sequence[int], loads: Loads
) -> list[list[int]] | None:
    """Return sizes per worker that give the loads and fill all free slots; None if impossible."""
    free = list(slots)
    groups: list[list[int]] = [[] for _ in slots]
    missing = [load - b for load, b in zip(loads, base, strict=True)]

    def place(position: int) -> bool:
        if not any(free):
            return not any(missing)
        if len(sizes) - position < sum(free):
            return False
        size = sizes[position]
        for g in range(len(slots)):
            if free[g] and missing[g] >= size:
                free[g], missing[g] = free[g] - 1, missing[g] - size
                groups[g].append(size)
                if place(position + 1):
                    return True
                groups[g].pop()
                free[g], missing[g] = free[g] + 1, missing[g] + size
        return place(position + 1)

    return groups if place(0) else None


def imbalance(loads: Sequence[int]) -> int:
    """Return the imbalance ``G·max − Σ`` of loads, length G (BF-IO, eq. 2) [tokens]."""
    return len(loads) * max(loads) - sum(loads)


def gap(loads: Sequence[int]) -> int:
    """Return the gap ``max − min`` of loads, length G [tokens]."""
    return max(loads) - min(loads)


def multisets(count: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield every multiset of ``count`` sizes in 1..largest, largest sizes first."""
    yield from combinations_with_replacement(range(largest, 0, -1), count)


def vectors(length: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield every vector of ``length`` entries in 0..largest."""
    yield from product(range(largest + 1), repeat=length)
