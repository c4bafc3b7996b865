"""Improve placements by redistributing the requests of two workers at a time, exactly.

Two workers, or a worker and the pool, keep their numbers of requests. The requests that differ in
size only enter by one variable, the sum on the first worker, and the objective is convex in this
sum. So the improving sums form an interval, which is usually empty. Otherwise a table of reachable
sums gives the best one. If all requests are admitted, pairs that cannot be improved are equalised
where the objective does not change; this makes later improvements more likely.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.step.exact.windows.anneal import Placement, peak_without, placed, placed_objective
from bfio.step.exact.windows.model import NO_LIMIT, Goal, Requests, Workers
from formulations.arrays import IntArray

#: For each number and sum of requests the first that is the last of such a set, or -1.
Reach: TypeAlias = NDArray[np.int16]

#: Last member that a table can name.
_LAST = (1 << 15) - 1
#: Most cells of a table of reachable sums, times its requests.
_MAX_WORK = 1 << 24
#: Most rounds through all pairs, and how many in turn may pass without a better objective.
_ROUNDS = 40
_IDLE_ROUNDS = 3
#: Cells filled in the time of one operation.
_CELLS = 16


class Pair(NamedTuple):
    """Two workers, or a worker and the pool, whose requests are redistributed.

    Parameters
    ----------
    first, second : int
        Open workers; the second is -1 for the pool.
    total : int
        Sum of the sizes of the redistributed requests, which differ in size only [tokens].
    placement : Placement
        ``loads`` exclude the redistributed requests; ``new_peaks`` are the peaks without the
        workers of the pair.
    workers, goal
        Data of the problem.
    """

    first: int
    second: int
    total: int
    placement: Placement
    workers: Workers
    goal: Goal


@compilable
def _cost(x: int, pair: Pair) -> int:
    """Return the objective, up to a constant, if the first worker has sum x."""
    g, k, placement, goal = pair.first, pair.second, pair.placement, pair.goal
    token_time = pair.workers.token_time
    steps = placement.loads.shape[1]
    cost = 0
    for s in range(len(goal.pays)):
        h = s if s < steps else s - steps
        sign = 1 if s < steps else -1
        peak = placement.new_peaks[s]
        peak = max(peak, sign * token_time[g] * (placement.loads[g, h] + x))
        if k >= 0:
            rest = placement.loads[k, h] + pair.total - x
            peak = max(peak, sign * token_time[k] * rest)
        cost += goal.pays[s] * peak
    factor = token_time[g] - (token_time[k] if k >= 0 else 0)
    for h in range(steps):
        cost -= goal.weights[h] * factor * x
    return int(cost)


@compilable(allocates=True)
def _best_sum(low: int, high: int, pair: Pair) -> int:
    """Return the least of the best sums from ``low`` to ``high``, reachable or not."""
    while low < high:
        middle = (low + high) // 2
        if _cost(middle, pair) <= _cost(middle + 1, pair):
            high = middle
        else:
            low = middle + 1
    return low


@compilable(allocates=True)
def _within(most: int, inside: int, low: int, high: int, pair: Pair) -> tuple[int, int]:
    """Return the interval of sums that cost at most ``most``, around the sum ``inside``."""
    above = inside
    while low < inside:
        middle = (low + inside) // 2
        if _cost(middle, pair) <= most:
            inside = middle
        else:
            low = middle + 1
    while above < high:
        middle = (above + high + 1) // 2
        if _cost(middle, pair) <= most:
            above = middle
        else:
            high = middle - 1
    return inside, above


@compilable(allocates=True)
def _even_sum(low: int, high: int, pair: Pair) -> int:
    """Return the sum at which both workers have nearly the same load over the window."""
    loads = pair.placement.loads
    apart = 0
    for h in range(loads.shape[1]):
        apart += loads[pair.second, h] - loads[pair.first, h] + pair.total
    return int(min(max(apart // (2 * loads.shape[1]), low), high))


@compilable(allocates=True)
def _reach(sizes: IntArray, members: IntArray, count: int, high: int) -> Reach:
    """Return, for c <= count and x <= high, the first member that ends a set of sum x."""
    table = np.full((count + 1, high + 1), np.int16(-1))
    table[0, 0] = 0
    for i in range(len(members)):
        size = sizes[members[i]]
        if size > high or i > _LAST:
            break
        mark = np.int16(i)
        for c in range(min(count, i + 1), 0, -1):
            row = table[c, size:]
            below = table[c - 1, : len(row)]
            for x in range(len(row)):
                row[x] = mark if row[x] < 0 and below[x] >= 0 else row[x]
    return table


@compilable(allocates=True)
def _nearest(row: NDArray[np.int16], aim: int, lowest: int, highest: int) -> tuple[int, int]:
    """Return the reachable sums next to ``aim``: one below, one at or above it; or -1."""
    above = aim
    while above <= highest and row[above] < 0:
        above += 1
    below = aim - 1
    while below >= lowest and row[below] < 0:
        below -= 1
    return below if below >= lowest else -1, above if above <= highest else -1


@compilable(allocates=True)
def _better_sum(
    x: int,
    low: int,
    high: int,
    members: IntArray,
    count: int,
    evens: bool,
    sizes: IntArray,
    pair: Pair,
    spent: IntArray,
) -> tuple[int, Reach]:
    """Return a reachable sum that improves on x, and its table; -1 if there is none."""
    table = np.empty((1, 1), np.int16)
    value, token_time = _cost(x, pair), pair.workers.token_time
    aim = _best_sum(low, high, pair)
    improves = _cost(aim, pair) < value
    if improves:
        lowest, highest = _within(value - 1, aim, low, high, pair)
    elif evens and token_time[pair.first] == token_time[pair.second]:
        lowest, highest = _within(value, x, low, high, pair)
        aim = _even_sum(lowest, highest, pair)
        nearer = abs(x - aim) - 1
        lowest, highest = max(lowest, aim - nearer), min(highest, aim + nearer)
    else:
        return -1, table
    work = len(members) * count * (highest + 1)
    if lowest > highest or work > _MAX_WORK:
        return -1, table
    spent[0] += work // _CELLS
    table = _reach(sizes, members, count, highest)
    below, above = _nearest(table[count], aim, lowest, highest)
    if below < 0 or above < 0:
        return max(below, above), table
    nearest = _cost(below, pair) < _cost(above, pair) if improves else aim - below < above - aim
    return (below if nearest else above), table


@compilable(allocates=True)
def _refit_pair(
    g: int,
    k: int,
    evens: bool,
    requests: Requests,
    workers: Workers,
    goal: Goal,
    placement: Placement,
    spent: IntArray,
) -> bool:
    """Redistribute the requests of worker g and worker k (or pool); return success."""
    owner, sizes = placement.owner, requests.sizes
    members = np.empty(len(sizes), np.int64)
    number, count, x, total = 0, 0, 0, 0
    for i in range(len(sizes)):
        if (owner[i] != g and owner[i] != k) or (k < 0 and requests.required[i]):
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
    spent[0] += 40 * len(goal.pays)
    low = sizes[members[:count]].sum()
    high = min(sizes[members[number - count :]].sum(), _room(placement, workers, g))
    if k >= 0:
        low = max(low, total - _room(placement, workers, k))
    found = -1
    if low <= x <= high:
        pair = Pair(g, k, total, placement, workers, goal)
        evens = evens and k >= 0
        found, table = _better_sum(x, low, high, members, count, evens, sizes, pair, spent)
        if found >= 0:
            for m in range(number):
                owner[members[m]] = k
            left = x = found
            for c in range(count, 0, -1):
                i = members[table[c, left]]
                owner[i] = g
                left -= sizes[i]
    placement.loads[g] += x
    if k >= 0:
        placement.loads[k] += total - x
    return found >= 0


@compilable
def _room(placement: Placement, workers: Workers, g: int) -> int:
    """Return the largest sum within the token limit of worker g."""
    room = NO_LIMIT
    if workers.limit[g] != NO_LIMIT:
        for h in range(placement.loads.shape[1]):
            room = min(room, workers.limit[g] - placement.loads[g, h])
    return int(room)


@entry_point
def refit(
    requests: Requests, workers: Workers, goal: Goal, owner: IntArray, evens: bool, spent: IntArray
) -> int:
    """Improve a placement within its limits, pair by pair; return its objective.

    Parameters
    ----------
    owner : IntArray
        Shape (N,): worker of each position or -1; changed in place.
    evens : bool
        Whether pairs that cannot be improved are equalised.
    """
    placement = placed(requests, workers, goal, owner)
    value = placed_objective(placement, workers, goal)
    idle = 0
    for _ in range(_ROUNDS):
        helped = False
        for g in range(len(workers.slots)):
            for k in range(-1, g):
                if _refit_pair(g, k, evens, requests, workers, goal, placement, spent):
                    helped = True
        for s in range(len(goal.pays)):
            placement.peaks[s] = peak_without(placement.loads, workers, goal, s, -1, -1)
        after = placed_objective(placement, workers, goal)
        idle = 0 if after < value else idle + 1
        value = after
        if not helped or idle == _IDLE_ROUNDS:
            break
    return value
