"""Placements for a step with a window: requests exchanged at random, ever less often for worse."""

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.kernels import entry_point, in_place
from bfio.common.words import RandomState
from bfio.step.exact.place import next_random
from bfio.step.exact.windows.model import NO_LIMIT, Goal, Requests, Workers
from formulations.arrays import IntArray

#: Half of the partners are at most this far away in the order of sizes.
_NEAR = 8
#: Bits of a random number that make one choice; times the most requests they fit 64 bits.
_BITS = 20
_MASK = np.uint64((1 << _BITS) - 1)
#: Operations of one exchange looked at, and further ones per look-ahead step.
_LOOK = 40


@in_place
def _time(loads: IntArray, workers: Workers, g: int, s: int) -> int:
    """Time of worker g at step s, negated behind the window."""
    steps = loads.shape[1]
    if s < steps:
        return int(workers.token_time[g] * loads[g, s])
    return int(-workers.token_time[g] * loads[g, s - steps])


@in_place
def _peak_without(
    loads: IntArray, workers: Workers, goal: Goal, s: int, first: int, second: int
) -> int:
    """Largest time at step s of all workers but two."""
    peak = goal.closed[s]
    for g in range(len(loads)):
        if g != first and g != second:
            peak = max(peak, _time(loads, workers, g, s))
    return int(peak)


@in_place
def _excess(loads: IntArray, workers: Workers, g: int, change: IntArray, sign: int) -> int:
    """Tokens above the limit of worker g after a change of its loads."""
    if workers.limit[g] == NO_LIMIT:
        return 0
    most = 0
    for h in range(len(change)):
        most = max(most, loads[g, h] + sign * change[h] - workers.limit[g])
    return most


@entry_point
def anneal(
    requests: Requests,
    workers: Workers,
    goal: Goal,
    temperature: float,
    turns: int,
    move: bool,
    owner: IntArray,
    state: RandomState,
    spent: IntArray,
) -> tuple[int, int]:
    """Exchange requests between workers and the pool, from a placement on.

    Parameters
    ----------
    requests, workers, goal
        The problem.
    temperature : float
        Rise of the objective accepted at first every e-th time; it falls to 0.
    turns : int
        Exchanges looked at.
    move : bool
        Whether requests may also move to free slots.
    owner : IntArray
        Shape (N,): worker of each position or -1; replaced by the best placement met.
    state : RandomState
        Shape (1,).
    spent : IntArray
        Shape (1,): operations, counted on (`bfio.step.exact.effort`).

    Returns
    -------
    tuple of (int, int)
        Objective of the best placement, and its tokens above limits, which count most.
    """
    K, steps = workers.base.shape
    S = len(goal.pays)
    N = len(owner)
    loads = workers.base.copy()
    free = workers.slots.copy()
    for i in range(N):
        if owner[i] >= 0:
            free[owner[i]] -= 1
            for h in range(steps):
                loads[owner[i], h] += requests.rows[i, h]
    peaks = np.empty(S, np.int64)
    value = -goal.fixed
    for s in range(S):
        peaks[s] = _peak_without(loads, workers, goal, s, -1, -1)
        value += goal.pays[s] * peaks[s]
    excess = 0
    nothing = np.zeros(steps, np.int64)
    for g in range(K):
        excess += _excess(loads, workers, g, nothing, 1)
        for h in range(steps):
            added = loads[g, h] - workers.base[g, h]
            value -= goal.weights[h] * workers.token_time[g] * added
    penalty = 4 * goal.pays.sum() * workers.token_time.max()
    cost = value + penalty * excess
    least = cost
    best_value, best_excess = value, excess
    best = owner.copy()
    change = np.empty(steps, np.int64)
    fresh = np.empty(S, np.int64)
    partners = N + K if move else N
    for turn in range(turns):
        state[0] = next_random(state[0])
        word = state[0]
        i = ((word & _MASK) * np.uint64(N)) >> np.uint64(_BITS)
        draw = (word >> np.uint64(_BITS)) & _MASK
        if word >> np.uint64(63):
            j = (draw * np.uint64(partners)) >> np.uint64(_BITS)
        else:
            j = i + draw % np.uint64(2 * _NEAR + 1) - np.uint64(_NEAR)
            if j >= np.uint64(N):
                continue
        first = int(i)
        second = int(j)
        g = int(owner[first])
        o = int(owner[second]) if second < N else second - N
        if g == o:
            continue
        if second >= N:
            if g < 0 or free[o] == 0:
                continue
        elif g < 0:
            first, second = second, first
            g, o = o, g
        if o < 0 and requests.required[first]:
            continue
        # Worker g gets the change, worker o (or the pool) its opposite.
        same = True
        gain = 0
        for h in range(steps):
            change[h] = -requests.rows[first, h]
            if second < N:
                change[h] += requests.rows[second, h]
            same = same and change[h] == 0
            factor = workers.token_time[g]
            if o >= 0:
                factor -= workers.token_time[o]
            gain += goal.weights[h] * factor * change[h]
        if same and second < N:
            continue
        spent[0] += _LOOK + 4 * S
        new_excess = excess
        new_excess += _excess(loads, workers, g, change, 1)
        new_excess -= _excess(loads, workers, g, nothing, 1)
        if o >= 0:
            new_excess += _excess(loads, workers, o, change, -1)
            new_excess -= _excess(loads, workers, o, nothing, 1)
        new_value = value - gain
        for s in range(S):
            h = s if s < steps else s - steps
            sign = 1 if s < steps else -1
            old = _time(loads, workers, g, s)
            new = old + sign * workers.token_time[g] * change[h]
            highest = old
            if o >= 0:
                other = _time(loads, workers, o, s)
                highest = max(old, other)
                new = max(new, other - sign * workers.token_time[o] * change[h])
            peak = peaks[s]
            if new >= peak:
                peak = new
            elif highest == peak:
                peak = max(new, _peak_without(loads, workers, goal, s, g, o))
            fresh[s] = peak
            new_value += goal.pays[s] * (peak - peaks[s])
        new_cost = new_value + penalty * new_excess
        allowed = temperature * (1.0 - turn / turns)
        if new_cost > cost:
            chance = float((word >> np.uint64(2 * _BITS)) & _MASK) + 1.0
            if new_cost - cost > -allowed * np.log(chance / (1 << _BITS)):
                continue
        owner[first] = o
        if second < N:
            owner[second] = g
        else:
            free[g] += 1
            free[o] -= 1
        for h in range(steps):
            loads[g, h] += change[h]
            if o >= 0:
                loads[o, h] -= change[h]
        copy_to(peaks, fresh)
        value, excess, cost = new_value, new_excess, new_cost
        if cost < least:
            least = cost
            best_value, best_excess = value, excess
            copy_to(best, owner)
    copy_to(owner, best)
    return best_value, best_excess
