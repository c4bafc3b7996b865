"""The configuration bound: a lower bound in exact integers from any prices.

Each request pays a price ``w[t, cell] >= 0`` at each round t that it occupies, depending on its
cell there. The sum of all payments at t is subtracted again. So a feasible schedule costs, scaled
by `SCALE`,

    Σ_i SCALE p_i = Σ_i (SCALE p_i + payments of i) − Σ_t (payments at t) .

The first sum is at least ``Σ_i min_k`` of the bracket. The payments at t are the price of the set
of cells present at t. In the schedule these requests run to their ends within the memory, even
with later starts added. So they also do without later starts, the cells fit together in the sense
of `configurations`, and their price is at most that of the dearest (maximum-price) set. Hence

    Σ_i p_i >= (Σ_i min_k (SCALE k + payments of i from k) − Σ_t dearest(t)) / SCALE .

All quantities are integers. Starts beyond the last priced round have no payments and only cost
more, so the minimum is over finitely many k. The relaxation is that the set of each round is
chosen independently. Unlike the linear relaxation it accounts for the memory that a request at its
peak leaves unused.

Pair losses say by how much a dearest set becomes cheaper if it must contain two given cells. At
good prices nearly every cell is in some dearest set, so one running request alone implies no loss
(complementary slackness). Two requests often do: sets that contain both cells are usually far from
the dearest. The tables have rounds times cells squared entries, so they are used for problems with
few requests.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bfio.common.kernels import entry_point
from bfio.hindsight.latency.configurations import (
    UNREACHABLE,
    Cells,
    NormalForm,
    Windows,
    around,
    best_with,
    dearest,
    empty_sets,
    losses,
    most_others,
    offer,
    open_windows,
    span,
    table_size,
)
from formulations.arrays import FloatArray, IntArray
from formulations.deadline import UNLIMITED, Deadline

#: Prices are integer multiples of 1/SCALE waiting rounds.
SCALE = 4096
#: Cost of an excluded start: above all real costs, and sums of many stay within 64 bits.
CLOSED = 1 << 50
#: Table entries filled between two checks of the time.
_PIECE_WORK = 20_000_000


@dataclass(frozen=True)
class PricedBound:
    """Integer prices and the bound that they prove.

    Parameters
    ----------
    prices : IntArray
        Shape (rounds, cells), scaled.
    Shape (rounds,): price of the maximum-price set of each round, scaled.
        Shape (rounds,): price of the dearest set of each round, scaled.
    Shape (n, rounds + 1): ``SCALE k`` plus the payments of each request if it starts at k.
        Shape (n, rounds + 1): ``SCALE k`` plus what each request pays from start k.
    The bound on ``SCALE Σ starts``; above all real sums if a request has no open start.
        The bound on ``SCALE Σ starts``; beyond every real sum if a request has no open start.
    """

    prices: IntArray
    dearest: IntArray
    cost: IntArray
    scaled: int

    @property
    def starts(self) -> int:
        """Lower bound on the sum of starts."""
        return -(-self.scaled // SCALE)


def priced_bound(
    form: NormalForm,
    cells: Cells,
    windows: Windows,
    prices: FloatArray,
    deadline: Deadline = UNLIMITED,
) -> PricedBound:
    """Round prices down to integers and evaluate the bound that they prove.

    The bound holds for schedules within the windows. Negative prices are set to 0, which never
    lowers the bound, because a maximum-price set avoids them.
    """
    scaled = np.floor(np.maximum(prices, 0.0) * SCALE).astype(np.int64)
    # No request can be at a closed cell, so a price there could only lower the bound.
    scaled[~windows.cells] = 0
    pieces = _pieces(scaled, cells, deadline)
    best = np.concatenate([_dearest_by_round(scaled[piece], cells) for piece in pieces])
    cost = _costs(scaled, cells.of_age, form, SCALE)
    cost[~windows.starts] = CLOSED
    return PricedBound(scaled, best, cost, sum(cost.min(axis=1).tolist()) - sum(best.tolist()))


def cell_losses(cells: Cells, priced: PricedBound, deadline: Deadline = UNLIMITED) -> IntArray:
    """Return by how much the best set with a cell is below the dearest one, shape (rounds, c)."""
    pieces = _pieces(priced.prices, cells, deadline)
    return np.concatenate([_losses(priced.prices[piece], cells) for piece in pieces])


def _pieces(prices: IntArray, cells: Cells, deadline: Deadline) -> Iterator[slice]:
    """Yield slices of the rounds, and check the time before each."""
    size = max(1, _PIECE_WORK // (table_size(cells) * len(cells.tokens)))
    # At least one slice, which may be empty.
    for begin in range(0, max(len(prices), 1), size):
        deadline.check()
        yield slice(begin, begin + size)


def narrowed_windows(
    form: NormalForm,
    cells: Cells,
    windows: Windows,
    priced: PricedBound,
    cutoff: int,
    deadline: Deadline = UNLIMITED,
) -> Windows:
    """Close every start that no schedule of scaled cost up to ``cutoff`` can contain.

    If request i starts at k, the bound rises by the excess cost of k over i's cheapest start. It
    also rises, at each round that i occupies, by the loss of the sets with i's cell, since the set
    present contains that cell.
    """
    loss = cell_losses(cells, priced, deadline)
    extra = priced.cost - priced.cost.min(axis=1, keepdims=True)
    extra += _costs(loss, cells.of_age, form, 0)
    return open_windows(form, cells, windows.starts & (priced.scaled + extra <= cutoff))


@entry_point
def _dearest_by_round(prices: IntArray, cells: Cells) -> IntArray:
    best = np.zeros(len(prices), np.int64)
    for now in range(len(prices)):
        best[now] = dearest(prices[now], cells)
    return best


@entry_point
def _losses(prices: IntArray, cells: Cells) -> IntArray:
    room = (len(cells.tokens), cells.memory // cells.smallest + 2, cells.memory + 1)
    before, after = np.zeros(room, np.int64), np.zeros(room, np.int64)
    loss = np.zeros_like(prices)
    for now in range(len(prices)):
        losses(prices[now], cells, before, after, loss[now])
    return loss


@entry_point
def _costs(prices: IntArray, of_age: IntArray, form: NormalForm, scale: int) -> IntArray:
    rounds, arrival, duration = len(prices), form.arrival, form.duration
    cost = np.zeros((len(arrival), rounds + 1), np.int64)
    for i in range(len(arrival)):
        for k in range(rounds + 1):
            cost[i, k] = scale * (k if k < rounds else max(rounds, arrival[i]))
            for age in range(min(duration[i], rounds - k)):
                cost[i, k] += prices[k + age, of_age[i, age]]
    return cost


#: Maximum entries of the tables of all rounds.
_MAX_ENTRIES = 60_000_000
#: Loss of two cells that no set can contain.
_NEVER = np.iinfo(np.int32).max


@dataclass(frozen=True)
class PairLosses:
    """Tables of all rounds, concatenated; empty if they would be too large.

    Parameters
    ----------
    loss : array of int32
        Shape (entries,): square tables over the open cells of each round.
    begin : IntArray
        Shape (rounds,): index of the first entry of each table.
    row : IntArray
        Shape (rounds, c): index of a cell in the table of a round, -1 if closed.
    size : IntArray
        Shape (rounds,): number of rows of each table.
    """

    loss: NDArray[np.int32]
    begin: IntArray
    row: IntArray
    size: IntArray


def pair_losses(
    cells: Cells,
    priced: PricedBound,
    windows: Windows,
    pool: Executor,
    deadline: Deadline = UNLIMITED,
) -> PairLosses:
    """Return the losses of all pairs of open cells, for each round.

    Raises
    ------
    OutOfTime
        If the deadline passes first.
    """
    size = windows.cells.sum(axis=1)
    row = np.where(windows.cells, np.cumsum(windows.cells, axis=1) - 1, -1)
    entries = int((size**2).sum())
    if entries > _MAX_ENTRIES:
        empty = np.zeros(0, np.int64)
        return PairLosses(np.zeros(0, np.int32), empty, row, empty)
    begin = np.cumsum(size**2) - size**2
    loss = np.zeros(entries, np.int32)

    def fill(now: int) -> None:
        deadline.check()
        open_ = np.flatnonzero(windows.cells[now])
        _fill_pairs(
            priced.prices[now, open_],
            cells._replace(
                tokens=cells.tokens[open_], left=cells.left[open_], copies=cells.copies[open_]
            ),
            loss[begin[now] : begin[now] + size[now] ** 2].reshape(size[now], size[now]),
        )

    list(pool.map(fill, range(len(size))))
    return PairLosses(loss, begin, row, size)


@entry_point
def _fill_pairs(price: IntArray, cells: Cells, loss: NDArray[np.int32]) -> None:
    num_cells = len(price)
    value = empty_sets(cells)
    before = np.zeros((num_cells, *value.shape), np.int64)
    after = np.zeros((num_cells, *value.shape), np.int64)
    best = around(price, cells, before, after)
    for first in range(num_cells):
        gain, m = price[first], cells.tokens[first]
        loss[first, first] = best - best_with(gain, first, cells, before[first], after[first])
        value[:] = UNREACHABLE
        for c in range(most_others(first, cells) + 1):
            low, high = span(first, c, cells)
            for s in range(low, high):
                value[c + 1, s + m] = before[first, c, s] + gain
        for _ in range(cells.copies[first] - 1):
            offer(gain, first, cells, value)
        for second in range(first + 1, num_cells):
            both = best_with(price[second], second, cells, value, after[second])
            loss[first, second] = min(best - both, _NEVER)
            loss[second, first] = loss[first, second]
            for _ in range(cells.copies[second]):
                offer(price[second], second, cells, value)
