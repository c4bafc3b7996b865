"""What the two searches for the solution of a fill problem share, and their enumeration."""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import numpy as np

from bfio.common.kernels import entry_point
from bfio.step.exact.effort import Effort, Phase
from bfio.step.exact.fill import FillProblem
from bfio.step.exact.result import ExactResult, Seconds
from bfio.step.exact.sums import IMPOSSIBLE, sums_of_first
from formulations.arrays import IntArray
from formulations.step.certificate import Certificate

#: Requests up to which the enumeration is worth a try.
_MAX_ENUMERATED = 32
#: Operations of one node.
_NODE = 200


class CoreSearch(ABC):
    """One solve of a fill problem: incumbent, lower bound, and the phases.

    Parameters
    ----------
    core : FillProblem
        The fill problem; at least one request is admitted.
    effort : Effort
        Limits, and the work used so far.
    skip : collection of Phase, optional
        Phases to skip.
    """

    def __init__(self, core: FillProblem, effort: Effort, skip: Collection[Phase] = ()) -> None:
        self._core = core
        self._effort = effort
        self._skip = skip
        self._best = IMPOSSIBLE
        self._owner: IntArray = np.full(len(core.sizes), -1, dtype=np.int64)
        self._lower = 0
        self._method = "closed-form"
        self._nodes = 0
        self._prices: list[tuple[int, ...]] = []
        self._bound_seconds = 0.0

    def run(self, start: tuple[int | None, ...] | None, node_limit: int) -> ExactResult:
        """Solve the problem within the limits; see `bfio.step.exact.solve.solve_exact`."""
        began = time.perf_counter()
        core = self._core
        # What is given first stays unless something beats it: so ties are broken.
        if start is not None:
            self._accept(core.owner_of(start))
        self._search()
        small = len(core.sizes) <= _MAX_ENUMERATED
        tried = small and node_limit > 0 and Phase.ENUMERATION not in self._skip
        if self._open and tried and not self._effort.is_over:
            self._enumerate(node_limit)
        seconds = time.perf_counter() - began
        return ExactResult(
            method=self._method,
            assignment=core.assignment(self._owner),
            objective=self._best * core.multiplier,
            bound=self._lower * core.multiplier,
            certificate=self._certificate(self._lower * core.multiplier),
            seconds=Seconds(bound=self._bound_seconds, search=seconds - self._bound_seconds),
            nodes=self._nodes,
        )

    @abstractmethod
    def open_peaks(self) -> tuple[int, int]:
        """Return the first and last peak that could give a better placement."""

    @abstractmethod
    def _search(self) -> None:
        """Run all phases before the enumeration."""

    @abstractmethod
    def _certificate(self, bound: int) -> Certificate:
        """Return the certificate of a bound on the step problem's objective."""

    @property
    def _open(self) -> bool:
        return self._best > self._lower

    @contextmanager
    def _bounding(self) -> Iterator[None]:
        """Count the time of the block as that of the bound."""
        began = time.perf_counter()
        yield
        self._bound_seconds += time.perf_counter() - began

    def _accept(self, owner: IntArray) -> None:
        """Keep a placement if it beats the incumbent."""
        value = self._core.value_of(owner)
        if value < self._best:
            self._best = value
            self._owner = owner.copy()

    def _enumerate(self, node_limit: int) -> None:
        core, owner = self._core, self._owner.copy()
        best, self._nodes, exhausted = enumerate_placements(
            core.num_workers,
            core.total_base,
            core.peak,
            core.base,
            core.capacity,
            core.sizes,
            self._best,
            self._lower,
            node_limit,
            owner,
        )
        self._effort.spend(self._nodes * _NODE)
        self._accept(owner)
        if exhausted and self._open:
            self._lower = best
            self._method = "enumeration"


@entry_point
def enumerate_placements(
    num_workers: int,
    total_base: int,
    peak: int,
    base: IntArray,
    capacity: IntArray,
    sizes: IntArray,
    incumbent: int,
    target: int,
    node_limit: int,
    owner: IntArray,
) -> tuple[int, int, bool]:
    """Search all placements of objective below ``incumbent``, largest request first.

    Each request is tried on the workers in order, and then waiting. Of equal sizes, a later
    request never takes a lower worker than an earlier request.

    The function is long because the search is one loop whose stack is local arrays.

    Parameters
    ----------
    num_workers, total_base, peak, base, capacity, sizes
        As in `FillProblem`.
    incumbent, target : int
        Objective of the incumbent, and objective at which to stop.
    owner : IntArray
        Shape (N,), filled with the worker of each size if a better placement is found.

    Returns
    -------
    tuple of (int, int, bool)
        Best objective, nodes, and whether the search was exhausted (or met the target).
    """
    N = len(sizes)
    W = len(base)
    slots = capacity.sum()
    admitted = min(N, slots)
    below = sums_of_first(sizes)
    loads = base.copy()
    free = capacity.copy()
    choice = np.full(N, -1, np.int64)
    peaks = np.empty(N + 1, np.int64)
    peaks[0] = peak
    placed = 0
    total = 0
    depth = 0
    nodes = 0
    while depth >= 0:
        if depth == N:
            value = num_workers * peaks[N] - total_base - total
            if value < incumbent:
                incumbent = value
                for d in range(N):
                    owner[N - 1 - d] = choice[d] if choice[d] < W else -1
                if incumbent <= target:
                    return incumbent, nodes, True
            depth -= 1
            continue
        size = sizes[N - 1 - depth]
        current = choice[depth]
        if 0 <= current < W:
            loads[current] -= size
            free[current] += 1
            placed -= 1
            total -= size
        following = current + 1
        if current < 0 and depth > 0 and size == sizes[N - depth]:
            following = choice[depth - 1]
        rest = N - depth - 1
        found = False
        while following <= W and not found:
            if following < W:
                if free[following] > 0:
                    top = max(peaks[depth], loads[following] + size)
                    left = admitted - placed - 1
                    room = top - loads[following] - size if free[following] > 1 else 0
                    for g in range(W):
                        if g != following and free[g] > 0:
                            room += top - loads[g]
                    largest = below[rest] - below[rest - left]
                    bound = num_workers * top - total_base - total - size - min(room, largest)
                    found = bound < incumbent
            else:
                left = admitted - placed
                found = rest >= left
            if not found:
                following += 1
        if not found:
            choice[depth] = -1
            depth -= 1
            continue
        nodes += 1
        if nodes > node_limit:
            return incumbent, nodes, False
        choice[depth] = following
        peaks[depth + 1] = peaks[depth]
        if following < W:
            loads[following] += size
            free[following] -= 1
            placed += 1
            total += size
            peaks[depth + 1] = max(peaks[depth], loads[following])
        depth += 1
    return incumbent, nodes, True
