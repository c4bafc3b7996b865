"""The independent checker catches every kind of tampering."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.drift import LLM, Drift, DriftReading
from bfio.decode.features.feature import profile
from bfio.decode.replay import Replay, run_violations, total_work
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.testing.runs import Scenario, drifts, scenarios
from tests.decode.cases import EXACT, first_come, workload

LOAD = workload([3, 1, 4, 2], [2, 3, 1, 5], ["0", "0", "1", "30"])


def changed(array: np.ndarray[Any, Any], index: Any, by: float) -> np.ndarray[Any, Any]:
    """Return a copy with one entry moved."""
    copy = array.copy()
    copy[index] += by
    return copy


def shifted(field: str, index: Any, by: float) -> Callable[[Run], Run]:
    """Return a tampering that moves one entry of a field."""

    def tamper(run: Run) -> Run:
        fields: dict[str, Any] = {field: changed(getattr(run, field), index, by)}
        return replace(run, **fields)

    return tamper


def with_options(**options: Any) -> Callable[[Run], Run]:
    """Return a tampering that claims other options."""
    return lambda run: replace(run, options=replace(run.options, **options))


TAMPERINGS: list[tuple[str, Callable[[Run], Run]]] = [
    ("loads", shifted("loads", (0, 0), 1)),
    ("loads", shifted("max_load", 1, 1)),
    ("loads", shifted("min_load", 1, 1)),
    ("loads", shifted("total_load", 1, 1)),
    ("loads", shifted("worker", 0, 1)),
    ("work", shifted("total_load", 1, 1)),
    ("active", shifted("running", (0, 1), -1)),
    ("active", shifted("active", 0, 1)),
    ("tokens", shifted("active", 0, 1)),
    ("waiting", shifted("waiting", 0, 1)),
    ("waiting", shifted("admitted", 0, 1)),
    ("output-length", shifted("finish_step", 1, -1)),
    ("output-length", lambda run: replace(run, finish_step=np.full(4, -1))),
    ("start-before-reveal", shifted("reveal_step", 0, 1)),
    ("start-before-reveal", shifted("reveal_step", 0, -1)),
    ("reveal-order", shifted("reveal_step", 0, 1)),
    ("reveal-target", with_options(pool=1)),
    ("reveal-target", with_options(pool=5)),
    ("reveal-time", shifted("reveal_s", 2, 0.5)),
    ("capacity", shifted("worker", 0, 1)),
    ("loads", with_options(drift=Drift((0,)))),
    ("duration", shifted("duration_s", 2, 1e-6)),
    ("duration", shifted("start_s", 2, 1e-6)),
    ("duration", shifted("idle_before_s", 0, 1.0)),
    ("shape", lambda run: replace(run, worker=run.worker[:-1])),
    ("shape", lambda run: replace(run, max_load=run.max_load[:-1])),
    ("shape", lambda run: replace(run, loads=run.total_load)),
    ("shape", shifted("worker", 0, 2)),
    ("shape", shifted("start_step", 0, 99)),
]


@pytest.mark.parametrize(("rule", "tamper"), TAMPERINGS)
def test_tampering_is_caught(rule: str, tamper: Callable[[Run], Run]) -> None:
    """A right run has no violation; the tampered one breaks the named rule."""
    run = simulate(LOAD, first_come, EXACT, pool=3)
    assert run_violations(run, LOAD, EXACT) == {}
    assert run_violations(tamper(run), LOAD, EXACT)[rule] > 0


TIMED: list[tuple[str, Callable[[Run], Run]]] = [
    ("reveal-time", shifted("reveal_s", 2, -2.0)),
    ("reveal-time", shifted("arrival_s", 3, -29.0)),
    ("reveal-time", shifted("arrival_s", 3, 2.0)),
    ("duration", shifted("idle_before_s", -1, 1.0)),
    ("duration", shifted("start_s", -1, 1.0)),
]


@pytest.mark.parametrize(("rule", "tamper"), TIMED)
def test_tampering_with_times_is_caught(rule: str, tamper: Callable[[Run], Run]) -> None:
    """The same for arrivals, idle time and clock in timed mode."""
    run = simulate(LOAD, first_come, EXACT, arrivals="timed")
    assert run_violations(run, LOAD, EXACT) == {}
    assert run_violations(tamper(run), LOAD, EXACT)[rule] > 0


def test_an_overdue_hidden_request_is_caught() -> None:
    """A request that arrived before the last step but was never revealed breaks reveal-time."""
    run = simulate(LOAD, first_come, EXACT, arrivals="timed", steps=2)
    assert run.arrival_s is not None
    tampered = replace(run, arrival_s=changed(run.arrival_s, 3, -29.0))
    assert run_violations(run, LOAD, EXACT) == {}
    assert run_violations(tampered, LOAD, EXACT) == {"reveal-time": 1}


def test_overtaking_in_a_queue_is_caught() -> None:
    """Two equal requests in one queue whose starts are swapped break queue-order alone."""
    load = workload([3, 3, 3], [1, 1, 1])
    run = simulate(load, lambda state: [0], EXACT, dispatch="immediate")
    assert run_violations(run, load, EXACT) == {}
    start, finish = run.start_step[[0, 2, 1]], run.finish_step[[0, 2, 1]]
    tampered = replace(run, start_step=start, last_start_step=start, finish_step=finish)
    assert run_violations(tampered, load, EXACT) == {"queue-order": 1}


def test_a_request_that_moves_between_workers_is_caught() -> None:
    """Swap the loads of the workers for one step: stickiness is broken, totals are not."""
    run = simulate(LOAD, first_come, EXACT)
    assert run.loads is not None
    loads = run.loads.copy()
    loads[1] = loads[1, ::-1]
    assert run_violations(replace(run, loads=loads), LOAD, EXACT) == {"loads": 2}


def test_another_workload_is_caught() -> None:
    """A run checked against other requests fails."""
    run = simulate(LOAD, first_come, EXACT)
    other = workload([3, 1, 4, 3], [2, 3, 1, 5])
    assert "loads" in run_violations(run, other, EXACT)
    assert "shape" in run_violations(run, workload([3], [2]), EXACT)


@given(scenarios(delays=True))
def test_loads_are_those_of_each_request_at_each_step(scenario: Scenario) -> None:
    """Computed at once where all gain alike, also by requests that were interrupted."""
    run = scenario.simulate(scenario.erratic_policy())
    replay = Replay(run, scenario.workload, run.cluster)
    loads, count = np.zeros_like(run.running), np.zeros_like(run.running)
    for _, worker, start, end, profile_ in replay.walk():
        loads[start:end, worker] += profile_
        count[start:end, worker] += 1
    assert np.array_equal(replay.held, (loads, count))


def test_profiles_by_hand() -> None:
    """w(j) = s + j - 1 for LLM decode; increments 2, 0, 1 by age and from global step 1."""
    period = (2, 0, 1)
    assert profile(LLM, 5, 9, 4).tolist() == [5, 6, 7, 8]
    assert profile(Drift(period), 5, 1, 5).tolist() == [5, 7, 7, 8, 10]
    step_drift = Drift(period, DriftReading.GLOBAL_STEP)
    assert profile(step_drift, 5, 1, 5).tolist() == [5, 5, 6, 8, 8]


@given(drifts(), st.integers(1, 10**12), st.integers(0, 50), st.integers(1, 50))
def test_total_work_is_the_sum_of_the_profile(
    drift: Drift, prompt: int, start: int, output: int
) -> None:
    """The closed form used for LLM decode agrees with summation, as does every other drift."""
    expected = sum(profile(drift, prompt, start, output).tolist())
    assert total_work(drift, prompt, start, output) == expected
