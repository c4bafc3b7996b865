"""Admit all requests with the least peak: Graham's rule, then refills of some workers."""

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.common.words import RandomState, Words, random_below
from formulations.arrays import BoolArray, IntArray

#: Workers emptied at least before they are filled anew.
_FEWEST_REFILLED = 4


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
def _has_bit(bits: Words, row: int, x: int) -> bool:
    return bool((bits[row, x >> 6] >> np.uint64(x & 63)) & np.uint64(1))


@compilable
def _largest_first(
    items: IntArray, sizes: IntArray, limit: int, bits: Words, first: BoolArray, state: RandomState
) -> int:
    """Mark a subset of ``items`` of the largest sum <= ``limit``; return the sum.

    Sizes are ascending. Subsets with large requests are preferred, so that small requests remain.
    """
    words = limit // 64 + 1
    bits[: len(items) + 1, :words] = np.uint64(0)
    bits[0, 0] = np.uint64(1)
    for k in range(len(items)):
        copy_to(bits[k + 1], bits[k, :words])
        skip = sizes[items[k]] >> 6
        up = np.uint64(sizes[items[k]] & 63)
        down = np.uint64(63 - (sizes[items[k]] & 63))
        carried = np.uint64(0)
        for w in range(skip, words):
            word = bits[k, w - skip]
            bits[k + 1, w] |= (word << up) | ((carried >> down) >> np.uint64(1))
            carried = word
    rest = limit
    while not _has_bit(bits, len(items), rest):
        rest -= 1
    total = rest
    for k in range(len(items) - 1, -1, -1):
        size = sizes[items[k]]
        first[k] = size <= rest and _has_bit(bits, k, rest - size)
        if first[k] and _has_bit(bits, k, rest) and random_below(state, 8) == 0:
            first[k] = False
        if first[k]:
            rest -= size
    return total


@compilable
def _shuffle(workers: IntArray, state: RandomState) -> None:
    for k in range(len(workers) - 1):
        j = k + random_below(state, len(workers) - k)
        workers[k], workers[j] = workers[j], workers[k]


@compilable(allocates=True)
def _fill_in_turn(
    workers: IntArray,
    margins: IntArray,
    capacity: IntArray,
    sizes: IntArray,
    spare: int,
    bits: Words,
    owner: IntArray,
    state: RandomState,
) -> int:
    """Fill one worker after another; return the unused margin, at most ``spare``.

    The result is -1 if more than ``spare`` would stay unused.
    """
    first = np.empty(len(sizes), np.bool_)
    for g in workers:
        items = np.flatnonzero(owner < 0)
        limit = min(margins[g], sizes[items].sum())
        spare -= margins[g] - _largest_first(items, sizes, limit, bits, first, state)
        if spare < 0 or first[: len(items)].sum() > capacity[g]:
            return -1
        for k in range(len(items)):
            if first[k]:
                owner[items[k]] = g
    return spare


@compilable
def _draw_crowd(
    peak: int, loads: IntArray, fewest: int, most: int, workers: IntArray, state: RandomState
) -> int:
    """Draw workers to refill: some above the peak, then others with room; return their number.

    The number is 0 if even ``most`` workers have no room for their own requests.
    """
    _shuffle(workers, state)
    W = len(workers)
    above = 0
    for k in range(W):
        g = workers[k]
        if loads[g] > peak and 2 * above < fewest:
            workers[k] = workers[above]
            workers[above] = g
            above += 1
    spare = 0
    count = 0
    while count < W and count < most and (count < fewest or spare < 0):
        for _ in range(2 if count >= above else 0):
            k = count + random_below(state, W - count)
            if loads[workers[k]] < loads[workers[count]]:
                workers[k], workers[count] = workers[count], workers[k]
        spare += peak - loads[workers[count]]
        count += 1
    return count if spare >= 0 else 0


@entry_point
def refill(
    peak: int,
    base: IntArray,
    capacity: IntArray,
    sizes: IntArray,
    owner: IntArray,
    loads: IntArray,
    rounds: int,
    state: RandomState,
    spent: IntArray,
) -> bool:
    """Empty some workers and fill them one by one up to the peak, large requests first.

    A refill is kept if all these workers end below the peak.

    Parameters
    ----------
    peak : int
        The peak to meet [tokens].
    base, capacity, loads : IntArray
        Shape (W,); ``loads`` is updated.
    sizes, owner : IntArray
        Shape (N,), sizes ascending; every request has a worker, and ``owner`` is updated.
    rounds : int
        Number of refills to try.
    state : IntArray
        State of the random generator `random_below`.
    spent : IntArray
        Shape (1,): number of operations (`bfio.step.exact.effort`); increased.

    Returns
    -------
    bool
        Whether all loads are within the peak.
    """
    margins = peak - base
    largest = min(margins.max(), sizes.sum())
    bits = np.empty((len(sizes) + 1, largest // 64 + 1), np.uint64)
    workers = np.arange(len(loads))
    trial = np.empty_like(owner)
    for _ in range(rounds):
        if loads.max() <= peak:
            return True
        fewest = _FEWEST_REFILLED + random_below(state, 5)
        count = _draw_crowd(peak, loads, fewest, 2 * _FEWEST_REFILLED, workers, state)
        spare = 0
        copy_to(trial, owner)
        for g in workers[:count]:
            spare += peak - loads[g]
            trial[owner == g] = -1
        if count == 0:
            continue
        spent[0] += count * len(sizes) * bits.shape[1]
        left = _fill_in_turn(workers[:count], margins, capacity, sizes, spare, bits, trial, state)
        if left >= 0 and (trial >= 0).all():
            copy_to(owner, trial)
            copy_to(loads, base)
            for i in range(len(owner)):
                loads[owner[i]] += sizes[i]
    return bool(loads.max() <= peak)
