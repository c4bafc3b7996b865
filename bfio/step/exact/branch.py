"""Branch and price: decide which worker takes a request, and bound the rest by prices.

The solution of the linear program over subsets is seldom integral. The search then splits into two
cases: either a worker takes a request of some size, which leaves a smaller fill problem, or it
takes no request of that size. Both cases inherit the subsets found so far, so that a few rounds of
prices bound all peaks of a case.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from bfio.step.exact.columns import ColumnGeneration
from bfio.step.exact.effort import CALL, Effort
from bfio.step.exact.fill import FillProblem
from bfio.step.exact.sums import IMPOSSIBLE
from formulations.arrays import IntArray
from formulations.step.certificate import CaseRow

#: Tokens by which floats show that a total is attained.
_CLEARLY = 2
#: Part of a request below which a worker does not count as taking it.
_LEAST_SHARE = 1e-4


@dataclass(frozen=True)
class _Case:
    """A node of the search: the requests already taken, each with its worker, and what remains.

    Taken requests are part of the base loads of ``core``. ``bounds`` are by peak, ``barred`` sizes
    by index of the worker. Row k of ``sizes``, padded with -1, is a subset of ``workers[k]``.
    """

    core: FillProblem
    bounds: IntArray
    sizes: IntArray
    workers: IntArray
    barred: dict[int, frozenset[int]] = field(default_factory=dict)
    taken: tuple[tuple[int, int], ...] = ()
    prices: IntArray | None = None


class BranchSearch:
    """Depth-first search through the cases of branch and price.

    Parameters
    ----------
    core : FillProblem
        The fill problem, with more requests than slots.
    first : int
        First peak of interest.
    bounds : IntArray
        Shape (P,): lower bound for each peak from ``first`` on; prices prove all bounds below
        ``best``.
    best : int
        Objective of the incumbent placement; no higher peak gives a lower objective.
    found : tuple of IntArray
        Initial subsets, and their workers (`ColumnGeneration.found`).
    effort : Effort
        Limits.
    prices : IntArray, optional
        Shape (N,), in the order of the problem's requests: initial prices, near the best prices.

    Attributes
    ----------
    best : int
        Objective of the best placement so far.
    owner : IntArray or None
        Shape (N,): the open worker of each size or -1; None if no better placement was found.
    prices : list of IntArray
        Shape (N,), in the order of the problem's requests: the prices that bound the cases.
    cases : list of CaseRow
        For each case: its number of prices, the worker and the size by which it is split, and 0.
        Worker is -1 and size 0 if the case is closed.
    """

    def __init__(
        self,
        core: FillProblem,
        first: int,
        bounds: IntArray,
        best: int,
        found: tuple[IntArray, IntArray],
        effort: Effort,
        prices: IntArray | None = None,
    ) -> None:
        self._core = core
        self._first = first
        self._effort = effort
        workers = core.open[found[1]]
        self._waiting = [_Case(core, bounds.copy(), found[0], workers, prices=prices)]
        self._behind: IntArray | None = None
        self.best = best
        self.owner: IntArray | None = None
        self.prices: list[IntArray] = []
        self.cases: list[CaseRow] = []

    def run(self, most: int) -> bool:
        """Search until there are ``most`` cases; return whether all are closed."""
        while self._waiting and len(self.cases) < most:
            self._effort.spend(CALL)
            before = len(self.prices)
            parts = self._divided(self._waiting.pop())
            if self._effort.is_over:
                return False
            worker, size = (-1, 0) if parts is None else parts[0]
            self.cases.append((len(self.prices) - before, worker, size, 0))
            self._waiting += [] if parts is None else parts[1:]
        return not self._waiting

    def _divided(self, case: _Case) -> tuple[tuple[int, int], _Case, _Case] | None:
        """Bound a case; if still open, return its split and the two parts."""
        core = case.core
        below = max(0, core.first_peak() - self._first)
        case.bounds[:below] = IMPOSSIBLE
        if len(core.base) == 0:
            self._accept(case, np.full(len(core.sizes), -1))
            return None
        if case.bounds.min() >= self.best:
            return None
        last = self._first + int(np.flatnonzero(case.bounds < self.best)[-1])
        generation = ColumnGeneration(core, core.largest_margin(last), self._effort, case.barred)
        if generation.num_fitting < int(core.capacity.sum()):
            return None
        here = np.isin(case.workers, core.open)
        generation.adopt(case.sizes[here], np.searchsorted(core.open, case.workers[here]))
        self._behind = case.prices
        if self._closes(case, generation):
            return None
        sizes, workers = generation.found()
        left = replace(case, sizes=sizes, workers=core.open[workers], prices=self._behind)
        worker, size = self._split_of(core, generation)
        return (worker, size), _without(left, worker, size), _with(left, worker, size)

    def _closes(self, case: _Case, generation: ColumnGeneration) -> bool:
        """Bound the weakest peak repeatedly, until no peak is open or no bound rises."""
        bounds = case.bounds
        seen: set[int] = set()
        while True:
            weakest = int(bounds.argmin())
            if bounds[weakest] >= self.best or self._effort.is_over:
                return True
            before = self.best
            self._bound(case, generation, self._first + weakest)
            if self.best < before:
                continue
            # Once more if another peak came between: the solution is then of this one.
            if weakest in seen or bounds.argmin() == weakest:
                return bool(bounds.min() >= self.best)
            seen.add(weakest)

    def _bound(self, case: _Case, generation: ColumnGeneration, peak: int) -> None:
        """Raise the bounds of peaks by prices for one, unless no prices can close it."""
        core = case.core
        generation.start(peak, np.full(len(core.sizes), -1))
        enough = core.value(peak, 0) - self.best
        if not generation.attains(enough + _CLEARLY):
            of_core = core.order[: generation.num_fitting]
            begin = None if self._behind is None else self._behind[of_core]
            _, prices = generation.bound_total(peak, enough, begin)
            generation.raise_bounds(self._first, prices, case.bounds, self.best)
            self._behind = np.zeros(len(self._core.sizes), dtype=np.int64)
            self._behind[of_core] = prices
            self.prices.append(self._behind)
        placement = generation.placement()
        if placement is not None:
            self._accept(case, placement)

    def _split_of(self, core: FillProblem, generation: ColumnGeneration) -> tuple[int, int]:
        """Return the worker and size to branch on.

        A large size, taken by about two thirds of a worker with many slots: both cases then
        change the solution much, and the one that is searched first most likely holds the
        best placement. The rule closes the most steps among those tried (docs/exact.md).
        """
        shares = np.clip(generation.shares(), 0, 1)
        is_open = (shares > _LEAST_SHARE) & (shares < 1 - _LEAST_SHARE)
        doubt = shares
        if is_open.any():
            doubt = np.where(is_open, shares * np.sqrt(1 - shares), 0)
        weight = np.sqrt(core.capacity)[:, None] * (generation.distinct + 1)
        k, kind = np.unravel_index(np.argmax(doubt * weight), shares.shape)
        return int(core.open[k]), int(generation.distinct[kind])

    def _accept(self, case: _Case, owner: IntArray) -> None:
        """Keep a placement of a case if it beats the incumbent together with assigned requests."""
        value = case.core.value_of(owner)
        if value >= self.best:
            return
        self.best = value
        core = case.core
        placed = owner >= 0
        here = zip(core.order[placed].tolist(), core.open[owner[placed]].tolist(), strict=True)
        worker_of = dict([*case.taken, *here])
        self.owner = self._core.owner_of([worker_of.get(i) for i in range(len(self._core.order))])


def _without(case: _Case, worker: int, size: int) -> _Case:
    """Return the case in which a worker takes no request of a size."""
    barred = case.barred.get(worker, frozenset()) | {size}
    return replace(case, bounds=case.bounds.copy(), barred={**case.barred, worker: barred})


def _with(case: _Case, worker: int, size: int) -> _Case:
    """Return the case in which a worker takes the first request of a size."""
    core = case.core
    k = int(np.searchsorted(core.open, worker))
    i = int(np.searchsorted(core.sizes, size))
    base, capacity = core.base.copy(), core.capacity.copy()
    base[k] += size
    capacity[k] -= 1
    is_open = capacity > 0
    left = replace(
        core,
        peak=max(core.peak, int(base[k])),
        total_base=core.total_base + size,
        open=core.open[is_open],
        base=base[is_open],
        capacity=capacity[is_open],
        sizes=np.delete(core.sizes, i),
        order=np.delete(core.order, i),
    )
    own = case.workers == worker
    first = np.argmax(case.sizes == size, axis=1)
    has = case.sizes[np.arange(len(first)), first] == size
    kept = ~own | has
    sizes = case.sizes[kept].copy()
    settled = np.flatnonzero(own[kept])
    sizes[settled, first[kept][settled]] = -1
    # What fills up comes last.
    sizes = -np.sort(-sizes, axis=1)
    taken = (*case.taken, (int(core.order[i]), worker))
    return replace(
        case,
        core=left,
        bounds=case.bounds.copy(),
        sizes=sizes,
        workers=case.workers[kept],
        taken=taken,
    )
