"""Reduced costs of modes and sums at given shares and prices.

The cost of a range of sums is at least the share cost of its first sum, less the best value in the
range. So most ranges and modes are excluded without examining single sums.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.step.exact.subsets import no_sum
from bfio.step.exact.windows.model import Modes, Workers
from bfio.step.exact.windows.pricing import BLOCK, Priced, most_units
from bfio.step.exact.windows.shares import WeightedShares, least_share_cost, share_costs
from formulations.arrays import IntArray

#: Larger than any reduced cost.
NEVER = 1 << 60
#: Most ranges that wait for a look: each halves the one before.
_DEPTH = 64
#: Operations of one share looked at.
_LOOK = 3


class Costs(NamedTuple):
    """The components of the reduced cost of a mode and a sum.

    Parameters
    ----------
    modes, workers, shares, priced
        Modes, open workers, weighted shares, and requests with their values.
    fixed : IntArray
        Shape (M,): part of a mode's cost that does not depend on the sum.
    """

    modes: Modes
    workers: Workers
    shares: WeightedShares
    priced: Priced
    fixed: IntArray


@compilable
def _reduced_costs(
    costs: Costs, m: int, low: int, out: IntArray, slopes: IntArray, spent: IntArray
) -> None:
    """Write the reduced cost of the sums of mode m from ``low`` on; `NEVER` if unreachable."""
    k = costs.modes.worker[m]
    spent[0] += _LOOK * (costs.shares.first[k + 1] - costs.shares.first[k] + len(out))
    tau = costs.workers.token_time[k]
    share_costs(costs.modes.loads[m], tau, k, costs.shares, low, out, slopes[: len(out) + 1])
    priced = costs.priced
    best = priced.tables[priced.speed[k], costs.modes.number[m]]
    shift = np.int64(priced.shift)
    none = no_sum(priced.tables) // 2
    for x in range(len(out)):
        units = np.int64(best[low + x])
        out[x] = out[x] + costs.fixed[m] - (units << shift) if units > none else NEVER


@compilable
def _least_on(costs: Costs, m: int, first: int, last: int, spent: IntArray) -> int:
    """Return a lower bound on the reduced cost of the sums ``first`` to ``last`` of mode m."""
    k = costs.modes.worker[m]
    priced = costs.priced
    spent[0] += _LOOK * (costs.shares.first[k + 1] - costs.shares.first[k])
    units = np.int64(most_units(priced, priced.speed[k], costs.modes.number[m], first, last))
    if units <= no_sum(priced.tables) // 2:
        return NEVER
    tau = costs.workers.token_time[k]
    least = least_share_cost(costs.modes.loads[m], tau, k, costs.shares, first, last)
    return int(least + costs.fixed[m] - (units << np.int64(priced.shift)))


@entry_point
def price_workers(
    costs: Costs, number: int, spent: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Find the modes and sums of the least reduced costs of each worker.

    Returns
    -------
    tuple of IntArray
        Modes, sums and costs of each worker, shape (K, ``number``), least first, padded with -1,
        -1 and `NEVER`; a lower bound on the cost of each mode, shape (M,).
    """
    shape = (len(costs.workers.slots), number)
    modes, sums = np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)
    least = np.full(shape, NEVER, np.int64)
    bounds = np.empty(len(costs.fixed), np.int64)
    last = number - 1
    stack = np.empty((_DEPTH, 2), np.int64)
    memory = np.empty((2, BLOCK + 1), np.int64)
    for m in range(len(costs.fixed)):
        bounds[m] = _least_on(costs, m, costs.modes.low[m], costs.modes.high[m], spent)
    # Those that may cost least come first: most others need no further look then.
    for m in np.argsort(bounds):
        k = costs.modes.worker[m]
        stack[0, 0] = costs.modes.low[m]
        stack[0, 1] = costs.modes.high[m]
        depth = 1 if bounds[m] < least[k, last] else 0
        while depth > 0:
            depth -= 1
            low, high = stack[depth, 0], stack[depth, 1]
            if _least_on(costs, m, low, high, spent) >= least[k, last]:
                continue
            if high - low >= BLOCK:
                # The lower half is looked at first.
                middle = (low + high) // 2
                stack[depth, 0], stack[depth, 1] = middle + 1, high
                stack[depth + 1, 0], stack[depth + 1, 1] = low, middle
                depth += 2
                continue
            found = memory[0, : high - low + 1]
            _reduced_costs(costs, m, low, found, memory[1], spent)
            for x in range(len(found)):
                if found[x] < least[k, last]:
                    _insert(modes[k], sums[k], least[k], m, low + x, found[x])
    return modes, sums, least, bounds


@compilable
def _insert(
    modes: IntArray, sums: IntArray, least: IntArray, mode: int, total: int, cost: int
) -> None:
    """Insert a cost below the last one into the sorted list."""
    place = len(least) - 1
    while place > 0 and least[place - 1] > cost:
        least[place] = least[place - 1]
        modes[place] = modes[place - 1]
        sums[place] = sums[place - 1]
        place -= 1
    least[place] = cost
    modes[place] = mode
    sums[place] = total


@compilable
def _end(
    costs: Costs, m: int, most: int, up: bool, stack: IntArray, memory: IntArray, spent: IntArray
) -> int:
    """Return the first sum of mode m, from either end, of cost at most ``most``; -1 if none."""
    stack[0, 0] = costs.modes.low[m]
    stack[0, 1] = costs.modes.high[m]
    depth = 1
    while depth > 0:
        depth -= 1
        low, high = stack[depth, 0], stack[depth, 1]
        if _least_on(costs, m, low, high, spent) > most:
            continue
        if high - low >= BLOCK:
            middle = (low + high) // 2
            nearer = 1 if up else 0
            stack[depth + nearer, 0], stack[depth + nearer, 1] = low, middle
            stack[depth + 1 - nearer, 0], stack[depth + 1 - nearer, 1] = middle + 1, high
            depth += 2
            continue
        found = memory[0, : high - low + 1]
        _reduced_costs(costs, m, low, found, memory[1], spent)
        for i in range(len(found)):
            x = i if up else len(found) - 1 - i
            if found[x] <= most:
                return int(low + x)
    return -1


@entry_point
def shrink_modes(costs: Costs, most: IntArray, spent: IntArray) -> None:
    """Shrink the range of sums of each mode to costs of at most ``most`` for its worker.

    A mode without such sums is left with ``low > high``.
    """
    modes = costs.modes
    stack = np.empty((_DEPTH, 2), np.int64)
    memory = np.empty((2, BLOCK + 1), np.int64)
    for m in range(len(modes.low)):
        limit = most[modes.worker[m]]
        first = _end(costs, m, limit, True, stack, memory, spent)
        last = _end(costs, m, limit, False, stack, memory, spent) if first >= 0 else -1
        modes.low[m] = first if first >= 0 else 1
        modes.high[m] = last if first >= 0 else 0
