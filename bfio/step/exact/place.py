"""Placements: first ones, largest request first, and refills by exchanges.

Under the best peak most workers must be filled nearly to the last token. In a refill, workers with
few slots have the fewest ways to do so and come first. Each worker may take any request that no
earlier one has kept, and gives its own in return. One pass over the ordered sizes finds the best
pair within a room, and one pass per third request the best triple.
"""

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.step.exact.sums import sums_of_first
from formulations.arrays import BoolArray, IntArray

#: Pairs of a worker's own requests tried, and passes for triples.
_MOST_PAIRS = 40
_MOST_PASSES = 400
#: Refills from one placement, in other orders of the workers.
REFILLS = 60
#: Less than any growth of a load.
_NO_GROWTH = -(1 << 60)


@entry_point
def spread_largest(
    margins: IntArray, capacity: IntArray, sizes: IntArray, owner: IntArray
) -> bool:
    """Fill all slots, largest request first, each where the largest request would fit.

    For workers with one slot, this admits the largest total. A worker with more slots keeps room
    for the smallest requests. If this room does not suffice, the last slots are filled beyond
    their margins; return whether it does.

    Parameters
    ----------
    margins, capacity : IntArray
        Shape (W,): tokens and requests that each worker can take.
    sizes : IntArray
        Shape (N,), ascending, at least as many as slots.
    owner : IntArray
        Shape (N,), filled: worker of each size or -1.
    """
    smallest = sums_of_first(sizes)
    room = margins.copy()
    left = capacity.copy()
    slots = capacity.sum()
    owner[:] = -1
    for i in range(len(sizes) - 1, -1, -1):
        loosest = -1
        largest = 0
        for g in range(len(room)):
            if left[g] > 0:
                fits = room[g] - smallest[left[g] - 1]
                if loosest < 0 or fits > largest:
                    loosest = g
                    largest = fits
        if loosest < 0:
            break
        if largest < sizes[i] and i >= slots:
            continue
        owner[i] = loosest
        room[loosest] -= sizes[i]
        left[loosest] -= 1
        slots -= 1
    return bool(room.min() >= 0)


@entry_point
def spread(base: IntArray, capacity: IntArray, sizes: IntArray, owner: IntArray) -> IntArray:
    """Assign each request, largest first, to the least loaded worker with a free slot.

    Returns
    -------
    IntArray
        Shape (W,): loads of the workers. ``owner``, shape (N,), is filled.
    """
    loads = base.copy()
    free = capacity.copy()
    for i in range(len(sizes) - 1, -1, -1):
        target = -1
        for g in range(len(base)):
            if free[g] > 0 and (target < 0 or loads[g] < loads[target]):
                target = g
        owner[i] = target
        loads[target] += sizes[i]
        free[target] -= 1
    return loads


@compilable
def _number_within(sizes: IntArray, items: IntArray, most: int) -> int:
    """Return how many of the ordered items have at most this size."""
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        if sizes[items[middle]] <= most:
            low = middle + 1
        else:
            high = middle
    return low


@compilable
def _largest_pair(
    sizes: IntArray, items: IntArray, left_out: int, room: int, least: int
) -> tuple[int, int, int]:
    """Return positions of two ordered items with the largest sum in (least, room], and the sum.

    If there are none, the positions are -1. Position ``left_out`` is not used. The search starts
    at two equal halves, so that the smallest requests are left for workers with little room. The
    largest item within half of the room is met as the larger one of a pair only.
    """
    i = _number_within(sizes, items, room // 2) - 2
    j = i + 1
    first, second = -1, -1
    while i >= 0 and j < len(items) and least < room:
        if i == left_out:
            i -= 1
            continue
        if j == left_out:
            j += 1
            continue
        total = sizes[items[i]] + sizes[items[j]]
        if i == j or total > room:
            i -= 1
            continue
        if total > least:
            least = total
            first, second = i, j
        j += 1
    return first, second, least


@compilable
def _exchange_one(
    sizes: IntArray,
    own: IntArray,
    free: IntArray,
    room: int,
    best: int,
    out: IntArray,
    into: IntArray,
) -> int:
    """Exchange one request for the largest growth in (best, room]; return the growth.

    The requests are written to ``out`` and ``into``, filled up with -1.
    """
    for i in own:
        k = _number_within(sizes, free, sizes[i] + room) - 1
        if k >= 0 and sizes[free[k]] - sizes[i] > best:
            best = sizes[free[k]] - sizes[i]
            out[0], into[0], into[1] = i, free[k], -1
    return best


@compilable
def _exchange_two(
    sizes: IntArray,
    own: IntArray,
    free: IntArray,
    room: int,
    enough: int,
    best: int,
    out: IntArray,
    into: IntArray,
    spent: IntArray,
) -> int:
    """Exchange two requests, as in `_exchange_one`; a growth of ``enough`` ends the search."""
    tried = 0
    for a in range(len(own)):
        for b in range(a + 1, len(own)):
            if best >= enough or tried >= _MOST_PAIRS:
                return best
            tried += 1
            spent[0] += 2 * len(free)
            gone = sizes[own[a]] + sizes[own[b]]
            i, j, total = _largest_pair(sizes, free, -1, gone + room, gone + best)
            if i >= 0:
                best = total - gone
                out[0], out[1] = own[a], own[b]
                into[0], into[1], into[2] = free[i], free[j], -1
    return best


@compilable
def _exchange_three(
    sizes: IntArray,
    own: IntArray,
    free: IntArray,
    room: int,
    enough: int,
    best: int,
    out: IntArray,
    into: IntArray,
    spent: IntArray,
) -> int:
    """Exchange three requests, as in `_exchange_two`."""
    passes = 0
    for a in range(len(own)):
        for b in range(a + 1, len(own)):
            for c in range(b + 1, len(own)):
                gone = sizes[own[a]] + sizes[own[b]] + sizes[own[c]]
                third = _number_within(sizes, free, (gone + room) // 3)
                for turn in range(2 * len(free)):
                    # Alternately upwards and downwards, starting from a third of the sum.
                    k = third + (turn // 2 if turn % 2 == 0 else -1 - turn // 2)
                    if k < 0 or k >= len(free):
                        continue
                    if best >= enough or passes >= _MOST_PASSES:
                        return best
                    passes += 1
                    spent[0] += 2 * len(free)
                    rest = gone - sizes[free[k]]
                    i, j, total = _largest_pair(sizes, free, k, rest + room, rest + best)
                    if i >= 0:
                        best = total - rest
                        out[0], out[1], out[2] = own[a], own[b], own[c]
                        into[0], into[1], into[2] = free[i], free[j], free[k]
    return best


@compilable
def _relieve(g: int, sizes: IntArray, kept: BoolArray, room: int, owner: IntArray) -> int:
    """Exchange the largest requests of a worker for small ones until it has room; return it."""
    while room < 0:
        i = len(sizes) - 1
        while owner[i] != g:
            i -= 1
        found = -1
        for j in range(i):
            if kept[j] or owner[j] == g:
                continue
            if found >= 0 and sizes[j] > sizes[i] + room:
                break
            found = j
        if found < 0:
            break
        room += sizes[i] - sizes[found]
        owner[i], owner[found] = owner[found], g
    return room


@entry_point
def refill(
    margins: IntArray,
    sizes: IntArray,
    order: IntArray,
    most: int,
    owner: IntArray,
    spent: IntArray,
) -> int:
    """Fill the workers of a placement up to their margins by exchanges.

    A worker is filled to the last token, or leaves at most its share of what all may leave.

    Parameters
    ----------
    margins : IntArray
        Shape (W,): tokens that each worker can take.
    sizes : IntArray
        Shape (N,), ascending.
    order : IntArray
        Shape (W,), a permutation of the workers.
    most : int
        Tokens that all workers together may leave.
    owner : IntArray
        Shape (N,): worker of each size or -1, margins possibly exceeded; updated. Every worker
        keeps its number of requests.
    spent : IntArray
        Shape (1,): number of operations (`bfio.step.exact.effort`); increased.

    Returns
    -------
    int
        The worker at which this failed; -1 if no margin is exceeded and at most ``most`` tokens
        are left.
    """
    N = len(sizes)
    kept = np.zeros(N, np.bool_)
    own, free = np.empty(N, np.int64), np.empty(N, np.int64)
    out, into = np.empty(3, np.int64), np.empty(3, np.int64)
    for position in range(len(order)):
        g = order[position]
        spent[0] += 4 * N
        room = _relieve(g, sizes, kept, margins[g] - sizes[owner == g].sum(), owner)
        slots, count = 0, 0
        for i in range(N):
            if owner[N - 1 - i] == g:
                # Largest first: they make the most room.
                own[slots] = N - 1 - i
                slots += 1
            if owner[i] != g and not kept[i]:
                free[count] = i
                count += 1
        mine, others = own[:slots], free[:count]
        enough = room - most // (len(order) - position + 1)
        growth = 0 if room >= 0 else _NO_GROWTH
        into[0] = -1
        if growth < enough:
            growth = _exchange_one(sizes, mine, others, room, growth, out, into)
        if growth < enough:
            growth = _exchange_two(sizes, mine, others, room, enough, growth, out, into, spent)
        if growth < enough:
            growth = _exchange_three(sizes, mine, others, room, enough, growth, out, into, spent)
        most -= room - growth
        if growth == _NO_GROWTH or most < 0:
            return int(g)
        for k in range(3):
            if into[k] < 0:
                break
            owner[out[k]], owner[into[k]] = owner[into[k]], g
        kept |= owner == g
    return -1


def fewest_first(slots: IntArray) -> IntArray:
    """Return the order of workers for `refill`: those with the fewest requests first."""
    return np.argsort(slots, kind="stable")


def with_first(order: IntArray, worker: int) -> IntArray:
    """Return an order of workers in which one is moved to the front."""
    return np.concatenate([[worker], order[order != worker]])
