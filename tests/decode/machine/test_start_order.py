"""The order of starts on each worker, against a freshly sorted list."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.machine.moves import new_start_order, put_in_order, take_from_order


@given(
    moves=st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(0, 3), st.booleans()),
        max_size=40,
    )
)
def test_it_is_a_sorted_list(moves: list[tuple[int, int, int, bool]]) -> None:
    """Whoever comes, leaves, or comes back with the start it had, the youngest stands first."""
    order, start = new_start_order(3, 8, is_on=True), np.full(8, -1)
    runs: dict[int, int] = {}
    for request, worker, passed, keeps in moves:
        if request in runs:
            take_from_order(order, request, runs.pop(request))
        else:
            if not keeps or start[request] < 0:
                start[request] = start.max() + passed if start.max() >= 0 else passed
            put_in_order(order, start, request, worker)
            runs[request] = worker
        for g in range(3):
            found, who = [], int(order.youngest[g])
            while who >= 0:
                found.append(who)
                who = int(order.older[who])
            mine = [r for r, on in runs.items() if on == g]
            assert found == sorted(mine, key=lambda r: (-start[r], -r))


def test_nothing_is_kept_where_memory_does_not_overflow() -> None:
    """Long runs of many requests would feel the arrays."""
    order = new_start_order(3, 10**6, is_on=False)
    assert len(order.older) == len(order.younger) == 0
