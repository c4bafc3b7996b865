"""Admit requests under a given peak: one subset per worker."""

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.common.words import RandomState, random_below
from formulations.arrays import IntArray

#: Random beginnings of a subset before its last pair is chosen best.
_SUBSET_TRIES = 16


@compilable
def _extreme_sum(sizes: IntArray, owner: IntArray, count: int, largest: bool) -> int:
    """Return the sum of the ``count`` smallest (largest) free sizes; -1 if fewer are free."""
    total = 0
    for k in range(len(sizes)):
        i = len(sizes) - 1 - k if largest else k
        if count == 0:
            break
        if owner[i] < 0:
            total += sizes[i]
            count -= 1
    return total if count == 0 else -1


@compilable
def _largest_free(sizes: IntArray, owner: IntArray, limit: int) -> int:
    """Return the position of the largest free size <= limit, or -1."""
    i = int(np.searchsorted(sizes, limit, side="right")) - 1
    while i >= 0 and owner[i] >= 0:
        i -= 1
    return i


@compilable
def _random_free(
    sizes: IntArray, owner: IntArray, least: int, limit: int, state: RandomState
) -> int:
    """Return the position of a random free size in [least, limit].

    If a few draws find none, return the position of the largest free size <= limit, or -1.
    """
    last = int(np.searchsorted(sizes, limit, side="right")) - 1
    first = min(int(np.searchsorted(sizes, least, side="left")), last)
    if last < 0:
        return -1
    for _ in range(12):
        i = first + random_below(state, last - first + 1)
        if owner[i] < 0:
            return i
    return _largest_free(sizes, owner, limit)


@compilable
def _best_pair(sizes: IntArray, owner: IntArray, limit: int, subset: IntArray, at: int) -> int:
    """Write the two free sizes with the largest sum <= limit; return the sum, -1 if none."""
    i = 0
    j = len(sizes) - 1
    best = -1
    while i < j:
        if owner[i] >= 0:
            i += 1
        elif owner[j] >= 0 or sizes[i] + sizes[j] > limit:
            j -= 1
        else:
            if sizes[i] + sizes[j] > best:
                best = sizes[i] + sizes[j]
                subset[at] = i
                subset[at + 1] = j
            if best == limit:
                break
            i += 1
    return best


@compilable
def _begin_subset(
    sizes: IntArray,
    owner: IntArray,
    count: int,
    limit: int,
    subset: IntArray,
    state: RandomState,
) -> int:
    """Draw all but two of ``count`` requests of a subset near ``limit``; return their sum.

    The drawn requests are marked in ``owner``. The sum is -1, and no request is marked, if the
    slots cannot be filled.
    """
    total = 0
    for taken in range(count - 2):
        rest = count - taken - 1
        smallest = _extreme_sum(sizes, owner, rest, False)
        room = limit - total
        i = -1
        if smallest >= 0:
            least = room - _extreme_sum(sizes, owner, rest, True)
            i = _random_free(sizes, owner, least, room - smallest, state)
        if i < 0:
            for k in range(taken):
                owner[subset[k]] = -1
            return -1
        subset[taken] = i
        owner[i] = len(sizes)
        total += sizes[i]
    return total


@compilable
def _fill_worker(
    sizes: IntArray,
    owner: IntArray,
    count: int,
    limit: int,
    subset: IntArray,
    scratch: IntArray,
    state: RandomState,
) -> int:
    """Choose ``count`` free requests of sum <= limit for one worker; return their sum.

    The choice maximises the size. It is optimal for one and two requests. For more, it is the
    best of several random subsets, each completed by its best pair. The sum is -1 if no subset was
    found.
    """
    if count == 1:
        subset[0] = _largest_free(sizes, owner, limit)
        return -1 if subset[0] < 0 else sizes[subset[0]]
    best = -1
    for _ in range(_SUBSET_TRIES if count > 2 else 1):
        begun = _begin_subset(sizes, owner, count, limit, scratch, state)
        if begun < 0:
            continue
        pair = _best_pair(sizes, owner, limit - begun, scratch, count - 2)
        if pair >= 0 and begun + pair > best:
            best = begun + pair
            copy_to(subset, scratch[:count])
        for k in range(count - 2):
            owner[scratch[k]] = -1
        if best == limit:
            break
    return best


@compilable
def _smallest_free(sizes: IntArray, owner: IntArray, count: int, subset: IntArray) -> int:
    """Write the ``count`` smallest free positions; return their sum."""
    total = 0
    found = 0
    i = 0
    while found < count:
        if owner[i] < 0:
            subset[found] = i
            total += sizes[i]
            found += 1
        i += 1
    return total


@entry_point
def place_under_peak(
    margins: IntArray,
    capacity: IntArray,
    sizes: IntArray,
    order: IntArray,
    owner: IntArray,
    state: RandomState,
) -> int:
    """Fill all slots of the workers in ``order``, with the smallest requests where none fits.

    Parameters
    ----------
    margins, capacity : IntArray
        Shape (W,): tokens and requests that each worker can take.
    sizes : IntArray
        Shape (N,), ascending.
    order : IntArray
        Shape (W,), a permutation of the workers.
    owner : IntArray
        Shape (N,), filled with the placement: worker of each size or -1.
    state : IntArray
        State of the generator `bfio.common.words.random_below`, shape (1,), uint64; updated.

    Returns
    -------
    int
        The total size; -1 if some worker exceeds its margin.
    """
    buffers = np.empty((2, capacity.max()), np.int64)
    owner[:] = -1
    total = 0
    fits = True
    for g in order:
        reached = _fill_worker(
            sizes, owner, capacity[g], margins[g], buffers[0], buffers[1], state
        )
        if reached < 0:
            reached = _smallest_free(sizes, owner, capacity[g], buffers[0])
        fits &= reached <= margins[g]
        total += reached
        for k in range(capacity[g]):
            owner[buffers[0, k]] = g
    return total if fits else -1
