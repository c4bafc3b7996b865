"""Reachable sums of sizes by number of requests, and what they say of each peak."""

import numpy as np

from bfio.common.array_kernels import copy_to, sort
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from formulations.arrays import IntArray

#: Marks a sum that no subset reaches.
UNREACHABLE = -(1 << 60)
#: Lower bound of a peak under which the slots cannot be filled.
IMPOSSIBLE = 1 << 60


@compilable(allocates=True)
def sums_of_first(sizes: IntArray) -> IntArray:
    """Return the sum of the first i sizes for i = 0..N."""
    sums = np.zeros(len(sizes) + 1, np.int64)
    copy_to(sums[1:], np.cumsum(sizes))
    return sums


@entry_point
def floors(sizes: IntArray, cardinalities: IntArray, limit: int) -> IntArray:
    """Return the largest sum <= x of exactly c sizes, for each listed c and x = 0..limit.

    Bit x of row c is set if some c of the sizes sum to x. Each size and row takes one shift and
    one OR.

    Parameters
    ----------
    cardinalities : IntArray
        Numbers of requests c, ascending, >= 1.

    Returns
    -------
    IntArray
        Shape (len(cardinalities), limit + 1); -1 where no such subset exists.
    """
    most = cardinalities[-1]
    words = limit // 64 + 1
    bits = np.zeros((most + 1, words), np.uint64)
    bits[0, 0] = 1
    used = np.zeros(most + 1, np.int64)
    for i in range(len(sizes)):
        if sizes[i] > limit:
            continue
        skip = sizes[i] >> 6
        up = np.uint64(sizes[i] & 63)
        down = np.uint64(63 - (sizes[i] & 63))
        for c in range(min(i + 1, most), 0, -1):
            last = min(words - 1, used[c - 1] + skip + 1)
            carried = np.uint64(0)
            for w in range(skip, last + 1):
                word = bits[c - 1, w - skip]
                # Two shifts: one by 64 would be undefined.
                bits[c, w] |= (word << up) | ((carried >> down) >> np.uint64(1))
                carried = word
            used[c] = max(used[c], last)
    table = np.empty((len(cardinalities), limit + 1), np.int64)
    for k in range(len(cardinalities)):
        largest = -1
        for x in range(limit + 1):
            if (bits[cardinalities[k], x >> 6] >> np.uint64(x & 63)) & np.uint64(1):
                largest = x
            table[k, x] = largest
    return table


@entry_point
def largest_nested_total(sizes: IntArray, thresholds: IntArray) -> int:
    """Return the largest total of distinct sizes, one below each threshold; -1 if none.

    Both are ascending. The sets of sizes below the thresholds are nested. Therefore the greedy
    rule is optimal that takes the largest fitting size, lowest threshold first (transversal
    matroid).
    """
    fitting = np.empty(len(sizes), np.int64)
    count = 0
    following = 0
    total = 0
    for threshold in thresholds:
        while following < len(sizes) and sizes[following] <= threshold:
            fitting[count] = sizes[following]
            count += 1
            following += 1
        if count == 0:
            return -1
        count -= 1
        total += fitting[count]
    return total


@compilable(allocates=True)
def _thresholds(base: IntArray, capacity: IntArray, smallest: IntArray, single: bool) -> IntArray:
    """Return sorted thresholds of all slots, or of single slots, under peak 0.

    A request shares its worker with at least the smallest others.
    """
    thresholds = np.empty(capacity.sum(), np.int64)
    count = 0
    for g in range(len(base)):
        if capacity[g] == 1 or not single:
            thresholds[count : count + capacity[g]] = -base[g] - smallest[capacity[g] - 1]
            count += capacity[g]
    sort(thresholds[:count])
    return thresholds[:count]


@entry_point
def totals_under(
    peaks: IntArray,
    base: IntArray,
    capacity: IntArray,
    sizes: IntArray,
    rows: IntArray,
    table: IntArray,
) -> IntArray:
    """Return an upper bound on the admitted total under each peak; -1 if slots stay empty.

    Parameters
    ----------
    sizes : IntArray
        Shape (N,), ascending.
    rows : IntArray
        Shape (W,): row of ``table`` for each worker's capacity.
    table : IntArray
        Reachable sums, from `floors`.
    """
    smallest = sums_of_first(sizes)
    limit = table.shape[1] - 1
    totals = np.full(len(peaks), -1, np.int64)
    # All thresholds rise with the peak, so that they keep their order.
    single = _thresholds(base, capacity, smallest, True)
    slots = _thresholds(base, capacity, smallest, False)
    for k in range(len(peaks)):
        peak = peaks[k]
        total, of_single, of_slots = 0, -1, -1
        is_filled = True
        for g in range(len(base)):
            reach = table[rows[g], min(peak - base[g], limit)]
            is_filled = is_filled and reach >= 0
            if capacity[g] > 1:
                total += reach
        if is_filled:
            of_single = largest_nested_total(sizes, peak + single)
            of_slots = largest_nested_total(sizes, peak + slots)
        if of_single >= 0 and of_slots >= 0:
            totals[k] = min(total + of_single, of_slots)
    return totals
