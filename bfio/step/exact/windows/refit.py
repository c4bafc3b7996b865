"""Placements improved two workers at a time: their requests are dealt out anew, exactly.

Two workers, or a worker and the pool, keep how many requests they have; what one gets of the
requests that differ by size only is one sum, and the objective is convex in it. So the sums that
improve it are an interval, mostly an empty one; else a table of the sums that are reachable says
which of them is best.
"""

import numpy as np

from bfio.common.kernels import entry_point, in_place, kernel
from bfio.step.exact.windows.anneal import Placement, peak_without, placed, placed_objective
from bfio.step.exact.windows.model import NO_LIMIT, Goal, Requests, Workers
from formulations.arrays import IntArray

#: Most cells of a table of reachable sums, times its requests.
_MAX_WORK = 1 << 24
#: Most rounds through all pairs.
_ROUNDS = 20
#: Operations of one cell, as part of one.
_CELLS = 16


@in_place
def _cost(
    x: int, total: int, g: int, k: int, placement: Placement, workers: Workers, goal: Goal
) -> int:
    """Objective, but for a constant, where worker g has sum x and the other one the rest.

    The placement's loads are without these sums, its new peaks those of all others.
    """
    steps = placement.loads.shape[1]
    cost = 0
    for s in range(len(goal.pays)):
        h = s if s < steps else s - steps
        sign = 1 if s < steps else -1
        peak = placement.new_peaks[s]
        peak = max(peak, sign * workers.token_time[g] * (placement.loads[g, h] + x))
        if k >= 0:
            rest = placement.loads[k, h] + total - x
            peak = max(peak, sign * workers.token_time[k] * rest)
        cost += goal.pays[s] * peak
    factor = workers.token_time[g] - (workers.token_time[k] if k >= 0 else 0)
    for h in range(steps):
        cost -= goal.weights[h] * factor * x
    return int(cost)


@in_place
def _room(load: IntArray, limit: int) -> int:
    """Largest sum within a limit."""
    room = NO_LIMIT
    if limit != NO_LIMIT:
        for h in range(len(load)):
            room = min(room, limit - load[h])
    return int(room)


@kernel
def _improving(
    x: int,
    low: int,
    high: int,
    total: int,
    g: int,
    k: int,
    placement: Placement,
    workers: Workers,
    goal: Goal,
) -> tuple[int, int, int]:
    """Best sum, reachable or not, and the interval around it of those better than x."""
    value = _cost(x, total, g, k, placement, workers, goal)
    first, last = low, high
    while first < last:
        middle = (first + last) // 2
        if _cost(middle, total, g, k, placement, workers, goal) <= _cost(
            middle + 1, total, g, k, placement, workers, goal
        ):
            last = middle
        else:
            first = middle + 1
    best = first
    if _cost(best, total, g, k, placement, workers, goal) >= value:
        return best, 1, 0
    first, last = low, best
    while first < last:
        middle = (first + last) // 2
        if _cost(middle, total, g, k, placement, workers, goal) < value:
            last = middle
        else:
            first = middle + 1
    lowest = first
    first, last = best, high
    while first < last:
        middle = (first + last + 1) // 2
        if _cost(middle, total, g, k, placement, workers, goal) < value:
            first = middle
        else:
            last = middle - 1
    return best, lowest, first


@kernel
def _reach(sizes: IntArray, members: IntArray, count: int, high: int) -> np.ndarray:
    """Return table[c, x]: the first of the members with which c of them have sum x, or -1."""
    table = np.full((count + 1, high + 1), np.int16(-1))
    table[0, 0] = 0
    for i in range(len(members)):
        size = sizes[members[i]]
        if size > high:
            break
        mark = np.int16(i)
        for c in range(min(count, i + 1), 0, -1):
            row = table[c, size:]
            below = table[c - 1, : len(row)]
            for x in range(len(row)):
                row[x] = mark if row[x] < 0 and below[x] >= 0 else row[x]
    return table


@kernel
def _nearest(
    table: np.ndarray,
    best: int,
    lowest: int,
    highest: int,
    g: int,
    k: int,
    total: int,
    placement: Placement,
    workers: Workers,
    goal: Goal,
) -> int:
    """Best reachable sum of an interval; -1 if none is."""
    row = table[len(table) - 1]
    found = -1
    for x in range(best, highest + 1):
        if row[x] >= 0:
            found = x
            break
    for x in range(best - 1, lowest - 1, -1):
        if row[x] >= 0:
            if found < 0 or _cost(x, total, g, k, placement, workers, goal) < _cost(
                found, total, g, k, placement, workers, goal
            ):
                found = x
            break
    return found


@kernel
def _refit_pair(
    g: int,
    k: int,
    requests: Requests,
    workers: Workers,
    goal: Goal,
    placement: Placement,
    spent: IntArray,
) -> bool:
    """Deal the requests of worker g and of worker k, or the pool, out anew; whether that helps."""
    owner = placement.owner
    sizes = requests.sizes
    members = np.empty(len(sizes), np.int64)
    number = 0
    count = 0
    x = 0
    total = 0
    for i in range(len(sizes)):
        if owner[i] == g or (owner[i] == k and not (k < 0 and requests.required[i])):
            if k < 0 and requests.required[i]:
                continue
            members[number] = i
            number += 1
            total += sizes[i]
            if owner[i] == g:
                count += 1
                x += sizes[i]
    if count == 0 or count == number:
        return False
    members = members[:number]
    placement.loads[g] -= x
    if k >= 0:
        placement.loads[k] -= total - x
    for s in range(len(goal.pays)):
        placement.new_peaks[s] = peak_without(placement.loads, workers, goal, s, g, k)
    low = 0
    high = 0
    for c in range(count):
        low += sizes[members[c]]
        high += sizes[members[number - 1 - c]]
    high = min(high, _room(placement.loads[g], workers.limit[g]))
    if k >= 0:
        low = max(low, total - _room(placement.loads[k], workers.limit[k]))
    spent[0] += 40 * len(goal.pays)
    found = -1
    if low <= x <= high:
        best, lowest, highest = _improving(x, low, high, total, g, k, placement, workers, goal)
        work = number * count * (highest + 1)
        if lowest <= highest and work <= _MAX_WORK:
            spent[0] += work // _CELLS
            table = _reach(sizes, members, count, highest)
            found = _nearest(table, best, lowest, highest, g, k, total, placement, workers, goal)
            if found >= 0:
                for m in range(number):
                    owner[members[m]] = k
                left = found
                for c in range(count, 0, -1):
                    i = members[table[c, left]]
                    owner[i] = g
                    left -= sizes[i]
                x = found
    placement.loads[g] += x
    if k >= 0:
        placement.loads[k] += total - x
    return found >= 0


@entry_point
def refit(
    requests: Requests, workers: Workers, goal: Goal, owner: IntArray, spent: IntArray
) -> int:
    """Improve a placement within its limits, pair by pair, until no pair can be improved.

    Parameters
    ----------
    requests, workers, goal
        The problem.
    owner : IntArray
        Shape (N,): worker of each position or -1; changed in place.
    spent : IntArray
        Shape (1,): operations, counted on (`bfio.step.exact.effort`).

    Returns
    -------
    int
        Objective of the placement.
    """
    placement = placed(requests, workers, goal, owner)
    K = len(workers.slots)
    for _ in range(_ROUNDS):
        helped = False
        for g in range(K):
            for k in range(-1, g):
                if _refit_pair(g, k, requests, workers, goal, placement, spent):
                    helped = True
        if not helped:
            break
    for s in range(len(goal.pays)):
        placement.peaks[s] = peak_without(placement.loads, workers, goal, s, -1, -1)
    return placed_objective(placement, workers, goal)
