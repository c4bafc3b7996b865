"""Upper bounds on the admitted total ``T(M)`` under each peak ``M``, and the peaks that matter."""

import numpy as np

from bfio.exact.compiled import compiled
from bfio.exact.sums import UNREACHABLE, priced_sums, subset_behind
from formulations.arrays import FloatArray, IntArray

#: Prices are kept in integer multiples of 1/PRICE_SCALE token.
PRICE_SCALE = 64
#: Lower bound of a peak under which the slots cannot be filled.
IMPOSSIBLE = 1 << 60


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


@compiled
def _priced_bounds(
    first: int,
    num_workers: int,
    total_base: int,
    base: IntArray,
    capacity: IntArray,
    prices: IntArray,
    best: IntArray,
    bounds: IntArray,
    incumbent: int,
    step: int,
    source: IntArray,
) -> tuple[int, int]:
    """Raise ``bounds`` by one price vector; return the weakest peak and its scaled bound."""
    limit = best.shape[1] - 1
    weakest = -1
    weakest_value = IMPOSSIBLE
    total_price = prices.sum()
    for k in range(len(bounds)):
        if bounds[k] >= incumbent:
            continue
        value = PRICE_SCALE * (num_workers * (first + k) - total_base) - total_price
        for g in range(len(base)):
            part = best[capacity[g], min(first + k - base[g], limit)]
            if part <= UNREACHABLE // 2:
                value = IMPOSSIBLE
                break
            value -= part
        if value < weakest_value:
            weakest_value = value
            weakest = k
        whole = -(-value // PRICE_SCALE)
        if whole > bounds[k]:
            bounds[k] = whole
            source[k] = step
    return weakest, weakest_value


@compiled
def price_requests(
    first: int,
    num_workers: int,
    total_base: int,
    base: IntArray,
    capacity: IntArray,
    sizes: IntArray,
    limit: int,
    bounds: IntArray,
    incumbent: int,
    rounds: int,
    start: FloatArray,
    source: IntArray,
    owner: IntArray,
) -> IntArray:
    """Raise ``bounds`` by prices on contended requests (subgradient, Held and Karp's rule).

    For any prices λ ≥ 0,  ``T(M) ≤ Σ_i λ_i + Σ_g max{Σ_{i∈S} (s_i − λ_i)}`` over the subsets S of
    ``cap_g`` requests that fit under M: the dual of the program with one column per worker and
    subset. One table of priced sums serves all workers and all peaks.

    Parameters
    ----------
    first, num_workers, total_base, base, capacity, sizes
        As in `peak_bounds`.
    limit : int
        Largest margin of any worker under any of the peaks [tokens].
    bounds : IntArray
        From `peak_bounds`; raised in place.
    incumbent : int
        Objective in hand; the step length aims at it, and peaks bounded by it are left alone.
    rounds : int
        Price vectors to try.
    start : FloatArray
        Shape (N,): first prices [tokens], replaced by the last best.
    source : IntArray
        As long as ``bounds``: set to the price vector behind each bound that was raised.
    owner : IntArray
        Shape (N,), all -1: filled with the best subsets of all workers, if they are disjoint and
        use every request of positive price; they attain the weakest bound then.

    Returns
    -------
    IntArray
        The price vectors tried, shape (tried, N), in units of 1/PRICE_SCALE token.
    """
    N = len(sizes)
    most = capacity.max()
    best = np.empty((most + 1, limit + 1), np.int64)
    taken = np.empty((N, most + 1, limit + 1), np.bool_)
    subset = np.empty(most, np.int64)
    tried = np.empty((rounds, N), np.int64)
    price = start.copy()
    top = -IMPOSSIBLE
    reach = 1.0
    stalled = 0
    for step in range(rounds):
        if bounds.min() >= incumbent:
            return tried[:step]
        for i in range(N):
            tried[step, i] = np.int64(price[i] * PRICE_SCALE)
        priced_sums(sizes, PRICE_SCALE * sizes - tried[step], most, limit, best, taken)
        k, value = _priced_bounds(
            first,
            num_workers,
            total_base,
            base,
            capacity,
            tried[step],
            best,
            bounds,
            incumbent,
            step,
            source,
        )
        if value >= IMPOSSIBLE:
            return tried[: step + 1]
        if value > top:
            top = value
            start[:] = price
            stalled = 0
        else:
            stalled += 1
            if stalled == 10:
                reach *= 0.7
                stalled = 0
                price[:] = start
        excess = np.full(N, -1.0)
        for g in range(len(base)):
            subset_behind(sizes, taken, capacity[g], min(first + k - base[g], limit), subset)
            for q in range(capacity[g]):
                excess[subset[q]] += 1.0
        for i in range(N):
            if excess[i] < 0.0 and price[i] <= 0.0:
                excess[i] = 0.0
        length = (excess * excess).sum()
        if length == 0.0:
            for g in range(len(base)):
                subset_behind(sizes, taken, capacity[g], min(first + k - base[g], limit), subset)
                for q in range(capacity[g]):
                    owner[subset[q]] = g
            return tried[: step + 1]
        step_size = reach * max(incumbent - value / PRICE_SCALE, 1.0) / length
        price = np.maximum(price + step_size * excess, 0.0)
    return tried
