"""Sets of cells that fit together, and the dearest of them by dynamic programming.

Take the cells of a set latest to finish first. When the cell (m, r) is the next to be added to
others that hold S tokens in c requests now, the first of them all to finish is the new one, r
rounds from now; until then nobody leaves, so they hold ``S + m + (c + 1) r`` tokens at that
round, and the set can run on without any later start iff this never exceeds M. The state (S, c)
is all that the next cell needs to know.

A cell is taken at most as often as there are requests that can be it. That one request might
be taken at two of its cells at once still relaxes, so the value stays an upper bound on what any
schedule can hold at the round.
"""

import math

import numpy as np

from bfio.exact.compiled import compiled
from formulations.arrays import BoolArray, FloatArray, IntArray

#: Weight of the empty set; keeps products clear of the smallest and largest doubles.
_EMPTY = 1e-200
#: Cells whose weight is below exp of this are left out of the soft value.
_NEGLIGIBLE = -20.0


@compiled
def most_others(m: int, r: int, memory: int, smallest: int) -> int:
    """Return how many requests may be there before a cell is added; -1 if not even none."""
    return (memory - m - r) // (smallest + r) if m + r <= memory else -1


@compiled
def dearest(
    price: IntArray,
    tokens: IntArray,
    left: IntArray,
    copies: IntArray,
    memory: int,
    smallest: int,
) -> int:
    """Return the greatest total price of a set of cells that fit together, in integers."""
    most = memory // smallest
    value = np.full((memory + 1, most + 2), -1, np.int64)
    value[0, 0] = 0
    for cell in range(len(tokens)):
        gain = price[cell]
        if gain <= 0:
            continue
        m, r = tokens[cell], left[cell]
        for _ in range(copies[cell]):
            for c in range(most_others(m, r, memory, smallest), -1, -1):
                for s in range(c * smallest, memory - (c + 1) * r - m + 1):
                    if value[s, c] >= 0 and value[s, c] + gain > value[s + m, c + 1]:
                        value[s + m, c + 1] = value[s, c] + gain
    return value.max()  # type: ignore[no-any-return]


@compiled
def soft_dearest(
    price: FloatArray,
    tokens: IntArray,
    left: IntArray,
    copies: IntArray,
    open_cells: BoolArray,
    memory: int,
    smallest: int,
    temperature: float,
    stages: FloatArray,
    work: FloatArray,
    used: IntArray,
    weight: FloatArray,
    expected: FloatArray,
) -> float:
    """Return ``T log Σ exp(price of a set / T)`` over sets that fit; fill the expected counts.

    The derivative of the value by the price of a cell is how often the cell is expected in a set
    drawn by these weights: ``expected``, shape (c,). Forward sums and a backward sweep.
    """
    count = 0
    for cell in range(len(tokens)):
        expected[cell] = 0.0
        exponent = price[cell] / temperature
        if open_cells[cell] and exponent > _NEGLIGIBLE:
            for _ in range(copies[cell]):
                used[count] = cell
                weight[count] = math.exp(exponent)
                count += 1
    work[:] = 0.0
    work[0, 0] = _EMPTY
    for j in range(count):
        m, r, e = tokens[used[j]], left[used[j]], weight[j]
        for c in range(most_others(m, r, memory, smallest), -1, -1):
            for s in range(c * smallest, memory - (c + 1) * r - m + 1):
                stages[j, s, c] = work[s, c]
                work[s + m, c + 1] += e * work[s, c]
    total = work.sum()
    work[:] = 1.0 / total
    for j in range(count - 1, -1, -1):
        m, r, e = tokens[used[j]], left[used[j]], weight[j]
        mean = 0.0
        for c in range(most_others(m, r, memory, smallest) + 1):
            for s in range(c * smallest, memory - (c + 1) * r - m + 1):
                extra = e * work[s + m, c + 1]
                work[s, c] += extra
                mean += stages[j, s, c] * extra
        expected[used[j]] += mean
    return temperature * (math.log(total) - math.log(_EMPTY))


@compiled
def losses(
    price: IntArray,
    tokens: IntArray,
    left: IntArray,
    copies: IntArray,
    memory: int,
    smallest: int,
    stages: IntArray,
    loss: IntArray,
) -> None:
    """Fill how much cheaper than the dearest set the dearest one with a given cell is.

    ``loss`` has shape (c,). Cells without a price are compared with the same forward and backward
    tables, so that the room they take counts.
    """
    most = memory // smallest
    ahead = np.full((memory + 1, most + 2), -1, np.int64)
    ahead[0, 0] = 0
    for cell in range(len(tokens)):
        m, r = tokens[cell], left[cell]
        for copy in range(copies[cell] if price[cell] > 0 else 1):
            for c in range(most_others(m, r, memory, smallest), -1, -1):
                for s in range(c * smallest, memory - (c + 1) * r - m + 1):
                    if copy == 0:
                        stages[cell, s, c] = ahead[s, c]
                    if price[cell] > 0 and ahead[s, c] >= 0:
                        reached = ahead[s, c] + price[cell]
                        if reached > ahead[s + m, c + 1]:
                            ahead[s + m, c + 1] = reached
    best = ahead.max()
    behind = np.zeros((memory + 1, most + 2), np.int64)
    for cell in range(len(tokens) - 1, -1, -1):
        m, r = tokens[cell], left[cell]
        with_cell = 0
        last = copies[cell] - 1 if price[cell] > 0 else 0
        for copy in range(last + 1):
            for c in range(most_others(m, r, memory, smallest) + 1):
                for s in range(c * smallest, memory - (c + 1) * r - m + 1):
                    gain = price[cell] + behind[s + m, c + 1]
                    # The first copy, with all the others behind it, stands for the cell.
                    if copy == last and stages[cell, s, c] >= 0:
                        with_cell = max(with_cell, stages[cell, s, c] + gain)
                    if price[cell] > 0 and gain > behind[s, c]:
                        behind[s, c] = gain
        loss[cell] = best - with_cell
