"""Plans: the kernel equals the plain statement, and both have the stated properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.rolling import LOAD_SHARE, TURNOVER, planned, planned_beyond_64_bits
from formulations.arrays import IntArray
from tests.decode.rolling.statement import (
    Objective,
    Slot,
    open_slots,
    sampled,
    stated,
    step_weights,
)

MOVES = 60


@st.composite
def decisions(draw: st.DrawFn) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Draw free slots, loads, running requests and contributions over windows of 1 to 12 steps."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    G, N, columns = draw(st.integers(1, 5)), draw(st.integers(1, 9)), draw(st.integers(1, 12))
    largest = draw(st.sampled_from([3, 40, 5_000_000]))
    free = rng.integers(0, 4, G)
    free[rng.integers(G)] += 1
    ends = rng.poisson(draw(st.sampled_from([0.0, 0.2, 1.5])), (G, columns - 1))
    left = ends.sum(axis=1) + rng.integers(0, 3, G)
    running = np.cumsum(np.column_stack((left, -ends)), axis=1)
    base = running * rng.integers(0, 3 * largest, (G, 1)) + np.arange(columns) * running
    sizes = rng.integers(1, largest + 1, N)
    growth = draw(st.sampled_from([0, 1])) * np.arange(columns)
    return free, base, running, sizes[:, None] + growth


@given(decisions())
def test_kernel_decides_as_the_statement(
    decision: tuple[IntArray, IntArray, IntArray, IntArray],
) -> None:
    """On drawn states, request by request."""
    assert planned(*decision, MOVES) == stated(*decision, MOVES)


@given(decisions(), st.sampled_from([1, 10**10]))
def test_integers_of_any_size_decide_as_the_statement(
    decision: tuple[IntArray, IntArray, IntArray, IntArray], scale: int
) -> None:
    """The kernel's functions in Python, also with sums that leave 64 bits."""
    free, base, running, contribution = decision
    large = free, base * scale, running, contribution * scale
    assert planned_beyond_64_bits(*large, MOVES) == stated(*large, MOVES)


@given(decisions())
def test_as_many_start_as_can(decision: tuple[IntArray, IntArray, IntArray, IntArray]) -> None:
    """All free slots are filled or all requests start, no worker beyond its slots."""
    free, _, _, contribution = decision
    workers = [worker for worker in planned(*decision, MOVES) if worker is not None]
    assert len(workers) == min(len(contribution), free.sum())
    assert (np.bincount(workers, minlength=len(free)) <= free).all()


def test_weights_fall_until_workers_have_turned_over() -> None:
    """Two workers with 2·K to give: 1, 3, then all of them free slots; without any, step 0."""
    most = 2 * TURNOVER
    running = np.array([[9, 8, 7, 2, 2], [9, 9, 8, 3, 3]])
    assert step_weights(running) == [most, most - 1, most - 3]
    assert step_weights(np.full((2, 5), 9)) == [most]
    assert step_weights(np.array([[9, 9], [9, 9 - most]])) == [most]


def test_every_step_counts_with_the_nearest_that_is_sampled() -> None:
    """Up to 13 the steps 0..6, 8, 10, 13: 7 counts with 6, 9 with 8, 11 with 10, 12 with 13."""
    weights = [1 << h for h in range(14)]
    found = sampled(weights)
    assert list(found) == [0, 1, 2, 3, 4, 5, 6, 8, 10, 13]
    assert found[6] == (1 << 6) + (1 << 7)
    assert found[13] == (1 << 12) + (1 << 13)
    assert sum(found.values()) == sum(weights)


def test_slots_come_as_they_become_free() -> None:
    """Now by most free slots, then step by step; of those now, only as many as wait."""
    free, running = np.array([1, 2]), np.array([[4, 4, 3], [4, 3, 2]])
    slots = list(open_slots(free, running, 2, 9))
    assert slots == [Slot(1, 0), Slot(0, 0), Slot(1, 0), Slot(1, 1), Slot(0, 2), Slot(1, 2)]
    assert list(open_slots(free, running, 0, 2)) == slots[:2]


def test_objective_by_hand() -> None:
    """Worker 0 takes 5 now, worker 1 takes 7 at step 1 and a mean request (4) at step 2.

    Loads at steps 0, 2: 10 + 5 = 15 and 9; 12 + 5 + 2 = 19 and 3 + (7 + 1) + (4 + 0) = 15.
    """
    objective = Objective(
        base=[[10, 11, 12], [9, 6, 3]],
        growth=[0, 1, 2],
        weights={0: 3, 2: 1},
        slots=[Slot(0, 0), Slot(1, 1), Slot(1, 2)],
        mean_size=4,
    )
    by_hand = 3 * (2 * LOAD_SHARE * 15 - (15 + 9)) + (2 * LOAD_SHARE * 19 - (19 + 15))
    loads = objective.loads([5, 7])
    assert loads == [[15, 9], [19, 15]]
    assert objective.cost(loads) == by_hand


def test_a_large_request_waits_for_the_slot_of_a_large_one() -> None:
    """Worker 1 loses 100 tokens at the next step: the request of 100 is kept for it.

    Now worker 0 has a slot and is level with worker 1. A choice for this step alone would have to
    take either; the plan takes the small one, and has the large one follow the one that ends.
    """
    base = np.array([[100, 100], [110, 10]])
    running = np.array([[3, 3], [4, 3]])
    sizes = np.array([[100, 100], [10, 10]])
    assert planned(np.array([1, 0]), base, running, sizes, 500) == [None, 0]
    # Where nobody knows that it ends, a slot is a slot.
    assert step_weights(np.array([[3, 3], [4, 4]])) == [2 * TURNOVER]


@pytest.mark.parametrize("scale", [1, 10**12])
def test_numbers_beyond_64_bits_go_to_the_statement(scale: int) -> None:
    """Sums that leave 64 bits are decided all the same, and alike up to the scale."""
    base = np.array([[40, 30], [25, 25]]) * scale
    running = np.array([[2, 1], [3, 3]])
    sizes = np.array([[18, 18], [9, 9], [30, 30]]) * scale
    assert planned(np.array([1, 1]), base, running, sizes, 40) == [None, 0, 1]
