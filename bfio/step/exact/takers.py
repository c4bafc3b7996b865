"""Best subsets of requests for all workers of a fill problem, in one compiled call.

In branch and price a worker that must not take some sizes needs a table of its own. These are some
dozen tables of a few microseconds each after every change of prices, so separate calls would cost
more than the tables.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to, peak_of, taken
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.step.exact.effort import CALL
from bfio.step.exact.master import Pool
from bfio.step.exact.subsets import (
    PricedRequests,
    Table,
    collect_subsets,
    fill_table,
    largest_value,
    last_sums,
    most_valuable,
    prefix_values,
)
from bfio.step.exact.sums import UNREACHABLE
from formulations.arrays import BoolArray, FloatArray, IntArray

#: Requests looked at for the best subset of a worker.
_SCANS = 20_000
#: Reduced cost from which on a subset is worth adding [tokens].
LEAST_GAIN = 1e-4


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
    peak : int
        Limit on the loads [tokens].
    values : array of int32 or int64
        Shape (N,): value of each request (`bfio.step.exact.subsets.fill_table`).
    dual : FloatArray
        Shape (W + number of kinds,): duals of the linear program over subsets.
    pool : Pool
        The subsets of the program, of kinds of requests, with room for W more; filled.
    count : int
        Number of subsets in the pool.
    work : Work
        Counters; increased.

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
    work : Work
        Counters; increased.
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
