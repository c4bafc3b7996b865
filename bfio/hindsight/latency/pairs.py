"""What two requests cost together: how much cheaper a dearest set becomes that must hold both.

At good prices nearly every cell is in some dearest set, so that one running request alone
implies no loss (complementary slackness). Two of them do: with two cells known, the sets that
hold both are usually far from dearest. The tables cost rounds times cells squared, so they are
for problems with few requests.
"""

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bfio.common.kernels import entry_point
from bfio.hindsight.latency.bound import PricedBound
from bfio.hindsight.latency.cells import Cells, Windows
from bfio.hindsight.latency.configurations import (
    UNREACHABLE,
    around,
    best_with,
    empty_sets,
    most_others,
    offer,
    span,
)
from formulations.arrays import IntArray
from formulations.deadline import UNLIMITED, Deadline

#: Most entries of the tables of all rounds.
_MAX_ENTRIES = 60_000_000
#: Loss of two cells that no set can hold.
_NEVER = np.iinfo(np.int32).max


@dataclass(frozen=True)
class PairLosses:
    """Tables of all rounds, one after the other; empty if they would be too large.

    Parameters
    ----------
    loss : array of int32
        Shape (entries,): square tables over the open cells of each round.
    begin : IntArray
        Shape (rounds,): first entry of each table.
    row : IntArray
        Shape (rounds, c): row and column of a cell in the table of a round, -1 if closed.
    size : IntArray
        Shape (rounds,): rows of each table.
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
    """Return the losses of all pairs of open cells by round.

    Raises
    ------
    OutOfTime
        If the deadline comes first.
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
