"""A first placement for many free slots and more requests: all workers at one load."""

import numpy as np

from bfio.common.words import RandomState
from bfio.step.exact.effort import Effort
from bfio.step.exact.fill import FillProblem
from bfio.step.exact.place import spread
from bfio.step.exact.rebalance import exchange_with_waiting
from formulations.arrays import IntArray

#: Free slots per worker from which on subsets are many enough to meet a level exactly.
_MANY_SLOTS = 4
#: Groups split anew per call, calls for each level.
_ROUNDS = 200
_CALLS = 20
#: Further levels tried from the best placement so far.
_REPEATS = 4
#: Most ticks in all: what succeeds, succeeds sooner, and what follows needs the rest.
_MOST_TICKS = 100_000
_SEED = 88172645463325252


def level(core: FillProblem, effort: Effort) -> IntArray | None:
    """Fill the slots so that all open workers have nearly the same load.

    Requests are spread over the workers, and then exchanged with waiting requests.

    Parameters
    ----------
    core : FillProblem
        The fill problem, with more requests than slots.
    effort : Effort
        Limits.

    Returns
    -------
    IntArray or None
        Shape (N,): the open worker of each size or -1; None if there are few slots.
    """
    if int(core.capacity.sum()) < _MANY_SLOTS * len(core.base):
        return None
    begun, loads, lowest = _spread_admitted(core)
    highest = max(lowest, int(loads.max()))
    lower = core.closed_form(core.first_peak())
    best = begun
    state = np.array([_SEED], dtype=np.uint64)
    last = effort.ticks + _MOST_TICKS
    for peak in dict.fromkeys((lowest, (lowest + highest) // 2, highest)):
        best = _exchanged(core, peak, begun, best, lower, effort, last, state)
    # From the best so far, at its own mean load.
    for _ in range(_REPEATS):
        mean = -(-int(_loads_of(core, best).sum()) // len(loads))
        best = _exchanged(core, max(core.peak, mean), best, best, lower, effort, last, state)
    return best


def _exchanged(
    core: FillProblem,
    peak: int,
    begun: IntArray,
    best: IntArray,
    lower: int,
    effort: Effort,
    last: int,
    state: RandomState,
) -> IntArray:
    """Exchange requests, starting from ``begun``, to reach one load; return the best placement.

    Ends once ``last`` ticks are used in all.
    """
    owner = begun.copy()
    loads = _loads_of(core, owner)
    for _ in range(_CALLS):
        if core.value_of(best) <= lower or effort.ticks > last or effort.is_over:
            break
        distance = exchange_with_waiting(
            peak, core.capacity, core.sizes, owner, loads, 0, _ROUNDS, state, effort.spent
        )
        if core.value_of(owner) < core.value_of(best):
            best = owner.copy()
        if distance == 0:
            break
    return best


def _loads_of(core: FillProblem, owner: IntArray) -> IntArray:
    loads: IntArray = core.base.copy()
    np.add.at(loads, owner[owner >= 0], core.sizes[owner >= 0])
    return loads


def _spread_admitted(core: FillProblem) -> tuple[IntArray, IntArray, int]:
    """Spread requests of all sizes, or only large ones if a closed worker has a high load.

    Return the placement, the loads and the target load: the mean load, or the load of the closed
    worker.
    """
    slots = int(core.capacity.sum())
    N = len(core.sizes)
    wanted = len(core.base) * core.peak - int(core.base.sum())
    low, high = 0, N - slots
    while low < high:
        middle = (low + high) // 2
        if int(core.sizes[_evenly(middle, N, slots)].sum()) < wanted:
            low = middle + 1
        else:
            high = middle
    chosen = _evenly(low, N, slots)
    part = np.empty(slots, dtype=np.int64)
    loads = spread(core.base, core.capacity, core.sizes[chosen], part)
    owner = np.full(N, -1, dtype=np.int64)
    owner[chosen] = part
    if low > 0:
        return owner, loads, core.peak
    return owner, loads, max(core.peak, -(-int(loads.sum()) // len(loads)))


def _evenly(first: int, last: int, count: int) -> IntArray:
    """Return ``count`` evenly spaced, different positions in [first, last)."""
    positions: IntArray = first + np.arange(count, dtype=np.int64) * (last - first) // count
    return positions
