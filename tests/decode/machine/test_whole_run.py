"""The compiled engine: where it applies, where it stops, what it reports."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.common.numba_parts import uses_private_parts
from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift, DriftReading
from bfio.decode.machine import state, whole_run
from bfio.decode.machine.state import Chunks
from bfio.decode.observers import ProgressObserver, StepView, TrajectoryObserver
from bfio.decode.options import RunOptions
from bfio.decode.policy_registry import find
from bfio.decode.replay import run_violations
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.prediction.registry import build as build_predictor
from bfio.workloads.workload import Workload
from formulations.errors import InputError
from tests.decode.cases import build, first_come, workload
from tests.decode.machine.equality import assert_same_run, differences, run_compiled
from tests.decode.machine.test_greedy import lengths
from tests.processes import python

SMALL = Cluster(workers=2, slots=2)
REQUESTS = workload([3, 1, 4, 1, 5], [2, 7, 1, 8, 2], ["0", "0.1", "0.2", "9", "9"])


def compiled(requests: Workload = REQUESTS, name: str = "fcfs", **options: Any) -> Run:
    """Run a policy on two workers of two slots."""
    run = run_compiled(requests, name, None, SMALL, **options)
    assert run is not None
    return run


@contextmanager
def tiny_chunks(first: int, most: int) -> Iterator[None]:
    """Let the kernel return after a few steps."""
    with (
        patch.object(whole_run, "FIRST_CHUNK_STEPS", first),
        patch.object(state, "MAX_CHUNK_STEPS", most),
    ):
        yield


@given(st.integers(1, 12), st.integers(1, 12), st.booleans())
def test_chunks_leave_no_trace(first: int, most: int, keep: bool) -> None:
    """However the steps are cut into kernel calls, the run is the same."""
    with tiny_chunks(first, most):
        for arrivals in ("pool", "timed"):
            assert_same_run(REQUESTS, "random", SMALL, arrivals=arrivals, keep_trajectory=keep)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 40)), max_size=12),
    st.sampled_from(["fcfs", "br-h"]),
)
def test_outputs_longer_than_the_wheel(lengths: list[tuple[int, int]], name: str) -> None:
    """A request that ends many turns of the wheel later ends at its step all the same."""
    requests = workload([s for s, _ in lengths], [o for _, o in lengths])
    with patch.object(state, "MIN_WHEEL", 2), patch.object(state, "MAX_WHEEL", 4):
        assert_same_run(
            requests,
            name,
            SMALL,
            dict(horizon=3),
            pool=5,
            predictor="oracle",
            window_knows="all",
        )


def test_no_requests_and_no_steps() -> None:
    """Nothing to do is a run of no steps."""
    assert assert_same_run(workload([], []), "fcfs", SMALL).steps == 0
    assert assert_same_run(REQUESTS, "fcfs", SMALL, steps=0).steps == 0


def test_huge_outputs_are_cut_off_by_the_step_limit() -> None:
    """Outputs of 10^12 tokens need no memory of that order."""
    run = assert_same_run(workload([7, 9], [10**12, 3]), "jsq", SMALL, steps=5)
    assert (run.steps, run.completed) == (5, 1)


@pytest.mark.parametrize(
    "drift",
    [Drift((0,)), Drift((3, 3)), Drift((0, 2, 1), DriftReading.GLOBAL_STEP), Drift((0, 2, 1))],
)
def test_every_drift(drift: Drift) -> None:
    """Constant work, speculative decoding and increments by global step or age."""
    for name in ("jsq-tokens", "br-h"):
        assert_same_run(REQUESTS, name, SMALL, drift=drift, projection="growing")


@pytest.mark.parametrize(
    ("name", "cluster", "options"),
    [
        ("bf-io", SMALL, {}),
        ("tests.decode.cases:first_come", SMALL, {}),
        ("fcfs", SMALL, {"observers": [TrajectoryObserver()]}),
        ("fcfs", SMALL, {"predictor": build_predictor("oracle", REQUESTS)}),
        ("power-of-2", Cluster(workers=10_001, slots=1), {}),
    ],
)
def test_where_only_the_reference_applies(
    name: str, cluster: Cluster, options: dict[str, Any]
) -> None:
    """The compiled engine declines, and `simulate` takes the reference or says so."""
    assert run_compiled(REQUESTS, name, None, cluster, **options) is None
    assert simulate(REQUESTS, name, cluster, **options).completed == 5
    with pytest.raises(InputError, match="the compiled engine cannot run"):
        simulate(REQUESTS, name, cluster, engine="compiled", **options)


def test_means_that_a_float_cannot_hold() -> None:
    """Sums of loads from 2^53 on are left to the reference if step times depend on their mean."""
    huge = workload([10**12] * 3, [1] * 3)
    slots = Cluster(workers=4_000, slots=3, mean_time_s=1e-9)
    assert run_compiled(huge, "fcfs", None, slots) is None
    assert_same_run(huge, "fcfs", replace(slots, mean_time_s=0.0))


@pytest.mark.parametrize(
    "options",
    [
        {"arrivals": "never"},
        {"pool": 0},
        {"rate_scale": 2},
        {"dispatch": "later"},
        {"horizon": -1},
        {"projection": "shrinking"},
        {"predictor": "crystal ball"},
        {"steps": 1.5},
        {"seed": -1},
    ],
)
def test_errors_are_those_of_the_reference(options: dict[str, Any]) -> None:
    """A bad option is refused in the same words by every engine."""
    messages = []
    for chosen in ("auto", "reference"):
        with pytest.raises(InputError) as error:
            simulate(REQUESTS, "fcfs", SMALL, engine=chosen, **options)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_overflow_is_refused_like_in_the_reference() -> None:
    """Loads that overflow 64-bit sums are an error, not a wrong run."""
    heavy = workload([10**12] * 2000, [10**6] * 2000)
    with pytest.raises(InputError, match="overflow 64-bit sums"):
        run_compiled(heavy, "fcfs", None, Cluster(2000, 2000), drift=Drift((10**6,)))


def test_engines_of_simulate() -> None:
    """All engines give the same run; an unknown one is an error, and so is compiling Python."""
    runs = [simulate(REQUESTS, "jsq", SMALL, engine=e) for e in ("auto", "compiled", "reference")]
    assert differences(runs[0], runs[2]) == differences(runs[1], runs[2]) == []
    assert [run.engine for run in runs[1:]] == ["compiled", "reference"]
    assert [run.decide_s > 0 for run in runs[1:]] == [False, True]
    with pytest.raises(InputError, match="use one of auto, compiled, reference"):
        simulate(REQUESTS, "jsq", SMALL, engine="fast")
    with pytest.raises(InputError, match="a policy of your own"):
        simulate(REQUESTS, first_come, SMALL, engine="compiled")


def test_stop_before_the_first_step() -> None:
    """A run that is stopped at once is a run of no steps, as in the reference."""
    reference = simulate(REQUESTS, "fcfs", SMALL, stop=lambda: True, engine="reference")
    assert differences(compiled(stop=lambda: True), reference) == []


def test_stop_keeps_the_steps_so_far() -> None:
    """Stopped between two chunks of steps, a run is what `steps` would have cut off."""
    answers = iter([False, False, True])
    with tiny_chunks(2, 2):
        stopped = compiled(stop=lambda: next(answers))
    limited = compiled(steps=4)
    same = replace(stopped, options=limited.options, measured=limited.measured)
    assert differences(same, limited) == []


def test_progress_is_reported_after_each_chunk() -> None:
    """Observers of progress see the last step of each chunk, as the reference shows it."""
    seen: list[StepView] = []
    expected: list[StepView] = []
    with tiny_chunks(3, 3):
        run = compiled(observers=[ProgressObserver(seen.append, every=100)])
    simulate(
        REQUESTS,
        build("fcfs"),
        SMALL,
        observers=[ProgressObserver(expected.append, every=3)],
    )
    assert seen[-1].completed == run.completed == 5
    for view, reference in zip(seen, expected, strict=False):
        assert (view.step, view.start_s, view.duration_s) == (
            reference.step,
            reference.start_s,
            reference.duration_s,
        )
        for field in ("loads", "running", "admitted", "finished"):
            assert sorted(getattr(view, field)) == sorted(getattr(reference, field))
        assert (view.waiting, view.completed) == (reference.waiting, reference.completed)
        assert view.state is None
        assert view.decision is None


def test_chunks_share_one_array_for_trajectories() -> None:
    """Without a trajectory, memory does not grow with workers times steps."""
    many = state.new_state(workload([1], [1]), Cluster(144, 1), RunOptions())
    chunks = Chunks(many, keep_trajectory=False)
    first, second = chunks.new(10), chunks.new(20)
    assert first.loads is second.loads
    assert first.loads.shape == (2**18 // 144, 144)
    assert chunks.joined().loads.shape == (0, 144)


def test_a_changed_run_is_noticed() -> None:
    """The comparison of runs can fail: each of these changes one thing."""
    run = compiled()
    assert differences(run, compiled(name="jsq-tokens")) != []
    later = run.start_s.copy()
    later[1] = np.nextafter(later[1], np.inf)
    later.flags.writeable = False
    assert differences(run, replace(run, start_s=later)) == ["start_s"]
    assert differences(run, replace(run, loads=None)) == ["loads"]
    assert differences(run, replace(run, cluster=Cluster(2, 3))) == ["cluster"]


def test_numba_is_not_loaded_before_it_is_needed() -> None:
    """Importing the toolkit, or asking what can be compiled, loads no compiler."""
    script = (
        "import sys\n"
        "from bfio.decode.machine.whole_run import group_of, loop_of\n"
        "from bfio.decode.policy_registry import find\n"
        "from bfio.decode.simulation import can_compile\n"
        "group_of(loop_of(find('fcfs'))).is_ready()\n"
        "assert can_compile(find('fcfs')) and 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


_MILLION = """
from bfio.cli.main import main
from bfio.studies.worker import peak_memory
words = "simulate --json --policy br-0 --requests 1000000 --workers 144 --pool 512"
assert main(words.split()) == 0 and peak_memory() < 300e6, peak_memory()
"""


@pytest.mark.deep
@pytest.mark.skipif(not uses_private_parts(), reason="each process compiles its kernels")
def test_a_million_requests_need_less_than_300_mb() -> None:
    """Kernels from disk, requests, run and metrics together."""
    whole_run.compile_loop(find("br-0"))
    python("-c", _MILLION)


NAME = "adaptive"


@pytest.mark.parametrize("predictor", ["none", "oracle"])
def test_a_longer_run_is_the_same(predictor: str) -> None:
    """300 requests on 6 workers, many rehearsals, more than one setting; nothing is lost."""
    requests, cluster = lengths(300, seed=8), Cluster(workers=6, slots=9)
    run = assert_same_run(
        requests,
        NAME,
        cluster,
        dict(horizon=20),
        pool=20,
        predictor=predictor,
        projection="growing",
    )
    assert run_violations(run, requests, cluster) == {}
    assert run.is_drained
    assert run.statistics["rehearsals"] > 4  # type: ignore[operator]
    assert len(run.statistics["decisions"]) > 2  # type: ignore[arg-type]
