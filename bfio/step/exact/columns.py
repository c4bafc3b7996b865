"""Column generation: find prices at which no subset improves the linear program.

For any prices λ ≥ 0 on the requests, the admitted total under a peak M is at most

    Σ_i λ_i + Σ_g max { Σ_{i ∈ S} (s_i − λ_i) : |S| = cap_g, Σ_{i ∈ S} s_i ≤ M − b_g },

and the best prices are the duals of the program with one column for each worker and subset.
"""

from collections.abc import Mapping

import numpy as np

from bfio.step.exact.effort import Effort
from bfio.step.exact.fill import FillProblem
from bfio.step.exact.master import Pool, empty_basis, improve_basis, start_basis
from bfio.step.exact.subsets import SMALL_VALUE, Table, Takers, Work, add_best, add_values_of_all
from bfio.step.exact.sums import IMPOSSIBLE, UNREACHABLE
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
#: Weight from which on a column of the linear program's solution counts.
LEAST_WEIGHT = 1e-6
#: Operations of a hundred cells of a table.
_CELL = 15


class ColumnGeneration:
    """The linear program over subsets of one fill problem, solved for one peak after another.

    Parameters
    ----------
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
        self._sizes = core.sizes[: self.num_fitting]
        self._most = int(core.capacity.max())
        # Requests of one size are interchangeable: one row and one price serve them all.
        begins = np.diff(self._sizes, prepend=-1) > 0
        self._first: IntArray = np.flatnonzero(begins)
        self._kind: IntArray = np.cumsum(begins) - 1
        self._available: IntArray = np.diff(self._first, append=self.num_fitting)
        self.distinct: IntArray = self._sizes[self._first]
        self._takers = self._with_menus({} if barred is None else barred)
        self._basis = empty_basis(self._num_workers + len(self._available))
        self._behind: IntArray | None = None
        # The first ``_count`` rows are in use.
        self._count = 0
        no_rows: IntArray = np.empty((0, self._most), dtype=np.int64)
        self._pool = Pool(no_rows, no_rows[:, 0], np.empty(0))
        reach = np.full(self._most + 1, -1, dtype=np.int64)
        self._work = Work(effort.spent, np.zeros(2, dtype=np.int64), reach)
        self._counted: IntArray | None = None
        self.cells = 0

    def _with_menus(self, barred: Mapping[int, frozenset[int]]) -> Takers:
        """Return the workers: those that may take any request have the first menu."""
        workers, sizes = self._core.open.tolist(), self._sizes
        menu = np.zeros(len(workers), dtype=np.int64)
        allowed = [np.ones(len(sizes), dtype=np.bool_)]
        for k, g in enumerate(workers):
            if g in barred:
                menu[k] = len(allowed)
                allowed.append((sizes != np.array(list(barred[g]))[:, None]).all(axis=0))
        base, capacity = self._core.base, self._core.capacity
        return Takers(base, capacity, menu, np.array(allowed), sizes, self._kind)

    def _make_room(self) -> None:
        """Make room in the pool for one more subset of each worker."""
        if self._count + self._num_workers > len(self._pool.worker):
            more = 256 + self._num_workers + self._count
            longer = (np.empty((more, *each.shape[1:]), each.dtype) for each in self._pool)
            parts = zip(self._pool, longer, strict=True)
            self._pool = Pool(*(np.concatenate(pair) for pair in parts))

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
        may_take = self._takers.allowed[:, self._first]
        is_here = self.distinct[kinds] == sizes
        is_here &= may_take[self._takers.menu[workers][:, None], kinds]
        here = ((sizes < 0) | is_here).all(axis=1)
        members = np.where(sizes < 0, -1, kinds)[here]
        worth = np.maximum(sizes[here], 0).sum(axis=1)
        self._count = len(members)
        self._pool = Pool(members, workers[here], worth.astype(np.float64))

    def start(self, peak: int, owner: IntArray) -> None:
        """Begin under ``peak`` with the known subsets and those of a placement, if they fit."""
        used = self._used_pool
        keep = used.worth <= (peak - self._core.base)[used.worker]
        self._count = int(keep.sum())
        self._pool = Pool(used.members[keep], used.worker[keep], used.worth[keep])
        self._make_room()
        first = np.full(self._num_workers, -1, dtype=np.int64)
        owner = owner[: self.num_fitting]
        for g in np.unique(owner[owner >= 0]).tolist():
            subset = np.flatnonzero(owner == g)
            total = int(self._sizes[subset].sum())
            if len(subset) == self._core.capacity[g] and total <= peak - self._core.base[g]:
                first[g] = self._count
                self._pool.members[self._count] = -1
                self._pool.members[self._count, : len(subset)] = self._kind[subset]
                self._pool.worker[self._count], self._pool.worth[self._count] = g, total
                self._count += 1
        start_basis(
            self._num_workers,
            self._available,
            first,
            self._used_pool,
            4.0 * float(self._sizes[-1]),
            self._basis,
        )

    def bound_total(
        self, peak: int, enough: int, prices: IntArray | None = None
    ) -> tuple[int, IntArray]:
        """Return an upper bound on the admitted total size under a peak.

        Parameters
        ----------
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
        least = _NO_BOUND
        behind = self._behind if prices is None else prices
        if behind is None:
            behind = self._first_prices()
            least, _ = self._try(behind, peak)
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
                    total, added = self._try(prices, peak)
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
        sizes = self._sizes
        slots = int(self._core.capacity.sum())
        last = int(sizes[max(0, len(sizes) - slots)])
        prices: IntArray = PRICE_SCALE * np.maximum(sizes - last, 0)
        return prices

    def _try(self, prices: IntArray, peak: int) -> tuple[int, bool]:
        """Bound the total by given prices; add each worker's best subset if it may improve."""
        self._make_room()
        before = self._count
        total, self._count = add_best(
            self._takers,
            peak,
            self._values(prices),
            self._basis.dual,
            self._pool,
            before,
            self._work,
        )
        self._spend_on_cells()
        if total <= UNREACHABLE // 2:
            return -1, False
        return (int(prices.sum()) + total) // PRICE_SCALE, self._count > before

    def _values(self, prices: IntArray) -> Table:
        """Return the values of requests at some prices, in the type of tables."""
        if self._counted is None or not np.array_equal(prices, self._counted):
            self._counted = prices.copy()
            self._work.reach[:] = -1
        values: IntArray = PRICE_SCALE * self._sizes - prices
        small = self._most * int(np.abs(values).max(initial=0)) < SMALL_VALUE
        return values.astype(np.int32) if small else values

    def _spend_on_cells(self) -> None:
        first, others = self._work.cells.tolist()
        self._work.cells[:] = 0
        self.cells += first
        self._effort.spend(_CELL * first // 100 + _CELL * others // 100)

    def placement(self) -> IntArray | None:
        """Return the owner of each size if the linear program's solution is integral."""
        columns = self._basis.column[self._basis.primal > 0.5]
        columns = columns[columns >= 0]
        if len(columns) < self._num_workers:
            return None
        owner, used = self._nobody()
        if not all(self._take(j, owner, used) for j in columns.tolist()):
            return None
        return owner

    def clearest(self) -> IntArray:
        """Return the worker of each size, -1 for none, from the linear program's solution.

        Its columns are taken in order of their fractions, the largest first. A column is left out
        if its worker has one already or if its requests are no longer free.
        """
        owner, used = self._nobody()
        idle = np.ones(self._num_workers, dtype=np.bool_)
        for row in np.argsort(-self._basis.primal, kind="stable").tolist():
            j = int(self._basis.column[row])
            if j >= 0 and self._basis.primal[row] > LEAST_WEIGHT and idle[self._pool.worker[j]]:
                idle[self._pool.worker[j]] = not self._take(j, owner, used)
        return owner

    def _nobody(self) -> tuple[IntArray, list[int]]:
        """Return the owner of each size, -1, and the number of requests used of each kind."""
        return np.full(len(self._core.sizes), -1, dtype=np.int64), [0] * len(self._first)

    def _take(self, j: int, owner: IntArray, used: list[int]) -> bool:
        """Assign a column's worker free requests of its sizes; return whether all are free."""
        g = int(self._pool.worker[j])
        kinds = self._pool.members[j, : self._core.capacity[g]].tolist()
        if any(used[kind] + kinds.count(kind) > self._available[kind] for kind in kinds):
            return False
        for kind in kinds:
            owner[self._first[kind] + used[kind]] = g
            used[kind] += 1
        return True

    def raise_bounds(self, first: int, prices: IntArray, bounds: IntArray, incumbent: int) -> None:
        """Raise the bounds of all peaks from ``first`` on that are below ``incumbent``."""
        core = self._core
        still_open = np.flatnonzero(bounds < incumbent)
        peaks = first + still_open
        total = np.full(len(peaks), int(prices.sum()))
        add_values_of_all(self._takers, peaks, self._values(prices), total, self._work)
        self._spend_on_cells()
        found = core.num_workers * peaks - core.total_base - total // PRICE_SCALE
        bounds[still_open] = np.maximum(bounds[still_open], np.where(total < 0, IMPOSSIBLE, found))

    def shares(self) -> FloatArray:
        """Return the fraction of each size that each worker takes in the solution.

        The result has shape (W, D), with one column per entry of `distinct`.
        """
        taken = np.zeros((self._num_workers, len(self.distinct)))
        basic = np.flatnonzero(self._basis.column >= 0)
        columns, weights = self._basis.column[basic], self._basis.primal[basic]
        members = self._pool.members[columns]
        row, place = np.nonzero(members >= 0)
        np.add.at(taken, (self._pool.worker[columns[row]], members[row, place]), weights[row])
        return taken

    @property
    def _used_pool(self) -> Pool:
        used = slice(self._count)
        return Pool(self._pool.members[used], self._pool.worker[used], self._pool.worth[used])
