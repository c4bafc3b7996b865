"""Best subsets of requests for one worker, at given prices, and for all workers.

``cells[c, x]`` is the largest value of c requests whose sizes sum to at most x. One table serves
all workers and peaks; where the c most valuable requests fit, no table is needed. In branch and
price a worker that must not take some sizes needs a table of its own. These are some dozen tables
of a few microseconds each after every change of prices. So one compiled call serves all workers.

Everywhere ``sizes`` are ascending [tokens], and ``values`` belong to them. Subsets have at most C
requests, and ``reach``, of shape (C + 1,), is the last sum of interest of each cardinality.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bfio.common.array_kernels import copy_to, peak_of, taken
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.step.exact.effort import CALL
from bfio.step.exact.master import Pool
from bfio.step.exact.sums import UNREACHABLE, sums_of_first
from formulations.arrays import BoolArray, FloatArray, IntArray

#: Values by cardinality and sum.
Table: TypeAlias = NDArray[np.int32] | NDArray[np.int64]

#: Operations of one request looked at for a subset.
_LOOK = 20
#: Sums of 32 bits are twice as fast; they are used while no value reaches this.
SMALL_VALUE = 1 << 29
#: Requests looked at for the best subset of a worker.
_SCANS = 20_000
#: Reduced cost from which on a subset is worth adding [tokens].
LEAST_GAIN = 1e-4


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


class Takers(NamedTuple):
    """Workers, requests, and the requests that each worker may take.

    Parameters
    ----------
    base, capacity : IntArray
        Shape (W,): loads [tokens] and slots.
    menu : IntArray
        Shape (W,): row of ``allowed`` for each worker; workers with one menu share a table.
    allowed : BoolArray
        Shape (Q, N): whether each request is on each menu.
    sizes, kind : IntArray
        Shape (N,): size [tokens], ascending, and number of distinct smaller sizes.
    """

    base: IntArray
    capacity: IntArray
    menu: IntArray
    allowed: BoolArray
    sizes: IntArray
    kind: IntArray


class Work(NamedTuple):
    """Counters of work.

    Parameters
    ----------
    spent : IntArray
        Shape (1,): operations (`bfio.step.exact.effort`), those of cells left out.
    cells : IntArray
        Shape (2,): cells of tables, of the first menu and of the others.
    reach : IntArray
        Shape (C + 1,): reach of the table of the first menu that is counted at the prices at hand;
        -1 for none.
    """

    spent: IntArray
    cells: IntArray
    reach: IntArray


@entry_point
def add_best(
    takers: Takers,
    peak: int,
    values: Table,
    dual: FloatArray,
    pool: Pool,
    count: int,
    work: Work,
) -> tuple[int, int]:
    """Find the value of a best subset of each worker; add those that improve the program.

    Parameters
    ----------
    values : array of int32 or int64
        Shape (N,): value of each request (`bfio.step.exact.subsets.fill_table`).
    dual : FloatArray
        Shape (W + number of kinds,): duals of the linear program over subsets.
    pool : Pool
        The subsets of the program, of kinds of requests, with room for W more; filled.
    count : int
        Number of subsets in the pool.

    Returns
    -------
    tuple of int
        Total value, `UNREACHABLE` if some worker has no subset; the new number of subsets in the
        pool.
    """
    W = len(takers.base)
    subsets = np.full((W, peak_of(takers.capacity)), -1, np.int64)
    total = 0
    # The first menu comes last: its subsets are only sought where every worker has one.
    for q in range(len(takers.allowed) - 1, -1, -1):
        workers = np.flatnonzero(takers.menu == q)
        if len(workers) == 0:
            continue
        slots, margins = taken(takers.capacity, workers), peak - taken(takers.base, workers)
        chosen, requests = _tabulated(takers, q, values, slots, margins, 0, work)
        best = np.empty(len(workers), np.int64)
        is_found = q > 0 or total > UNREACHABLE
        for k in range(len(workers)):
            best[k] = largest_value(requests, slots[k], margins[k])
            if best[k] <= UNREACHABLE // 2:
                is_found = False
                total = UNREACHABLE
            if total > UNREACHABLE:
                total += best[k]
        for k in range(len(workers) if is_found else 0):
            size, limit, row = slots[k], margins[k], subsets[workers[k] : workers[k] + 1]
            found = 1
            if limit >= requests.top_sum[size]:
                copy_to(row[0], requests.order[:size])
            else:
                found, _ = collect_subsets(requests, size, limit, best[k], _SCANS, row, work.spent)
            if found > 0:
                copy_to(row[0], taken(chosen, row[0, :size]))
    if total <= UNREACHABLE:
        return UNREACHABLE, count
    for is_barred in (False, True):
        for g in range(W):
            members = subsets[g, : takers.capacity[g]]
            if (takers.menu[g] > 0) != is_barred or members[0] < 0:
                continue
            worth, cost = 0, dual[g]
            for i in members:
                worth += takers.sizes[i]
                cost += dual[W + takers.kind[i]]
            if worth > cost + LEAST_GAIN:
                pool.members[count] = -1
                copy_to(pool.members[count], taken(takers.kind, members))
                pool.worker[count] = g
                pool.worth[count] = worth
                count += 1
    return total, count


@entry_point
def add_values_of_all(
    takers: Takers, peaks: IntArray, values: Table, total: IntArray, work: Work
) -> None:
    """Add the value of a best subset of each worker under each peak.

    Parameters
    ----------
    peaks : IntArray
        Shape (P,), ascending.
    total : IntArray
        Shape (P,): the values are added here; `UNREACHABLE` where a worker cannot be filled.
    """
    for q in range(len(takers.allowed)):
        workers = np.flatnonzero(takers.menu == q)
        if len(workers) == 0:
            continue
        base, slots = taken(takers.base, workers), taken(takers.capacity, workers)
        spread = peaks[-1] - peaks[0]
        _, requests = _tabulated(takers, q, values, slots, peaks[-1] - base, spread, work)
        for k in range(len(peaks)):
            for g in range(len(workers)):
                value = largest_value(requests, slots[g], peaks[k] - base[g])
                if value <= UNREACHABLE // 2:
                    total[k] = UNREACHABLE
                if total[k] > UNREACHABLE:
                    total[k] += value


@compilable(allocates=True, apart=True)
def _tabulated(
    takers: Takers,
    q: int,
    values: Table,
    slots: IntArray,
    margins: IntArray,
    spread: int,
    work: Work,
) -> tuple[IntArray, PricedRequests]:
    """Return the requests on a menu, with a table for these margins or up to ``spread`` less.

    At unchanged prices the table of the first menu counts as work once.
    """
    chosen = np.flatnonzero(takers.allowed[q])
    sizes, narrow = taken(takers.sizes, chosen), values[chosen]
    wide = narrow.astype(np.int64)
    most = peak_of(takers.capacity if q == 0 else slots)
    order, top_sum, top_value = most_valuable(sizes, wide, most)
    reach = last_sums(top_sum, slots, margins, spread)
    table = np.empty((most + 1, peak_of(reach) + 1), values.dtype)
    cells = fill_table(sizes, narrow, reach, table)
    if q > 0 or not (reach <= work.reach).all():
        work.spent[0] += CALL
        work.cells[min(q, 1)] += cells
        if q == 0:
            copy_to(work.reach, reach)
    prefix = prefix_values(wide, most)
    priced = PricedRequests(sizes, wide, prefix, order, top_sum, top_value, table, reach)
    return chosen, priced
