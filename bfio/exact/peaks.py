"""Upper bounds on the admitted total ``T(M)`` under each peak ``M``, and the peaks that matter."""

import numpy as np

from bfio.exact.compiled import compiled
from bfio.exact.cover import IMPOSSIBLE
from formulations.arrays import IntArray


@compiled
def largest_nested_total(sizes: IntArray, thresholds: IntArray) -> int:
    """Largest total of distinct sizes, one below each threshold; -1 if there is none.

    Thresholds make nested sets, so that taking the largest that fits, lowest threshold first, is
    optimal (greedy on a transversal matroid).

    Parameters
    ----------
    sizes, thresholds : IntArray
        Both ascending [tokens].
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


@compiled
def _largest_total(
    margins: IntArray, capacity: IntArray, sizes: IntArray, smallest: IntArray, reach: IntArray
) -> int:
    """Upper bound on ``T`` by reachable sums and by nested thresholds; -1 if slots stay empty."""
    total = 0
    total_single = 0
    num_single = 0
    for g in range(len(margins)):
        if reach[g] < 0:
            return -1
        total += reach[g]
        if capacity[g] == 1:
            total_single += reach[g]
            num_single += 1
    single = np.empty(num_single, np.int64)
    slots = np.empty(capacity.sum(), np.int64)
    s = 0
    k = 0
    for g in range(len(margins)):
        if capacity[g] == 1:
            single[s] = margins[g]
            s += 1
        # A request shares its worker with at least the smallest others.
        slots[k : k + capacity[g]] = margins[g] - smallest[capacity[g] - 1]
        k += capacity[g]
    of_single = largest_nested_total(sizes, np.sort(single))
    of_slots = largest_nested_total(sizes, np.sort(slots))
    if of_single < 0 or of_slots < 0:
        return -1
    return min(total - total_single + of_single, of_slots)


@compiled
def peak_bounds(
    first: int,
    count: int,
    num_workers: int,
    total_base: int,
    base: IntArray,
    capacity: IntArray,
    sizes: IntArray,
    largest_total: int,
    rows: IntArray,
    table: IntArray,
) -> IntArray:
    """Lower bounds on the objective with no load above M, for M = first..first+count-1.

    Parameters
    ----------
    first, count : int
        The peaks.
    num_workers, total_base : int
        ``G`` and ``Σ_g b_g`` of all workers.
    base, capacity : IntArray
        Shape (W,): the open workers.
    sizes : IntArray
        Shape (N,), ascending.
    largest_total : int
        Sum of the U largest sizes.
    rows : IntArray
        Shape (W,): row of ``table`` for each worker's capacity.
    table : IntArray
        From `floors`.
    """
    smallest = np.zeros(len(sizes) + 1, np.int64)
    smallest[1:] = np.cumsum(sizes)
    limit = table.shape[1] - 1
    bounds = np.empty(count, np.int64)
    reach = np.empty(len(base), np.int64)
    for k in range(count):
        margins = first + k - base
        for g in range(len(base)):
            reach[g] = table[rows[g], min(margins[g], limit)]
        total = _largest_total(margins, capacity, sizes, smallest, reach)
        if total < 0:
            bounds[k] = IMPOSSIBLE
        else:
            bounds[k] = num_workers * (first + k) - total_base - min(total, largest_total)
    return bounds
