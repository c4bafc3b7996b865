"""Compiled reachable sums against the Python integers of the reference implementation."""

from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from bfio.common.kernels import linked
from bfio.step.two_stage.subset_choice import BitmaskSums
from bfio.step.two_stage.subset_kernel import (
    largest_at_most,
    oldest_members,
    reachable_masks,
    smallest_above,
)
from formulations.arrays import IntArray

#: Sizes around the word length, where shifts carry.
SIZES = st.integers(0, 3) | st.integers(62, 66) | st.integers(0, 300)


def _probes(sizes: IntArray, cardinality: int, words: int, bit: int) -> tuple[int, int, IntArray]:
    """Both sums around a bit, and the members of the first."""
    masks = reachable_masks(sizes, cardinality, words)
    below = largest_at_most(masks[0, cardinality], bit)
    above = smallest_above(masks[0, cardinality], bit)
    members = np.zeros(cardinality, np.int64)
    if below >= 0:
        oldest_members(masks, sizes, cardinality, below, members)
    return below, above, members


# Never cached, so that it cannot outlive the kernels it was compiled with.
probes: Callable[[IntArray, int, int, int], tuple[int, int, IntArray]] = njit(linked(_probes))


@given(st.lists(SIZES, min_size=1, max_size=9), st.data())
def test_probes_and_members(sizes: list[int], data: st.DataObject) -> None:
    """Largest sum at or below, smallest above, and the oldest subset behind a sum."""
    cardinality = data.draw(st.integers(1, len(sizes)))
    words = sum(sizes) // 64 + 1
    bit = data.draw(st.integers(0, 64 * words - 1))
    sums = BitmaskSums(sizes, cardinality)
    below, above, members = probes(np.array(sizes, dtype=np.int64), cardinality, words, bit)
    found, higher = sums.at_most(cardinality, bit), sums.above(cardinality, bit)
    assert below == (-1 if found is None else found)
    assert above == (-1 if higher is None else higher)
    if found is not None:
        assert tuple(members) == sums.members(cardinality, found)


@given(st.lists(SIZES, min_size=1, max_size=9), st.data())
def test_masks_cut_short_lose_only_what_lies_beyond(sizes: list[int], data: st.DataObject) -> None:
    """Sums within the words kept are the same as with all of them."""
    cardinality = data.draw(st.integers(1, len(sizes)))
    words = data.draw(st.integers(1, sum(sizes) // 64 + 1))
    below, above, _ = probes(np.array(sizes, dtype=np.int64), cardinality, words, 64 * words - 1)
    found = BitmaskSums(sizes, cardinality).at_most(cardinality, 64 * words - 1)
    assert below == (-1 if found is None else found)
    assert above == -1


def test_hand_checked_pair() -> None:
    """Of 60, 5, 70, 65: pairs 65, 130, 125, 75, 70, 135. Up to 129: 125 = 60 + 65; above: 130."""
    below, above, members = probes(np.array([60, 5, 70, 65]), 2, 3, 129)
    assert (below, above, members.tolist()) == (125, 130, [0, 3])
