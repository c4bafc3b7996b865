"""The order of waiting requests by size, maintained between decisions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.machine.two_stage import new_order, put_in_order
from formulations.arrays import IntArray

NUM = 12
#: Who waits at a decision, and sizes few enough to be equal now and then.
DECISIONS = st.lists(st.sets(st.integers(0, NUM - 1)), min_size=1, max_size=6)
SIZES = st.lists(st.integers(0, 3), min_size=NUM, max_size=NUM)


def _sorted(waiting: IntArray, sizes: IntArray) -> list[int]:
    return sorted(range(len(waiting)), key=lambda i: (-int(sizes[i]), i))


@given(DECISIONS, SIZES)
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


@given(st.lists(SIZES, min_size=2, max_size=4))
def test_sizes_that_change_change_the_order(rounds: list[list[int]]) -> None:
    """An order of other sizes is mended, not believed."""
    order, waiting = new_order(NUM, NUM), np.arange(NUM)
    for sizes in rounds:
        by_size = np.empty(NUM, dtype=np.int64)
        put_in_order(order, waiting, np.array(sizes), by_size)
        assert by_size.tolist() == _sorted(waiting, np.array(sizes))
