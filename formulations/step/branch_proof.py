"""Bounds on a one-dimensional step by cases: who takes a request of some size, and who does not.

A worker either takes a request of a given size, and then the rest is a smaller problem of the same
kind, or it takes none of that size. For prices λ >= 0 on the requests that are left, the total
that fits under a peak M is at most

    Σ_i λ_i + Σ_g max { Σ_{i ∈ S} (s_i − λ_i) : |S| = cap_g, Σ_{i ∈ S} s_i ≤ M − b_g, S allowed },

where what is settled counts in ``b_g``. A claim is proven if this leaves no peak in any case.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.step.exhaustion import WorkBudget
from formulations.step.priced_sums import UNREACHABLE, priced_sums
from formulations.step.share_proof import CaseRow

#: Table cells that count as one step of work.
_CELLS_PER_STEP = 256


@dataclass(frozen=True)
class Branch:
    """A case of the one-dimensional problem.

    Parameters
    ----------
    num_workers, total_base, floor : int
        ``G``; sum and largest of all workers' loads, with the requests that are settled.
    workers : list of int
        Index of each worker with a free slot.
    base, capacity : list of int
        Their loads and free slots.
    requests, sizes : IntArray
        Shape (n,): indices of the requests that are left, and their sizes.
    barred : dict from int to frozenset of int
        Sizes that workers must not take, by index of the worker.
    peaks : IntArray
        Shape (P,): peaks not yet excluded.
    """

    num_workers: int
    total_base: int
    floor: int
    workers: list[int]
    base: list[int]
    capacity: list[int]
    requests: IntArray
    sizes: IntArray
    barred: dict[int, frozenset[int]]
    peaks: IntArray

    def possible(self) -> "Branch":
        """Leave out the peaks under which the slots cannot be filled, whoever is admitted."""
        below = np.concatenate([[0], np.cumsum(np.sort(self.sizes))])
        slots = sum(self.capacity)
        if slots > len(self.sizes):
            return replace(self, peaks=self.peaks[:0])
        least = [b + int(below[c]) for b, c in zip(self.base, self.capacity, strict=True)]
        peaks = self.peaks[self.peaks >= max([self.floor, *least])]
        if slots:
            fitting = np.searchsorted(np.sort(self.sizes), peaks - min(self.base), side="right")
            peaks = peaks[fitting >= slots]
        return replace(self, peaks=peaks)

    def below(self, target: int, total: IntArray | int) -> "Branch":
        """Keep the peaks under which a total leaves the objective below the target."""
        values = self.num_workers * self.peaks - self.total_base - total
        return replace(self, peaks=self.peaks[values < target])

    def bounded(self, prices: IntArray, scale: int, target: int, work: WorkBudget) -> "Branch":
        """Leave out the peaks that prices, one per request of the problem, exclude."""
        if len(self.peaks) == 0 or not self.workers:
            return self
        own = prices[self.requests]
        total = np.full(len(self.peaks), int(own.sum()))
        fits = np.ones(len(self.peaks), dtype=np.bool_)
        groups: dict[frozenset[int], list[int]] = {}
        for k, worker in enumerate(self.workers):
            groups.setdefault(self.barred.get(worker, frozenset()), []).append(k)
        for barred, members in groups.items():
            allowed = ~np.isin(self.sizes, list(barred))
            limit = int(self.peaks.max()) - min(self.base[k] for k in members)
            most = max(self.capacity[k] for k in members)
            work.spend(len(self.sizes) * (most + 1) * (limit + 1) // _CELLS_PER_STEP)
            sizes = self.sizes[allowed]
            table = priced_sums(sizes, scale * sizes - own[allowed], most, limit)
            for k in members:
                best = table[self.capacity[k], self.peaks - self.base[k]]
                fits &= best > UNREACHABLE // 2
                total = total + np.where(fits, best, 0)
        return replace(self, peaks=self.peaks[fits]).below(target, total[fits] // scale)

    def divided(self, worker: int, size: int) -> tuple["Branch", "Branch"]:
        """Return the cases in which a worker takes a request of a size, and in which it does not.

        Raises
        ------
        InputError
            If it has no free slot, or there is no such request.
        """
        found = np.flatnonzero(self.sizes == size)
        if worker not in self.workers or len(found) == 0:
            raise InputError("certificate.cases", "no such worker or size", "solve again")
        k, i = self.workers.index(worker), int(found[0])
        load, left = self.base[k] + size, self.capacity[k] - 1
        others = (self.workers, self.base, self.capacity)
        workers, base, capacity = ([*part[:k], *part[k + 1 :]] for part in others)
        if left:
            workers, base, capacity = [*workers, worker], [*base, load], [*capacity, left]
        taking = replace(
            self,
            total_base=self.total_base + size,
            floor=max(self.floor, load),
            workers=workers,
            base=base,
            capacity=capacity,
            requests=np.delete(self.requests, i),
            sizes=np.delete(self.sizes, i),
        )
        barred = self.barred.get(worker, frozenset()) | {size}
        return taking, replace(self, barred={**self.barred, worker: barred})


def closes_all(
    branch: Branch,
    cases: Iterator[CaseRow],
    prices: Iterator[IntArray],
    scale: int,
    target: int,
) -> bool:
    """Whether no peak is left in any case; cases come depth first, what is taken before the rest.

    Raises
    ------
    InputError
        If the cases are no binary tree with as many prices as they say, or take too much work.
    """
    work = WorkBudget()
    waiting = [branch]
    for number, worker, size, _ in cases:
        if not waiting or number < 0:
            raise _malformed()
        left = waiting.pop().possible()
        for _ in range(number):
            vector = next(prices, None)
            if vector is None:
                raise _malformed()
            left = left.bounded(vector, scale, target, work)
        if worker >= 0:
            waiting += left.divided(worker, size)[::-1]
        elif len(left.below(target, 0).peaks if not left.workers else left.peaks):
            return False
    if waiting or next(prices, None) is not None:
        raise _malformed()
    return True


def _malformed() -> InputError:
    return InputError("certificate.cases", "no tree of cases with their prices", "solve again")
