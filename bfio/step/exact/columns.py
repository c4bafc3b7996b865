"""Column generation: find prices at which no subset improves the linear program.

For any prices λ ≥ 0 on the requests, the admitted total under a peak M is at most

    Σ_i λ_i + Σ_g max { Σ_{i ∈ S} (s_i − λ_i) : |S| = cap_g, Σ_{i ∈ S} s_i ≤ M − b_g },

and the best prices are the duals of the program with one column for each worker and subset.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bfio.step.exact.barred import BarredWorkers, add_allowed, best_allowed
from bfio.step.exact.effort import CALL, Effort
from bfio.step.exact.fill import FillProblem
from bfio.step.exact.master import Pool, empty_basis, improve_basis, start_basis
from bfio.step.exact.peaks import IMPOSSIBLE
from bfio.step.exact.subsets import (
    SMALL_VALUE,
    PricedRequests,
    PricedTable,
    Table,
    add_values,
    best_subsets,
    fill_table,
    last_sums,
    most_valuable,
    prefix_values,
    worker_values,
)
from bfio.step.exact.sums import UNREACHABLE
from formulations.arrays import FloatArray, IntArray

#: Prices are kept in integer multiples of 1/PRICE_SCALE token; duals are mostly simple fractions.
PRICE_SCALE = 840
#: More than any total.
_NO_BOUND = 1 << 62
#: Rounds of column generation, and pivots in each.
_ROUNDS = 60
_PIVOTS = 2000
#: Part of the best prices so far in those tried, while these are much worse: one of so many.
_PARTS = 3
#: Requests looked at for the best subset of a worker.
_SCANS = 20_000
#: Weight from which on a column of the linear program's solution counts.
_LEAST_WEIGHT = 1e-6
#: Operations of a hundred cells of a table.
_CELL = 15


def table_type(values: IntArray, most: int) -> type[np.signedinteger[Any]]:
    """Return the integer type for tables of up to ``most`` values: 32 bits if sums fit."""
    small = most * int(np.abs(values).max(initial=0)) < SMALL_VALUE
    return np.int32 if small else np.int64


class PricedSubsets:
    """Best subsets of requests at given prices.

    Parameters
    ----------
    sizes : IntArray
        Shape (N,), ascending.
    most : int
        Largest cardinality.
    effort : Effort
        Counts the work.
    """

    def __init__(self, sizes: IntArray, most: int, effort: Effort) -> None:
        self.sizes = sizes
        self._effort = effort
        self._most = most
        self._buffer: Table = np.empty((most + 1, 0), dtype=np.int32)
        self._prices: IntArray | None = None
        self.cells = 0

    def price(
        self, prices: IntArray, capacity: IntArray, margins: IntArray, spread: int = 0
    ) -> None:
        """Set integer prices, and fill the tables that the workers need.

        The workers have these margins [tokens], or up to ``spread`` less.
        """
        values: IntArray = PRICE_SCALE * self.sizes - prices
        order, top_sum, top_value = most_valuable(self.sizes, values, self._most)
        reach = last_sums(top_sum, capacity, margins, spread)
        if self._is_filled(prices, reach):
            return
        self._prices = prices.copy()
        self._fill(values.astype(table_type(values, self._most)), reach)
        self.table = PricedTable(self._buffer, reach, top_sum, top_value)
        prefix = prefix_values(values, self._most)
        self.requests = PricedRequests(self.sizes, values, prefix, order, self.table)

    def _is_filled(self, prices: IntArray, reach: IntArray) -> bool:
        known = self._prices is not None and np.array_equal(prices, self._prices)
        return known and bool((reach <= self.requests.table.reach).all())

    def _fill(self, values: Table, reach: IntArray) -> None:
        """Fill the table buffer, or a larger one, with sums of the type of ``values``."""
        if self._buffer.shape[1] <= reach.max() or self._buffer.dtype != values.dtype:
            self._buffer = np.empty((self._most + 1, int(reach.max()) + 1), dtype=values.dtype)
        cells = fill_table(self.sizes, values, reach, self._buffer)
        self.cells += cells
        self._effort.spend(CALL + _CELL * cells // 100)


class ColumnGeneration:
    """The linear program over subsets of one fill problem, solved for one peak after another.

    Parameters
    ----------
    core : FillProblem
        The fill problem.
    largest_margin : int
        Largest margin of any worker under any peak of interest; larger requests fit nowhere.
    effort : Effort
        Limits; bounds are valid even if a limit stops the method.
    barred : mapping from int to frozenset of int, optional
        Sizes that a worker, given by index, must not take.
    """

    def __init__(
        self,
        core: FillProblem,
        largest_margin: int,
        effort: Effort,
        barred: Mapping[int, frozenset[int]] | None = None,
    ) -> None:
        self._effort = effort
        self._core = core
        self._num_workers = len(core.base)
        self.num_fitting = int(np.searchsorted(core.sizes, largest_margin, side="right"))
        sizes = core.sizes[: self.num_fitting]
        self._most = int(core.capacity.max())
        self.subsets = PricedSubsets(sizes, self._most, effort)
        self._free, self._barred = self._divided({} if barred is None else barred)
        # Requests of one size are interchangeable: one row and one price serve them all.
        distinct, kind, available = np.unique(sizes, return_inverse=True, return_counts=True)
        self.distinct: IntArray = distinct
        self._kind: IntArray = kind
        self._available: IntArray = available
        self._basis = empty_basis(self._num_workers + len(self._available))
        self._count = 0
        self._behind: IntArray | None = None
        room = 256
        self._pool = Pool(
            np.empty((room, self._most), np.int64), np.empty(room, np.int64), np.empty(room)
        )

    def _divided(self, barred: Mapping[int, frozenset[int]]) -> tuple[IntArray, IntArray]:
        """Return the positions of workers that may take any request, and of all others."""
        workers = self._core.workers.tolist()
        is_barred = np.array([g in barred for g in workers])
        others = np.flatnonzero(is_barred)
        sizes = self.subsets.sizes
        taken = [~np.isin(sizes, list(barred[workers[k]])) for k in others.tolist()]
        allowed = np.array(taken, dtype=np.bool_).reshape(len(others), len(sizes))
        base, capacity = self._core.base[others], self._core.capacity[others]
        self._barred_workers = BarredWorkers(base, capacity, allowed)
        return np.flatnonzero(~is_barred), others

    @property
    def prices(self) -> IntArray:
        """Dual prices of the requests, in integer multiples of 1/PRICE_SCALE."""
        scaled = np.rint(self._basis.dual[self._num_workers :] * PRICE_SCALE)
        return np.maximum(scaled, 0).astype(np.int64)[self._kind]

    def found(self) -> tuple[IntArray, IntArray]:
        """Return the sizes of the subsets found so far, padded with -1, and their workers."""
        members, workers, _ = self._used_pool
        sizes: IntArray = np.where(members >= 0, self.distinct[members], -1)
        return sizes, workers.copy()

    def adopt(self, sizes: IntArray, workers: IntArray) -> None:
        """Add initial subsets in the format of `found`, if allowed in this problem."""
        sizes = sizes[:, : self._most]
        kinds = np.minimum(np.searchsorted(self.distinct, sizes), len(self.distinct) - 1)
        first = np.searchsorted(self.subsets.sizes, self.distinct)
        may_take = np.ones((self._num_workers, len(first)), dtype=np.bool_)
        may_take[self._barred] = self._barred_workers.allowed[:, first]
        is_here = (self.distinct[kinds] == sizes) & may_take[workers[:, None], kinds]
        here = ((sizes < 0) | is_here).all(axis=1)
        members = np.where(sizes < 0, -1, kinds)[here]
        worth = np.maximum(sizes[here], 0).sum(axis=1)
        room = np.empty((256, self._most), np.int64), np.empty(256, np.int64), np.empty(256)
        found = members, workers[here], worth.astype(np.float64)
        self._pool = Pool(*(np.concatenate([a, b]) for a, b in zip(found, room, strict=True)))
        self._count = len(members)

    def start(self, peak: int, owner: IntArray) -> None:
        """Begin under ``peak`` with the subsets of a placement that fit."""
        self._discard_too_large(peak)
        first = np.full(self._num_workers, -1, dtype=np.int64)
        owner = owner[: self.num_fitting]
        for g in np.unique(owner[owner >= 0]).tolist():
            subset = np.flatnonzero(owner == g)
            total = int(self.subsets.sizes[subset].sum())
            if len(subset) == self._core.capacity[g] and total <= peak - self._core.base[g]:
                first[g] = self._count
                self._add(g, subset)
        start_basis(
            self._num_workers,
            self._available,
            first,
            self._used_pool,
            4.0 * float(self.subsets.sizes[-1]),
            self._basis,
        )

    def bound_total(
        self, peak: int, enough: int, prices: IntArray | None = None
    ) -> tuple[int, IntArray]:
        """Return an upper bound on the admitted total size under a peak.

        Parameters
        ----------
        peak : int
            The peak.
        enough : int
            Bound at which to stop.
        prices : IntArray, optional
            Initial prices, near the best ones; they are averaged with the duals, not tried. By
            default the prices of the previous bound.

        Returns
        -------
        tuple of (int, IntArray)
            The bound and the prices that prove it; bound -1 if some worker cannot be filled.
        """
        margins = peak - self._core.base
        least = _NO_BOUND
        behind = self._behind if prices is None else prices
        if behind is None:
            behind = self._first_prices()
            least, _ = self._try(behind, margins)
        kept = 1
        for _ in range(_ROUNDS):
            if least <= enough or self._effort.is_over:
                break
            self._improve_basis()
            worth = self._worth()
            if least <= worth:
                break
            duals, added = self.prices, False
            # Averaged with the best so far, prices jump less; if that adds nothing, the duals do.
            for part in dict.fromkeys((kept, 0)):
                if not added and least > enough:
                    prices = ((_PARTS - part) * duals + part * behind) // _PARTS
                    total, added = self._try(prices, margins)
                    # What falls so fast falls on towards the duals.
                    kept = 0 if 2 * (total - worth) <= least - worth else 1
                    if total < least:
                        least, behind = total, prices
            if not added:
                break
        self._behind = behind
        return least, behind

    def _improve_basis(self) -> None:
        pivots = improve_basis(self._num_workers, self._used_pool, _PIVOTS, self._basis)
        rows = len(self._basis.column)
        self._effort.spend((pivots + 1) * (rows * rows // 2 + self._count * (self._most + 2)))

    def attains(self, total: int) -> bool:
        """Return whether fractions of known subsets attain a total, so no prices bound it."""
        self._improve_basis()
        return self._worth() >= total

    def _worth(self) -> float:
        """Return the total that fractions of known subsets attain; low if they are too few."""
        dual, W = self._basis.dual, self._num_workers
        return float(dual[:W].sum() + dual[W:] @ self._available)

    def _first_prices(self) -> IntArray:
        """Return initial prices that make all larger requests equal to the last admitted.

        These prices are optimal if no margin binds, and nearly optimal if few margins bind.
        """
        sizes = self.subsets.sizes
        slots = int(self._core.capacity.sum())
        last = int(sizes[max(0, len(sizes) - slots)])
        prices: IntArray = PRICE_SCALE * np.maximum(sizes - last, 0)
        return prices

    def _try(self, prices: IntArray, margins: IntArray) -> tuple[int, bool]:
        """Bound the total by given prices; add each worker's best subset if it may improve."""
        capacity, free, barred = self._core.capacity, self._free, self._barred
        values = np.empty_like(capacity)
        subsets = np.empty((0, self._most), dtype=np.int64)
        if len(free):
            self.subsets.price(prices, capacity[free], margins[free])
            values[free] = worker_values(margins[free], capacity[free], self.subsets.table)
        if len(barred):
            peak = int(margins[0] + self._core.base[0])
            worth, units = self._worth_of(prices)
            values[barred], subsets, cells = best_allowed(
                self._barred_workers,
                peak,
                self.subsets.sizes,
                worth,
                units,
                _SCANS,
                self._effort.spent,
            )
            self._spend_on_barred(cells)
        if values.min() <= UNREACHABLE // 2:
            return -1, False
        total = (int(prices.sum()) + int(values.sum())) // PRICE_SCALE
        return total, self._add_best(margins, values, subsets)

    def _worth_of(self, prices: IntArray) -> tuple[IntArray, Table]:
        """Return the values of requests at given prices, also in the type of tables."""
        values: IntArray = PRICE_SCALE * self.subsets.sizes - prices
        return values, values.astype(table_type(values, self._most))

    def _spend_on_barred(self, cells: int) -> None:
        self._effort.spend(CALL * len(self._barred) + _CELL * cells // 100)

    def placement(self) -> IntArray | None:
        """Return the owner of each size if the linear program's solution is integral."""
        columns = self._basis.column[self._basis.primal > 0.5]
        columns = columns[columns >= 0]
        if len(columns) < self._num_workers:
            return None
        owner = np.full(len(self._core.sizes), -1, dtype=np.int64)
        if not all(self._take(j, owner) for j in columns.tolist()):
            return None
        return owner

    def clearest(self) -> IntArray:
        """Return the owner of each size by disjoint subsets, largest fraction first; others -1."""
        owner = np.full(len(self._core.sizes), -1, dtype=np.int64)
        idle = np.ones(self._num_workers, dtype=np.bool_)
        for row in np.argsort(-self._basis.primal, kind="stable").tolist():
            j = int(self._basis.column[row])
            if j >= 0 and self._basis.primal[row] > _LEAST_WEIGHT and idle[self._pool.worker[j]]:
                idle[self._pool.worker[j]] = not self._take(j, owner)
        return owner

    def _take(self, j: int, owner: IntArray) -> bool:
        """Assign a column's worker free requests of its sizes; return whether all are free."""
        g = int(self._pool.worker[j])
        free = owner[: self.num_fitting] < 0
        members = []
        for kind in self._pool.members[j, : self._core.capacity[g]].tolist():
            of_kind = np.flatnonzero(free & (self._kind == kind))
            if len(of_kind) == 0:
                return False
            members.append(int(of_kind[0]))
            free[of_kind[0]] = False
        owner[members] = g
        return True

    def raise_bounds(self, first: int, prices: IntArray, bounds: IntArray, incumbent: int) -> None:
        """Raise the bounds of all peaks from ``first`` on that are below ``incumbent``."""
        core = self._core
        still_open = np.flatnonzero(bounds < incumbent)
        peaks = first + still_open
        total = np.full(len(peaks), int(prices.sum()))
        if len(self._free):
            base, slots = core.base[self._free], core.capacity[self._free]
            spread = int(peaks[-1] - peaks[0])
            self.subsets.price(prices, slots, peaks[-1] - base, spread)
            add_values(peaks, base, slots, self.subsets.table, total)
        if len(self._barred):
            worth, units = self._worth_of(prices)
            cells = add_allowed(
                self._barred_workers, peaks, self.subsets.sizes, worth, units, total
            )
            self._spend_on_barred(cells)
        found = core.num_workers * peaks - core.total_base - total // PRICE_SCALE
        bounds[still_open] = np.maximum(bounds[still_open], np.where(total < 0, IMPOSSIBLE, found))

    def _add_best(self, margins: IntArray, values: IntArray, of_barred: IntArray) -> bool:
        """Add each worker's best subset if it improves the program; return whether any does.

        ``of_barred`` holds the best subsets of workers with forbidden sizes.
        """
        capacity, dual, free = self._core.capacity, self._basis.dual, self._free
        workers = np.concatenate([free, self._barred])
        subsets = np.full((len(workers), self._most), -1, dtype=np.int64)
        if len(free):
            subsets[: len(free)] = best_subsets(
                self.subsets.requests,
                capacity[free],
                margins[free],
                values[free],
                _SCANS,
                self._effort.spent,
            )
        subsets[len(free) :, : of_barred.shape[1]] = of_barred
        inside = subsets >= 0
        rows = np.where(inside, subsets, 0)
        worth = np.where(inside, self.subsets.sizes[rows], 0).sum(axis=1)
        cost = np.where(inside, dual[self._num_workers + self._kind[rows]], 0.0).sum(axis=1)
        improves = inside[:, 0] & (worth > cost + dual[workers] + 1e-4)
        for k in np.flatnonzero(improves).tolist():
            self._add(int(workers[k]), rows[k, : capacity[workers[k]]])
        return bool(improves.any())

    def shares(self) -> FloatArray:
        """Return the fraction of each size that each worker takes in the solution.

        The result has shape (W, D), with one column per entry of `distinct`.
        """
        taken = np.zeros((self._num_workers, len(self.distinct)))
        for j, weight in zip(self._basis.column, self._basis.primal, strict=True):
            if j >= 0:
                members = self._pool.members[j]
                np.add.at(taken[self._pool.worker[j]], members[members >= 0], weight)
        return taken

    @property
    def _used_pool(self) -> Pool:
        used = slice(self._count)
        return Pool(self._pool.members[used], self._pool.worker[used], self._pool.worth[used])

    def _add(self, worker: int, subset: IntArray) -> None:
        j = self._count
        if j == len(self._pool.worker):
            members, workers, worth = self._pool
            self._pool = Pool(
                np.concatenate([members, members]),
                np.concatenate([workers, workers]),
                np.concatenate([worth, worth]),
            )
        self._pool.members[j] = -1
        self._pool.members[j, : len(subset)] = self._kind[subset]
        self._pool.worker[j] = worker
        self._pool.worth[j] = self.subsets.sizes[subset].sum()
        self._count = j + 1

    def _discard_too_large(self, peak: int) -> None:
        """Drop the subsets that do not fit under ``peak``."""
        used = self._used_pool
        keep = used.worth <= (peak - self._core.base)[used.worker]
        self._count = int(keep.sum())
        for array, kept in zip(self._pool, used, strict=True):
            array[: self._count] = kept[keep]
