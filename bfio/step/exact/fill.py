"""The fill problem: fill slots under a common peak, the one-dimensional core of a step.

Let every request contribute its size plus a growth d(h) common to all, let ``b_g(h) + cap_g·d(h)``
differ between look-ahead steps by a shift common to all workers, and let all slots fill unless
d = 0. Then the imbalance of each step equals that of the first, and the program becomes

    min  G·M − Σ_g b_g − T   over the peak M and a choice of requests of total size T that
    gives worker g exactly ``cap_g`` of them (at most, if all are admitted), of sum ≤ M − b_g.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from bfio.step.exact.compact import is_compact
from bfio.step.exact.sums import sums_of_first
from formulations.arrays import IntArray
from formulations.step.problem import StepProblem

#: One number of tokens, or one for each of many peaks.
Tokens = TypeVar("Tokens", int, IntArray)


@dataclass(frozen=True)
class Positions:
    """The index of the request and of the open worker at each position.

    Parameters
    ----------
    order : IntArray
        Shape (N,): index of the request at each position.
    open : IntArray
        Shape (W,), ascending: index of each worker with a free slot.
    """

    order: IntArray
    open: IntArray

    def assignment(self, owner: IntArray) -> tuple[int | None, ...]:
        """Return the worker of each request, from the worker's position, or -1, by position."""
        workers = np.append(self.open, -1)[owner]
        return tuple(None if g < 0 else g for g in self.by_request(workers))

    def owner_of(self, assignment: Sequence[int | None]) -> IntArray:
        """Return the worker's position, or -1, by position: the inverse of `assignment`."""
        place = {g: k for k, g in enumerate(self.open.tolist())}
        workers = [assignment[i] for i in self.order.tolist()]
        return np.array([-1 if g is None else place[g] for g in workers], dtype=np.int64)

    def by_request(self, values: IntArray) -> tuple[int, ...]:
        """Reorder one value per position into one per request."""
        answer = np.empty_like(values)
        answer[self.order] = values
        return tuple(answer.tolist())


@dataclass(frozen=True)
class FillProblem(Positions):
    """Open workers, request sizes and constants of a fill problem, in tokens.

    Parameters
    ----------
    num_workers : int
        Number of workers ``G``, with and without free slots.
    peak : int
        Largest base load of all workers.
    total_base : int
        ``Σ_g b_g`` of all workers.
    multiplier : int
        Factor from this objective to the step problem's.
    base, capacity : IntArray
        Shape (W,): loads and free slots of the open workers.
    sizes : IntArray
        Shape (N,), ascending; equal sizes oldest first.
    """

    num_workers: int
    peak: int
    total_base: int
    multiplier: int
    base: IntArray
    capacity: IntArray
    sizes: IntArray

    @property
    def admits_all(self) -> bool:
        """Whether every request finds a slot; then ``T`` is fixed and only ``M`` varies."""
        return len(self.sizes) <= int(self.capacity.sum())

    @property
    def largest_total(self) -> int:
        """Sum of the U largest sizes, an upper bound on the admitted total ``T``."""
        admitted = min(len(self.sizes), int(self.capacity.sum()))
        return int(self.sizes[len(self.sizes) - admitted :].sum())

    @property
    def mean_total(self) -> int:
        """Total of as many requests of mean size as there are slots: most choices have it."""
        return int(self.capacity.sum()) * int(self.sizes.sum()) // len(self.sizes)

    def largest_margin(self, peak: int) -> int:
        """Return an upper bound on the total size that one worker can take under a peak."""
        most = int(self.capacity.max())
        largest = int(self.sizes[len(self.sizes) - most :].sum())
        return min(peak - int(self.base.min()), largest)

    def value(self, peak: Tokens, total: Tokens) -> Tokens:
        """Return the objective ``G·M − Σ b − T`` of a peak and an admitted total."""
        return self.num_workers * peak - self.total_base - total

    def room(self, peak: Tokens) -> Tokens:
        """Return the total size that the open workers can take under a peak."""
        return len(self.base) * peak - int(self.base.sum())

    def first_peak(self) -> int:
        """Return a lower bound on the peak, from base loads and slots that must be filled.

        Any workers together take at least the smallest requests that fill their slots. The worker
        that this forces highest is looked at alone, then with the next one, and so on.
        """
        spare = max(0, int(self.capacity.sum()) - len(self.sizes))
        below = sums_of_first(self.sizes)
        alone = self.base + below[np.maximum(self.capacity - spare, 0)]
        order = np.argsort(-alone, kind="stable")
        slots = np.maximum(np.cumsum(self.capacity[order]) - spare, 0)
        together = np.cumsum(self.base[order]) + below[slots]
        forced = -(-together // np.arange(1, len(order) + 1))
        return max(self.peak, int(forced.max(initial=0)))

    def closed_form(self, peak: int) -> int:
        """Return a lower bound on the objective for this peak and all higher peaks."""
        return self.value(peak, min(self.room(peak), self.largest_total))

    def last_open_peak(self, incumbent: int) -> int:
        """Return the largest peak whose closed-form bound is below ``incumbent``."""
        return _last_below(self.closed_form, self.first_peak(), incumbent)

    def least_peak_for_all(self) -> int:
        """Return a lower bound on the peak if all requests are admitted."""
        return _last_below(self._may_hold_all, self.first_peak() - 1, 1) + 1

    def peak_of(self, value: int) -> int:
        """Return the peak of an objective value if every request is admitted."""
        return (value + self.total_base + int(self.sizes.sum())) // self.num_workers

    def _may_hold_all(self, peak: int) -> int:
        """Return 1 unless the workers lack room, or slots for the large requests, else 0."""
        margins = peak - self.base
        if (margins < 0).any() or peak < self.first_peak():
            return 0
        total = int(self.sizes.sum())
        below = sums_of_first(self.sizes)
        largest = total - below[len(self.sizes) - self.capacity]
        if int(np.minimum(margins, largest).sum()) < total:
            return 0
        distinct = np.unique(self.sizes[self.sizes > 0])
        places = np.minimum(self.capacity, margins // distinct[:, None]).sum(axis=1)
        at_least = len(self.sizes) - np.searchsorted(self.sizes, distinct)
        return int((places >= at_least).all())

    def value_of(self, owner: IntArray) -> int:
        """Return the objective of a placement ``owner``: open-worker position per size, or -1."""
        loads = self.base.copy()
        placed = owner >= 0
        np.add.at(loads, owner[placed], self.sizes[placed])
        peak = int(loads.max(initial=self.peak))
        return self.value(peak, int(self.sizes[placed].sum()))


def _last_below(bound: Callable[[int], int], first: int, target: int) -> int:
    """Return the largest argument whose non-decreasing ``bound`` is below ``target``."""
    width = 1
    while bound(first + width) < target:
        width *= 2
    low = first + width // 2
    return low + bisect_left(range(low + 1, first + width), target, key=bound)


def reduce_to_fill(problem: StepProblem) -> FillProblem | None:
    """Return the one-dimensional core of a step problem, or None if there is none."""
    if not is_compact(problem) or problem.benefit is not None:
        return None
    if problem.num_admitted != min(problem.num_requests, int(problem.capacity.sum())):
        return None
    steps = [h for h, weight in enumerate(problem.weights) if weight > 0] or [0]
    base = problem.base[:, steps]
    contribution = problem.contribution[:, steps]
    if not _is_common_shift(problem, base, contribution):
        return None
    workers = np.flatnonzero(problem.capacity > 0)
    order = np.argsort(contribution[:, 0], kind="stable")
    return FillProblem(
        order=order,
        open=workers,
        num_workers=problem.num_workers,
        peak=int(base[:, 0].max()),
        total_base=int(base[:, 0].sum()),
        multiplier=sum(problem.weights) * int(problem.time_weights[0]),
        base=base[workers, 0],
        capacity=problem.capacity[workers],
        sizes=contribution[order, 0],
    )


def _is_common_shift(problem: StepProblem, base: IntArray, contribution: IntArray) -> bool:
    """Return whether look-ahead steps differ only by shifts common to all."""
    if problem.num_requests == 0:
        growth = np.zeros(base.shape[1], dtype=np.int64)
    else:
        growth = contribution[0] - contribution[0, 0]
    if (contribution - contribution[:, :1] != growth).any():
        return False
    slots_fill = problem.num_requests >= int(problem.capacity.sum())
    if growth.any() and not slots_fill:
        return False
    drift = base - base[:, :1] + problem.capacity[:, None] * growth
    return not bool((drift != drift[0]).any())
