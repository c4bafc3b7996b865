"""The transportation problem of the interval relaxation, by augmenting paths."""

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from formulations.arrays import IntArray

#: Label of what no path reaches.
_UNREACHED = -(1 << 62)


@entry_point
def best_flow(gain: IntArray, supply: IntArray, capacity: IntArray) -> IntArray:
    """Return the flow from steps to workers of largest gain; not all supply must be used.

    The path of largest gain is augmented until no path has a positive gain (Ford and Fulkerson).
    With integer data the flow is integral.

    Parameters
    ----------
    gain : IntArray
        Shape (G, K): gain of a unit from step h to worker g.
    supply : IntArray
        Shape (K,): units at each step.
    capacity : IntArray
        Shape (G,): largest number of units of each worker.

    Returns
    -------
    IntArray
        Flow from each step to each worker, shape (G, K), >= 0.
    """
    flow = np.zeros(gain.shape, np.int64)
    left, room = supply.copy(), capacity.copy()
    of_step, of_worker = np.empty(len(supply), np.int64), np.empty(len(capacity), np.int64)
    # Before a step stands the worker that gives a unit back, -1 where its own supply begins.
    before_step = np.empty(len(supply), np.int64)
    before_worker = np.empty(len(capacity), np.int64)
    while True:
        for h in range(len(supply)):
            of_step[h] = 0 if left[h] > 0 else _UNREACHED
            before_step[h] = -1
        of_worker[:] = _UNREACHED
        while _relax(gain, flow, of_step, of_worker, before_step, before_worker):
            pass
        best = -1
        for g in range(len(capacity)):
            if room[g] > 0 and of_worker[g] > (0 if best < 0 else of_worker[best]):
                best = g
        if best < 0:
            return flow
        _augment(flow, left, room, best, before_step, before_worker)


@compilable
def _relax(
    gain: IntArray,
    flow: IntArray,
    of_step: IntArray,
    of_worker: IntArray,
    before_step: IntArray,
    before_worker: IntArray,
) -> bool:
    """Extend paths by one unit sent and one returned; return whether any label rises."""
    rose = False
    for g in range(gain.shape[0]):
        for h in range(gain.shape[1]):
            if of_step[h] > _UNREACHED and of_step[h] + gain[g, h] > of_worker[g]:
                of_worker[g] = of_step[h] + gain[g, h]
                before_worker[g] = h
                rose = True
        if of_worker[g] == _UNREACHED:
            continue
        for h in range(gain.shape[1]):
            if flow[g, h] > 0 and of_worker[g] - gain[g, h] > of_step[h]:
                of_step[h] = of_worker[g] - gain[g, h]
                before_step[h] = g
                rose = True
    return rose


@compilable
def _augment(
    flow: IntArray,
    left: IntArray,
    room: IntArray,
    last: int,
    before_step: IntArray,
    before_worker: IntArray,
) -> None:
    """Send as many units as possible along the path that ends at worker ``last``."""
    amount = room[last]
    g = last
    while True:
        h = before_worker[g]
        g = before_step[h]
        amount = min(amount, left[h] if g < 0 else flow[g, h])
        if g < 0:
            break
    room[last] -= amount
    g = last
    while g >= 0:
        h = before_worker[g]
        flow[g, h] += amount
        g = before_step[h]
        if g < 0:
            left[h] -= amount
        else:
            flow[g, h] -= amount
