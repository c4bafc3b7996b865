"""The steady part of a run: slots full, requests waiting, and the pool still refilled."""

import numpy as np
import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.metrics import measure_steady
from bfio.decode.simulation import simulate
from bfio.workloads.workload import Workload

FIVE = Workload(np.full(5, 5), np.ones(5, dtype=np.int64))
FIFTY = Workload(np.full(50, 5), np.ones(50, dtype=np.int64))


@pytest.mark.parametrize(("pool", "steady"), [(2, [0, 1, 2, 3]), (3, [0, 1, 2]), (4, [0, 1])])
def test_it_ends_with_the_last_reveal(pool: int, steady: list[int]) -> None:
    """One worker, one slot, five requests of one step each, served at steps 0 to 4.

    A pool of R shows requests 0 to R - 1 at step 0, then one a step: the last at step 5 - R.
    Requests wait after admission until step 3.
    """
    run = simulate(FIVE, "fcfs", Cluster(1, 1), pool=pool)
    mask = run.steady_mask()
    assert np.flatnonzero(run.waiting).tolist() == [0, 1, 2, 3]
    assert mask is not None
    assert np.flatnonzero(mask).tolist() == steady
    measured = measure_steady(run)
    assert measured is not None
    assert measured["steps"] == len(steady)


def test_nothing_is_steady_if_nothing_refills_the_pool() -> None:
    """All five are there from the beginning."""
    run = simulate(FIVE, "fcfs", Cluster(1, 1), pool=5)
    assert run.waiting[0] == 4
    assert run.steady_mask() is None
    assert measure_steady(run) is None


def test_a_run_that_is_cut_before_the_last_reveal_is_steady_to_its_end() -> None:
    """With a step limit the pool never runs dry."""
    steady = simulate(FIFTY, "fcfs", Cluster(1, 1), pool=4, steps=9).steady_mask()
    assert steady is not None
    assert steady.tolist() == [True] * 9


def test_a_warm_up_is_left_out() -> None:
    """Of steps 0..8, all steady, those from 3 on; none are left beyond the end."""
    run = simulate(FIFTY, "fcfs", Cluster(1, 1), pool=4, steps=9)
    late = run.steady_mask(warm_up=3)
    assert late is not None
    assert np.flatnonzero(late).tolist() == [3, 4, 5, 6, 7, 8]
    measured = measure_steady(run, warm_up=3)
    assert measured is not None
    assert measured["steps"] == 6
    assert run.steady_mask(warm_up=9) is None


def test_none_with_slots_to_spare() -> None:
    """Nothing ever waits."""
    run = simulate(FIVE, "fcfs", Cluster(2, 4), pool=2)
    assert run.steady_mask() is None


def test_slots_held_for_later_decisions_are_full() -> None:
    """One worker, three slots, requests of two steps, a pool of two, decisions a step later.

    Requests 0 and 1 run at steps 0 and 1. At step 1 the third slot is held for request 2 while
    request 3 waits: full, though three never run. Later at most the one waits who has a slot.
    """
    ten = Workload(np.full(10, 5), np.full(10, 2))
    run = simulate(ten, "fcfs", Cluster(1, 3), pool=2, delay=1)
    assert run.active.tolist() == [2, 2, 1, 2, 2, 2, 2, 2, 2, 2, 1]
    assert run.waiting.tolist() == [0, 2, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    mask = run.steady_mask()
    assert mask is not None
    assert np.flatnonzero(mask).tolist() == [1]
