"""The saturated part of a run: steady, and the pool still refilled."""

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.metrics import measure_steady
from bfio.decode.saturated import measure_saturated, saturated_mask
from bfio.decode.simulation import simulate
from bfio.workloads.workload import Workload


def test_it_ends_with_the_last_reveal() -> None:
    """One worker, one slot, five requests of one step each, two shown at a time.

    Steps 0..4 serve one request each; the pool of 2 takes in requests 0 and 1 at step 0, then one
    a step: the last, number 4, at step 3. Requests wait after admission until step 3. Steady:
    0..3, all of them saturated, since the last is revealed at step 3.
    """
    run = simulate(Workload([5] * 5, [1] * 5), "fcfs", Cluster(1, 1), pool=2)  # type: ignore[arg-type]
    steady, saturated = run.steady_mask(), saturated_mask(run)
    assert steady is not None
    assert saturated is not None
    assert steady.tolist() == [True, True, True, True, False]
    assert saturated.tolist() == [True, True, True, True, False]


def test_leftovers_do_not_count() -> None:
    """The same with a pool of 4: shown at steps 0 (four) and 1 (the last); then nothing comes."""
    run = simulate(Workload([5] * 5, [1] * 5), "fcfs", Cluster(1, 1), pool=4)  # type: ignore[arg-type]
    saturated = saturated_mask(run)
    assert saturated is not None
    assert np.flatnonzero(saturated).tolist() == [0, 1]
    measured, steady = measure_saturated(run), measure_steady(run)
    assert measured is not None
    assert steady is not None
    assert (measured["steps"], steady["steps"]) == (2, 4)


def test_a_run_cut_off_before_the_last_reveal_is_saturated_as_long_as_it_is_steady() -> None:
    """With a step limit the pool never runs dry."""
    run = simulate(Workload([5] * 50, [1] * 50), "fcfs", Cluster(1, 1), pool=4, steps=9)  # type: ignore[arg-type]
    steady, saturated = run.steady_mask(), saturated_mask(run)
    assert steady is not None
    assert saturated is not None
    assert saturated.tolist() == steady.tolist() == [True] * 9


def test_the_warm_up_is_left_out() -> None:
    """Of steps 0..8, all saturated, those from 3 on; none are left beyond the end."""
    run = simulate(Workload([5] * 50, [1] * 50), "fcfs", Cluster(1, 1), pool=4, steps=9)  # type: ignore[arg-type]
    late = saturated_mask(run, warm_up=3)
    assert late is not None
    assert np.flatnonzero(late).tolist() == [3, 4, 5, 6, 7, 8]
    measured = measure_saturated(run, warm_up=3)
    assert measured is not None
    assert measured["steps"] == 6
    assert saturated_mask(run, warm_up=9) is None


def test_none_without_a_steady_part() -> None:
    """Slots to spare: nothing ever waits."""
    run = simulate(Workload([5, 6], [3, 3]), "fcfs", Cluster(2, 4))  # type: ignore[arg-type]
    assert saturated_mask(run) is None
    assert measure_saturated(run) is None
