"""A policy with its kernel is one module: dropped into the folder, or anywhere else."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import bfio.decode.policies
from bfio.decode import policy_registry
from bfio.decode.cluster import Cluster
from bfio.decode.engine import with_margin
from bfio.decode.machine import kernel, whole_run
from bfio.decode.machine.greedy import serving
from bfio.decode.machine.kernel import KernelTask
from bfio.decode.machine.phases import is_over
from bfio.decode.machine.state import Chunks, new_state
from bfio.decode.machine.window import new_window
from bfio.decode.options import RunOptions
from bfio.decode.policy_registry import find
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.testing.runs import Scenario, scenarios
from bfio.workloads.workload import Workload
from formulations.errors import InputError
from tests.decode.machine.equality import GREEDY, assert_same_run
from tests.decode.machine.test_greedy import lengths, supported

MODULE = '''
"""A policy that nothing else in the project knows."""

from bfio.common.compilable import compilable
from bfio.decode.policy_spec import greedy_policy
from bfio.decode.tally import ServingOrder


@compilable
def key(worker):
    """Odd workers first, then fewest tokens and requests."""
    return worker.tokens + 1_000 * worker.requests - 10**9 * (worker.number % 2)


SPEC = greedy_policy("odd-first", key, ServingOrder.SMALLEST, summary="odd", source="a test")
'''


@pytest.fixture
def dropped_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PolicySpec]:
    """Put the module into a folder of the package of policies."""
    (tmp_path / "odd_first.py").write_text(MODULE)
    path = [*bfio.decode.policies.__path__, str(tmp_path)]
    monkeypatch.setattr(bfio.decode.policies, "__path__", path)
    caches = (policy_registry.built_in, whole_run.greedy_policies)
    for cached in caches:
        cached.cache_clear()
    yield find("odd-first")
    for cached in caches:
        cached.cache_clear()
    sys.modules.pop("bfio.decode.policies.odd_first", None)


def test_a_module_in_the_folder_joins_the_loop(dropped_in: PolicySpec) -> None:
    """It is found, listed, and one of those that are compiled together."""
    loop = whole_run.loop_of(dropped_in)
    assert dropped_in in loop.members
    assert loop == whole_run.loop_of(find("fcfs"))
    assert "odd-first" in policy_registry.names()
    assert "odd-first" not in GREEDY


def interpreted_kernel(
    spec: PolicySpec, workload: Workload, cluster: Cluster, options: RunOptions
) -> list[list[int]]:
    """Run a policy's kernel as plain Python; return starts, last steps and workers."""
    greedy = spec.kernel
    assert isinstance(greedy, kernel.Kernel)
    assert greedy.choose is not None
    policy = spec.factory(spec.options)
    task = KernelTask(workload, cluster, options, spec.options, policy)
    state, window = new_state(workload, cluster, options), new_window(cluster.workers, 0, 0)
    chunks, memory = Chunks(state, keep_trajectory=True), greedy.memory(task)
    with patch.object(kernel, "decide", serving(greedy.choose)):
        # A record ends before the step that might interrupt more requests than it has room for.
        while not is_over(state):
            assert kernel.run_chunk(state, window, memory, chunks.new(3000)) >= 0
    return [row.tolist() for row in (state.marks.first, state.marks.last, state.marks.worker)]


def test_its_kernel_is_its_policy(dropped_in: PolicySpec) -> None:
    """The kernel, run as plain Python, starts each request when and where the policy does."""
    requests, cluster = lengths(120, seed=3), Cluster(5, 3)
    run = simulate(requests, "odd-first", cluster, pool=20, engine="reference")
    expected = [run.start_step.tolist(), run.finish_step.tolist(), run.worker.tolist()]
    found = interpreted_kernel(dropped_in, requests, cluster, RunOptions(pool=20))
    assert found == expected
    # Requests wait and workers fill up, so that order and key matter.
    assert int(run.waiting.max()) > 4
    assert len(np.unique(run.worker)) == 5


OWN = """
from dataclasses import replace
from bfio.decode.machine import two_stage
from bfio.decode.machine.kernel import Kernel
from bfio.decode.policy_registry import find
SPEC = replace(find("br-0"), name="own", kernel=Kernel(two_stage.memory, decide=two_stage.decide))
"""


def test_a_kernel_that_cannot_bind_leaves_immediate_dispatch_to_the_reference(
    tmp_path: Path,
) -> None:
    """Whatever `decide` admits would otherwise be bound a second time."""
    (tmp_path / "own.py").write_text(OWN)
    policy = f"{tmp_path / 'own.py'}:SPEC"
    requests, cluster = lengths(50, seed=5), Cluster(2, 2)
    assert simulate(requests, policy, cluster, dispatch="immediate").engine == "reference"
    with pytest.raises(InputError, match="the compiled engine cannot run"):
        simulate(requests, policy, cluster, dispatch="immediate", engine="compiled")


@pytest.mark.deep
def test_it_is_compiled_like_the_others(dropped_in: PolicySpec) -> None:
    """Both engines give the same run."""
    run = assert_same_run(lengths(300, seed=4), dropped_in.name, Cluster(5, 3), pool=20)
    assert run.engine == "compiled"


@pytest.mark.parametrize("name", GREEDY)
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=5)
@given(scenarios(drained=True))
def test_kernels_run_as_plain_python(name: str, scenario: Scenario) -> None:
    """Every kernel decides as its policy does, compiled or not."""
    asked = {n: v for n, v in supported(scenario, name).items() if n != "horizon"}
    spec = find(name)
    options = with_margin(spec.factory(spec.options), RunOptions(**asked))
    run = simulate(scenario.workload, name, scenario.cluster, options=options, engine="reference")
    expected = [run.start_step.tolist(), run.finish_step.tolist(), run.worker.tolist()]
    found = interpreted_kernel(find(name), scenario.workload, scenario.cluster, options)
    assert found == expected


def test_a_look_ahead_that_is_no_option_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy described elsewhere has the window that its object asks for; the record says so."""

    class Far:
        horizon = 3

        def __init__(self) -> None:
            self.columns: set[int] = set()

        def __call__(self, state: DecodeState) -> list[int | None]:
            self.columns.add(state.contributions.shape[1])
            return [int(state.free_slots.argmax()), *[None] * (len(state.sizes) - 1)]

    far = Far()
    module: Any = ModuleType("elsewhere")
    module.SPEC = PolicySpec("far", lambda _: far, summary="far", source="a test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    run = simulate(lengths(20, seed=1), "elsewhere:SPEC", Cluster(2, 3), pool=6)
    assert far.columns == {4}
    assert run.policy_options == {"horizon": 3}
