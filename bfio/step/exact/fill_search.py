"""Solve a fill problem in phases: bound, place, price, enumerate, remaining program."""

from collections.abc import Collection

import numpy as np

from bfio.step.exact.branch import BranchSearch
from bfio.step.exact.columns import PRICE_SCALE, ColumnGeneration
from bfio.step.exact.core_search import CoreSearch
from bfio.step.exact.effort import CALL, Effort, Phase
from bfio.step.exact.fill import FillProblem
from bfio.step.exact.place import REFILLS, fewest_first, refill, spread, spread_largest, with_first
from bfio.step.exact.sums import IMPOSSIBLE, floors, sums_of_first, totals_under
from formulations.arrays import IntArray
from formulations.deadline import OPERATIONS
from formulations.step.certificate import Certificate

#: Largest tables built: peaks, and cells of sums (cardinality x tokens, times requests if priced).
_MAX_PEAKS = 1 << 18
_MAX_CELLS = 1 << 24
_MAX_PRICED_CELLS = 1 << 27
#: Operations of a word of reachable sums, and of a request or slot under one peak.
_SUM = 1
_PEAK = 2
#: Work on refills before any peak is priced, and again when prices do not raise the bound [ticks].
_REFILL_TICKS = 5_000
#: Work on bounds of peaks from which on a better incumbent is sought before [ticks].
_DEAR_BOUNDS = 50_000
#: Price vectors tried, and table cells they may visit in all (some tenths of a second).
_PRICE_WORK = 10**10
#: Most cases of a search by cases: more would take long to derive again.
_MAX_CASES = 500


class FillSearch(CoreSearch):
    """One solve of a fill problem with more requests than slots."""

    def __init__(self, core: FillProblem, effort: Effort, skip: Collection[Phase] = ()) -> None:
        super().__init__(core, effort, skip)
        # Of all peaks from the first on; none if there are too many.
        self._bounds: IntArray = np.empty(0, dtype=np.int64)
        self._branches: BranchSearch | None = None
        self._generation: ColumnGeneration | None = None
        self._priced: int | None = None
        self._first = core.first_peak()

    def prepare(self) -> None:
        """Compile the kernels that `run` calls, except those for pricing."""
        self._place_first()
        self._bound_peaks(self._core.last_open_peak(self._best), 0)
        owner = self._evenly_under(self._first)
        refill(self._core.base, self._core.sizes, np.arange(1), 0, owner, self._effort.spent)
        self._enumerate(node_limit=1)

    def _search(self) -> None:
        core, effort = self._core, self._effort
        effort.spend(CALL)
        self._place_first()
        self._lower = core.closed_form(self._first)
        if not self._open:
            return
        self._method = "bound"
        last = core.last_open_peak(self._best)
        work = self._bounding_work(last)
        if work > _DEAR_BOUNDS * OPERATIONS:
            effort.spend(CALL)
            last = self._refill_unbounded(last)
            work = self._bounding_work(last)
        effort.spend(CALL)
        with self._bounding():
            self._bound_peaks(last, work)
        if self._open:
            effort.spend(CALL)
            self._refill()
        if self._open and not effort.is_over and Phase.PRICES not in self._skip:
            self._close_peaks()
        if self._open and not effort.is_over and Phase.BRANCHES not in self._skip:
            self._branch()

    def _place_first(self) -> None:
        """Fill the slots, largest requests first, under a peak as low as this succeeds."""
        core, owner = self._core, np.empty_like(self._owner)
        peak, step = self._first, 1
        while not spread_largest(peak - core.base, core.capacity, core.sizes, owner):
            peak += step
            step *= 2
        self._accept(owner)

    def _bounding_work(self, last: int) -> int:
        """Return the operations that bounds of all peaks up to ``last`` take."""
        core, limit = self._core, self._core.largest_margin(last)
        cells = (limit + 1) * int(core.capacity.max()) * len(core.sizes) // 64
        of_peaks = (last - self._first + 1) * (len(core.sizes) + int(core.capacity.sum()))
        return _SUM * (cells + limit) + _PEAK * of_peaks

    def _bound_peaks(self, last: int, work: int) -> None:
        """Bound all peaks up to ``last`` by reachable sums, with so many operations."""
        if last - self._first >= _MAX_PEAKS:
            return
        core, limit = self._core, self._core.largest_margin(last)
        peaks = np.arange(self._first, last + 1)
        cardinalities, rows = np.unique(core.capacity, return_inverse=True)
        if Phase.SUMS in self._skip or (limit + 1) * (cardinalities[-1] + 1) > _MAX_CELLS:
            self._bounds = core.value(peaks, np.minimum(core.room(peaks), core.largest_total))
        else:
            self._effort.spend(work)
            table = floors(core.sizes, cardinalities, limit)
            totals = totals_under(peaks, core.base, core.capacity, core.sizes, rows, table)
            self._bounds = core.value(peaks, totals)
            self._bounds[totals < 0] = IMPOSSIBLE
        self._raise_lower()

    def _raise_lower(self) -> None:
        """Set the lower bound to the weakest bound of all peaks."""
        if len(self._bounds):
            self._lower = max(self._lower, min(int(self._bounds.min()), self._best))

    def _weakest(self, bounds: IntArray) -> int:
        """Return the peak of the weakest bound.

        Of equal ones, the one under which requests of the mean size fill the slots: there most
        choices of requests have the right total.
        """
        core = self._core
        weakest = np.flatnonzero(bounds == bounds.min())
        return int(weakest[abs(core.room(self._first + weakest) - core.mean_total).argmin()])

    def _refill(self) -> None:
        """Fill workers exactly under the peaks with the weakest bounds."""
        if not len(self._bounds) or Phase.REFILLS in self._skip:
            return
        last = self._effort.ticks + _REFILL_TICKS
        left = self._bounds.copy()
        while left[k := self._weakest(left)] < self._best:
            left[k] = IMPOSSIBLE
            starts = [self._largest_under, self._evenly_under]
            if k == self._priced:
                starts.insert(0, self._by_columns)
            for start in starts:
                owner = start(self._first + k)
                self._refill_from(self._first + k, int(self._bounds[k]), owner, last)
                if self._effort.ticks >= last or self._effort.is_over or not self._open:
                    return

    def _refill_unbounded(self, highest: int) -> int:
        """Fill workers exactly under a few peaks, so that fewer remain to be bounded.

        The first is the most promising one of the least closed form. The next ones divide the
        range between the highest peak at which this failed and the ``highest`` that could do
        better. Return what this then is.
        """
        core, effort = self._core, self._effort
        peak = (core.mean_total + int(core.base.sum())) // len(core.base)
        peak = max(self._first, min(peak, core.last_open_peak(self._lower + 1)))
        below = self._first - 1
        last = effort.ticks + max(_REFILL_TICKS, self._bounding_work(highest) // OPERATIONS // 4)
        while True:
            before = self._best
            for start in (self._evenly_under, self._largest_under):
                owner = start(peak)
                exact = owner.copy()
                order = fewest_first(core.capacity)
                if refill(peak - core.base, core.sizes, order, 0, exact, effort.spent) < 0:
                    self._accept(exact)
                self._refill_from(peak, core.closed_form(peak), owner, last)
            if self._best == before:
                below = max(below, peak)
            highest = core.last_open_peak(self._best)
            is_cheap = self._bounding_work(highest) <= _DEAR_BOUNDS * OPERATIONS
            if is_cheap or highest - below <= 1 or effort.ticks >= last or effort.is_over:
                return highest
            peak = (below + highest) // 2

    def _refill_from(self, peak: int, bound: int, owner: IntArray, last: int) -> None:
        """Fill workers repeatedly under one peak; the worker that failed comes first."""
        core, effort = self._core, self._effort
        margins = peak - core.base
        of_closed = core.value(peak, core.room(peak))
        order = fewest_first(core.capacity)
        for _ in range(REFILLS):
            if bound >= self._best or effort.ticks >= last or effort.is_over:
                return
            effort.spend(CALL)
            most = self._best - 1 - of_closed
            failed = refill(margins, core.sizes, order, most, owner, effort.spent)
            if failed < 0:
                self._accept(owner)
                self._raise_lower()
            elif failed == order[0]:
                return
            else:
                order = with_first(order, failed)

    def _largest_under(self, peak: int) -> IntArray:
        """Place the largest requests that fit under a peak."""
        core, owner = self._core, np.empty_like(self._owner)
        spread_largest(peak - core.base, core.capacity, core.sizes, owner)
        return owner

    def _evenly_under(self, peak: int) -> IntArray:
        """Spread requests of neighbouring sizes, of about the total that fits under a peak."""
        core = self._core
        slots = int(core.capacity.sum())
        below = sums_of_first(core.sizes)
        totals = below[slots:] - below[: len(below) - slots]
        first = min(int(np.searchsorted(totals, core.room(peak))), len(totals) - 1)
        chosen = slice(first, first + slots)
        owner = np.full_like(self._owner, -1)
        spread(core.base, core.capacity, core.sizes[chosen], owner[chosen])
        return owner

    def _by_columns(self, peak: int) -> IntArray:
        """Place the heaviest subsets of the linear program; fill other workers largest first."""
        assert self._generation is not None
        core, owner = self._core, self._generation.clearest()
        others = np.setdiff1d(np.arange(len(core.base)), owner)
        if len(others):
            free = np.flatnonzero(owner < 0)
            part = np.empty(len(free), dtype=np.int64)
            margins = (peak - core.base)[others]
            spread_largest(margins, core.capacity[others], core.sizes[free], part)
            owner[free] = np.where(part < 0, -1, others[part])
        return owner

    def _close_peaks(self) -> None:
        """Bound the weakest peak by prices repeatedly, until no peak is open."""
        if not len(self._bounds):
            return
        still_open = np.flatnonzero(self._bounds < self._best)
        margin = self._core.largest_margin(self._first + int(still_open[-1]))
        if margin * (int(self._core.capacity.max()) + 1) * len(self._owner) > _MAX_PRICED_CELLS:
            return
        generation = ColumnGeneration(self._core, margin, self._effort)
        self._generation = generation
        priced: set[int] = set()
        while self._open and not self._effort.is_over and generation.cells < _PRICE_WORK:
            weakest = self._weakest(self._bounds)
            if weakest in priced:
                self._effort.spend(CALL)
                self._refill()
                return
            priced.add(weakest)
            self._priced = weakest
            self._effort.spend(CALL)
            with self._bounding():
                self._price(generation, weakest)
            self._raise_lower()

    def _branch(self) -> None:
        """Branch on whether a worker takes a size, if prices were computed."""
        if self._generation is None:
            return
        self._effort.spend(CALL)
        branches = self._branches = BranchSearch(
            self._core,
            self._first,
            self._bounds,
            self._best,
            self._generation.found(),
            self._effort,
            np.array(self._prices[-1]),
        )
        is_closed = branches.run(_MAX_CASES)
        if branches.owner is not None:
            self._accept(branches.owner)
        if is_closed:
            self._lower = self._best
            self._method = "columns"
        self._raise_lower()

    def _price(self, generation: ColumnGeneration, k: int) -> None:
        """Raise the bounds of all peaks by the best prices for one peak."""
        core = self._core
        peak = self._first + k
        generation.start(peak, self._owner)
        enough = core.value(peak, 0) - self._best
        _, prices = generation.bound_total(peak, enough)
        generation.raise_bounds(self._first, prices, self._bounds, self._best)
        # Requests that fit nowhere have price 0.
        rest = np.zeros(len(core.sizes) - len(prices), dtype=np.int64)
        self._prices.append(core.by_request(np.concatenate([prices, rest])))
        placement = generation.placement()
        if placement is not None:
            self._accept(placement)

    def _enumerate(self, node_limit: int) -> None:
        self._effort.spend(CALL)
        super()._enumerate(node_limit)

    def open_peaks(self) -> tuple[int, int]:
        """Return the peaks that bounds leave."""
        last = self._core.last_open_peak(self._best)
        if not len(self._bounds):
            return self._first, last
        still_open = self._first + np.flatnonzero(self._bounds < self._best)
        return int(still_open.min(initial=last)), int(still_open.max(initial=last))

    def _certificate(self, bound: int) -> Certificate:
        prices = tuple(self._prices)
        if self._method != "columns":
            kind = "enumeration" if self._method == "enumeration" else "sums"
            return Certificate(kind, bound, prices, PRICE_SCALE, self._nodes)
        assert self._branches is not None
        (number, worker, size, none), *others = self._branches.cases
        return Certificate(
            "branches",
            bound,
            (*prices, *(tuple(vector.tolist()) for vector in self._branches.prices)),
            PRICE_SCALE,
            cases=((len(prices) + number, worker, size, none), *others),
        )
