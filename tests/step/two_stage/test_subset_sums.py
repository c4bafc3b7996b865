"""Reachable sums by cardinality against all subsets; the order of requests by size."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.machine.two_stage import new_order, put_in_order
from bfio.step.two_stage.subset_choice import (
    MAX_SUMS,
    BitmaskSums,
    MergedSums,
    bitmask_bits,
    merged_sums,
    reachable_sums,
)
from formulations.arrays import IntArray
from formulations.errors import InputError

SIZES = st.lists(
    st.integers(0, 3) | st.integers(0, 40) | st.sampled_from([1000, 1010, 1020]),
    min_size=1,
    max_size=9,
)
REPRESENTATIONS = pytest.mark.parametrize("representation", [BitmaskSums, MergedSums])
Representation = type[BitmaskSums] | type[MergedSums]


def subsets_by_sum(sizes: list[int], cardinality: int) -> dict[int, tuple[int, ...]]:
    """Sum -> the subset of oldest items; combinations come oldest first."""
    found: dict[int, tuple[int, ...]] = {}
    for members in combinations(range(len(sizes)), cardinality):
        found.setdefault(sum(sizes[i] for i in members), members)
    return found


@REPRESENTATIONS
@given(sizes=SIZES, data=st.data())
def test_against_all_subsets(
    representation: Representation, sizes: list[int], data: st.DataObject
) -> None:
    """Both probes and the chosen members, for every cardinality."""
    most = data.draw(st.integers(1, len(sizes)))
    sums = representation(sizes, most)
    for c in range(1, most + 1):
        reachable = subsets_by_sum(sizes, c)
        limit = data.draw(st.integers(-5, sum(sizes) + 5) | st.sampled_from(sorted(reachable)))
        below, above = (
            [s for s in reachable if s <= limit],
            [s for s in reachable if s > limit],
        )
        assert sums.at_most(c, limit) == (max(below) if below else None)
        assert sums.above(c, limit) == (min(above) if above else None)
        for total, members in reachable.items():
            assert sums.members(c, total) == members


@REPRESENTATIONS
def test_unbounded_limit(representation: Representation) -> None:
    """A limit far above all sums builds nothing large and gives the largest sum."""
    sums = representation([5, 7, 11], 2)
    assert sums.at_most(2, 2**60) == 18
    assert sums.above(2, 2**60) is None


@REPRESENTATIONS
def test_equal_huge_sizes(representation: Representation) -> None:
    """Twelve requests of 10^12 tokens: the offset leaves masks of one bit per cardinality."""
    sums = representation([10**12] * 12, 5)
    assert sums.at_most(5, 6 * 10**12) == 5 * 10**12
    assert sums.members(5, 5 * 10**12) == (0, 1, 2, 3, 4)


@given(st.lists(st.integers(0, 5_000_000), min_size=6, max_size=12), st.integers(0, 20_000_000))
def test_representations_agree_on_huge_sizes(sizes: list[int], limit: int) -> None:
    """Sizes in the millions, up to four at a time."""
    masks, merged = (
        BitmaskSums([s // 100 for s in sizes], 4),
        MergedSums([s // 100 for s in sizes], 4),
    )
    for c in range(1, 5):
        for probe in ("at_most", "above"):
            total = getattr(masks, probe)(c, limit // 100)
            assert total == getattr(merged, probe)(c, limit // 100)
            if total is not None:
                assert masks.members(c, total) == merged.members(c, total)


def test_the_cheaper_representation_is_chosen() -> None:
    """Small sums go to masks; sizes in the millions to merging."""
    assert isinstance(reachable_sums([900, 17, 1200] * 20, 3), BitmaskSums)
    huge = [10**9 + 7**i for i in range(12)]
    assert isinstance(reachable_sums(huge, 3), MergedSums)


def test_what_neither_can_hold_is_refused() -> None:
    """Seventy requests of up to 10^12 tokens, thirty at a time: an error, never a guess."""
    sizes = [10**12 - 7**i for i in range(14)] * 5
    assert bitmask_bits(sizes, 30) > 10**9
    assert merged_sums(70, 30) > MAX_SUMS
    with pytest.raises(InputError, match="lower candidates=N or threshold=N"):
        reachable_sums(sizes, 30)


def test_more_items_than_a_half_holds_are_counted_out() -> None:
    """A half of more than 62 items does not fit the bits of an int64."""
    assert merged_sums(124, 1) == 2 * 63
    assert merged_sums(125, 1) > MAX_SUMS


NUM = 12
#: Who waits at a decision, and sizes few enough to be equal now and then.
DECISIONS = st.lists(st.sets(st.integers(0, NUM - 1)), min_size=1, max_size=6)
SORTED_SIZES = st.lists(st.integers(0, 3), min_size=NUM, max_size=NUM)


def _sorted(waiting: IntArray, sizes: IntArray) -> list[int]:
    return sorted(range(len(waiting)), key=lambda i: (-int(sizes[i]), i))


@given(DECISIONS, SORTED_SIZES)
def test_whoever_waits_is_in_order(decisions: list[set[int]], sizes: list[int]) -> None:
    """Largest first, ties oldest first, whoever has come, gone or come back."""
    order, prompt = new_order(NUM, NUM), np.array(sizes)
    for who in decisions:
        waiting = np.array(sorted(who), dtype=np.int64)
        by_size = np.empty(len(waiting), dtype=np.int64)
        put_in_order(order, waiting, prompt[waiting], by_size)
        assert by_size.tolist() == _sorted(waiting, prompt[waiting])
        assert order.requests[: order.num[0]].tolist() == waiting[by_size].tolist()
        assert (order.position == -1).all()


@given(st.lists(SORTED_SIZES, min_size=2, max_size=4))
def test_sizes_that_change_change_the_order(rounds: list[list[int]]) -> None:
    """An order of other sizes is mended, not believed."""
    order, waiting = new_order(NUM, NUM), np.arange(NUM)
    for sizes in rounds:
        by_size = np.empty(NUM, dtype=np.int64)
        put_in_order(order, waiting, np.array(sizes), by_size)
        assert by_size.tolist() == _sorted(waiting, np.array(sizes))
