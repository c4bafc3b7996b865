"""Best sets of requests of each number and sum at given prices, in integers."""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.step.exact.subsets import SMALL_VALUE, Table, fill_sums, no_sum
from bfio.step.exact.sums import UNREACHABLE
from formulations.arrays import BoolArray, IntArray

#: Most that a sum of units comes to, in tables of 32 bits and of 64.
MOST_UNITS = {4: SMALL_VALUE, 8: 1 << 59}
#: Sums in one block of a table.
BLOCK = 64
#: Operations of one request looked at for a subset, and most of such looks.
_LOOK = 20
_SCANS = 200_000


class Priced(NamedTuple):
    """Requests that differ in size only, with values on workers of each speed.

    Parameters
    ----------
    sizes : IntArray
        Shape (L,), ascending [tokens].
    values : IntArray
        Shape (T, L): value of each request, for each distinct token time.
    units : Table
        Shape (T, L): values in units of ``2^shift``, rounded up: sums of 32 bits are three times
        as fast.
    shift : int
        Exponent of the unit of ``units``.
    tables : Table
        Shape (T, C + 1, X + 1): largest total of units of c requests of sum exactly x.
    highest : Table
        Shape (T, C + 1, J, X // 64 + 1): largest entry of ``2^j`` consecutive blocks of 64 sums.
    speed : IntArray
        Shape (K,): index of each worker's token time.
    """

    sizes: IntArray
    values: IntArray
    units: Table
    shift: int
    tables: Table
    highest: Table
    speed: IntArray


@compilable
def best_value(priced: Priced, speed: int, count: int, total: int) -> int:
    """Return an upper bound on the value of ``count`` requests of a sum.

    The bound exceeds the best value by less than ``count · 2^shift``. It is very negative if no
    requests have this sum.
    """
    units = np.int64(priced.tables[speed, count, total])
    if units <= no_sum(priced.tables) // 2:
        return UNREACHABLE
    return int(units << np.int64(priced.shift))


@entry_point
def fill_tables(priced: Priced, reach: IntArray, spent: IntArray) -> None:
    """Fill the tables: each row c for sums up to ``reach[c]``, as in `fill_sums`."""
    for t in range(len(priced.tables)):
        table = priced.tables[t]
        spent[0] += fill_sums(priced.sizes, priced.units[t], reach, table)
        for c in range(len(reach)):
            find_highest(table[c, : reach[c] + 1], priced.highest[t, c])


@entry_point
def find_highest(row: Table, highest: Table) -> None:
    """Write the largest entries of blocks of a row, and of groups of 2, 4, ... blocks."""
    blocks = (len(row) - 1) // BLOCK + 1
    for b in range(blocks):
        highest[0, b] = row[b * BLOCK : min((b + 1) * BLOCK, len(row))].max()
    for j in range(1, len(highest)):
        half = 1 << (j - 1)
        for b in range(blocks - 2 * half + 1):
            highest[j, b] = max(highest[j - 1, b], highest[j - 1, b + half])


@entry_point
def most_units(priced: Priced, speed: int, count: int, first: int, last: int) -> int:
    """Return the largest table entry in the blocks with sums ``first`` to ``last``."""
    start = first // BLOCK
    number = last // BLOCK - start + 1
    j = 0
    while 2 << j <= number:
        j += 1
    # Two overlapping runs of blocks.
    highest = priced.highest[speed, count, j]
    return int(max(highest[start], highest[start + number - (1 << j)]))


@compilable(allocates=True)
def _find_set(
    priced: Priced,
    speed: int,
    bests: IntArray,
    count: int,
    total: int,
    least: int,
    found: IntArray,
    spent: IntArray,
) -> bool:
    """Find ``count`` requests of sum ``total`` and value at least ``least``; return success."""
    if count == 0:
        return total == 0 and least <= 0
    sizes, values = priced.sizes, priced.values[speed]
    chosen = np.empty(count + 1, np.int64)
    room = np.empty(count + 1, np.int64)
    worth = np.empty(count + 1, np.int64)
    room[0] = total
    worth[0] = 0
    chosen[0] = len(sizes)
    depth = 0
    for _ in range(_SCANS):
        chosen[depth] -= 1
        i = chosen[depth]
        rest = count - depth - 1
        spent[0] += _LOOK
        if i < rest:
            depth -= 1
            if depth < 0:
                return False
            continue
        left = room[depth] - sizes[i]
        value = worth[depth] + values[i]
        if left < 0 or value + bests[i, rest] < least:
            continue
        # The others are no larger, which tables rely on.
        if left > rest * sizes[i] or value + best_value(priced, speed, rest, left) < least:
            continue
        if rest == 0:
            copy_to(found, chosen[:count])
            return True
        depth += 1
        room[depth] = left
        worth[depth] = value
        chosen[depth] = min(i, np.searchsorted(sizes, left, side="right"))
    return False


@entry_point
def collect_best(
    priced: Priced,
    speeds: IntArray,
    bests: IntArray,
    counts: IntArray,
    totals: IntArray,
    spent: IntArray,
) -> tuple[BoolArray, IntArray]:
    """Find a set of requests for each of some table entries.

    Parameters
    ----------
    speeds, counts, totals : IntArray
        Shape (E,): index of the token time, number of requests and sum of each entry.
    bests : IntArray
        Shape (T, L + 1, C + 1): from `prefix_values`, for each token time.

    Returns
    -------
    tuple of (BoolArray, IntArray)
        Whether each set was found, shape (E,), and its positions, shape (E, C).
    """
    found = np.zeros(len(counts), np.bool_)
    rows = np.empty((len(counts), bests.shape[2] - 1), np.int64)
    for e in range(len(counts)):
        t, count = speeds[e], counts[e]
        # Of a value that rounding up its requests cannot tell from the best.
        units = np.int64(priced.tables[t, count, totals[e]]) - count
        least = units << np.int64(priced.shift)
        found[e] = _find_set(priced, t, bests[t], count, totals[e], least, rows[e, :count], spent)
    return found, rows
