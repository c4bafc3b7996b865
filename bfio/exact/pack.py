"""Admit every request: spread them so that the peak is least (Graham's rule, then exchanges)."""

import numpy as np

from bfio.exact.compiled import RandomState, Words, compiled
from bfio.exact.place import random_below
from formulations.arrays import BoolArray, IntArray

#: Words of bits that one call of `split_under_peak` may visit (some milliseconds).
_SPLIT_WORK = 5_000_000


@compiled
def spread(base: IntArray, capacity: IntArray, sizes: IntArray, owner: IntArray) -> IntArray:
    """Give each request, largest first, to the least loaded worker with a free slot.

    Returns
    -------
    IntArray
        Shape (W,): loads; ``owner`` (shape (N,)) is filled.
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


@compiled
def _random_split(
    items: IntArray, sizes: IntArray, low: int, high: int, state: RandomState, first: BoolArray
) -> bool:
    """Mark in ``first`` a random subset of ``items`` with a sum in [low, high], if there is one.

    Bit x of row k of ``bits`` says whether some of the first k items sum to x.
    """
    words = high // 64 + 1
    bits = np.zeros((len(items) + 1, words), np.uint64)
    bits[0, 0] = 1
    for k in range(len(items)):
        skip = sizes[items[k]] >> 6
        up = np.uint64(sizes[items[k]] & 63)
        down = np.uint64(63 - (sizes[items[k]] & 63))
        bits[k + 1] = bits[k]
        carried = np.uint64(0)
        for w in range(skip, words):
            word = bits[k, w - skip]
            bits[k + 1, w] |= (word << up) | ((carried >> down) >> np.uint64(1))
            carried = word
    middle = low + random_below(state, high - low + 1)
    rest = _next_bit(bits, len(items), middle, high)
    if rest < 0:
        rest = _next_bit(bits, len(items), low, middle)
    if rest < 0:
        return False
    for k in range(len(items) - 1, -1, -1):
        size = sizes[items[k]]
        with_it = size <= rest and _has_bit(bits, k, rest - size)
        without = _has_bit(bits, k, rest)
        first[k] = with_it and (not without or random_below(state, 2) == 0)
        if first[k]:
            rest -= size
    return True


@compiled
def _has_bit(bits: Words, row: int, x: int) -> bool:
    return bool((bits[row, x >> 6] >> np.uint64(x & 63)) & np.uint64(1))


@compiled
def _next_bit(bits: Words, row: int, low: int, high: int) -> int:
    """Return the lowest set bit of a row in [low, high], or -1; empty words are skipped."""
    x = low
    while x <= high:
        if x & 63 == 0 and bits[row, x >> 6] == 0:
            x += 64
        elif _has_bit(bits, row, x):
            return x
        else:
            x += 1
    return -1


@compiled
def _largest_first(
    items: IntArray, sizes: IntArray, limit: int, bits: Words, first: BoolArray, state: RandomState
) -> int:
    """Mark a subset of ``items`` of the largest sum <= ``limit``; return the sum.

    Sizes ascend. Of several it is mostly that with the largest, so that small ones are left over.
    """
    words = limit // 64 + 1
    bits[: len(items) + 1, :words] = np.uint64(0)
    bits[0, 0] = np.uint64(1)
    for k in range(len(items)):
        bits[k + 1, :words] = bits[k, :words]
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


@compiled
def _shuffle(workers: IntArray, state: RandomState) -> None:
    for k in range(len(workers) - 1):
        j = k + random_below(state, len(workers) - k)
        workers[k], workers[j] = workers[j], workers[k]


@compiled
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
    """Fill each worker as far as it goes, without losing more than ``spare``; return what is left.

    -1 if more would be lost.
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


@compiled
def fill_exactly(
    margins: IntArray,
    capacity: IntArray,
    sizes: IntArray,
    attempts: int,
    endings: int,
    owner: IntArray,
    state: RandomState,
) -> bool:
    """Place all requests within the margins, though hardly any room is to spare.

    Workers are filled in random order, with large requests first. As long as no more than the
    spare room is lost, what is left fits the last worker; so the last ten workers or fewer are
    emptied and filled again and again.

    Parameters
    ----------
    margins, capacity : IntArray
        Shape (W,): room [tokens] and slots.
    sizes : IntArray
        Shape (N,), ascending.
    attempts, endings : int
        Random orders to try, and fillings of the last workers for each.
    owner : IntArray
        Shape (N,), filled if all requests are placed.
    state : IntArray
        Of `random_below`.

    Returns
    -------
    bool
        Whether they are.
    """
    W = len(margins)
    N = len(sizes)
    total = sizes.sum()
    largest = min(margins.max(), total)
    bits = np.empty((N + 1, largest // 64 + 1), np.uint64)
    workers = np.arange(W)
    begun = np.empty(N, np.int64)
    trial = np.empty(N, np.int64)
    for _ in range(attempts):
        _shuffle(workers, state)
        split = max(0, W - 4 - random_below(state, 7))
        begun[:] = -1
        room = margins.sum() - total
        spare = _fill_in_turn(workers[:split], margins, capacity, sizes, room, bits, begun, state)
        if spare < 0:
            continue
        for _ in range(endings):
            trial[:] = begun
            _shuffle(workers[split:], state)
            left = _fill_in_turn(
                workers[split:], margins, capacity, sizes, spare, bits, trial, state
            )
            if left >= 0 and (trial >= 0).all():
                owner[:] = trial
                return True
    return False


@compiled
def _pick_overloaded(loads: IntArray, peak: int, state: RandomState) -> int:
    """Return a random worker above the peak, or -1."""
    offset = random_below(state, len(loads))
    for k in range(len(loads)):
        g = (offset + k) % len(loads)
        if loads[g] > peak:
            return g
    return -1


@compiled
def split_under_peak(
    peak: int,
    base: IntArray,
    capacity: IntArray,
    sizes: IntArray,
    owner: IntArray,
    loads: IntArray,
    rounds: int,
    state: RandomState,
) -> bool:
    """Redistribute requests until no load exceeds ``peak``.

    An overloaded worker and a random other pool their requests and split them at random among
    the splits that respect both margins, or, if they hold too much together, among those that
    share the excess, so that it wanders.

    Parameters
    ----------
    peak : int
        The peak to meet [tokens].
    base, capacity, loads : IntArray
        Shape (W,); ``loads`` is kept up to date.
    sizes, owner : IntArray
        Shape (N,); ``owner`` is kept up to date.
    rounds : int
        Splits to try.
    state : IntArray
        Of `random_below`.

    Returns
    -------
    bool
        Whether the peak is met.
    """
    W = len(base)
    items = np.empty(len(sizes), np.int64)
    first = np.empty(len(sizes), np.bool_)
    work = 0
    for _ in range(rounds):
        if work > _SPLIT_WORK:
            break
        p = _pick_overloaded(loads, peak, state)
        if p < 0:
            return True
        q = random_below(state, W)
        if q == p:
            continue
        count = 0
        for i in range(len(sizes)):
            if owner[i] == p or owner[i] == q:
                items[count] = i
                count += 1
        total = loads[p] + loads[q] - base[p] - base[q]
        least = max(0, total - (peak - base[q]))
        most = min(total, peak - base[p])
        # If the two hold too much together, any split between the margins shares the excess.
        low = min(least, most)
        high = max(least, most)
        work += (count + 1) * (high // 64 + 1)
        if not _random_split(items[:count], sizes, low, high, state, first):
            continue
        taken = 0
        for k in range(count):
            taken += first[k]
        if taken > capacity[p] or count - taken > capacity[q]:
            continue
        loads[p] = base[p]
        loads[q] = base[q]
        for k in range(count):
            owner[items[k]] = p if first[k] else q
            loads[owner[items[k]]] += sizes[items[k]]
    return _pick_overloaded(loads, peak, state) < 0


@compiled
def _excess(load: int, peak: int) -> int:
    return max(0, load - peak)


@compiled
def exchange_under_peak(
    peak: int,
    capacity: IntArray,
    sizes: IntArray,
    owner: IntArray,
    loads: IntArray,
    rounds: int,
    state: RandomState,
) -> int:
    """Move and swap requests until no load exceeds ``peak``; return the excess left [tokens].

    A request of an overloaded worker moves, or changes places with another, if the total excess
    does not grow by more than a tolerance that shrinks to nothing.

    Parameters
    ----------
    peak : int
        The peak to meet [tokens].
    capacity, loads : IntArray
        Shape (W,); ``loads`` is kept up to date.
    sizes, owner : IntArray
        Shape (N,); ``owner`` is kept up to date.
    rounds : int
        Exchanges to try.
    state : IntArray
        Of `random_below`.
    """
    W = len(loads)
    N = len(sizes)
    count = np.zeros(W, np.int64)
    excess = 0
    for i in range(N):
        count[owner[i]] += 1
    for g in range(W):
        excess += _excess(loads[g], peak)
    most = excess
    for step in range(rounds):
        if excess == 0:
            break
        i = random_below(state, N)
        p = owner[i]
        j = random_below(state, N + W)
        q = owner[j] if j < N else j - N
        if p == q or (j >= N and count[q] == capacity[q]):
            continue
        shift = sizes[i] - (sizes[j] if j < N else 0)
        change = (
            _excess(loads[p] - shift, peak)
            + _excess(loads[q] + shift, peak)
            - _excess(loads[p], peak)
            - _excess(loads[q], peak)
        )
        tolerance = most * (rounds - step) // (8 * rounds)
        if change > 0 and change > random_below(state, tolerance + 1):
            continue
        excess += change
        loads[p] -= shift
        loads[q] += shift
        owner[i] = q
        if j < N:
            owner[j] = p
        else:
            count[p] -= 1
            count[q] += 1
    return excess
