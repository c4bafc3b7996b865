"""Exact choice of the subset of waiting requests with the best F-score for one worker.

Ties: highest score, then largest current size ``Σ v_i(0)``, then oldest requests (the set that
contains the oldest request on which two sets differ).

Reachable sums by cardinality have two exact representations behind one interface:

`BitmaskSums`
    One Python integer per cardinality c; bit v is set iff some c-subset sums to v. Adding an item
    is a shift and an OR (BalanceRoute, appendix D.4). Fast for sums below about 10^6.
`MergedSums`
    Meet in the middle: the sums of both halves of the items by cardinality, as sorted arrays.
    For sizes too large for a bitmask.

`reachable_sums` picks the cheaper one, and refuses data that fit neither.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import comb, gcd
from typing import Protocol

import numpy as np

from bfio.step.two_stage.fscore import ScoreWeights, right_end, score, scores
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
        "lower candidates=N or threshold=N",
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


#: Most candidates for enumeration of all subsets.
MAX_ENUMERATED = 16
#: Above any sum of tokens and any index.
_NO_LIMIT = 2**62


def best_subset(
    contribution: IntArray,
    margins: IntArray,
    capacity: int,
    weights: ScoreWeights,
    allowances: IntArray | None = None,
    worth: IntArray | None = None,
) -> tuple[tuple[int, ...], int]:
    """Choose 1 to ``capacity`` candidates of highest F-score.

    Parameters
    ----------
    contribution : IntArray
        Shape (K, H+1), K >= 1 candidates, oldest first [tokens].
    margins : IntArray
        Shape (H+1,), margins of the worker [tokens].
    capacity : int
        Free slots of the worker, >= 1.
    weights : ScoreWeights
        Factors of the score.
    allowances : IntArray, optional
        Shape (at least ``capacity`` + 1, H+1): most tokens that c requests may add at each step.
        Every single candidate must be allowed.
    worth : IntArray, optional
        Shape (K,): amount that each candidate adds to the score of every set that contains it.

    Returns
    -------
    tuple of (tuple of int, int)
        Chosen candidates in increasing order, and their score.

    Raises
    ------
    InputError
        If candidates grow differently, or differ in worth, and there are more than
        `MAX_ENUMERATED`.
    """
    capacity = min(capacity, len(contribution))
    if worth is None and capacity == 1:
        return _best_single(contribution, margins, weights)
    if worth is None and grows_alike(contribution):
        return _best_by_sums(contribution, margins, capacity, weights, allowances)
    return _best_by_enumeration(contribution, margins, capacity, weights, allowances, worth)


def grows_alike(contribution: IntArray) -> bool:
    """Whether ``v_i(h) − v_i(0)`` is the same for all requests i, as with constant loads."""
    if contribution.shape[1] == 1 or len(contribution) <= 1:
        return True
    drift = contribution - contribution[:, :1]
    return bool((drift == drift[0]).all())


def _best_single(
    contribution: IntArray, margins: IntArray, weights: ScoreWeights
) -> tuple[tuple[int, ...], int]:
    values = scores(contribution, margins, weights)
    best = _first_best(values, contribution[:, 0])
    return (best,), int(values[best])


def _best_by_sums(
    contribution: IntArray,
    margins: IntArray,
    capacity: int,
    weights: ScoreWeights,
    allowances: IntArray | None,
) -> tuple[tuple[int, ...], int]:
    """Two probes of the reachable sums per cardinality.

    Notes
    -----
    *Exactness.* With ``v_i(h) = s_i + d(h)`` a set of c requests adds ``Δ + c·d(h)`` at step h,
    so for fixed c the score depends on Δ alone. It is a linear function minus non-negative
    multiples of ``max(0, Δ − const)``, hence concave: it does not decrease up to the right end
    ``D*`` of its maximisers and strictly decreases after it. Therefore no reachable sum below the
    largest one ``<= D*`` scores higher, and none above the smallest one ``> D*`` scores as high.
    The better of these two is the best of cardinality c. If loads are constant (``d = 0``), they
    are the paper's two probes. With slope 0 left of ``D*`` the first probe is also the largest of
    the tied sums, as the tie rule requires. If sums have an upper limit below ``D*``, the limit
    takes the place of ``D*``.
    """
    drift = [int(d) for d in contribution[0] - contribution[0, 0]]
    slack = [int(m) for m in margins]
    sums = reachable_sums(contribution[:, 0].tolist(), capacity)
    found: list[tuple[int, int, int]] = []
    for c in range(1, capacity + 1):
        growth = [c * d for d in drift]
        most = None if allowances is None else _most_sum(allowances[c], growth)
        for total in _probes(sums, c, right_end(slack, growth, weights), most):
            value = score([total + d for d in growth], slack, weights)
            found.append((value, total, c))
    value, total, _ = max(found)
    tied = [c for v, t, c in found if (v, t) == (value, total)]
    return _oldest([sums.members(c, total) for c in tied]), value


def _most_sum(allowance: IntArray, growth: Sequence[int]) -> int:
    """Return the largest total current size that stays within the allowance of every step."""
    return min(int(most) - d for most, d in zip(allowance, growth, strict=True))


def _probes(
    sums: ReachableSums, cardinality: int, peak: int | None, most: int | None
) -> list[int]:
    """Return the reachable sums next to ``peak`` on both sides, up to ``most``.

    If there is no peak, return the largest sum.
    """
    if peak is None:
        peak = _NO_LIMIT
    if most is None:
        most = _NO_LIMIT
    around = (sums.at_most(cardinality, min(peak, most)), sums.above(cardinality, peak))
    return [total for total in around if total is not None and total <= most]


def _oldest(sets: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the set with the oldest requests (see the tie rule of this module)."""
    # The sentinel after the last member places a set before its own proper prefixes.
    return min(sets, key=lambda members: (*members, _NO_LIMIT))


def _best_by_enumeration(
    contribution: IntArray,
    margins: IntArray,
    capacity: int,
    weights: ScoreWeights,
    allowances: IntArray | None,
    worth: IntArray | None,
) -> tuple[tuple[int, ...], int]:
    if len(contribution) > MAX_ENUMERATED:
        in_what = "grow differently" if worth is None else "differ in benefit"
        alike = ", or a projection with the same growth for all requests" if worth is None else ""
        raise InputError(
            "candidates",
            f"{len(contribution)} requests that {in_what} have too many subsets",
            f"use candidates={MAX_ENUMERATED} or less{alike}",
        )
    members = _subsets(len(contribution), capacity)
    trajectories = members.astype(contribution.dtype) @ contribution
    if allowances is not None:
        allowed = (trajectories <= allowances[members.sum(axis=1)]).all(axis=1).astype(np.bool_)
        members, trajectories = members[allowed], trajectories[allowed]
    values = scores(trajectories, margins, weights)
    if worth is not None:
        values = values + members.astype(worth.dtype) @ worth
    best = _first_best(values, trajectories[:, 0])
    return tuple(np.flatnonzero(members[best]).tolist()), int(values[best])


def _first_best(values: IntArray, sizes: IntArray) -> int:
    """First index of the highest value and, among ties, of the largest size."""
    tied = np.flatnonzero(values == values.max())
    return int(tied[np.argmax(sizes[tied])])


@lru_cache(maxsize=64)
def _subsets(num_items: int, most: int) -> IntArray:
    """Incidence rows of all subsets of 1 to ``most`` items, ordered by oldest items first."""
    masks = np.arange(2**num_items - 1, 0, -1, dtype=np.int64)
    rows = masks[:, None] >> np.arange(num_items - 1, -1, -1) & 1
    kept: IntArray = rows[rows.sum(axis=1) <= most]
    kept.flags.writeable = False
    return kept
