"""First placements: largest request first, or one worker after the other."""

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from formulations.arrays import IntArray


@entry_point
def spread_largest(margins: IntArray, capacity: IntArray, sizes: IntArray, owner: IntArray) -> int:
    """Fill all slots, largest request first, each where the largest request would fit.

    For workers with one slot, this admits the largest total. A worker with more slots keeps room
    for the smallest requests. If this room does not suffice, the last slots are filled beyond
    their margins.

    Parameters
    ----------
    margins, capacity : IntArray
        Shape (W,): tokens and requests that each worker can take.
    sizes : IntArray
        Shape (N,), ascending, at least as many as slots.
    owner : IntArray
        Shape (N,), filled: worker of each size or -1.

    Returns
    -------
    int
        The total size; -1 if some margin is exceeded.
    """
    smallest = np.zeros(len(sizes) + 1, np.int64)
    copy_to(smallest[1:], np.cumsum(sizes))
    room = margins.copy()
    left = capacity.copy()
    slots = capacity.sum()
    owner[:] = -1
    total = 0
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
        total += sizes[i]
    return total if room.min() >= 0 else -1


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
def _largest_free(sizes: IntArray, owner: IntArray, rest: int, room: int) -> int:
    """Return the largest free size that leaves room for the ``rest`` smallest ones.

    If there is none, return the smallest free size.
    """
    first = -1
    for i in range(len(sizes)):
        if owner[i] >= 0:
            continue
        if first < 0:
            first = i
        if rest == 0:
            break
        room -= sizes[i]
        rest -= 1
    i = int(np.searchsorted(sizes, room, side="right")) - 1
    while i > first and owner[i] >= 0:
        i -= 1
    return max(i, first)


@compilable(allocates=True)
def _best_pair(sizes: IntArray, owner: IntArray, room: int) -> tuple[int, int]:
    """Return the two free sizes of the largest sum <= room, or the two smallest ones."""
    free = np.flatnonzero(owner < 0)
    i, j = 0, len(free) - 1
    best = free[0], free[1]
    most = -1
    while i < j and most < room:
        total = sizes[free[i]] + sizes[free[j]]
        if total > room:
            j -= 1
            continue
        if total > most:
            most = total
            best = free[i], free[j]
        i += 1
    return best


@entry_point
def fill_in_order(
    margins: IntArray, capacity: IntArray, sizes: IntArray, order: IntArray, owner: IntArray
) -> int:
    """Fill one worker after the other, each slot with the largest request that fits.

    The last two slots of a worker get the best pair.

    Parameters
    ----------
    margins, capacity, sizes, owner
        As in `spread_largest`.
    order : IntArray
        Shape (W,), a permutation of the workers.

    Returns
    -------
    int
        The total size; -1 if some margin is exceeded.
    """
    owner[:] = -1
    total = 0
    fits = True
    for g in order:
        room = margins[g]
        for rest in range(capacity[g] - 1, 1 if capacity[g] > 1 else -1, -1):
            i = _largest_free(sizes, owner, rest, room)
            owner[i] = g
            room -= sizes[i]
        if capacity[g] > 1:
            i, j = _best_pair(sizes, owner, room)
            owner[i] = owner[j] = g
            room -= sizes[i] + sizes[j]
        total += margins[g] - room
        fits &= room >= 0
    return total if fits else -1
