"""Admit all requests under the least peak: bound, spread, rebalance, price.

For prices λ_i ≥ 0, the requests that fit under a peak M total at most

    Σ_i λ_i + Σ_g max { Σ_{i ∈ S} (s_i − λ_i) : |S| ≤ cap_g, Σ_{i ∈ S} s_i ≤ M − b_g }.

If this is less than the total size of all requests, not all requests fit under M. One table of
priced sums bounds every M at once, and workers of equal base load and capacity share their
columns. The best prices are duals of the linear program that packs as many tokens as possible
(Gilmore and Gomory's for cutting stock, with the number of workers given).
"""

from bisect import bisect_left
from collections.abc import Callable, Collection

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.step.exact.columns import PRICE_SCALE
from bfio.step.exact.core_search import CoreSearch
from bfio.step.exact.effort import CALL, Effort, Phase
from bfio.step.exact.fill import FillProblem
from bfio.step.exact.place import spread
from bfio.step.exact.rebalance import rebalance
from bfio.step.exact.simplex import Simplex
from bfio.step.exact.subsets import LEAST_GAIN
from bfio.step.exact.sums import floors
from formulations.arrays import BoolArray, FloatArray, IntArray
from formulations.step.certificate import Certificate

#: Most cells of one table (requests x sums), and of one with rows by cardinality; rounds of column
#: generation times requests^2.
_MAX_CELLS = 1 << 25
_MAX_COUNTED = 1 << 24
_ROUND_WORK = 6_000_000
#: Sums to a word of bits.
_WORD = 64
#: Disjoint subsets sought in one round.
_PER_ROUND = 12
#: Start of the pseudo-random sequence: the same problem is always searched alike.
_SEED = 88172645463325252
#: Groups split anew per turn; turns before the bound is raised where that is quick and where it is
#: not, and after.
_ROUNDS = 200
_FIRST_TURNS = 16
_MORE_TURNS = 40
_TURNS = 300
#: Most table cells (requests x sums) for a bound that is raised quickly.
_FEW_CELLS = 1 << 18
#: Share of what the limits leave that raising the bound may take.
_BOUND_SHARE = 0.6


@compilable
def _add_request(row: IntArray, below: IntArray, value: int, raised: BoolArray) -> None:
    # Without branches, so that the loop is vectorised.
    for x in range(len(row)):
        sum_with = below[x] + value
        raised[x] = sum_with > row[x]
        row[x] = max(row[x], sum_with)


@entry_point
def _priced_sums(
    sizes: IntArray, values: IntArray, limit: int, best: IntArray, taken: BoolArray
) -> None:
    """Compute ``best[c, x]``, the largest value of at most c requests of sum <= x.

    The last row has no limit on c. ``taken[i]`` marks the entries that request i raised.
    """
    last = len(best) - 1
    best[:, : limit + 1] = 0
    before = np.empty(limit + 1, np.int64)
    for i in range(len(sizes)):
        size = sizes[i]
        taken[i, :, : limit + 1] = False
        if values[i] <= 0 or size > limit:
            continue
        copy_to(before, best[last, : limit + 1])
        for c in range(last, 0, -1):
            below = before if c == last else best[c - 1]
            row = best[c, size : limit + 1]
            _add_request(row, below[: len(row)], values[i], taken[i, c, size : limit + 1])


@entry_point
def _subset_behind(
    sizes: IntArray, taken: BoolArray, count: int, limit: int, members: BoolArray
) -> None:
    """Mark in ``members`` the requests that attain ``best[count, limit]``."""
    x = limit
    c = count
    unlimited = taken.shape[1] - 1
    for i in range(len(sizes) - 1, -1, -1):
        members[i] = taken[i, c, x]
        if members[i]:
            x -= sizes[i]
            c -= 0 if c == unlimited else 1


def least_peak_by_sums(core: FillProblem, first: int, last: int, effort: Effort) -> int:
    """Return the least peak under which workers could take all tokens at prices 0.

    Each worker alone takes the largest sum within its margin of at most as many requests as it has
    slots. The answer is from ``first`` to ``last``.
    """
    limit = core.largest_margin(last)
    most = min(int(core.capacity.max()), int((np.cumsum(core.sizes) <= limit).sum()))
    if most == 0 or (most + 1) * (limit + 1) > _MAX_CELLS:
        return first
    effort.spend(CALL + (most + 1) * (limit + 1) * (1 + len(core.sizes) // _WORD))
    exactly = floors(core.sizes, np.arange(1, most + 1), limit)
    at_most = np.maximum.accumulate(np.concatenate([np.zeros_like(exactly[:1]), exactly]), axis=0)
    rows = np.minimum(core.capacity, most)
    total = int(core.sizes.sum())

    def holds(peak: int) -> bool:
        return int(at_most[rows, np.minimum(peak - core.base, limit)].sum()) >= total

    return first + bisect_left(range(first, last), True, key=holds)


class PackBound:
    """The linear program over subsets for each kind of worker; see the module docstring.

    Workers of equal base load and capacity are of one kind, every request is admitted, and
    ``last`` is the largest peak of interest.
    """

    def __init__(self, core: FillProblem, last: int, effort: Effort) -> None:
        self._core = core
        self._effort = effort
        self._sizes = core.sizes
        self._total = int(core.sizes.sum())
        workers = np.stack([core.base, core.capacity], axis=1)
        kinds, self._kind, self._copies = np.unique(
            workers, axis=0, return_inverse=True, return_counts=True
        )
        self._bases: IntArray = kinds[:, 0]
        slots: IntArray = kinds[:, 1]
        self._last = last
        self._limit = min(last - int(self._bases[0]), self._total)
        # Row of each kind in the table; in the last one there is no limit on the number.
        margins = self._limit - (self._bases - self._bases[0])
        fitting = np.searchsorted(np.cumsum(self._sizes), margins, side="right")
        most = _MAX_COUNTED // (len(self._sizes) * (self._limit + 1)) - 2
        counted = slots <= np.minimum(fitting - 1, most)
        self._loose = 1 + int(slots[counted].max(initial=0))
        self._rows: IntArray = np.where(counted, slots, self._loose)
        self.prices: IntArray = np.zeros_like(core.sizes)

    @property
    def is_small(self) -> bool:
        """Whether the tables are within the size limits."""
        return len(self._sizes) * (self._limit + 1) <= _MAX_CELLS

    def prepare(self) -> None:
        """Create the tables and an empty linear program."""
        import highspy

        N = len(self._sizes)
        shape = (self._loose + 1, self._limit + 1)
        self._best: IntArray = np.empty(shape, dtype=np.int64)
        self._taken: BoolArray = np.empty((N, *shape), dtype=np.bool_)
        # The values that the table was filled with last.
        self._filled: IntArray | None = None
        # Kind of worker and requests, as bytes, of each column.
        self._columns: set[tuple[int, bytes]] = set()
        self._simplex = Simplex(self._effort)
        self._program = self._simplex.highs
        nothing = np.empty(0, dtype=np.int32)
        for copies in [*self._copies.tolist(), *[1] * N]:
            self._program.addRow(-np.inf, float(copies), 0, nothing, nothing.astype(float))
        self._program.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def add_placement(self, peak: int, owner: IntArray) -> None:
        """Add the subsets of a placement on workers below the peak as columns."""
        for g, base in enumerate(self._core.base.tolist()):
            members = np.flatnonzero(owner == g)
            if int(self._sizes[members].sum()) <= peak - base:
                self._add(int(self._kind[g]), members)

    def raise_peak(self, peak: int, expired: Callable[[], bool]) -> int:
        """Return the least peak that prices do not exclude, at most the last.

        If the peak is raised, `prices` exclude the next lower one.
        """
        # Averaged with the best so far, prices jump less from round to round.
        behind: IntArray | None = None
        least = 1 << 62
        for _ in range(_ROUND_WORK // len(self._sizes) ** 2 + 1):
            if expired():
                break
            # After new columns the last basis is still primal feasible.
            self._simplex.run(primal=True)
            duals = np.array(self._program.getSolution().row_dual)
            if self._program.getInfo().objective_function_value > self._total - LEAST_GAIN:
                # All tokens are packed, so that no prices exclude the peak.
                break
            exact = np.maximum(np.rint(duals[len(self._bases) :] * PRICE_SCALE), 0)
            exact = exact.astype(np.int64)
            added = False
            for prices in [exact] if behind is None else [(exact + behind) // 2, exact]:
                total = self.total_under(prices, peak)
                if total < least:
                    least, behind = total, prices
                possible = self._least_possible(prices, peak)
                if possible > peak:
                    self.prices = prices
                    peak = possible
                    least = self.total_under(prices, peak)
                if peak >= self._last:
                    return self._last
                added = self._add_best(prices, duals, peak)
                if added:
                    break
            if not added:
                break
        return peak

    def _add(self, kind: int, members: IntArray) -> None:
        key = (kind, members.tobytes())
        if key in self._columns:
            return
        self._columns.add(key)
        rows = np.concatenate([[kind], members + len(self._bases)]).astype(np.int32)
        worth = float(self._sizes[members].sum())
        self._program.addCol(worth, 0.0, np.inf, len(rows), rows, np.ones(len(rows)))

    def total_under(self, prices: IntArray, peak: int) -> int:
        """Return the largest scaled total that prices allow under a peak; fills the table."""
        self._fill(PRICE_SCALE * self._sizes - prices)
        return self._read_total(prices, peak)

    def _fill(self, values: IntArray) -> None:
        """Fill the table for these values, unless it is already filled for them."""
        if self._filled is not None and (values == self._filled).all():
            return
        self._filled = values.copy()
        self._effort.spend(CALL + len(self._sizes) * self._best.size)
        _priced_sums(self._sizes, values, self._limit, self._best, self._taken)

    def _read_total(self, prices: IntArray, peak: int) -> int:
        margins = np.minimum(peak - self._bases, self._limit)
        best = self._best[self._rows, margins]
        return int((self._copies * best).sum()) + int(prices.sum())

    def _least_possible(self, prices: IntArray, peak: int) -> int:
        """Return the least peak from ``peak`` on that the table's prices do not exclude."""
        needed = PRICE_SCALE * self._total
        peaks = range(peak, self._last)
        return peak + bisect_left(peaks, needed, key=lambda one: self._read_total(prices, one))

    def _add_best(self, prices: IntArray, duals: FloatArray, peak: int) -> bool:
        """Add disjoint subsets that improve the program; return whether any does."""
        values = PRICE_SCALE * self._sizes - prices
        found = False
        members = np.empty(len(self._sizes), dtype=np.bool_)
        margins = np.minimum(peak - self._bases, self._limit).tolist()
        for kind, (margin, row) in enumerate(zip(margins, self._rows.tolist(), strict=True)):
            left = values.copy()
            for _ in range(max(1, _PER_ROUND // len(self._bases))):
                self._fill(left)
                _subset_behind(self._sizes, self._taken, row, margin, members)
                subset = np.flatnonzero(members)
                cost = duals[kind] + float(duals[len(self._bases) + subset].sum())
                if float(self._sizes[subset].sum()) <= cost + LEAST_GAIN:
                    break
                self._add(kind, subset)
                left[members] = 0
                found = True
        return found


def prepare_packing(core: FillProblem) -> None:
    """Compile the kernels for packings that are hard to find, by any small problem."""
    owner = np.empty_like(core.sizes)
    state = np.ones(1, dtype=np.uint64)
    loads = spread(core.base, core.capacity, core.sizes, owner)
    effort = Effort()
    pricing = PackBound(core, int(loads.max()) + 1, effort)
    pricing.prepare()
    pricing.raise_peak(core.peak, lambda: False)
    rebalance(0, core.capacity, core.sizes, owner, loads, 1, state, effort.spent)


class PackSearch(CoreSearch):
    """One solve of a fill problem that admits every request."""

    def __init__(self, core: FillProblem, effort: Effort, skip: Collection[Phase] = ()) -> None:
        super().__init__(core, effort, skip)
        self._state = np.array([_SEED], dtype=np.uint64)
        self._current: IntArray = np.empty_like(self._owner)
        self._seen: list[IntArray] = []

    def open_peaks(self) -> tuple[int, int]:
        """Return the peaks from the bound to below the incumbent."""
        return self._low, max(self._low, self._peak - 1)

    @property
    def _low(self) -> int:
        """The lower bound on the peak."""
        return self._core.peak_of(self._lower)

    @property
    def _peak(self) -> int:
        """The peak of the incumbent."""
        return self._core.peak_of(self._best)

    def _search(self) -> None:
        core = self._core
        self._effort.spend(CALL)
        self._lower = core.value(core.least_peak_for_all(), int(core.sizes.sum()))
        self._loads = spread(core.base, core.capacity, core.sizes, self._current)
        self._accept(self._current)
        uses_prices = Phase.PACKING_PRICES not in self._skip
        if self._open and uses_prices:
            # By reachable sums of limited numbers of requests, which are prices of 0.
            raised = least_peak_by_sums(core, self._low, self._peak, self._effort)
            self._raise_low(raised, np.zeros_like(core.sizes))
        cells = len(core.sizes) * (self._peak - int(core.base.min()))
        self._rebalance(_FIRST_TURNS if cells <= _FEW_CELLS else _MORE_TURNS)
        if self._open and not self._effort.is_over and uses_prices:
            with self._bounding():
                self._raise_by_prices()
        self._rebalance(_TURNS)

    def _rebalance(self, turns: int) -> None:
        """Rebalance to the lower bound, or sometimes halfway between bound and best peak."""
        core, owner, state, spent = self._core, self._current, self._state, self._effort.spent
        rebalances = Phase.REBALANCING not in self._skip
        met, low = False, self._low
        for turn in range(turns):
            if not self._open or self._effort.is_over:
                return
            target = (low + self._peak - 1) // 2 if met or turn % 4 == 3 else low
            met = rebalances and rebalance(
                target, core.capacity, core.sizes, owner, self._loads, _ROUNDS, state, spent
            )
            self._accept(owner)
            self._seen.append(owner.copy())

    def _raise_by_prices(self) -> None:
        """Exclude peaks by prices."""
        pricing = PackBound(self._core, self._peak, self._effort)
        if not pricing.is_small:
            return
        pricing.prepare()
        low = self._low
        for owner in (self._owner, *self._seen):
            pricing.add_placement(low, owner)
        raised = pricing.raise_peak(low, self._effort.part(_BOUND_SHARE))
        self._raise_low(raised, pricing.prices)

    def _raise_low(self, peak: int, prices: IntArray) -> None:
        """Raise the bound to a peak if it is higher; prices exclude the next lower one."""
        if peak > self._low:
            self._lower = self._core.value(peak, int(self._core.sizes.sum()))
            self._prices = [self._core.by_request(prices)]
            self._method = "bound"

    def _certificate(self, bound: int) -> Certificate:
        if self._method == "enumeration":
            return Certificate("enumeration", bound, nodes=self._nodes)
        return Certificate("sums", bound, tuple(self._prices), PRICE_SCALE)
