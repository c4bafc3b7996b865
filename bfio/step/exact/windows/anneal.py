"""Placements for a step with a window, by simulated annealing of random exchanges."""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.common.words import RandomState, next_random
from bfio.step.exact.windows.model import NO_LIMIT, Goal, Requests, Workers
from formulations.arrays import BoolArray, IntArray

#: Half of the partners are at most this far away in the order of sizes.
_NEAR = 8
#: Bits of a random number that make one choice; times the most requests they fit 64 bits.
_BITS = 20
_MASK = np.uint64((1 << _BITS) - 1)
#: Operations of one exchange looked at, and further ones per look-ahead step.
_LOOK = 40
#: What a token above a limit costs at first, in tokens of every peak, and how often that doubles
#: if limits are exceeded then: a way through such placements stays open for long.
_PENALTY = 4
_DOUBLINGS = 24


class Placement(NamedTuple):
    """A placement with its loads and peaks; changed in place.

    Parameters
    ----------
    owner : IntArray
        Shape (N,): worker of each position, or -1.
    free : IntArray
        Shape (K,): free slots.
    loads : IntArray
        Shape (K, H+1): load of each open worker at each look-ahead step [tokens].
    peaks : IntArray
        Shape (S,): largest time of each step.
    change : IntArray
        Shape (H+1,): load that the current exchange adds to its first worker [tokens].
    new_peaks : IntArray
        Shape (S,): peaks after the current exchange.
    """

    owner: IntArray
    free: IntArray
    loads: IntArray
    peaks: IntArray
    change: IntArray
    new_peaks: IntArray


class Exchange(NamedTuple):
    """Two positions that exchange their workers.

    Parameters
    ----------
    first, second : int
        Positions; from N on, the second is a free slot.
    worker, other : int
        Worker of the first, and of the second or -1; both are -1 if there is nothing to exchange.
    """

    first: int
    second: int
    worker: int
    other: int


@compilable
def _time(loads: IntArray, workers: Workers, g: int, s: int) -> int:
    """Return the time of worker g at step s; negated from step H+1 on (gap objective)."""
    steps = loads.shape[1]
    if s < steps:
        return int(workers.token_time[g] * loads[g, s])
    return int(-workers.token_time[g] * loads[g, s - steps])


@compilable
def peak_without(
    loads: IntArray, workers: Workers, goal: Goal, s: int, first: int, second: int
) -> int:
    """Return the largest time at step s of all workers but two."""
    peak = goal.closed[s]
    for g in range(len(loads)):
        if g != first and g != second:
            peak = max(peak, _time(loads, workers, g, s))
    return int(peak)


@compilable
def _excess(placement: Placement, workers: Workers, g: int, sign: int) -> int:
    """Return the excess of worker g over its token limit after a change of its loads."""
    if workers.limit[g] == NO_LIMIT:
        return 0
    most = 0
    for h in range(len(placement.change)):
        load = placement.loads[g, h] + sign * placement.change[h]
        most = max(most, load - workers.limit[g])
    return int(most)


@compilable(allocates=True)
def placed(requests: Requests, workers: Workers, goal: Goal, owner: IntArray) -> Placement:
    """Return the state of a placement, without changing it."""
    loads = workers.base.copy()
    free = workers.slots.copy()
    for i in range(len(owner)):
        if owner[i] >= 0:
            free[owner[i]] -= 1
            for h in range(loads.shape[1]):
                loads[owner[i], h] += requests.rows[i, h]
    peaks = np.empty(len(goal.pays), np.int64)
    for s in range(len(peaks)):
        peaks[s] = peak_without(loads, workers, goal, s, -1, -1)
    change = np.zeros(loads.shape[1], np.int64)
    return Placement(owner, free, loads, peaks, change, np.empty_like(peaks))


@compilable
def placed_objective(placement: Placement, workers: Workers, goal: Goal) -> int:
    """Return the objective of a placement."""
    value = -goal.fixed
    for s in range(len(placement.peaks)):
        value += goal.pays[s] * placement.peaks[s]
    for g in range(len(workers.base)):
        for h in range(workers.base.shape[1]):
            added = placement.loads[g, h] - workers.base[g, h]
            value -= goal.weights[h] * workers.token_time[g] * added
    return int(value)


@compilable(into_caller=True)
def drawn(word: np.uint64, placement: Placement, required: BoolArray, partners: int) -> Exchange:
    """Return the exchange that a random number selects."""
    owner = placement.owner
    N = len(owner)
    i = ((word & _MASK) * np.uint64(N)) >> np.uint64(_BITS)
    draw = (word >> np.uint64(_BITS)) & _MASK
    if word >> np.uint64(63):
        j = (draw * np.uint64(partners)) >> np.uint64(_BITS)
    else:
        j = i + draw % np.uint64(2 * _NEAR + 1) - np.uint64(_NEAR)
        if j >= np.uint64(N):
            return Exchange(0, 0, -1, -1)
    first, second = int(np.int64(i)), int(np.int64(j))
    worker = int(owner[first])
    other = int(owner[second]) if second < N else second - N
    if worker == other:
        return Exchange(first, second, -1, -1)
    if second >= N:
        if worker < 0 or placement.free[other] == 0:
            return Exchange(first, second, -1, -1)
    elif worker < 0:
        first, second = second, first
        worker, other = other, worker
    if other < 0 and required[first]:
        return Exchange(first, second, -1, -1)
    return Exchange(first, second, worker, other)


@compilable(into_caller=True)
def set_change(
    exchange: Exchange, requests: Requests, workers: Workers, goal: Goal, change: IntArray
) -> tuple[bool, int]:
    """Write the load that an exchange moves; return whether any, and the rise of the total."""
    changes = exchange.second >= len(requests.rows)
    factor = workers.token_time[exchange.worker]
    if exchange.other >= 0:
        factor -= workers.token_time[exchange.other]
    gain = 0
    for h in range(len(change)):
        change[h] = -requests.rows[exchange.first, h]
        if exchange.second < len(requests.rows):
            change[h] += requests.rows[exchange.second, h]
        changes = changes or change[h] != 0
        gain += goal.weights[h] * factor * change[h]
    return changes, int(gain)


@compilable(into_caller=True)
def added_excess(exchange: Exchange, placement: Placement, workers: Workers) -> int:
    """Return the excess over token limits that an exchange adds."""
    g, o = exchange.worker, exchange.other
    added = _excess(placement, workers, g, 1) - _excess(placement, workers, g, 0)
    if o >= 0:
        added += _excess(placement, workers, o, -1) - _excess(placement, workers, o, 0)
    return int(added)


@compilable(into_caller=True)
def set_peaks(exchange: Exchange, placement: Placement, workers: Workers, goal: Goal) -> int:
    """Write the peaks after an exchange; return the change of the objective by the peaks."""
    g, o = exchange.worker, exchange.other
    loads, change, peaks = placement.loads, placement.change, placement.peaks
    steps = len(change)
    rise = 0
    for s in range(len(peaks)):
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
            peak = max(new, peak_without(loads, workers, goal, s, g, o))
        placement.new_peaks[s] = peak
        rise += goal.pays[s] * (peak - peaks[s])
    return int(rise)


@compilable(into_caller=True)
def is_refused(rise: float, allowed: float, word: np.uint64) -> bool:
    """Return whether annealing rejects an exchange with this rise of the cost."""
    if rise <= 0:
        return False
    chance = float((word >> np.uint64(2 * _BITS)) & _MASK) + 1.0
    return bool(rise > -allowed * np.log(chance / (1 << _BITS)))


@compilable(into_caller=True)
def make(exchange: Exchange, placement: Placement) -> None:
    """Apply an exchange to a placement."""
    g, o = exchange.worker, exchange.other
    placement.owner[exchange.first] = o
    if exchange.second < len(placement.owner):
        placement.owner[exchange.second] = g
    else:
        placement.free[g] += 1
        placement.free[o] -= 1
    for h in range(len(placement.change)):
        placement.loads[g, h] += placement.change[h]
        if o >= 0:
            placement.loads[o, h] -= placement.change[h]
    copy_to(placement.peaks, placement.new_peaks)


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
    """Exchange requests between workers and the pool, starting from a placement.

    Parameters
    ----------
    temperature : float
        Initial temperature: a rise of the objective by this much is accepted with probability 1/e.
        The temperature falls to 0.
    turns : int
        Number of exchanges tried.
    move : bool
        Whether requests may also move to free slots.
    owner : IntArray
        Shape (N,): worker of each position or -1; overwritten with the best placement.

    Returns
    -------
    tuple of (int, int)
        Objective of the best placement, and its excess over token limits, the smallest found
        [tokens].
    """
    placement = placed(requests, workers, goal, owner)
    value = placed_objective(placement, workers, goal)
    excess = 0
    for g in range(len(workers.slots)):
        excess += _excess(placement, workers, g, 0)
    penalty = _PENALTY * float(goal.pays.sum() * workers.token_time.max())
    doubles_at = max(1, turns // _DOUBLINGS)
    best_value, best_excess = value, excess
    best = owner.copy()
    partners = len(owner) + len(workers.slots) if move else len(owner)
    for turn in range(turns):
        if turn == doubles_at:
            penalty *= 2 if excess > 0 else 1
            doubles_at += max(1, turns // _DOUBLINGS)
        state[0] = next_random(state[0])
        exchange = drawn(state[0], placement, requests.required, partners)
        if exchange.worker < 0:
            continue
        changes, gain = set_change(exchange, requests, workers, goal, placement.change)
        if not changes:
            continue
        spent[0] += _LOOK + 4 * len(placement.peaks)
        added = added_excess(exchange, placement, workers)
        new_value = value - gain + set_peaks(exchange, placement, workers, goal)
        rise = float(new_value - value) + penalty * added
        if is_refused(rise, temperature * (1.0 - turn / turns), state[0]):
            continue
        make(exchange, placement)
        value, excess = new_value, excess + added
        if excess < best_excess or (excess == best_excess and value < best_value):
            best_value, best_excess = value, excess
            copy_to(best, owner)
    copy_to(owner, best)
    return best_value, best_excess
