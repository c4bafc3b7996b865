"""Redistribute the requests of a few workers so that all but one are close to the peak.

Some requests of a worker above the peak are pooled with requests of up to three other workers. The
search then looks for subsets that fill all but the last worker to the peak. It meets in the
middle: of at most twenty requests, the sums of all subsets of each half are listed in order. The
remaining requests, with the excess, go to the last worker. The excess rarely grows, and moves
between workers until one has room. The work does not depend on the sizes of requests.
"""

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.common.words import RandomState, random_below
from formulations.arrays import IntArray

#: Most requests split at a time, and most workers; half the requests have 2^10 subsets.
_MOST_ITEMS = 20
_MOST_WORKERS = 4
#: Subsets of the right sum looked at for the right number of requests.
_MOST_SCANS = 4000
#: Operations of drawing a group, and of one of the sums behind a subset.
_GROUP = 2_000
_SUM = 20
#: First subsets tried before the next worker's is sought, when three or more share their requests.
_FIRST_SUBSETS = 6


@compilable
def _ordered_sums(items: IntArray, sizes: IntArray, sums: IntArray, members: IntArray) -> int:
    """Write the sums of all subsets of ``items`` in ascending order, and the subsets as bits.

    ``sums`` and ``members`` have shape (2, at least 2^len(items)); row 0 is filled.
    """
    sums[0, 0] = 0
    members[0, 0] = 0
    count = 1
    for k in range(len(items)):
        size = sizes[items[k]]
        # Without and with item k are two ascending lists: merge them into row 1.
        i = 0
        j = 0
        for at in range(2 * count):
            if j == count or (i < count and sums[0, i] <= sums[0, j] + size):
                sums[1, at] = sums[0, i]
                members[1, at] = members[0, i]
                i += 1
            else:
                sums[1, at] = sums[0, j] + size
                members[1, at] = members[0, j] | (1 << k)
                j += 1
        count *= 2
        copy_to(sums[0], sums[1, :count])
        copy_to(members[0], members[1, :count])
    return count


@compilable
def _number_of_bits(word: int) -> int:
    count = 0
    while word:
        word &= word - 1
        count += 1
    return count


@entry_point
def find_split(
    items: IntArray,
    sizes: IntArray,
    low: int,
    high: int,
    fewest: int,
    most: int,
    buffers: IntArray,
    state: RandomState,
) -> int:
    """Return, as bits, a subset of ``items`` with a sum in [low, high]; -1 if there is none.

    Parameters
    ----------
    items : IntArray
        At most 20 positions in ``sizes``.
    low, high : int
        Bounds on the sum [tokens].
    fewest, most : int
        Bounds on the number of items in the subset.
    buffers : IntArray
        Shape (4, 2, 1024), overwritten.
    state : RandomState
        The search through one half begins at a random position.
    """
    half = len(items) // 2
    num_left = _ordered_sums(items[:half], sizes, buffers[0], buffers[1])
    num_right = _ordered_sums(items[half:], sizes, buffers[2], buffers[3])
    left = buffers[0, 0]
    right = buffers[2, 0, :num_right]
    start = random_below(state, num_left)
    scans = _MOST_SCANS
    for k in range(num_left):
        i = (start + k) % num_left
        j = int(np.searchsorted(right, high - left[i], side="right")) - 1
        while j >= 0 and left[i] + right[j] >= low:
            subset = buffers[1, 0, i] | (buffers[3, 0, j] << half)
            if fewest <= _number_of_bits(subset) <= most:
                return int(subset)
            j -= 1
            scans -= 1
            if scans == 0:
                return -1
    return -1


@compilable
def _take_subset(items: IntArray, count: int, subset: int) -> int:
    """Move the items of ``subset`` behind the others; return how many precede them."""
    left = 0
    for k in range(count):
        if not (subset >> k) & 1:
            items[left], items[k] = items[k], items[left]
            left += 1
    return left


@compilable
def _sample(
    owner: IntArray, worker: int, quota: int, items: IntArray, count: int, state: RandomState
) -> int:
    """Append at most ``quota`` random requests of a worker to ``items``; return the new count."""
    seen = 0
    for i in range(len(owner)):
        if owner[i] == worker:
            k = seen if seen < quota else random_below(state, seen + 1)
            seen += 1
            if k < quota:
                items[count + k] = i
    return count + min(seen, quota)


@entry_point
def _share(
    group: IntArray,
    items: IntArray,
    count: int,
    sizes: IntArray,
    room: IntArray,
    slots: IntArray,
    budget: int,
    begin: IntArray,
    buffers: IntArray,
    state: RandomState,
    spent: IntArray,
) -> bool:
    """Order ``items`` by worker of a group, last worker first; fill ``begin``.

    All workers but the last together leave at most ``budget`` tokens of their room. ``begin[m]``
    is the position in ``items`` of the first request of group member m, 0 for the last member.
    Return whether this is possible.
    """
    others = slots.sum()
    for m in range(len(group) - 1):
        others -= slots[m]
        least = max(0, count - others)
        most = min(count, slots[m])
        spent[0] += _SUM << (count // 2)
        subset = find_split(
            items[:count], sizes, room[m] - budget, room[m], least, most, buffers, state
        )
        if subset < 0:
            return False
        left = _take_subset(items, count, subset)
        budget -= room[m] - sizes[items[left:count]].sum()
        begin[m] = left
        count = left
    begin[len(group) - 1] = 0
    return True


@compilable(allocates=True)
def _regroup(
    group: IntArray,
    peak: int,
    free: IntArray,
    sizes: IntArray,
    owner: IntArray,
    loads: IntArray,
    budgets: IntArray,
    buffers: IntArray,
    state: RandomState,
    spent: IntArray,
) -> None:
    """Redistribute the requests of a group within the first budget for which this is possible."""
    K = len(group)
    items = np.empty(_MOST_ITEMS, np.int64)
    room = np.empty(K, np.int64)
    slots = np.empty(K, np.int64)
    begin = np.empty(K, np.int64)
    count = 0
    for m in range(K):
        g = group[m]
        quota = (_MOST_ITEMS - count) // (K - m)
        after = _sample(owner, g, quota, items, count, state)
        room[m] = peak - loads[g] + sizes[items[count:after]].sum()
        slots[m] = free[g] + after - count
        count = after
    for budget in budgets:
        if budget < 0:
            continue
        for _ in range(_FIRST_SUBSETS if K > 2 else 1):
            if _share(
                group, items, count, sizes, room, slots, budget, begin, buffers, state, spent
            ):
                end = count
                for m in range(K):
                    g = group[m]
                    own = items[begin[m] : end]
                    loads[g] = peak - room[m] + sizes[own].sum()
                    free[g] = slots[m] - len(own)
                    owner[own] = g
                    end = begin[m]
                return


@compilable(allocates=True)
def _draw_group(loads: IntArray, first: int, group: IntArray, state: RandomState) -> None:
    """Fill ``group`` with ``first`` and other workers in random order, half of them with room."""
    group[0] = first
    taken = 1
    while taken < len(group):
        q = random_below(state, len(loads))
        if random_below(state, 2) == 0:
            for _ in range(3):
                other = random_below(state, len(loads))
                if loads[other] < loads[q]:
                    q = other
        if not (group[:taken] == q).any():
            group[taken] = q
            taken += 1
    k = random_below(state, len(group))
    group[0], group[k] = group[k], group[0]


@entry_point
def rebalance(
    peak: int,
    capacity: IntArray,
    sizes: IntArray,
    owner: IntArray,
    loads: IntArray,
    rounds: int,
    state: RandomState,
    spent: IntArray,
) -> bool:
    """Redistribute requests until no load exceeds ``peak``.

    Parameters
    ----------
    peak : int
        The peak to meet [tokens].
    capacity, loads : IntArray
        Shape (W,): slots and loads; ``loads`` is updated.
    sizes, owner : IntArray
        Shape (N,); every request has a worker, and ``owner`` is updated.
    rounds : int
        Number of groups to try.

    Returns
    -------
    bool
        Whether all loads are within the peak.
    """
    W = len(loads)
    free = capacity.copy()
    for g in owner:
        free[g] -= 1
    buffers = np.empty((4, 2, 1 << (_MOST_ITEMS // 2)), np.int64)
    groups = np.empty(_MOST_WORKERS, np.int64)
    budgets = np.empty(2, np.int64)
    for _ in range(rounds):
        first = _pick_above(loads, peak, state)
        if first < 0:
            return True
        if W == 1:
            return False
        if random_below(state, 4) == 0:
            # Room wanders as well, and adds up.
            first = random_below(state, W)
        spent[0] += _GROUP
        group = groups[: min(W, 2 + random_below(state, _MOST_WORKERS - 1))]
        _draw_group(loads, first, group, state)
        holes = 0
        spare = 0
        for g in group:
            holes += max(0, peak - loads[g])
            spare += peak - loads[g]
        # All of the group below the peak; or no more excess than before, or a little more.
        budgets[0] = spare if holes > spare else 0
        budgets[1] = holes
        if random_below(state, 4) == 0:
            budgets[1] += random_below(state, 1 << random_below(state, 5))
        _regroup(group, peak, free, sizes, owner, loads, budgets, buffers, state, spent)
    return _pick_above(loads, peak, state) < 0


@compilable
def _pick_above(loads: IntArray, peak: int, state: RandomState) -> int:
    """Return a random worker above the peak, or -1."""
    offset = random_below(state, len(loads))
    for k in range(len(loads)):
        g = (offset + k) % len(loads)
        if loads[g] > peak:
            return int(g)
    return -1
