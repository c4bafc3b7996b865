"""Reachable sums of sizes by number of requests."""

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from formulations.arrays import IntArray

#: Marks a sum that no subset reaches.
UNREACHABLE = -(1 << 60)


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
