"""Best subsets for workers that must not take requests of some sizes, in one compiled call.

Each of these workers has its own table. Branch and price needs some dozen tables of a few
microseconds each after every change of prices, so separate calls would cost more than the tables.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.step.exact.subsets import (
    PricedRequests,
    PricedTable,
    Table,
    add_values,
    best_subsets,
    fill_table,
    largest_value,
    last_sums,
    most_valuable,
    prefix_values,
)
from bfio.step.exact.sums import UNREACHABLE
from formulations.arrays import BoolArray, IntArray


class BarredWorkers(NamedTuple):
    """Workers with the requests that each may take.

    Parameters
    ----------
    base, capacity : IntArray
        Shape (P,): loads [tokens] and slots.
    allowed : BoolArray
        Shape (P, N): whether each worker may take each request.
    """

    base: IntArray
    capacity: IntArray
    allowed: BoolArray


@entry_point
def best_allowed(
    workers: BarredWorkers,
    peak: int,
    sizes: IntArray,
    values: IntArray,
    units: Table,
    scans: int,
    spent: IntArray,
) -> tuple[IntArray, IntArray, int]:
    """Find a best subset of requests for each worker, and its value.

    Parameters
    ----------
    workers : BarredWorkers
        The workers.
    peak : int
        Limit on the loads [tokens].
    sizes, values : IntArray
        Shape (N,): size [tokens], ascending, and value of each request.
    units : array of int32 or int64
        The same values in the type of tables (`bfio.step.exact.subsets.fill_table`).
    scans, spent
        As in `bfio.step.exact.subsets.collect_subsets`.

    Returns
    -------
    tuple of (IntArray, IntArray, int)
        Value of each worker's subset, shape (P,), `UNREACHABLE` or less if none fits; positions of
        its requests, shape (P, C), padded with -1; number of table cells visited.
    """
    P = len(workers.base)
    best = np.empty(P, np.int64)
    subsets = np.full((P, workers.capacity.max()), -1, np.int64)
    visited = 0
    for p in range(P):
        margins = np.array([peak - workers.base[p]])
        slots = workers.capacity[p : p + 1]
        chosen = np.flatnonzero(workers.allowed[p])
        requests, cells = _tabulated(
            sizes[chosen], values[chosen], units[chosen], slots, margins, 0
        )
        visited += cells
        best[p] = largest_value(requests.table, slots[0], margins[0])
        if best[p] <= UNREACHABLE // 2:
            continue
        found = best_subsets(requests, slots, margins, best[p : p + 1], scans, spent)[0]
        if found[0] >= 0:
            copy_to(subsets[p], chosen[found])
    return best, subsets, visited


@entry_point
def add_allowed(
    workers: BarredWorkers,
    peaks: IntArray,
    sizes: IntArray,
    values: IntArray,
    units: Table,
    total: IntArray,
) -> int:
    """Add the value of the best subset of each worker under each peak.

    Parameters
    ----------
    workers, sizes, values, units
        As in `best_allowed`.
    peaks : IntArray
        Shape (P,), ascending.
    total : IntArray
        Shape (P,): the values are added here; `UNREACHABLE` where a worker cannot be filled.

    Returns
    -------
    int
        Number of table cells visited.
    """
    visited = 0
    for p in range(len(workers.base)):
        base, slots = workers.base[p : p + 1], workers.capacity[p : p + 1]
        chosen = np.flatnonzero(workers.allowed[p])
        requests, cells = _tabulated(
            sizes[chosen],
            values[chosen],
            units[chosen],
            slots,
            peaks[-1] - base,
            peaks[-1] - peaks[0],
        )
        visited += cells
        add_values(peaks, base, slots, requests.table, total)
    return visited


@compilable(allocates=True)
def _tabulated(
    sizes: IntArray,
    values: IntArray,
    units: Table,
    slots: IntArray,
    margins: IntArray,
    spread: int,
) -> tuple[PricedRequests, int]:
    """Return requests with a table for workers of a margin, or up to ``spread`` less."""
    order, top_sum, top_value = most_valuable(sizes, values, slots[0])
    reach = last_sums(top_sum, slots, margins, spread)
    cells = np.empty((slots[0] + 1, reach.max() + 1), units.dtype)
    visited = fill_table(sizes, units, reach, cells)
    table = PricedTable(cells, reach, top_sum, top_value)
    return PricedRequests(sizes, values, prefix_values(values, slots[0]), order, table), visited
