"""Rows that time runs and decisions."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import decision_times, dispatch_stages, engine_speed
from benchmarks.decision_times import time_decisions
from bfio.decode.cluster import Cluster
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.studies.row import Limits, RowContext, RowResult
from bfio.studies.runner import StudyRunOptions, run_study
from bfio.studies.study import Grid, Study
from bfio.workloads.synthetic_workloads import synthetic
from formulations.errors import InputError

#: The reference needs no kernels, whose compilation would be most of these tests.
ARGUMENTS: dict[str, Any] = {
    "policy": "fcfs", "engine": "reference", "workers": 3, "slots": 4, "pool": 8,
    "requests": 100, "output_mean": 12,
}  # fmt: skip


def _measured(**changes: Any) -> RowResult:
    result = engine_speed.KIND.compute({**ARGUMENTS, **changes}, RowContext(Path()))
    assert isinstance(result, RowResult)
    return result


def test_a_simulation_in_a_process_of_its_own(tmp_path: Path) -> None:
    """All requests are served, times and memory are positive, the engine is named."""
    grid = Grid({"requests": [100, 120]})
    fixed = {name: value for name, value in ARGUMENTS.items() if name != "requests"}
    study = Study(
        "s", "?", "benchmarks.engine_speed:KIND", [grid], fixed, Limits(fresh_process=True)
    )
    results = run_study(study, tmp_path / "s.sqlite", StudyRunOptions(jobs=1))
    first, second = results.done
    assert (first.values["completed"], second.values["completed"]) == (100, 120)
    assert first.values["engine_that_ran"] == "reference"
    assert first.timings["steps_per_s"] * first.timings["run_s"] == pytest.approx(
        first.values["steps"]
    )
    for row in results.done:
        before, peak = row.timings["memory_before_bytes"], row.timings["memory_bytes"]
        assert 2**20 < before <= peak < 2**40


def test_the_steady_part() -> None:
    """It is timed where there is one; a run that never fills has none."""
    long = _measured(steady=True, requests=300, repeats=3).timings
    assert long["steady_steps_per_s"] > 0
    assert long["steady_requests_per_s"] > 0
    assert "steady_steps_per_s" not in _measured(steady=True, requests=5).timings


def test_the_engine_that_ran_is_named() -> None:
    """A policy without kernels runs on the reference, whatever is asked for."""
    values = _measured(policy="bf-io", engine="auto", requests=20).values
    assert values["engine_that_ran"] == "reference"


def test_an_unknown_policy_is_told_first() -> None:
    """By the check of the arguments."""
    with pytest.raises(InputError, match="no-such-policy"):
        engine_speed.KIND.instance({"policy": "no-such-policy"}, RowContext(Path()))


def test_decisions_are_timed_from_the_first_full_step() -> None:
    """As many as asked, in order of size, and with something admitted at each."""
    given = {
        "policy": "br-0", "workers": 2, "slots": 4, "pool_at_least": 8, "output_mean": 12,
        "decisions": 15,
    }  # fmt: skip
    result = decision_times.KIND.compute(given, RowContext(Path()))
    assert isinstance(result, RowResult)
    assert result.values["decisions"] == 15
    times = [result.timings[f"decision_{name}_s"] for name in ("median", "p99", "max")]
    assert times == sorted(times)
    assert times[0] > 0
    # Before the first full step 8 are admitted at once; afterwards few slots free at a time.
    admitted = result.values["admitted_mean"]
    assert isinstance(admitted, float)
    assert 1 <= admitted < 4


def test_a_run_without_a_full_step_is_an_error() -> None:
    """There is no decision to time where the pool is smaller than what ends in a step."""
    with pytest.raises(InputError, match="ended after 0 of 5 decisions"):
        time_decisions("br-0", Cluster(2, 4), 1, output_mean=1, decisions=5, seed=0)


def test_stages_of_decisions() -> None:
    """Timed apart, BR-H decides as ever; stage 1 fills the free slots above its threshold."""
    workload = synthetic("demo", 60, seed=1)
    staged = dispatch_stages.StagedPolicy(5)
    first: list[tuple[int, int]] = []

    def watched(state: DecodeState) -> list[int | None]:
        first.append((int(state.free_slots.sum()), dispatch_stages.stage_1_slots(state, 7)))
        return staged(state)

    watched.horizon = 5  # type: ignore[attr-defined]
    settings = {"pool": 20, "predictor": "oracle", "projection": "growing"}
    run = simulate(workload, watched, Cluster(3, 4), **settings)
    plain = simulate(workload, "br-h:horizon=5", Cluster(3, 4), **settings)
    assert run.worker.tolist() == plain.worker.tolist()
    assert first[0] == (12, 5)
    assert len(staged.parts) == len(first)
    arguments = {"workers": 2, "slots": 4, "pool_per_worker": 4, "output_mean": 12, "decisions": 9}
    result = dispatch_stages.KIND.compute(arguments, RowContext(Path()))
    assert isinstance(result, RowResult)
    assert result.values["decisions"] == 9
    assert result.timings["call_median_us"] > 0
