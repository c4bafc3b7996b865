"""Bounds of workers and peaks at given prices, and the search for disjoint subsets."""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.common.words import Words
from bfio.step.exact.subsets import PricedTable, largest_value
from bfio.step.exact.sums import UNREACHABLE
from formulations.arrays import BoolArray, IntArray

#: Operations of one column looked at per node.
_LOOK = 5
#: Lower bound of a peak under which the slots cannot be filled.
IMPOSSIBLE = 1 << 60


@entry_point
def worker_values(margins: IntArray, capacity: IntArray, table: PricedTable) -> IntArray:
    """Return the value of the best subset of each worker, shape (W,)."""
    values = np.empty(len(margins), np.int64)
    for g in range(len(margins)):
        values[g] = largest_value(table, capacity[g], margins[g])
    return values


@entry_point
def add_values(
    peaks: IntArray, base: IntArray, capacity: IntArray, table: PricedTable, total: IntArray
) -> None:
    """Add the value of the best subset of each worker under each peak.

    Parameters
    ----------
    peaks : IntArray
        Shape (P,).
    base, capacity : IntArray
        Shape (W,).
    table : PricedTable
        Values of subsets.
    total : IntArray
        Shape (P,): added to; `UNREACHABLE` where a worker cannot be filled.
    """
    for k in range(len(peaks)):
        for g in range(len(base)):
            value = largest_value(table, capacity[g], peaks[k] - base[g])
            if value <= UNREACHABLE // 2:
                total[k] = UNREACHABLE
            if total[k] > UNREACHABLE:
                total[k] += value


class Columns(NamedTuple):
    """Subsets of requests, each for one worker, in order of cost.

    Parameters
    ----------
    members : IntArray
        Shape (K, C): positions of requests, padded with -1.
    worker, cost : IntArray
        Shape (K,): worker and cost of each subset, costs ascending.
    """

    members: IntArray
    worker: IntArray
    cost: IntArray


@compilable(allocates=True)
def _bits(columns: Columns, num_requests: int) -> Words:
    """Return the requests of each column as bits, 64 to a word."""
    bits = np.zeros((len(columns.members), num_requests // 64 + 1), np.uint64)
    for j in range(len(columns.members)):
        for i in columns.members[j]:
            if i >= 0:
                bits[j, i >> 6] |= np.uint64(1) << np.uint64(i & 63)
    return bits


@compilable
def _keep_compatible(
    columns: Columns, bits: Words, picked: int, budget: int, alive: IntArray, kept: IntArray
) -> int:
    """Write the alive columns of other workers that are disjoint from the picked one."""
    number = 0
    for j in alive:
        if columns.cost[j] > budget:
            break
        if columns.worker[j] == columns.worker[picked]:
            continue
        common = np.uint64(0)
        for w in range(bits.shape[1]):
            common |= bits[picked, w] & bits[j, w]
        if common == np.uint64(0):
            kept[number] = j
            number += 1
    return number


@compilable(allocates=True)
def _priced_members(columns: Columns, prices: IntArray) -> IntArray:
    """Return the members of each column with a positive price, padded with -1."""
    priced = np.full((len(columns.members), columns.members.shape[1] + 1), -1, np.int64)
    for j in range(len(priced)):
        number = 0
        for i in columns.members[j]:
            if i >= 0 and prices[i] > 0:
                priced[j, number] = i
                number += 1
    return priced


@compilable
def _survey(
    columns: Columns, priced: IntArray, alive: IntArray, served: IntArray, least: IntArray
) -> None:
    """Count the alive columns of each worker and priced request; write workers' least costs."""
    W = len(least)
    served[:] = 0
    for j in alive:
        g = columns.worker[j]
        if served[g] == 0:
            # Costs ascend.
            least[g] = columns.cost[j]
        served[g] += 1
        k = 0
        while priced[j, k] >= 0:
            served[W + priced[j, k]] += 1
            k += 1


@compilable
def _least_cost(
    prices: IntArray, is_open: BoolArray, owner: IntArray, served: IntArray, least: IntArray
) -> int:
    """Return a lower bound on the cost of completing a partial choice of columns.

    The bound sums each open worker's cheapest column and the prices of requests that no column
    contains. It is `IMPOSSIBLE` if a worker has no column.
    """
    W = len(is_open)
    cost = 0
    for g in range(W):
        if is_open[g]:
            if served[g] == 0:
                return IMPOSSIBLE
            cost += least[g]
    for i in range(len(owner)):
        if owner[i] < 0 and served[W + i] == 0:
            cost += prices[i]
    return cost


@compilable
def _keep_affordable(columns: Columns, spare: int, least: IntArray, alive: IntArray) -> int:
    """Move columns within ``spare`` of their worker's least cost to the front."""
    kept = 0
    for j in alive:
        if columns.cost[j] - least[columns.worker[j]] <= spare:
            alive[kept] = j
            kept += 1
    return kept


@compilable
def _rarest(
    prices: IntArray, spare: int, is_open: BoolArray, owner: IntArray, served: IntArray
) -> int:
    """Return the worker, or W + the expensive request, with the fewest columns."""
    W = len(is_open)
    rarest = -1
    for t in range(len(served)):
        wanted = is_open[t] if t < W else owner[t - W] < 0 and prices[t - W] > spare
        # A request that no column serves is paid for already.
        if wanted and served[t] > 0 and (rarest < 0 or served[t] < served[rarest]):
            rarest = t
    return rarest


@compilable
def _narrow(
    columns: Columns,
    priced: IntArray,
    prices: IntArray,
    budget: int,
    is_open: BoolArray,
    owner: IntArray,
    served: IntArray,
    least: IntArray,
    alive: IntArray,
    spent: IntArray,
) -> tuple[int, int]:
    """Drop the columns that no placement within the budget contains.

    Returns
    -------
    tuple of (int, int)
        Number of columns left, at the front; and the worker or request to branch on (`_rarest`),
        -1 if no placement is possible.
    """
    number = len(alive)
    while True:
        spent[0] += _LOOK * (number + len(owner))
        _survey(columns, priced, alive[:number], served, least)
        spare = budget - _least_cost(prices, is_open, owner, served, least)
        if spare < 0:
            return number, -1
        kept = _keep_affordable(columns, spare, least, alive[:number])
        if kept == number:
            return number, _rarest(prices, spare, is_open, owner, served)
        number = kept


@compilable
def _serves(columns: Columns, bits: Words, j: int, target: int, num_workers: int) -> bool:
    if target < num_workers:
        return bool(columns.worker[j] == target)
    i = target - num_workers
    return bool((bits[j, i >> 6] >> np.uint64(i & 63)) & np.uint64(1))


@compilable
def _give(columns: Columns, j: int, worker: int, is_open: BoolArray, owner: IntArray) -> None:
    """Assign the requests of a column to its worker, or to no worker (-1)."""
    is_open[columns.worker[j]] = worker < 0
    for i in columns.members[j]:
        if i >= 0:
            owner[i] = worker


@compilable
def _last_column(
    columns: Columns, sizes: IntArray, owner: IntArray, alive: IntArray, needed: int
) -> int:
    """Return a column for the last open worker that attains total ``needed``; -1 if none."""
    placed = 0
    for i in range(len(sizes)):
        if owner[i] >= 0:
            placed += sizes[i]
    for j in alive:
        total = placed
        for i in columns.members[j]:
            if i >= 0:
                total += sizes[i]
        if total >= needed:
            return int(j)
    return -1


@entry_point
def cover_workers(
    columns: Columns,
    num_workers: int,
    sizes: IntArray,
    prices: IntArray,
    budget: int,
    needed: int,
    work: int,
    owner: IntArray,
    spent: IntArray,
) -> tuple[bool, bool]:
    """Choose disjoint columns, one per worker, with a total size of at least ``needed``.

    The search is depth first. It branches on the worker, or the request too expensive to stay
    unused, with the fewest columns left. The last worker takes any column that is sufficient. The
    function is long because it is one loop over the depth: compiled recursion cannot be stored on
    disk.

    Parameters
    ----------
    columns : Columns
        Columns; at least one for each worker.
    num_workers : int
        Number of workers, W.
    sizes, prices : IntArray
        Shape (N,): scaled size of each request, and cost of leaving it unused.
    budget, needed : int
        Most that columns and unused requests may cost, and least total, scaled.
    work : int
        Limit on the number of operations.
    owner : IntArray
        Shape (N,), initially -1; filled with the worker of each request.
    spent : IntArray
        Shape (1,): number of operations (`bfio.step.exact.effort`); increased.

    Returns
    -------
    tuple of (bool, bool)
        Whether a placement was found, and whether the search was exhaustive.
    """
    W = num_workers
    last_operation = spent[0] + work
    bits, priced = _bits(columns, len(prices)), _priced_members(columns, prices)
    alive = np.empty((W, len(columns.worker)), np.int64)
    count = np.zeros(W, np.int64)
    position = np.zeros(W, np.int64)
    target = np.full(W, -1, np.int64)
    picked = np.full(W, -1, np.int64)
    left = np.empty(W, np.int64)
    is_open = np.ones(W, np.bool_)
    copy_to(alive[0], np.arange(len(columns.worker)))
    left[0] = budget
    served = np.empty(W + len(owner), np.int64)
    least = np.empty(W, np.int64)
    count[0], target[0] = _narrow(
        columns, priced, prices, budget, is_open, owner, served, least, alive[0], spent
    )
    depth = 0 if target[0] >= 0 else -1
    while depth >= 0:
        if depth == W - 1:
            spent[0] += _LOOK * (count[depth] + len(owner))
            last = _last_column(columns, sizes, owner, alive[depth, : count[depth]], needed)
            if last >= 0:
                _give(columns, last, columns.worker[last], is_open, owner)
                return True, True
            depth -= 1
            continue
        if picked[depth] >= 0:
            _give(columns, picked[depth], -1, is_open, owner)
            picked[depth] = -1
        k = position[depth]
        while k < count[depth] and not _serves(columns, bits, alive[depth, k], target[depth], W):
            k += 1
        position[depth] = k + 1
        if k >= count[depth] or columns.cost[alive[depth, k]] > left[depth]:
            depth -= 1
            continue
        if spent[0] > last_operation:
            return False, False
        spent[0] += _LOOK * (count[depth] + len(owner))
        j = alive[depth, k]
        picked[depth] = j
        _give(columns, j, columns.worker[j], is_open, owner)
        rest = left[depth] - columns.cost[j]
        compatible = alive[depth + 1]
        number = _keep_compatible(columns, bits, j, rest, alive[depth, : count[depth]], compatible)
        number, following = _narrow(
            columns,
            priced,
            prices,
            rest,
            is_open,
            owner,
            served,
            least,
            compatible[:number],
            spent,
        )
        if following >= 0:
            depth += 1
            count[depth] = number
            position[depth] = 0
            target[depth] = following
            left[depth] = rest
            picked[depth] = -1
    return False, True
