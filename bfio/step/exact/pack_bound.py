"""Least peak at which all requests fit, by prices: column generation for packing.

For prices λ_i ≥ 0, the requests that fit under a peak M total at most

    Σ_i λ_i + Σ_g max { Σ_{i ∈ S} (s_i − λ_i) : |S| ≤ cap_g, Σ_{i ∈ S} s_i ≤ M − b_g }.

Where that is less than all requests have, M is no peak of a packing. One table of priced sums
bounds every M at once, and workers of equal base load and capacity share their columns. The best
prices are duals of the linear program that packs as many tokens as it can (Gilmore and Gomory's
for cutting stock, with the number of workers given).
"""

from collections.abc import Callable

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.kernels import entry_point, in_place
from bfio.step.exact.columns import PRICE_SCALE
from bfio.step.exact.effort import CALL, Effort
from bfio.step.exact.fill import FillProblem
from formulations.arrays import BoolArray, FloatArray, IntArray

#: Most cells of one table (requests x sums), and rounds of column generation times requests^2.
_MAX_CELLS = 1 << 25
_ROUND_WORK = 6_000_000
#: Operations of a pivot per row.
_PIVOT = 100
#: Disjoint subsets sought in one round.
_PER_ROUND = 12
#: Weight from which on a column of the linear program's solution counts.
_LEAST_WEIGHT = 1e-6
#: Reduced cost from which on a column is worth adding [tokens].
_LEAST_GAIN = 1e-4


@in_place
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
    """Fill ``best[c, x]``, the largest value of at most c requests of sum <= x.

    With one row there is no limit on c. ``taken[i]`` tells where request i raised an entry.
    """
    rows = len(best)
    best[:, : limit + 1] = 0
    before = np.empty(limit + 1, np.int64)
    for i in range(len(sizes)):
        size = sizes[i]
        taken[i, :, : limit + 1] = False
        if values[i] <= 0 or size > limit:
            continue
        for c in range(rows - 1, -1 if rows == 1 else 0, -1):
            if rows == 1:
                copy_to(before, best[0, : limit + 1])
            below = before if rows == 1 else best[c - 1]
            row = best[c, size : limit + 1]
            _add_request(row, below[: len(row)], values[i], taken[i, c, size : limit + 1])


@entry_point
def _subset_behind(
    sizes: IntArray, taken: BoolArray, count: int, limit: int, members: BoolArray
) -> None:
    """Mark in ``members`` the requests behind ``best[count, limit]``."""
    x = limit
    c = count
    for i in range(len(sizes) - 1, -1, -1):
        members[i] = taken[i, c, x]
        if members[i]:
            x -= sizes[i]
            c = max(0, c - 1)


class PackBound:
    """The linear program over subsets of each kind of worker; see the module.

    Workers of equal base load and capacity are of one kind.

    Parameters
    ----------
    core : FillProblem
        Data; every request is admitted.
    last : int
        Largest peak of interest.
    effort : Effort
        Counts the work.
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
        self._slots: IntArray = kinds[:, 1]
        self._limit = min(last - int(self._bases[0]), self._total)
        self._rows: IntArray = self._rows_of(self._slots)
        self.prices: IntArray = np.zeros_like(core.sizes)

    def _rows_of(self, capacity: IntArray) -> IntArray:
        """Row of each kind in the table; all 0 if cardinalities never bind or are too many."""
        fitting = int(np.searchsorted(np.cumsum(self._sizes), self._limit, side="right"))
        rows = np.minimum(capacity, fitting)
        cells = len(self._sizes) * (self._limit + 1) * (int(rows.max()) + 1)
        if (capacity >= fitting).all() or cells > _MAX_CELLS:
            return np.zeros_like(capacity)
        return rows

    @property
    def is_small(self) -> bool:
        """Whether the tables stay within bounds."""
        return len(self._sizes) * (self._limit + 1) <= _MAX_CELLS

    def prepare(self) -> None:
        """Make the tables and an empty linear program."""
        import highspy

        N = len(self._sizes)
        rows = int(self._rows.max()) + 1
        self._best: IntArray = np.empty((rows, self._limit + 1), dtype=np.int64)
        self._taken: BoolArray = np.empty((N, rows, self._limit + 1), dtype=np.bool_)
        self._known: set[tuple[int, bytes]] = set()
        self._columns: list[tuple[int, IntArray]] = []
        self._program = highspy.Highs()
        self._program.setOptionValue("output_flag", False)
        self._program.setOptionValue("presolve", "off")
        self._program.setOptionValue("threads", 1)
        # Primal simplex: after new columns the last basis is still primal feasible.
        self._program.setOptionValue("simplex_strategy", 4)
        for copies in [*self._copies.tolist(), *[1] * N]:
            self._program.addRow(
                -np.inf, float(copies), 0, np.empty(0, dtype=np.int32), np.empty(0)
            )
        self._program.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def add_placement(self, peak: int, owner: IntArray) -> None:
        """Add what a placement gives to workers below the peak as columns."""
        for g, base in enumerate(self._core.base.tolist()):
            members = np.flatnonzero(owner == g)
            if int(self._sizes[members].sum()) <= peak - base:
                self._add(int(self._kind[g]), members)

    def raise_peak(self, peak: int, last: int, expired: Callable[[], bool]) -> int:
        """Return the least peak that prices leave possible, ``last`` at most.

        ``prices`` are those that exclude the peak below it, if they raised it.
        """
        # Averaged with the best so far, prices jump less from round to round.
        behind: IntArray | None = None
        least = 1 << 62
        for _ in range(_ROUND_WORK // len(self._sizes) ** 2 + 1):
            if expired():
                break
            duals = self._solve()
            exact = np.maximum(np.rint(duals[len(self._bases) :] * PRICE_SCALE), 0)
            exact = exact.astype(np.int64)
            added = False
            for prices in [exact] if behind is None else [(exact + behind) // 2, exact]:
                total = self._total_under(prices, peak)
                if total < least:
                    least, behind = total, prices
                possible = self._least_possible(prices, peak, last)
                if possible > peak:
                    self.prices = prices
                    peak = possible
                    least = self._total_under(prices, peak)
                if peak >= last:
                    return last
                added = self._add_best(prices, duals, peak)
                if added:
                    break
            if not added:
                break
        return peak

    def clearest(self) -> IntArray:
        """Place disjoint columns of the linear program, those that weigh most first; rest -1.

        A table without cardinalities yields columns of more requests than slots: none of those.
        """
        weights = np.array(self._program.getSolution().col_value)
        owner = np.full(len(self._sizes), -1, dtype=np.int64)
        idle = [np.flatnonzero(self._kind == kind).tolist() for kind in range(len(self._bases))]
        for j in np.argsort(-weights, kind="stable").tolist():
            kind, members = self._columns[j]
            if weights[j] <= _LEAST_WEIGHT or len(members) > self._slots[kind]:
                continue
            if idle[kind] and (owner[members] < 0).all():
                owner[members] = idle[kind].pop()
        return owner

    def _add(self, kind: int, members: IntArray) -> None:
        key = (kind, members.tobytes())
        if key in self._known:
            return
        self._known.add(key)
        self._columns.append((kind, members))
        rows = np.concatenate([[kind], members + len(self._bases)]).astype(np.int32)
        worth = float(self._sizes[members].sum())
        self._program.addCol(worth, 0.0, np.inf, len(rows), rows, np.ones(len(rows)))

    def _solve(self) -> FloatArray:
        self._program.run()
        pivots = int(self._program.getInfo().simplex_iteration_count)
        rows = len(self._sizes) + len(self._bases)
        self._effort.spend(CALL + max(0, pivots) * _PIVOT * rows)
        return np.array(self._program.getSolution().row_dual)

    def _total_under(self, prices: IntArray, peak: int) -> int:
        """Most tokens these prices leave possible under a peak, scaled; fills the table."""
        values = PRICE_SCALE * self._sizes - prices
        self._fill(values, self._limit)
        return self._read_total(prices, peak)

    def _fill(self, values: IntArray, limit: int) -> None:
        self._effort.spend(CALL + len(self._sizes) * len(self._best) * (limit + 1))
        _priced_sums(self._sizes, values, limit, self._best, self._taken)

    def _read_total(self, prices: IntArray, peak: int) -> int:
        margins = np.minimum(peak - self._bases, self._limit)
        best = self._best[self._rows, margins]
        return int((self._copies * best).sum()) + int(prices.sum())

    def _least_possible(self, prices: IntArray, peak: int, last: int) -> int:
        """Least peak from ``peak`` on that the prices of the table do not exclude."""
        needed = PRICE_SCALE * self._total
        low, high = peak - 1, last
        while high - low > 1:
            middle = (low + high) // 2
            if self._read_total(prices, middle) >= needed:
                high = middle
            else:
                low = middle
        return high

    def _add_best(self, prices: IntArray, duals: FloatArray, peak: int) -> bool:
        """Add disjoint subsets that improve the program; return whether any does."""
        values = PRICE_SCALE * self._sizes - prices
        found = False
        members = np.empty(len(self._sizes), dtype=np.bool_)
        for kind, (base, row) in enumerate(
            zip(self._bases.tolist(), self._rows.tolist(), strict=True)
        ):
            margin = min(peak - base, self._limit)
            left = values.copy()
            for _ in range(max(1, _PER_ROUND // len(self._bases))):
                self._fill(left, margin)
                _subset_behind(self._sizes, self._taken, row, margin, members)
                subset = np.flatnonzero(members)
                cost = duals[kind] + float(duals[len(self._bases) + subset].sum())
                if float(self._sizes[subset].sum()) <= cost + _LEAST_GAIN:
                    break
                self._add(kind, subset)
                left[members] = 0
                found = True
        return found
