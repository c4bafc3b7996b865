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

from bfio.exact.compiled import compiled
from bfio.hindsight.latency.bound import PricedBound
from bfio.hindsight.latency.cells import Cells, Windows
from bfio.hindsight.latency.configurations import most_others
from bfio.hindsight.latency.normal_form import NormalForm
from formulations.arrays import IntArray

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
    form: NormalForm, cells: Cells, priced: PricedBound, windows: Windows, pool: Executor
) -> PairLosses:
    """Return the losses of all pairs of open cells by round."""
    size = windows.cells.sum(axis=1)
    row = np.where(windows.cells, np.cumsum(windows.cells, axis=1) - 1, -1)
    entries = int((size**2).sum())
    if entries > _MAX_ENTRIES:
        empty = np.zeros(0, np.int64)
        return PairLosses(np.zeros(0, np.int32), empty, row, empty)
    begin = np.cumsum(size**2) - size**2
    loss = np.zeros(entries, np.int32)
    smallest = int(form.prompt.min(initial=1))

    def fill(now: int) -> None:
        open_ = np.flatnonzero(windows.cells[now])
        _fill_pairs(
            priced.prices[now, open_],
            cells.tokens[open_],
            cells.left[open_],
            cells.copies[open_],
            form.memory,
            smallest,
            loss[begin[now] : begin[now] + size[now] ** 2].reshape(size[now], size[now]),
        )

    list(pool.map(fill, range(len(size))))
    return PairLosses(loss, begin, row, size)


@compiled
def _fill_pairs(
    price: IntArray,
    tokens: IntArray,
    left: IntArray,
    copies: IntArray,
    memory: int,
    smallest: int,
    loss: NDArray[np.int32],
) -> None:
    num_cells = len(tokens)
    most = memory // smallest
    before = np.full((num_cells, memory + 1, most + 2), -1, np.int64)
    after = np.zeros((num_cells, memory + 1, most + 2), np.int64)
    best = _tables(price, tokens, left, copies, memory, smallest, before, after)
    value = np.zeros((memory + 1, most + 2), np.int64)
    for first in range(num_cells):
        value[:] = -1
        loss[first, first] = best - _take(
            price[first], tokens[first], left[first], memory, smallest, before[first],
            after[first], value,
        )  # fmt: skip
        for _ in range(copies[first] - 1):
            _offer(price[first], tokens[first], left[first], memory, smallest, value)
        for second in range(first + 1, num_cells):
            both = -1
            m, r = tokens[second], left[second]
            for c in range(1, most_others(m, r, memory, smallest) + 1):
                for s in range(c * smallest, memory - (c + 1) * r - m + 1):
                    if value[s, c] >= 0:
                        both = max(both, value[s, c] + after[second, s + m, c + 1])
            together = best - both - price[second] if both >= 0 else _NEVER
            loss[first, second] = min(together, _NEVER)
            loss[second, first] = loss[first, second]
            for _ in range(copies[second]):
                _offer(price[second], m, r, memory, smallest, value)


@compiled
def _tables(
    price: IntArray,
    tokens: IntArray,
    left: IntArray,
    copies: IntArray,
    memory: int,
    smallest: int,
    before: IntArray,
    after: IntArray,
) -> int:
    """Fill the best prices of cells before each one, and of those behind its first copy."""
    num_cells = len(tokens)
    value = np.full(before.shape[1:], -1, np.int64)
    value[0, 0] = 0
    for cell in range(num_cells):
        before[cell] = value
        for _ in range(copies[cell]):
            _offer(price[cell], tokens[cell], left[cell], memory, smallest, value)
    behind = np.zeros(before.shape[1:], np.int64)
    for cell in range(num_cells - 1, -1, -1):
        m, r = tokens[cell], left[cell]
        for copy in range(copies[cell]):
            if copy == copies[cell] - 1:
                after[cell] = behind
            for c in range(most_others(m, r, memory, smallest) + 1):
                for s in range(c * smallest, memory - (c + 1) * r - m + 1):
                    behind[s, c] = max(behind[s, c], price[cell] + behind[s + m, c + 1])
    return value.max()  # type: ignore[no-any-return]


@compiled
def _offer(price: int, m: int, r: int, memory: int, smallest: int, value: IntArray) -> None:
    """Let every set take one more copy of a cell, if it fits and pays."""
    if price <= 0:
        return
    for c in range(most_others(m, r, memory, smallest), -1, -1):
        for s in range(c * smallest, memory - (c + 1) * r - m + 1):
            if value[s, c] >= 0 and value[s, c] + price > value[s + m, c + 1]:
                value[s + m, c + 1] = value[s, c] + price


@compiled
def _take(
    price: int,
    m: int,
    r: int,
    memory: int,
    smallest: int,
    before: IntArray,
    after: IntArray,
    value: IntArray,
) -> int:
    """Put a cell into every set that may come before it; return the best price with it."""
    best = 0
    for c in range(most_others(m, r, memory, smallest) + 1):
        for s in range(c * smallest, memory - (c + 1) * r - m + 1):
            if before[s, c] >= 0:
                value[s + m, c + 1] = before[s, c] + price
                best = max(best, value[s + m, c + 1] + after[s + m, c + 1])
    return best
