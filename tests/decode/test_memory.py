"""Limited memory and unequal workers, by hand: starts, evictions, and step durations."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift, DriftReading
from bfio.decode.features.memory import peaks
from bfio.decode.metrics import measure
from bfio.decode.options import Overflow
from bfio.decode.replay import run_violations
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.decode.stints import Cause
from formulations.errors import InputError
from tests.decode.cases import first_come, workload

#: Two slots and ten tokens; a step lasts 1 s and half a second per token.
SMALL = Cluster(workers=1, slots=2, step_overhead_s=1.0, token_time_s=0.5, memory=10)
#: Together they hold 8, then 10, and would then hold 12 tokens.
PAIR = workload([4, 4], [4, 4])


def run_of(requests: Any = PAIR, cluster: Cluster = SMALL, **options: Any) -> Run:
    """Run first come, first served, and let the replay check it."""
    run = simulate(requests, first_come, cluster, **options)
    assert run_violations(run, requests, cluster) == {}
    return run


def test_the_youngest_is_computed_anew() -> None:
    """It leaves before step 2 with 4 + 2 tokens, which fit again at step 4."""
    run = run_of()
    assert run.max_load.tolist() == [8, 10, 6, 7, 6, 7]
    assert run.interruptions.tolist() == [[1, 0, 0, 2, Cause.RECOMPUTATION]]
    assert run.start_step.tolist() == [0, 0]
    assert run.last_start_step.tolist() == [0, 4]
    assert run.finish_step.tolist() == [3, 5]
    assert run.waiting.tolist() == [0, 0, 1, 1, 0, 0]
    metrics = measure(run)
    assert (metrics["interruptions"], metrics["recomputed_tokens"]) == (1, 6)
    # 4 tokens each: 5 + 6 + 4 + 4.5 s, and for the other 4 + 4.5 s more.
    assert metrics["tpot_mean_s"] == (19.5 / 4 + 28 / 4) / 2


@pytest.mark.parametrize(("seconds", "idle"), [(1.0, 0.0), (2.0, 3.5)])
def test_who_is_swapped_out_is_away_for_its_tokens(seconds: float, idle: float) -> None:
    """Six tokens leave at 11 s; the worker has room from 19.5 s on, when the other has ended."""
    run = run_of(overflow="swap", swap_time_s=seconds)
    assert run.interruptions.tolist() == [[1, 0, 0, 2, Cause.SWAP]]
    assert run.max_load.tolist() == [8, 10, 6, 7, 6, 7]
    assert run.idle_before_s.tolist() == [0, 0, 0, 0, idle, 0]
    assert run.waiting.tolist() == [0] * 6
    assert measure(run)["swapped_tokens"] == 6


@pytest.mark.parametrize(("seconds", "idle"), [(0.0, 0.0), (0.47, 0.0), (1.0, 4.0)])
def test_who_was_swapped_out_first_returns_first(seconds: float, idle: float) -> None:
    """Requests 2 (8 tokens) and 1 (9 tokens) leave at step 1, in this order; 12 tokens hold one.

    Step 1 lasts 4 s. After 0.47 s a token, request 2 alone is back then.
    """
    requests = workload([1, 4, 3], [2, 2, 2])
    cluster = replace(SMALL, slots=3, memory=12)
    every_step = Drift((5,), DriftReading.GLOBAL_STEP)
    run = run_of(requests, cluster, overflow="swap", swap_time_s=seconds, drift=every_step)
    assert run.interruptions[:, 0].tolist() == [2, 1]
    assert run.last_start_step.tolist() == [0, 3, 2]
    assert run.idle_before_s.tolist() == [0, 0, idle, 0]


def test_a_worker_with_requests_on_the_host_takes_no_other() -> None:
    """The third, of one token, would fit beside the first at step 2; it starts at step 4."""
    requests = workload([4, 4, 1], [4, 4, 1])
    for overflow, step in (("recompute", 2), ("swap", 4)):
        run = simulate(requests, "min-min", SMALL, pool=2, overflow=overflow)
        assert run.start_step.tolist() == [0, 0, step]
        assert run_violations(run, requests, SMALL) == {}


def test_peaks_are_reserved() -> None:
    """Each comes to seven tokens: one at a time, and nobody is interrupted."""
    run = run_of(overflow="reserve")
    assert run.start_step.tolist() == [0, 4]
    assert len(run.interruptions) == 0


def test_with_immediate_dispatch_it_stands_before_its_queue() -> None:
    """The second comes back at step 4, before the third, which was bound long before."""
    run = run_of(workload([4, 4, 6], [4, 4, 1]), dispatch="immediate")
    assert run.last_start_step.tolist() == [0, 4, 6]


def test_who_fits_not_even_alone_waits_for_another_worker() -> None:
    """Worker 0 holds 5 tokens: request 0 leaves it with 6, though nothing else runs there."""
    cluster = replace(SMALL, workers=2, slots=1, memory=(5, 10))
    run = simulate(workload([4], [4]), "fcfs", cluster)
    assert run.interruptions.tolist() == [[0, 0, 0, 2, Cause.RECOMPUTATION]]
    assert run.worker.tolist() == [1]
    assert run.max_load.tolist() == [4, 5, 6, 7]


def test_a_request_larger_than_every_worker_is_refused() -> None:
    """One line: which one, how much, and how many more."""
    with pytest.raises(InputError, match=r"^request 1: needs up to 12 tokens .* has 10 \(1 such"):
        simulate(workload([4, 9], [4, 4]), "fcfs", SMALL)


def test_a_step_lasts_as_long_as_its_slowest_worker() -> None:
    """Worker 1 is twice as fast: 1 + 0.5·4 s against half of 1 + 0.5·6 s."""
    cluster = Cluster(workers=2, slots=1, step_overhead_s=1.0, token_time_s=0.5, speed=(1, 2))
    run = run_of(workload([4, 6], [1, 1]), cluster)
    assert run.duration_s.tolist() == [3.0]
    assert run.balanced_s is not None
    assert run.balanced_s.tolist() == [2.5]
    assert measure(run)["barrier_loss"] == pytest.approx(1 / 6)
    assert measure(run)["load_balance_efficiency"] == pytest.approx(5 / 6)


def test_slots_may_differ() -> None:
    """One on worker 0, three on worker 1."""
    cluster = Cluster(workers=2, slots=(1, 3), step_overhead_s=1.0, token_time_s=0.5)
    run = run_of(workload([1] * 5, [2] * 5), cluster)
    assert run.running is not None
    assert run.running.tolist() == [[1, 3], [1, 3], [0, 1], [0, 1]]


def entry(column: int, value: int) -> Callable[[Run], Run]:
    """Return what changes an entry of the only interruption."""

    def tamper(run: Run) -> Run:
        interruptions = run.interruptions.copy()
        interruptions[0, column] = value
        return replace(run, interruptions=interruptions)

    return tamper


@pytest.mark.parametrize(
    ("rule", "tamper"),
    [
        ("overflow", entry(0, 0)),
        ("shape", entry(1, 5)),
        ("shape", entry(4, 9)),
        ("output-length", entry(3, 1)),
        ("stints", entry(4, Cause.CANCELLATION)),
        ("stints", lambda run: replace(run, start_step=np.array([0, 4]))),
        ("output-length", lambda run: replace(run, emitted_tokens=np.array([4, 3]))),
        ("loads", lambda run: replace(run, interruptions=run.interruptions[:0])),
    ],
)
def test_tampering_with_interruptions_is_caught(rule: str, tamper: Callable[[Run], Run]) -> None:
    """A right run has no violation; the tampered one breaks the named rule."""
    assert rule in run_violations(tamper(run_of()), PAIR, SMALL)


def test_memory_that_was_exceeded_is_caught() -> None:
    """The same runs on a machine of nine tokens, and of thirteen where peaks are reserved."""
    assert run_violations(run_of(), PAIR, replace(SMALL, memory=9))["memory"] == 1
    free = run_of(cluster=replace(SMALL, memory=None))
    reserving = replace(free, options=replace(free.options, overflow=Overflow.RESERVE))
    assert "memory" in run_violations(reserving, PAIR, replace(SMALL, memory=13))
    # Nobody had to leave a machine of twelve tokens.
    assert "overflow" in run_violations(run_of(), PAIR, replace(SMALL, memory=12))


def test_who_leaves_may_grow_more_than_who_stays() -> None:
    """Increments 5, 0, 5, 0: four steps in a row gain at most 15 tokens, four apart up to 20."""
    drift, requests = Drift((5, 0), DriftReading.GLOBAL_STEP), workload([1], [5])
    assert peaks(requests, drift, leaves=False).tolist() == [16]
    assert peaks(requests, drift, leaves=True).tolist() == [21]
    small = Cluster(1, 1, step_overhead_s=1.0, token_time_s=0.5, memory=20)
    with pytest.raises(
        InputError, match="needs up to 21 tokens of memory, but the largest worker has 20"
    ):
        simulate(requests, "fcfs", small, drift=drift)
    assert simulate(requests, "fcfs", small, drift=drift, overflow="reserve").completed == 1
