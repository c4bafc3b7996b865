from dataclasses import replace

import pytest

from benchmarks.case import DEFAULT_DATA
from benchmarks.decisions.timing import time_decisions
from benchmarks.engine.child import engine_that_runs, measure
from benchmarks.engine.simulation import SimulationSpec, engines, measure_in_child
from benchmarks.workloads import SYNTHETIC, draw
from bfio.decode.cluster import Cluster
from formulations.errors import InputError

#: The reference needs no kernels, whose compilation would be most of these tests.
SPEC = SimulationSpec(3, 4, 8, 100, 12, 0, policy="fcfs", engine=engines()[-1], repeats=2)


def test_a_simulation_in_a_fresh_process() -> None:
    """All requests are served, times and memory are positive, the engine is named."""
    measured = measure_in_child(SPEC)
    assert measured["completed"] == 100
    assert measured["engine"] == "reference"
    assert len(measured["walls_s"]) == 2
    assert measured["steps_per_s"] == pytest.approx(measured["steps"] / measured["wall_s"])
    assert 2**20 < measured["memory_before_bytes"] <= measured["peak_memory_bytes"] < 2**40


def test_the_failure_of_a_child_is_told() -> None:
    """The last line it wrote names the reason."""
    with pytest.raises(RuntimeError, match="unknown policy"):
        measure_in_child(replace(SPEC, policy="no-such-policy"))


def test_the_steady_part() -> None:
    """Its steps are among those of the run; a run that never fills has none."""
    measured = measure(replace(SPEC, steady=True, requests=300, repeats=3))
    assert 0 < measured["steady"]["steps"] < measured["steps"]
    assert 0 < measured["steady"]["started"] < 300
    assert measure(replace(SPEC, steady=True, requests=5))["steady"] is None


def test_the_engine_that_runs_is_named() -> None:
    """A policy without kernels runs on the reference, whatever is asked for."""
    workload = draw(SYNTHETIC, 20, 12, 0, DEFAULT_DATA)
    assert engine_that_runs(replace(SPEC, policy="bf-io", engine="auto"), workload) == "reference"
    assert engine_that_runs(replace(SPEC, engine="reference"), workload) == "reference"


def test_decisions_are_timed_from_the_first_full_step() -> None:
    """As many as asked, in order of size, and with something admitted at each."""
    measured = time_decisions("br-0", Cluster(2, 4), 8, output_mean=12, decisions=15, seed=0)
    assert measured["decisions"] == 15
    assert 0 < measured["median_s"] <= measured["p99_s"] <= measured["max_s"]
    # Before the first full step 8 are admitted at once; afterwards few slots free at a time.
    assert 1 <= measured["admitted_mean"] < 4


def test_a_run_without_a_full_step_is_an_error() -> None:
    """There is no decision to time where the pool is smaller than what ends in a step."""
    with pytest.raises(InputError, match="only 0 decisions"):
        time_decisions("br-0", Cluster(2, 4), 1, output_mean=1, decisions=5, seed=0)
