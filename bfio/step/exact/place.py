"""First placements: largest request first."""

from bfio.common.kernels import entry_point
from bfio.step.exact.sums import sums_of_first
from formulations.arrays import IntArray


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
