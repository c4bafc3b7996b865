"""The best subset for one worker, compiled; see `bfio.step.two_stage.subset_choice`.

Ties are the same: highest score, then largest current size, then oldest requests. Candidates are
ordered by size instead of age, which decides most cases without reachable sums:

* if the peak is at or above the sum of the c largest sizes, or below that of the c smallest ones,
  that sum is best for cardinality c;
* otherwise bisection finds a single request, and two pointers find a pair;
* only three or more requests need masks, which are no longer than their peak.

The masks of reachable sums are the compiled form of
`bfio.step.two_stage.subset_choice.BitmaskSums`: bit v of mask c is set iff c of the items sum to
v. Adding an item is a shift and an OR (BalanceRoute, appendix D.4). The masks before each item are
kept, so that the subset of a sum can be reconstructed.

Requests with different growth are chosen by enumeration. All bounds follow from one fact: the
penalty ``Σ_h penalty_h·max(0, D(h) − m(h))`` never decreases when requests are added. So adding T
to S raises the score by at most the rewards ``Σ_h reward_h·v_i(h)`` of T.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to, extent, first_above, sort, sum_of
from bfio.common.compilable import compilable
from bfio.common.words import Words
from bfio.step.two_stage.fscore import (
    NO_LIMIT,
    Score,
    fits,
    most_total,
    peak_end,
    score_at,
    score_of,
)
from formulations.arrays import IntArray


@compilable(allocates=True)
def rewards_of(contribution: IntArray, reward: IntArray) -> IntArray:
    """Return the reward of each request over the window, ``Σ_h reward_h·v_i(h)``, shape (N,).

    ``v_i(h)`` is ``contribution[i, h]``.
    """
    rewards = np.zeros(len(contribution), np.int64)
    for i in range(len(contribution)):
        for h in range(len(reward)):
            rewards[i] += reward[h] * contribution[i, h]
    return rewards


@compilable
def best_row(
    ids: IntArray, contribution: IntArray, rewards: IntArray, score: Score, prefer_oldest: bool
) -> int:
    """Position of the request of highest score.

    Parameters
    ----------
    ids : IntArray
        Requests, largest first, ties oldest first.
    contribution : IntArray
        Shape (N, H+1) of all requests [tokens].
    rewards : IntArray
        Shape (N,), from `rewards_of`.
    score : Score
        Data of the score.
    prefer_oldest : bool
        Whether ties go to the oldest request, or else to the largest and then the oldest.
    """
    best, value = 0, score_of(contribution[ids[0]], score)
    for k in range(1, len(ids)):
        # The reward bounds the score from above.
        if rewards[ids[k]] < value:
            continue
        found = score_of(contribution[ids[k]], score)
        if found > value or (found == value and prefer_oldest and ids[k] < ids[best]):
            best, value = k, found
    return best


@compilable(allocates=True, apart=True)
def best_by_enumeration(
    ids: IntArray,
    contribution: IntArray,
    rewards: IntArray,
    most: int,
    score: Score,
    allowances: IntArray,
    chosen: IntArray,
) -> tuple[int, int]:
    """Choose 1 to ``most`` requests of highest score by branch and bound over all subsets.

    Parameters
    ----------
    ids, contribution, rewards, score
        As in `best_row`; at most 62 ids.
    most : int
        Free slots of the worker, 1 to the number of ids.
    allowances : IntArray
        Shape (at least most + 1, H+1): most that c requests may add; empty if unlimited.
    chosen : IntArray
        Its first entries are filled with request numbers.

    Returns
    -------
    tuple of (int, int)
        Number chosen and their score. Ties: largest size, then oldest requests.
    """
    by_reward = _by_reward(ids, rewards)
    bits = _age_bits(by_reward)
    prefix = np.zeros(len(ids) + 1, np.int64)
    for k in range(len(ids)):
        prefix[k + 1] = prefix[k] + rewards[by_reward[k]]
    trajectories = np.zeros((most + 1, contribution.shape[1]), np.int64)
    path = np.zeros(most + 1, np.int64)
    # Score and members of each prefix of the path; the oldest member is the highest bit.
    values = np.zeros(most + 1, np.int64)
    members = np.zeros(most + 1, np.int64)
    best, size, subset = -(1 << 62), 0, 0
    depth = position = 0
    while True:
        # The next requests in order of reward bound the gain of every extension of the path.
        last = min(len(ids), position + most - depth)
        if position < last and values[depth] + prefix[last] - prefix[position] >= best:
            added = contribution[by_reward[position]]
            for h in range(len(added)):
                trajectories[depth + 1, h] = trajectories[depth, h] + added[h]
            path[depth] = position
            depth += 1
            position += 1
            values[depth] = score_of(trajectories[depth], score)
            members[depth] = members[depth - 1] | bits[position - 1]
            found = (int(values[depth]), int(trajectories[depth, 0]), int(members[depth]))
            allowed = len(allowances) == 0 or fits(trajectories[depth], allowances[depth])
            if allowed and found > (best, size, subset):
                best, size, subset = found
        elif depth == 0:
            break
        else:
            depth -= 1
            position = path[depth] + 1
    return _write_members(by_reward, bits, subset, chosen), best


@compilable(allocates=True)
def _by_reward(ids: IntArray, rewards: IntArray) -> IntArray:
    """Return the requests in decreasing order of reward, which makes the bounds tight."""
    ordered = ids.copy()
    for k in range(1, len(ordered)):
        request, place = ordered[k], k
        while place > 0 and rewards[ordered[place - 1]] < rewards[request]:
            ordered[place] = ordered[place - 1]
            place -= 1
        ordered[place] = request
    return ordered


@compilable(allocates=True)
def _age_bits(ids: IntArray) -> IntArray:
    """Return one bit per request; older requests have higher bits."""
    bits = np.empty(len(ids), np.int64)
    for k in range(len(ids)):
        newer = 0
        for other in ids:
            newer += other > ids[k]
        bits[k] = 1 << newer
    return bits


@compilable
def _write_members(ids: IntArray, bits: IntArray, members: int, chosen: IntArray) -> int:
    count = 0
    for k in range(len(ids)):
        if members & bits[k]:
            chosen[count] = ids[k]
            count += 1
    return count


#: Most words of all masks of one choice (32 MB); for more, merging half-sums is cheaper.
MAX_WORDS = 1 << 22


@compilable(allocates=True)
def reachable_masks(sizes: IntArray, most: int, words: int) -> Words:
    """Return the masks of all suffixes of the items, for sums below ``64·words``.

    Parameters
    ----------
    sizes : IntArray
        Shape (K,), sizes >= 0, oldest first.
    most : int
        Largest cardinality.
    words : int
        Length of a mask [64 bits].

    Returns
    -------
    Words
        Shape (K+1, most+1, words); entry k has the sums of items k, k+1, ...
    """
    masks = np.empty((len(sizes) + 1, most + 1, words), np.uint64)
    masks[len(sizes)] = 0
    masks[len(sizes), 0, 0] = 1
    # Add the newest items first, so that reconstruction starts with the oldest ones.
    for k in range(len(sizes) - 1, -1, -1):
        copy_to(masks[k, 0], masks[k + 1, 0])
        for c in range(1, most + 1):
            _shift_or(masks[k + 1, c], masks[k + 1, c - 1], sizes[k], masks[k, c])
    return masks


@compilable
def _shift_or(without: Words, fewer: Words, size: int, result: Words) -> None:
    """Write ``without | fewer << size`` to ``result``; bits past its end are dropped."""
    words = len(result)
    skip = min(size >> 6, words)
    up = np.uint64(size & 63)
    down = np.uint64(63 - (size & 63))
    for w in range(skip):
        result[w] = without[w]
    if skip < words:
        result[skip] = without[skip] | (fewer[0] << up)
    for w in range(skip + 1, words):
        # Two shifts, because a single shift by 64 is undefined.
        low = (fewer[w - skip - 1] >> down) >> np.uint64(1)
        result[w] = without[w] | (fewer[w - skip] << up) | low


@compilable
def largest_at_most(mask: Words, bit: int) -> int:
    """Highest set bit at or below ``bit``, -1 if there is none."""
    w = bit >> 6
    word = mask[w] & (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(63 - (bit & 63)))
    while word == 0:
        if w == 0:
            return -1
        w -= 1
        word = mask[w]
    return (w << 6) + highest_bit(word)


@compilable
def smallest_above(mask: Words, bit: int) -> int:
    """Lowest set bit above ``bit``, -1 if there is none."""
    first = bit + 1
    w = first >> 6
    if w >= len(mask):
        return -1
    # Clear the bits below `first`.
    word = (mask[w] >> np.uint64(first & 63)) << np.uint64(first & 63)
    while word == 0:
        w += 1
        if w == len(mask):
            return -1
        word = mask[w]
    # word & -word is the lowest set bit.
    return (w << 6) + highest_bit(word & (~word + np.uint64(1)))


@compilable
def highest_bit(word: np.uint64) -> int:
    """Position of the highest set bit of a word that is not 0."""
    position = 0
    for step in (32, 16, 8, 4, 2, 1):
        if (word >> np.uint64(step)) != 0:
            word >>= np.uint64(step)
            position += step
    return position


@compilable
def oldest_members(
    masks: Words, sizes: IntArray, cardinality: int, bit: int, members: IntArray
) -> None:
    """Write the subset of oldest items with this sum, in increasing order.

    Parameters
    ----------
    masks, sizes
        From `reachable_masks`.
    cardinality, bit : int
        A reachable sum.
    members : IntArray
        Its first ``cardinality`` entries are filled.
    """
    found = 0
    item = 0
    while found < cardinality:
        rest = bit - sizes[item]
        if rest >= 0 and _has(masks[item + 1, cardinality - found - 1], rest):
            members[found] = item
            found += 1
            bit = rest
        item += 1


@compilable
def _has(mask: Words, bit: int) -> bool:
    return bool((mask[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1))


#: Returned instead of a count if the masks of reachable sums would be too long.
TOO_LARGE = -1
#: In place of a total: to be found with masks; no sum is within the allowance.
_UNKNOWN, _NONE = -1, -2


class Candidates(NamedTuple):
    """Candidates of one choice, largest first, ties oldest first; arrays of shape (K,).

    Parameters
    ----------
    ids : IntArray
        Request numbers, by age.
    sizes : IntArray
        Their ``v_i(0)`` [tokens].
    """

    ids: IntArray
    sizes: IntArray


class Masks(NamedTuple):
    """Reachable sums of the candidates by age; ``masks`` is empty if no cardinality needs them.

    A sum of c candidates is ``c·low + unit·v`` for bit v.
    """

    masks: Words
    ids: IntArray
    sizes: IntArray
    low: int
    unit: int


@compilable(allocates=True, apart=True)
def best_by_sums(
    candidates: Candidates, most: int, score: Score, allowances: IntArray, chosen: IntArray
) -> tuple[int, int]:
    """Choose 1 to ``most`` candidates with the highest score; all grow by ``score.drift``.

    Two probes per cardinality are exact: see the proof in `bfio.step.two_stage.subset_choice`.

    Parameters
    ----------
    candidates : Candidates
        At least ``most`` candidates.
    most : int
        Free slots of the worker, >= 1.
    score : Score
        Data of the score.
    allowances : IntArray
        Shape (at least most + 1, H+1): most that c requests may add; empty if unlimited.
    chosen : IntArray
        Its first entries are filled with request numbers.

    Returns
    -------
    tuple of (int, int)
        Number chosen and their score; `TOO_LARGE` and 0 if the masks would be too long.
    """
    totals = np.empty(most + 1, np.int64)
    peaks = np.empty(most + 1, np.int64)
    needed = _probe_without_masks(candidates, most, score, allowances, peaks, totals)
    masks = _masks(candidates, peaks, totals, needed)
    if needed > 0 and len(masks.masks) == 0:
        return TOO_LARGE, 0
    for c in range(3, most + 1):
        if totals[c] == _UNKNOWN:
            totals[c] = _probe_masks(masks, c, peaks[c], most_total(score, c, allowances), score)
    best, value = _best_total(totals, most, score)
    # Ties of score and size between cardinalities go to the set with the oldest requests.
    count = 0
    other = np.empty(most, np.int64)
    for c in range(1, most + 1):
        if totals[c] == best and score_at(score, c, best) == value:
            _members(candidates, masks, c, best, other)
            if count == 0 or _takes_older(other[:c], chosen[:count]):
                copy_to(chosen, other[:c])
                count = c
    return count, value


@compilable
def _probe_without_masks(
    candidates: Candidates,
    most: int,
    score: Score,
    allowances: IntArray,
    peaks: IntArray,
    totals: IntArray,
) -> int:
    """Fill the better probe of each cardinality if known; return the last unknown cardinality.

    An allowance below the right end of a peak replaces it.
    """
    sizes = candidates.sizes
    constant = extent(score.drift) == (0, 0, 0)
    needed = 0
    largest = smallest = 0
    peak = peak_end(score, 1, True)
    for c in range(1, most + 1):
        largest += sizes[c - 1]
        smallest += sizes[len(sizes) - c]
        if not constant and c > 1:
            peak = peak_end(score, c, True)
        limit = most_total(score, c, allowances)
        peaks[c] = min(peak, limit)
        if limit < smallest:
            totals[c] = _NONE
        elif peaks[c] >= largest:
            totals[c] = largest
        elif peaks[c] < smallest:
            totals[c] = smallest
        elif c == 1:
            k = _first_at_most(sizes, peaks[c])
            totals[c] = _better(score, c, sizes[k], sizes[k - 1], limit)
        elif c == 2:
            below, above = _pairs_around(sizes, peaks[c])
            totals[c] = _better(score, c, below, above, limit)
        else:
            totals[c] = _UNKNOWN
            needed = c
    return needed


@compilable
def _better(score: Score, count: int, below: int, above: int, limit: int) -> int:
    """Return the total with the higher score (ties: the larger) among those within the limit."""
    if above > limit:
        return below
    return above if score_at(score, count, above) >= score_at(score, count, below) else below


@compilable
def _best_total(totals: IntArray, most: int, score: Score) -> tuple[int, int]:
    """Highest score, and the largest total that attains it."""
    best, value = totals[1], score_at(score, 1, totals[1])
    for c in range(2, most + 1):
        if totals[c] == _NONE:
            continue
        found = score_at(score, c, totals[c])
        if found > value or (found == value and totals[c] > best):
            best, value = totals[c], found
    return best, value


@compilable
def _first_at_most(sizes: IntArray, limit: int) -> int:
    """First position of a size <= limit in decreasing sizes; the number of sizes if none."""
    low, high = 0, len(sizes)
    while low < high:
        middle = (low + high) // 2
        if sizes[middle] <= limit:
            high = middle
        else:
            low = middle + 1
    return low


@compilable
def _pairs_around(sizes: IntArray, peak: int) -> tuple[int, int]:
    """Largest sum of two sizes <= peak, and smallest sum > peak; both must exist."""
    below, above = -1, 2 * sizes[0] + 1
    # Sizes decrease: a small sum needs a larger second item, a large sum a smaller first item.
    i, j = 0, len(sizes) - 1
    while i < j:
        total = sizes[i] + sizes[j]
        if total <= peak:
            below = max(below, total)
            j -= 1
        else:
            above = min(above, total)
            i += 1
    return below, above


@compilable(allocates=True)
def _masks(candidates: Candidates, peaks: IntArray, totals: IntArray, needed: int) -> Masks:
    """Build masks for the unknown totals; empty if there are none or masks would be too long."""
    ids, low = candidates.ids, candidates.sizes[-1]
    if needed == 0:
        return Masks(np.empty((0, 0, 0), np.uint64), ids, ids, low, 1)
    ids = ids.copy()
    sort(ids)
    unit, gap = _unit_and_gap(candidates.sizes)
    last = 0
    for c in range(3, needed + 1):
        if totals[c] == _UNKNOWN:
            last = max(last, (peaks[c] - c * low) // unit)
    # Replacing one item at a time by the next larger one leads from the c smallest to the c
    # largest. So the smallest sum above the peak is at most one gap above it.
    words = (last + gap // unit) // 64 + 1
    if words > MAX_WORDS // ((len(ids) + 1) * (needed + 1)):
        return Masks(np.empty((0, 0, 0), np.uint64), ids, ids, low, unit)
    sizes = np.empty(len(ids), np.int64)
    for k in range(len(ids)):
        sizes[first_above(ids, candidates.ids[k]) - 1] = (candidates.sizes[k] - low) // unit
    return Masks(reachable_masks(sizes, needed, words), ids, sizes, low, unit)


@compilable
def _unit_and_gap(sizes: IntArray) -> tuple[int, int]:
    """Greatest common divisor and maximum of the gaps between neighbouring sizes."""
    unit = gap = 0
    for k in range(1, len(sizes)):
        step = sizes[k - 1] - sizes[k]
        gap = max(gap, step)
        while step > 0:
            unit, step = step, unit % step
    return max(unit, 1), gap


@compilable
def _probe_masks(masks: Masks, cardinality: int, peak: int, limit: int, score: Score) -> int:
    bit = (peak - cardinality * masks.low) // masks.unit
    mask = masks.masks[0, cardinality]
    offset = cardinality * masks.low
    below = offset + masks.unit * largest_at_most(mask, bit)
    above = offset + masks.unit * smallest_above(mask, bit)
    return _better(score, cardinality, below, above, limit)


@compilable(allocates=True)
def _members(
    candidates: Candidates, masks: Masks, cardinality: int, total: int, members: IntArray
) -> None:
    """Write the set of oldest requests with this reachable total, in increasing order."""
    ids, sizes, c = candidates.ids, candidates.sizes, cardinality
    if total == sum_of(sizes[:c]):
        copy_to(members, ids[:c])
        sort(members[:c])
    elif total == sum_of(sizes[len(sizes) - c :]):
        _smallest_members(candidates, c, members)
    elif c == 1:
        members[0] = ids[_first_at_most(sizes, total)]
    elif c == 2:
        members[0], members[1] = _oldest_pair(candidates, total)
    else:
        bit = (total - c * masks.low) // masks.unit
        oldest_members(masks.masks, masks.sizes, c, bit, members)
        for k in range(c):
            members[k] = masks.ids[members[k]]


@compilable(allocates=True)
def _smallest_members(candidates: Candidates, cardinality: int, members: IntArray) -> None:
    """Write the smallest requests; ties for the last place go to the oldest."""
    ids, sizes = candidates.ids, candidates.sizes
    last_place = sizes[len(sizes) - cardinality]
    tied = _first_at_most(sizes, last_place)
    smaller = _first_at_most(sizes, last_place - 1)
    num_smaller = len(sizes) - smaller
    copy_to(members, ids[smaller:])
    copy_to(members[num_smaller:], ids[tied : tied + cardinality - num_smaller])
    sort(members[:cardinality])


@compilable
def _oldest_pair(candidates: Candidates, total: int) -> tuple[int, int]:
    """Return the pair with this sum that has the oldest requests."""
    ids, sizes = candidates.ids, candidates.sizes
    oldest, second = NO_LIMIT, NO_LIMIT
    i, j = 0, len(sizes) - 1
    while i < j:
        found = sizes[i] + sizes[j]
        if found > total:
            i += 1
            continue
        if found == total:
            # Equal sizes are ordered oldest first, so take the first of each run.
            first = max(i + 1, _first_at_most(sizes, sizes[j]))
            older, newer = min(ids[i], ids[first]), max(ids[i], ids[first])
            if older < oldest or (older == oldest and newer < second):
                oldest, second = older, newer
            i = _first_at_most(sizes, sizes[i] - 1)
            continue
        j -= 1
    return oldest, second


@compilable
def _takes_older(members: IntArray, others: IntArray) -> bool:
    """Whether ``members`` contains the oldest request on which the two sets differ."""
    for k in range(min(len(members), len(others))):
        if members[k] != others[k]:
            return bool(members[k] < others[k])
    return len(members) > len(others)
