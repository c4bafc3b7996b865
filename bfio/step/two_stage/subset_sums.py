"""Reachable sums of subsets of a given cardinality, and the subset of a sum.

Two exact representations behind one interface:

`BitmaskSums`
    One Python integer per cardinality c; bit v is set iff some c-subset sums to v. Adding an item
    is a shift and an OR (BalanceRoute, appendix D.4). Fast for sums below about 10^6.
`MergedSums`
    Meet in the middle: the sums of both halves of the items by cardinality, as sorted arrays.
    For sizes too large for a bitmask.

`reachable_sums` picks the cheaper one, and refuses data that fit neither.
"""

from collections.abc import Sequence
from math import comb, gcd
from typing import Protocol

import numpy as np

from formulations.arrays import IntArray
from formulations.errors import InputError

#: Bits of all masks together (125 MB).
MAX_BITS = 10**9
#: Entries of all merged arrays together (160 MB with the subsets).
MAX_SUMS = 10**7
#: Most items in one half, because a subset is stored as the bits of an int64.
_MAX_HALF = 62
#: Measured cost of merging in units of mask bits: fixed, and per sum.
_BITS_PER_MERGE = 5_000_000
_BITS_PER_SUM = 2_000


class ReachableSums(Protocol):
    """Reachable sums by cardinality of items ordered from oldest to newest."""

    def at_most(self, cardinality: int, limit: int) -> int | None:
        """Largest reachable sum ``<= limit``, or None."""

    def above(self, cardinality: int, limit: int) -> int | None:
        """Smallest reachable sum ``> limit``, or None."""

    def members(self, cardinality: int, total: int) -> tuple[int, ...]:
        """Return the items of the subset with this reachable sum that takes the oldest items."""


def reachable_sums(sizes: Sequence[int], most: int) -> ReachableSums:
    """Prepare the sums of all subsets of 1 to ``most`` items.

    Parameters
    ----------
    sizes : sequence of int
        Item sizes >= 0, oldest first.
    most : int
        Largest cardinality, at most the number of items.

    Raises
    ------
    InputError
        If the sums fit neither representation in memory.
    """
    bits, sums = bitmask_bits(sizes, most), merged_sums(len(sizes), most)
    if bits <= MAX_BITS and bits <= _BITS_PER_MERGE + sums * _BITS_PER_SUM:
        return BitmaskSums(sizes, most)
    if sums <= MAX_SUMS:
        return MergedSums(sizes, most)
    if bits <= MAX_BITS:
        return BitmaskSums(sizes, most)
    raise InputError(
        "candidates",
        f"subsets of up to {most} of {len(sizes)} requests up to {max(sizes)} tokens need "
        f"{bits:.0e} bits",
        "lower --candidates or --threshold",
    )


def bitmask_bits(sizes: Sequence[int], most: int) -> int:
    """Upper bound on the bits that `BitmaskSums` stores."""
    low, unit = _offset_and_unit(sizes)
    largest = (max(sizes) - low) // unit
    return len(sizes) * (largest * most * (most + 1) // 2 + most + 1)


def merged_sums(num_items: int, most: int) -> int:
    """Entries that `MergedSums` stores; more than `MAX_SUMS` if a half has too many items."""
    halves = (num_items // 2, num_items - num_items // 2)
    if halves[1] > _MAX_HALF:
        return MAX_SUMS + 1
    return sum(comb(n, c) for n in halves for c in range(min(n, most) + 1))


class BitmaskSums:
    """Reachable sums as bitmasks, with one snapshot per item for backtracking.

    To shorten the masks, the smallest size is subtracted from each item, and the result is divided
    by the common divisor. A sum of c items is then ``c·low + unit·v`` for bit v.
    """

    def __init__(self, sizes: Sequence[int], most: int) -> None:
        self._low, self._unit = _offset_and_unit(sizes)
        self._sizes = [(size - self._low) // self._unit for size in sizes]
        # Add the newest items first, so that backtracking starts with the oldest ones.
        masks = [1] + [0] * most
        self._snapshots = [masks]
        for size in reversed(self._sizes):
            masks = [1] + [masks[c] | masks[c - 1] << size for c in range(1, most + 1)]
            self._snapshots.append(masks)
        self._snapshots.reverse()

    def at_most(self, cardinality: int, limit: int) -> int | None:
        """Largest reachable sum ``<= limit``, or None."""
        bit = self._floor_bit(cardinality, limit)
        if bit < 0:
            return None
        low_part = self._snapshots[0][cardinality] & ((1 << (bit + 1)) - 1)
        return self._sum(cardinality, low_part.bit_length() - 1) if low_part else None

    def above(self, cardinality: int, limit: int) -> int | None:
        """Smallest reachable sum ``> limit``, or None."""
        first = max(0, self._floor_bit(cardinality, limit) + 1)
        high_part = self._snapshots[0][cardinality] >> first
        if not high_part:
            return None
        return self._sum(cardinality, first + (high_part & -high_part).bit_length() - 1)

    def members(self, cardinality: int, total: int) -> tuple[int, ...]:
        """Return the items of the subset with this reachable sum that takes the oldest items."""
        rest = (total - cardinality * self._low) // self._unit
        chosen: list[int] = []
        for item, size in enumerate(self._sizes):
            if cardinality == 0:
                break
            newer = self._snapshots[item + 1][cardinality - 1]
            if size <= rest and newer >> (rest - size) & 1:
                chosen.append(item)
                cardinality, rest = cardinality - 1, rest - size
        return tuple(chosen)

    def _floor_bit(self, cardinality: int, limit: int) -> int:
        # Without the cap at the mask's length, a huge limit would create a huge integer.
        longest = self._snapshots[0][cardinality].bit_length()
        return min((limit - cardinality * self._low) // self._unit, longest)

    def _sum(self, cardinality: int, bit: int) -> int:
        return cardinality * self._low + self._unit * bit


class MergedSums:
    """Reachable sums by meet in the middle of an older and a newer half of the items."""

    def __init__(self, sizes: Sequence[int], most: int) -> None:
        self._middle = len(sizes) // 2
        self._num_items = len(sizes)
        self._older = _sums_by_cardinality(sizes[: self._middle], most)
        self._newer = _sums_by_cardinality(sizes[self._middle :], most)

    def at_most(self, cardinality: int, limit: int) -> int | None:
        """Largest reachable sum ``<= limit``, or None."""
        best: int | None = None
        for older, newer in self._splits(cardinality):
            index = np.searchsorted(newer[0], limit - older[0], side="right") - 1
            usable = index >= 0
            if usable.any():
                found = int((older[0][usable] + newer[0][index[usable]]).max())
                best = found if best is None else max(best, found)
        return best

    def above(self, cardinality: int, limit: int) -> int | None:
        """Smallest reachable sum ``> limit``, or None."""
        best: int | None = None
        for older, newer in self._splits(cardinality):
            index = np.searchsorted(newer[0], limit - older[0], side="right")
            usable = index < len(newer[0])
            if usable.any():
                found = int((older[0][usable] + newer[0][index[usable]]).min())
                best = found if best is None else min(best, found)
        return best

    def members(self, cardinality: int, total: int) -> tuple[int, ...]:
        """Return the items of the subset with this reachable sum that takes the oldest items."""
        best = (-1, -1)
        for older, newer in self._splits(cardinality):
            index = np.minimum(np.searchsorted(newer[0], total - older[0]), len(newer[0]) - 1)
            matching = np.flatnonzero(newer[0][index] == total - older[0])
            if len(matching):
                k = matching[np.argmax(older[1][matching])]
                best = max(best, (int(older[1][k]), int(newer[1][index[k]])))
        old_half = _items_of(best[0], self._middle)
        new_half = _items_of(best[1], self._num_items - self._middle)
        return (*old_half, *(self._middle + item for item in new_half))

    def _splits(
        self, cardinality: int
    ) -> list[tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]]:
        """Pairs of (sums, subsets) of the older and newer half whose cardinalities add up."""
        return [
            (self._older[c], self._newer[cardinality - c])
            for c in range(cardinality + 1)
            if c < len(self._older) and cardinality - c < len(self._newer)
        ]


def _sums_by_cardinality(sizes: Sequence[int], most: int) -> list[tuple[IntArray, IntArray]]:
    """Distinct sums of c items in increasing order, each with its subset of oldest items, by c.

    A subset is an integer whose most significant bit is the oldest item, so that the subset with
    the oldest items is the largest integer.
    """
    most = min(most, len(sizes))
    sums = [np.zeros(1 if c == 0 else 0, dtype=np.int64) for c in range(most + 1)]
    subsets = list(sums)
    for item, size in enumerate(sizes):
        bit = 1 << (len(sizes) - 1 - item)
        # Decreasing c, so that no subset uses the item twice.
        for c in range(most, 0, -1):
            sums[c] = np.concatenate([sums[c], sums[c - 1] + size])
            subsets[c] = np.concatenate([subsets[c], subsets[c - 1] | bit])
    return [_distinct(s, m) for s, m in zip(sums, subsets, strict=True)]


def _distinct(sums: IntArray, subsets: IntArray) -> tuple[IntArray, IntArray]:
    # Among equal sums the largest subset comes first and is kept.
    order = np.lexsort((-subsets, sums))
    sums, subsets = sums[order], subsets[order]
    first = np.ones(len(sums), dtype=np.bool_)
    first[1:] = sums[1:] != sums[:-1]
    return sums[first], subsets[first]


def _items_of(subset: int, num_items: int) -> list[int]:
    return [item for item in range(num_items) if subset >> (num_items - 1 - item) & 1]


def _offset_and_unit(sizes: Sequence[int]) -> tuple[int, int]:
    low = min(sizes)
    return low, gcd(*(size - low for size in sizes)) or 1
