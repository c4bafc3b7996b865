"""Sets of cells that fit together, and the dearest of them by dynamic programming.

Take the cells of a set latest to finish first. When the cell (m, r) is the next to be added to
others that hold S tokens in c requests now, the first of them all to finish is the new one, r
rounds from now; until then nobody leaves, so they hold ``S + m + (c + 1) r`` tokens at that
round, and the set can run on without any later start iff this never exceeds M. The state (S, c)
is all that the next cell needs to know.

A cell is taken at most as often as there are requests that can be it. That one request might
be taken at two of its cells at once still relaxes, so the value stays an upper bound on what any
schedule can hold at the round.

Tables have the shape (requests, tokens), so that the inner loops run along memory.
"""

import math

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.hindsight.latency.cells import Cells
from formulations.arrays import BoolArray, FloatArray, IntArray

#: Weight of the empty set; keeps products clear of the smallest and largest doubles.
_EMPTY = 1e-200
#: Cells whose weight is below exp of this are left out of the soft value.
_NEGLIGIBLE = -20.0
#: Price of what cannot be: stays far below 0 whatever real prices are added.
UNREACHABLE = -(1 << 60)


def table_size(cells: Cells) -> int:
    """Return the number of entries of one table."""
    return (cells.memory // cells.smallest + 2) * (cells.memory + 1)


@compilable
def most_others(cell: int, cells: Cells) -> int:
    """Return how many requests may be there before a cell is added; -1 if not even none."""
    room = cells.memory - cells.tokens[cell] - cells.left[cell]
    return room // (cells.smallest + cells.left[cell]) if room >= 0 else -1


@compilable
def span(cell: int, count: int, cells: Cells) -> tuple[int, int]:
    """Return from and up to which tokens others may hold when a cell joins ``count`` of them."""
    left = cells.left[cell]
    return count * cells.smallest, cells.memory - (count + 1) * left - cells.tokens[cell] + 1


@compilable(allocates=True)
def empty_sets(cells: Cells) -> IntArray:
    """Return the table in which only the empty set is there, at price 0."""
    room = (cells.memory // cells.smallest + 2, cells.memory + 1)
    value = np.full(room, UNREACHABLE, np.int64)
    value[0, 0] = 0
    return value


@compilable
def offer(price: int, cell: int, cells: Cells, value: IntArray) -> None:
    """Let every set take one more copy of a cell, if it fits and pays."""
    if price <= 0:
        return
    m = cells.tokens[cell]
    for c in range(most_others(cell, cells), -1, -1):
        low, high = span(cell, c, cells)
        source, target = value[c, low:high], value[c + 1, low + m : high + m]
        for s in range(len(source)):
            target[s] = max(target[s], source[s] + price)


@entry_point
def dearest(price: IntArray, cells: Cells) -> int:
    """Return the greatest total price of a set of cells that fit together, in integers."""
    value = empty_sets(cells)
    for cell in range(len(price)):
        for _ in range(cells.copies[cell] if price[cell] > 0 else 0):
            offer(price[cell], cell, cells, value)
    return value.max()  # type: ignore[no-any-return]


@compilable(allocates=True)
def around(price: IntArray, cells: Cells, before: IntArray, after: IntArray) -> int:
    """Fill the best sets of the cells before each one, and what may still follow its first copy.

    ``before`` and ``after`` have shape (c, requests, tokens). Returns the price of the dearest
    set.
    """
    value = empty_sets(cells)
    for cell in range(len(price)):
        _copy_table(before[cell], value)
        for _ in range(cells.copies[cell] if price[cell] > 0 else 0):
            offer(price[cell], cell, cells, value)
    behind = np.zeros(value.shape, np.int64)
    for cell in range(len(price) - 1, -1, -1):
        for _ in range(cells.copies[cell] - 1 if price[cell] > 0 else 0):
            _precede(price[cell], cell, cells, behind)
        _copy_table(after[cell], behind)
        if price[cell] > 0:
            _precede(price[cell], cell, cells, behind)
    return value.max()  # type: ignore[no-any-return]


@compilable
def _copy_table(target: IntArray, values: IntArray) -> None:
    for c in range(len(values)):
        copy_to(target[c], values[c])


@compilable
def _precede(price: int, cell: int, cells: Cells, behind: IntArray) -> None:
    """Let a copy of a cell come before what follows."""
    m = cells.tokens[cell]
    for c in range(most_others(cell, cells) + 1):
        low, high = span(cell, c, cells)
        source, target = behind[c + 1, low + m : high + m], behind[c, low:high]
        for s in range(len(source)):
            target[s] = max(target[s], source[s] + price)


@compilable
def best_with(price: int, cell: int, cells: Cells, before: IntArray, after: IntArray) -> int:
    """Return the price of the dearest set with a cell; negative if there is none.

    ``before`` holds the sets that it may join, ``after`` what may follow it.
    """
    best, m = UNREACHABLE, cells.tokens[cell]
    for c in range(most_others(cell, cells) + 1):
        low, high = span(cell, c, cells)
        source, rest = before[c, low:high], after[c + 1, low + m : high + m]
        for s in range(len(source)):
            best = max(best, source[s] + rest[s])
    return best + price


@entry_point
def losses(
    price: IntArray, cells: Cells, before: IntArray, after: IntArray, loss: IntArray
) -> None:
    """Fill how much cheaper than the dearest set the dearest one with a given cell is.

    ``loss`` has shape (c,); ``before`` and ``after`` are room to work in.
    """
    best = around(price, cells, before, after)
    for cell in range(len(price)):
        loss[cell] = best - best_with(price[cell], cell, cells, before[cell], after[cell])


@compilable(allocates=True)
def soft_dearest(
    price: FloatArray,
    cells: Cells,
    open_cells: BoolArray,
    temperature: float,
    stages: FloatArray,
    expected: FloatArray,
) -> float:
    """Return ``T log Σ exp(price of a set / T)`` over sets that fit; fill the expected counts.

    The derivative of the value by the price of a cell is how often the cell is expected in a set
    drawn by these weights: ``expected``, shape (c,). Forward sums and a backward sweep.
    """
    used = np.zeros(len(stages), np.int64)
    count = 0
    for cell in range(len(price)):
        expected[cell] = 0.0
        if open_cells[cell] and price[cell] > _NEGLIGIBLE * temperature:
            for _ in range(cells.copies[cell]):
                used[count] = cell
                count += 1
    work = np.zeros(stages.shape[1:])
    work[0, 0] = _EMPTY
    for j in range(count):
        m = cells.tokens[used[j]]
        weight = math.exp(price[used[j]] / temperature)
        for c in range(most_others(used[j], cells), -1, -1):
            low, high = span(used[j], c, cells)
            source, target = work[c, low:high], work[c + 1, low + m : high + m]
            stage = stages[j, c]
            for s in range(len(source)):
                stage[s] = source[s]
                target[s] += weight * source[s]
    total = work.sum()
    work[:] = 1.0 / total
    mean = np.zeros(cells.memory + 1)
    for j in range(count - 1, -1, -1):
        m = cells.tokens[used[j]]
        weight = math.exp(price[used[j]] / temperature)
        mean[:] = 0.0
        for c in range(most_others(used[j], cells) + 1):
            low, high = span(used[j], c, cells)
            target, source = work[c, low:high], work[c + 1, low + m : high + m]
            stage = stages[j, c]
            # Sums by position, not into one number: only so do these loops vectorise.
            for s in range(len(source)):
                extra = weight * source[s]
                target[s] += extra
                mean[s] += stage[s] * extra
        expected[used[j]] += mean.sum()
    return temperature * (math.log(total) - math.log(_EMPTY))
