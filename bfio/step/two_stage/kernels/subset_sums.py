"""Reachable sums by cardinality as 64-bit words, compiled.

The compiled form of `bfio.step.two_stage.subset_choice.BitmaskSums`: bit v of mask c is set iff c
of the items sum to v. Adding an item is a shift and an OR (BalanceRoute, appendix D.4). The masks
before each item are kept, so that the subset of a sum can be reconstructed.
"""

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.words import Words
from formulations.arrays import IntArray

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
