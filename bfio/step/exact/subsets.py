"""Best subsets of requests for one worker, at given prices.

``cells[c, x]`` is the largest value of c requests whose sizes sum to at most x. One table serves
all workers and peaks; where the c most valuable requests fit, no table is needed.

Everywhere ``sizes`` are ascending [tokens], and ``values`` belong to them. Subsets have at most C
requests, and ``reach``, of shape (C + 1,), is the last sum of interest of each cardinality.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.step.exact.sums import UNREACHABLE, sums_of_first
from formulations.arrays import IntArray

#: Values by cardinality and sum.
Table: TypeAlias = NDArray[np.int32] | NDArray[np.int64]

#: Operations of one request looked at for a subset.
_LOOK = 20
#: Sums of 32 bits are twice as fast; they are used while no value reaches this.
SMALL_VALUE = 1 << 29


class PricedRequests(NamedTuple):
    """Requests with their values at some prices, and the largest values of subsets.

    ``prefix`` is from `prefix_values`, ``order``, ``top_sum`` and ``top_value`` from
    `most_valuable`, ``cells`` from `fill_table`, and ``reach`` from `last_sums`.
    """

    sizes: IntArray
    values: IntArray
    prefix: IntArray
    order: IntArray
    top_sum: IntArray
    top_value: IntArray
    cells: Table
    reach: IntArray


@compilable
def add_request(row: Table, below: Table, value: np.signedinteger[Any]) -> None:
    """Raise the values of a row to those of the row below plus one more request."""
    for x in range(len(row)):
        # The cast keeps 32-bit sums in 32 bits, so that the loop is vectorised.
        sum_with = row.dtype.type(below[x] + value)
        row[x] = sum_with if sum_with > row[x] else row[x]


@entry_point
def with_parts(reach: IntArray) -> IntArray:
    """Extend the sum range of each cardinality by the ranges that larger sets need.

    The c smallest requests of a set of d requests have at most c/d of its sum.
    """
    raised = reach.copy()
    for c in range(1, len(reach)):
        for d in range(c + 1, len(reach)):
            raised[c] = max(raised[c], reach[d] * c // d)
    return raised


@compilable
def no_sum(table: Table) -> int:
    """Return the mark for sums that no subset has; such entries are at most half of it."""
    return -2 * SMALL_VALUE if table.itemsize == 4 else UNREACHABLE


@compilable(allocates=True)
def fill_sums(sizes: IntArray, values: Table, reach: IntArray, table: Table) -> int:
    """Write the largest value of c requests of sum exactly x for x = 0..reach[c].

    Parameters and result are those of `fill_table`; sums that no subset has get `no_sum`.
    """
    below = sums_of_first(sizes)
    cells = 0
    for c in range(len(reach)):
        table[c, : reach[c] + 1] = no_sum(table)
        cells += reach[c] + 1
    table[0, 0] = 0
    for i in range(len(sizes)):
        for c in range(min(i + 1, len(reach) - 1), 0, -1):
            # Request i is the largest of these c.
            first = sizes[i] + below[c - 1]
            last = min(reach[c], below[i + 1] - below[i + 1 - c])
            if first <= last:
                row = table[c, first : last + 1]
                start = first - sizes[i]
                add_request(row, table[c - 1, start : start + len(row)], values[i])
                cells += len(row)
    return cells


@entry_point
def most_valuable(
    sizes: IntArray, values: IntArray, most: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Find the ``most`` most valuable requests, with cumulative sums of their sizes and values.

    Returns
    -------
    tuple of IntArray
        Positions, shape (min(most, N),), of equal values the smallest size first; cumulative sums
        of sizes and of values, both of shape (most + 1,), `UNREACHABLE` where c > N.
    """
    order = np.empty(min(most, len(values)), np.int64)
    number = 0
    for i in range(len(values)):
        if number == len(order):
            if number == 0 or values[i] <= values[order[number - 1]]:
                continue
            number -= 1
        k = number
        while k > 0 and values[order[k - 1]] < values[i]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = i
        number += 1
    top_sum = np.full(most + 1, UNREACHABLE, np.int64)
    top_value = np.full(most + 1, UNREACHABLE, np.int64)
    top_sum[0] = top_value[0] = 0
    for c in range(len(order)):
        top_sum[c + 1] = top_sum[c] + sizes[order[c]]
        top_value[c + 1] = top_value[c] + values[order[c]]
    return order, top_sum, top_value


@entry_point
def last_sums(top_sum: IntArray, capacity: IntArray, margins: IntArray, spread: int) -> IntArray:
    """Return the largest sum of interest of each cardinality, see `with_parts`.

    Workers that can take the most valuable requests need no table and are ignored.

    Parameters
    ----------
    top_sum : IntArray
        From `most_valuable`.
    capacity, margins : IntArray
        Shape (W,): slots and margin [tokens] of each worker.
    spread : int
        Amount by which margins may be smaller [tokens].
    """
    reach = np.zeros(len(top_sum), np.int64)
    for g in range(len(capacity)):
        loose = top_sum[capacity[g]]
        if margins[g] - spread < loose:
            reach[capacity[g]] = max(reach[capacity[g]], min(margins[g], loose))
    return with_parts(reach)


@entry_point
def fill_table(sizes: IntArray, values: Table, reach: IntArray, table: Table) -> int:
    """Compute ``table[c, x]`` for x = 0..reach[c]; very negative where no subset exists.

    Parameters
    ----------
    values, table : array of int32 or int64
        Shapes (N,) and (C + 1, at least the largest reach + 1); if of int32, no sum of C values
        reaches `SMALL_VALUE`.

    Returns
    -------
    int
        Number of table cells visited.
    """
    cells = fill_sums(sizes, values, reach, table)
    for c in range(len(reach)):
        _accumulate(table[c, : reach[c] + 1])
        cells += reach[c] + 1
    return cells


@compilable
def _accumulate(row: Table) -> None:
    """Replace each value of a row by the largest value up to it."""
    largest = row[0]
    for x in range(len(row)):
        largest = max(largest, row[x])
        row[x] = largest


@entry_point
def largest_value(requests: PricedRequests, count: int, limit: int) -> int:
    """Return the largest value of ``count`` requests of sum <= ``limit``.

    The value is `UNREACHABLE` if there are no such requests. Beyond the table, the value of the
    most valuable requests is returned as an upper bound.
    """
    if limit < 0:
        return UNREACHABLE
    if limit >= requests.top_sum[count] or limit > requests.reach[count]:
        return int(requests.top_value[count])
    value = int(requests.cells[count, limit])
    return value if value > no_sum(requests.cells) // 2 else UNREACHABLE


@entry_point
def prefix_values(values: IntArray, most: int) -> IntArray:
    """Return the value of the c most valuable of the first i requests, at [i, c].

    The array has shape (N + 1, most + 1); it is `UNREACHABLE` where c > i.
    """
    sums = np.full((len(values) + 1, most + 1), UNREACHABLE, np.int64)
    sums[0, 0] = 0
    largest = np.empty(most, np.int64)
    for i in range(len(values)):
        k = min(i, most - 1)
        if i < most or values[i] > largest[k]:
            while k > 0 and largest[k - 1] < values[i]:
                largest[k] = largest[k - 1]
                k -= 1
            largest[k] = values[i]
        sums[i + 1, 0] = 0
        for c in range(min(i + 1, most)):
            sums[i + 1, c + 1] = sums[i + 1, c] + largest[c]
    return sums


@entry_point
def collect_subsets(
    requests: PricedRequests,
    count: int,
    limit: int,
    threshold: int,
    scans: int,
    found: IntArray,
    spent: IntArray,
) -> tuple[int, bool]:
    """Collect subsets of ``count`` requests within ``limit``, of value >= ``threshold``.

    The search is depth first, largest request first. A partial subset is bounded by the lesser of
    two bounds: the table respects the limit but may count a request twice; the prefixes count each
    remaining request once but ignore the limit. So few partial subsets fail.

    Parameters
    ----------
    count, limit, threshold : int
        Number of requests (>= 1), limit on their sum [tokens], and least value.
    scans : int
        Limit on the number of requests examined.
    found : IntArray
        Shape (K, at least count): filled with the positions of requests.
    spent : IntArray
        Shape (1,): operations, counted on (`bfio.step.exact.effort`).

    Returns
    -------
    tuple of (int, bool)
        Number of subsets found, and whether these are all.
    """
    sizes, values, prefix = requests.sizes, requests.values, requests.prefix
    chosen = np.empty(count + 1, np.int64)
    room = np.empty(count + 1, np.int64)
    worth = np.empty(count + 1, np.int64)
    room[0] = limit
    worth[0] = 0
    chosen[0] = len(sizes)
    depth = 0
    total = 0
    while depth >= 0:
        chosen[depth] -= 1
        i = chosen[depth]
        scans -= 1
        if scans < 0:
            return total, False
        spent[0] += _LOOK
        if i < count - depth - 1:
            depth -= 1
            continue
        left = room[depth] - sizes[i]
        value = worth[depth] + values[i]
        rest = count - depth - 1
        if left < 0 or value + prefix[i, rest] < threshold:
            continue
        # The others are no larger.
        if value + largest_value(requests, rest, min(left, rest * sizes[i])) < threshold:
            continue
        if rest == 0:
            if total == len(found):
                return total, False
            copy_to(found[total], chosen[:count])
            total += 1
            continue
        fitting = min(i, np.searchsorted(sizes, left, side="right"))
        if value + prefix[fitting, rest] >= threshold:
            depth += 1
            room[depth] = left
            worth[depth] = value
            chosen[depth] = fitting
    return total, True
