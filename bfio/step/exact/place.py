"""Admit requests under a given peak: one subset per worker, then random re-placements."""

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.common.words import RandomState
from formulations.arrays import IntArray

#: Tokens of admission that a token above a margin outweighs while placements are improved.
_OVERFLOW_PENALTY = 3
#: Operations of a re-placement for each request that it looks at: all of them if workers have
#: three slots or more, a few otherwise.
_REPLACEMENT = 128
_FEW = 8
#: Below every worth.
_WORTHLESS = -(1 << 60)
#: Random beginnings of a subset before its last pair is chosen best.
_SUBSET_TRIES = 16


@compilable
def next_random(x: np.uint64) -> np.uint64:
    """Return the successor of ``x`` in a pseudo-random sequence (xorshift64, never 0)."""
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    return x


@compilable
def random_below(state: RandomState, bound: int) -> int:
    """Return a pseudo-random number in 0..bound-1; ``state`` is updated."""
    state[0] = next_random(state[0])
    return int(np.int64(state[0] % np.uint64(bound)))


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
def _worthiest(
    sizes: IntArray, prices: IntArray, owner: IntArray, limit: int, subset: IntArray, at: int
) -> int:
    """Write the fitting request of largest size less price; return its size or -1."""
    subset[at] = -1
    i = int(np.searchsorted(sizes, limit, side="right")) - 1
    worth = _WORTHLESS
    # Prices are >= 0: below the best worth, smaller requests need no look.
    while i >= 0 and sizes[i] > worth:
        if owner[i] < 0 and sizes[i] - prices[i] > worth:
            worth = sizes[i] - prices[i]
            subset[at] = i
        i -= 1
    return -1 if subset[at] < 0 else int(sizes[subset[at]])


@compilable
def _worthiest_pair(
    sizes: IntArray, prices: IntArray, owner: IntArray, limit: int, subset: IntArray, at: int
) -> int:
    """Write the fitting pair of largest size less price; return its size or -1."""
    worth = _WORTHLESS
    best = -1
    for j in range(int(np.searchsorted(sizes, limit, side="right")) - 1, 0, -1):
        if owner[j] >= 0:
            continue
        i = min(j, int(np.searchsorted(sizes, limit - sizes[j], side="right"))) - 1
        while i >= 0 and sizes[i] + sizes[j] - prices[j] > worth:
            if owner[i] < 0:
                value = sizes[i] + sizes[j] - prices[i] - prices[j]
                if value > worth:
                    worth = value
                    best = sizes[i] + sizes[j]
                    subset[at] = i
                    subset[at + 1] = j
            i -= 1
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
def fill_worker(
    sizes: IntArray,
    prices: IntArray,
    priced: bool,
    owner: IntArray,
    count: int,
    limit: int,
    subset: IntArray,
    scratch: IntArray,
    state: RandomState,
) -> int:
    """Choose ``count`` free requests of sum <= limit for one worker; return their sum.

    The choice maximises the size or, if ``priced``, the size less price. It is optimal for one and
    two requests. For more, it is the best of several random subsets, each completed by its best
    pair. The sum is -1 if no subset was found.
    """
    if count == 1:
        if priced:
            return _worthiest(sizes, prices, owner, limit, subset, 0)
        subset[0] = _largest_free(sizes, owner, limit)
        return -1 if subset[0] < 0 else sizes[subset[0]]
    best = -1
    most_worth = _WORTHLESS
    for _ in range(_SUBSET_TRIES if count > 2 else 1):
        begun = _begin_subset(sizes, owner, count, limit, scratch, state)
        if begun < 0:
            continue
        if priced:
            pair = _worthiest_pair(sizes, prices, owner, limit - begun, scratch, count - 2)
        else:
            pair = _best_pair(sizes, owner, limit - begun, scratch, count - 2)
        if pair >= 0:
            worth = begun + pair
            if priced:
                for k in range(count):
                    worth -= prices[scratch[k]]
            if worth > most_worth:
                most_worth = worth
                best = begun + pair
                copy_to(subset, scratch[:count])
        for k in range(count - 2):
            owner[scratch[k]] = -1
        if best == limit and not priced:
            break
    return best


@entry_point
def _place(
    workers: IntArray,
    margins: IntArray,
    capacity: IntArray,
    sizes: IntArray,
    prices: IntArray,
    priced: bool,
    owner: IntArray,
    reached: IntArray,
    buffers: IntArray,
    state: RandomState,
) -> int:
    """Fill ``workers`` in order, with the smallest requests if none fits; return the score.

    The score is the total size, less a multiple of the excess over the margins.
    """
    total = 0
    for g in workers:
        reached[g] = fill_worker(
            sizes,
            prices,
            priced,
            owner,
            capacity[g],
            margins[g],
            buffers[0],
            buffers[1],
            state,
        )
        if reached[g] < 0:
            reached[g] = _smallest_free(sizes, owner, capacity[g], buffers[0])
        total += _score(reached[g], margins[g])
        for k in range(capacity[g]):
            owner[buffers[0, k]] = g
    return total


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


@compilable
def _score(reached: int, margin: int) -> int:
    return reached - _OVERFLOW_PENALTY * max(0, reached - margin)


@compilable
def _empty(workers: IntArray, owner: IntArray) -> None:
    """Remove all requests of some workers from a placement."""
    for i in range(len(owner)):
        for g in workers:
            if owner[i] == g:
                owner[i] = -1
                break


@entry_point
def place_under_peak(
    margins: IntArray,
    capacity: IntArray,
    sizes: IntArray,
    prices: IntArray,
    order: IntArray,
    target: int,
    rounds: int,
    owner: IntArray,
    state: RandomState,
    spent: IntArray,
) -> int:
    """Fill all slots within the margins, with ``target`` as the desired total size.

    Workers are filled in ``order``. Then two to four workers, one of them with room left, are
    emptied and refilled in random order. The change is kept unless the total falls by more than a
    tolerance that decreases to 0. The function is long because the loop keeps its state in local
    arrays.

    Parameters
    ----------
    margins, capacity : IntArray
        Shape (W,): tokens and requests that each worker can take.
    sizes : IntArray
        Shape (N,), ascending.
    prices : IntArray
        Shape (N,), >= 0: value of a request on other workers [tokens]; all 0 if unknown.
    order : IntArray
        Shape (W,), a permutation of the workers.
    target, rounds : int
        Total at which to stop, and number of re-placements to try.
    owner : IntArray
        Shape (N,), filled with the best placement: worker of each size or -1.
    state : IntArray
        State of the random generator `random_below`, shape (1,), uint64.
    spent : IntArray
        Shape (1,): number of operations (`bfio.step.exact.effort`); increased.

    Returns
    -------
    int
        The total size; -1 if no placement was found within all margins.
    """
    W = len(margins)
    buffers = np.empty((2, capacity.max()), np.int64)
    reached = np.zeros(W, np.int64)
    current = np.full(len(sizes), -1, np.int64)
    has_prices = prices.max() > 0
    looked = len(sizes) if capacity.max() > 2 else _FEW
    score = _place(
        order, margins, capacity, sizes, prices, has_prices, current, reached, buffers, state
    )
    best = -1
    if (reached <= margins).all():
        best = score
        copy_to(owner, current)
    saved_owner = current.copy()
    saved_reached = reached.copy()
    pool = np.arange(W)
    for step in range(rounds if W > 1 else 0):
        if best >= target:
            break
        size = min(W, 2 + random_below(state, 3))
        for k in range(size):
            j = k + random_below(state, W - k)
            pool[k], pool[j] = pool[j], pool[k]
        chosen = pool[:size]
        before = 0
        away = 0
        for g in chosen:
            before += _score(reached[g], margins[g])
            away += abs(margins[g] - reached[g])
        if away == 0:
            continue
        spent[0] += _REPLACEMENT * looked
        _empty(chosen, current)
        priced = has_prices and random_below(state, 2) == 0
        after = _place(
            chosen, margins, capacity, sizes, prices, priced, current, reached, buffers, state
        )
        tolerance = max(0, target - score) * (rounds - step) // (4 * rounds)
        if after >= before - random_below(state, tolerance + 1):
            score += after - before
            copy_to(saved_owner, current)
            copy_to(saved_reached, reached)
        else:
            copy_to(current, saved_owner)
            copy_to(reached, saved_reached)
        if score > best and (reached <= margins).all():
            best = score
            copy_to(owner, current)
    return best
