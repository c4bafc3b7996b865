"""Priced bounds of workers and peaks, and the search for one subset each, all disjoint."""

import numpy as np

from bfio.common.kernels import entry_point
from bfio.common.words import RandomState, Words
from bfio.step.exact.place import fill_worker
from bfio.step.exact.subsets import Table, largest_value
from bfio.step.exact.sums import UNREACHABLE
from formulations.arrays import BoolArray, IntArray

#: Lower bound of a peak under which the slots cannot be filled.
IMPOSSIBLE = 1 << 60


@entry_point
def worker_values(
    margins: IntArray,
    capacity: IntArray,
    table: Table,
    reach: IntArray,
    top_sum: IntArray,
    top_value: IntArray,
) -> IntArray:
    """Value of the best subset of each worker, shape (W,); `UNREACHABLE` or less if none fits."""
    values = np.empty(len(margins), np.int64)
    for g in range(len(margins)):
        values[g] = largest_value(table, reach, top_sum, top_value, capacity[g], margins[g])
    return values


@entry_point
def raise_bounds(
    first: int,
    num_workers: int,
    total_base: int,
    base: IntArray,
    capacity: IntArray,
    table: Table,
    reach: IntArray,
    top_sum: IntArray,
    top_value: IntArray,
    total_price: int,
    scale: int,
    bounds: IntArray,
    incumbent: int,
    raised: IntArray,
) -> None:
    """Raise the bounds of the peaks ``first``, ``first + 1``, ... by one price vector.

    Peaks already bounded by ``incumbent`` are left alone; 1 is written to ``raised`` where a
    bound grows.
    """
    for k in range(len(bounds)):
        if bounds[k] >= incumbent:
            continue
        total = total_price
        for g in range(len(base)):
            value = largest_value(
                table, reach, top_sum, top_value, capacity[g], first + k - base[g]
            )
            if value <= UNREACHABLE // 2:
                total = -1
                break
            total += value
        bound = IMPOSSIBLE
        if total >= 0:
            bound = num_workers * (first + k) - total_base - total // scale
        if bound > bounds[k]:
            bounds[k] = bound
            raised[k] = 1


@entry_point
def _bits(columns: IntArray, num_requests: int) -> Words:
    """Return the requests of each column as bits, 64 to a word."""
    bits = np.zeros((len(columns), num_requests // 64 + 1), np.uint64)
    for j in range(len(columns)):
        for i in columns[j]:
            if i >= 0:
                bits[j, i >> 6] |= np.uint64(1) << np.uint64(i & 63)
    return bits


@entry_point
def _keep_compatible(
    bits: Words,
    owner: IntArray,
    costs: IntArray,
    picked: int,
    budget: int,
    alive: IntArray,
    count: int,
    kept: IntArray,
) -> int:
    """Write the alive columns of other workers that are disjoint from the picked one."""
    number = 0
    for k in range(count):
        j = alive[k]
        if costs[j] > budget:
            break
        if owner[j] == owner[picked]:
            continue
        common = np.uint64(0)
        for w in range(bits.shape[1]):
            common |= bits[picked, w] & bits[j, w]
        if common == np.uint64(0):
            kept[number] = j
            number += 1
    return number


@entry_point
def _rarest(
    columns: IntArray,
    owner: IntArray,
    prices: IntArray,
    budget: int,
    alive: IntArray,
    count: int,
    open_worker: BoolArray,
    free: BoolArray,
) -> int:
    """Return the worker, or W + the request too dear to waste, that fewest columns serve.

    -1 if one of them is served by none.
    """
    W = len(open_worker)
    served = np.zeros(W + len(free), np.int64)
    for k in range(count):
        j = alive[k]
        served[owner[j]] += 1
        for i in columns[j]:
            if i >= 0:
                served[W + i] += 1
    rarest = -1
    for t in range(W + len(free)):
        wanted = open_worker[t] if t < W else free[t - W] and prices[t - W] > budget
        if wanted:
            if served[t] == 0:
                return -1
            if rarest < 0 or served[t] < served[rarest]:
                rarest = t
    return rarest


@entry_point
def _serves(columns: IntArray, owner: IntArray, j: int, target: int, num_workers: int) -> bool:
    if target < num_workers:
        return bool(owner[j] == target)
    return bool((columns[j] == target - num_workers).any())


@entry_point
def _complete(
    others: IntArray,
    margins: IntArray,
    capacity: IntArray,
    sizes: IntArray,
    prices: IntArray,
    needed: int,
    attempts: int,
    owner: IntArray,
    trial: IntArray,
    state: RandomState,
) -> bool:
    """Fill the ``others`` at random until the total is ``needed``; ``owner`` is updated then."""
    subset = np.empty(capacity.max(), np.int64)
    scratch = np.empty(capacity.max(), np.int64)
    start = 0
    for i in range(len(sizes)):
        if owner[i] >= 0:
            start += sizes[i]
    if len(others) == 0:
        return start >= needed
    for attempt in range(attempts):
        trial[:] = owner
        total = start
        filled = True
        for g in others:
            reached = fill_worker(
                sizes,
                prices,
                attempt % 2 == 1,
                trial,
                capacity[g],
                margins[g],
                subset,
                scratch,
                state,
            )
            if reached < 0:
                filled = False
                break
            total += reached
            for k in range(capacity[g]):
                trial[subset[k]] = g
        if filled and total >= needed:
            owner[:] = trial
            return True
    return False


@entry_point
def cover_workers(
    columns: IntArray,
    owner: IntArray,
    costs: IntArray,
    others: IntArray,
    margins: IntArray,
    capacity: IntArray,
    sizes: IntArray,
    prices: IntArray,
    budget: int,
    needed: int,
    nodes: int,
    attempts: int,
    fillings: int,
    found: IntArray,
    state: RandomState,
) -> tuple[bool, bool]:
    """Pick disjoint columns, one for each listed worker, so that all requests total ``needed``.

    Depth first; the worker, or the request too dear to stay unused, with the fewest columns left
    is served next. Workers with too many columns to list are filled at random in the end.

    Parameters
    ----------
    columns : IntArray
        Shape (K, C): positions of requests, filled up with -1.
    owner, costs : IntArray
        Shape (K,): worker and cost of each column, costs ascending.
    others : IntArray
        Workers without columns.
    margins, capacity : IntArray
        Shape (W,): scaled room and slots of each worker.
    sizes, prices : IntArray
        Shape (N,): scaled size of each request, and cost of leaving it unused.
    budget, needed : int
        Most that columns and unused requests may cost, and least total, scaled.
    nodes, attempts, fillings : int
        Most columns to pick, and fillings of ``others`` tried for each choice of columns and in
        all.
    found : IntArray
        Shape (N,), -1: filled with the worker of each request.
    state : IntArray
        Of `random_below`.

    Returns
    -------
    tuple of (bool, bool)
        Whether such a placement was found, and whether the search came to its end.
    """
    W = len(margins)
    listed = W - len(others)
    bits = _bits(columns, len(prices))
    alive = np.empty((listed + 1, len(columns)), np.int64)
    count = np.zeros(listed + 1, np.int64)
    position = np.zeros(listed + 1, np.int64)
    target = np.full(listed + 1, -1, np.int64)
    picked = np.full(listed + 1, -1, np.int64)
    left = np.empty(listed + 1, np.int64)
    open_worker = np.ones(W, np.bool_)
    open_worker[others] = False
    waste = budget if len(others) == 0 else IMPOSSIBLE
    free = np.ones(len(prices), np.bool_)
    trial = np.empty_like(found)
    alive[0] = np.arange(len(columns))
    count[0] = len(columns)
    left[0] = budget
    depth = 0
    if listed > 0:
        target[0] = _rarest(columns, owner, prices, waste, alive[0], count[0], open_worker, free)
        depth = 0 if target[0] >= 0 else -1
    while depth >= 0:
        if depth == listed:
            fillings -= attempts
            if _complete(
                others,
                margins,
                capacity,
                sizes,
                prices,
                needed,
                attempts,
                found,
                trial,
                state,
            ):
                return True, True
            depth -= 1
            if depth < 0 or fillings <= 0:
                break
        if picked[depth] >= 0:
            open_worker[owner[picked[depth]]] = True
            for i in columns[picked[depth]]:
                if i >= 0:
                    free[i] = True
                    found[i] = -1
            picked[depth] = -1
        k = position[depth]
        while k < count[depth] and not _serves(columns, owner, alive[depth, k], target[depth], W):
            k += 1
        position[depth] = k + 1
        if k >= count[depth] or costs[alive[depth, k]] > left[depth]:
            depth -= 1
            continue
        nodes -= 1
        if nodes < 0:
            return False, False
        j = alive[depth, k]
        picked[depth] = j
        open_worker[owner[j]] = False
        for i in columns[j]:
            if i >= 0:
                free[i] = False
                found[i] = owner[j]
        rest = left[depth] - costs[j]
        if depth == listed - 1:
            depth += 1
            continue
        number = _keep_compatible(
            bits, owner, costs, j, rest, alive[depth], count[depth], alive[depth + 1]
        )
        if len(others) == 0:
            waste = rest
        following = _rarest(
            columns, owner, prices, waste, alive[depth + 1], number, open_worker, free
        )
        if following >= 0:
            depth += 1
            count[depth] = number
            position[depth] = 0
            target[depth] = following
            left[depth] = rest
            picked[depth] = -1
    return False, len(others) == 0
