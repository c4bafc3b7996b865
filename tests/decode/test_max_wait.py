"""No request of `bf-io`, `br-0`, `br-h` starves where ``max_wait`` is given."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.policy_registry import choose
from bfio.decode.replay import run_violations
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.workloads import Geometric, Uniform, Workload, generate
from formulations.errors import InputError
from tests.decode.cases import workload

POLICIES = ["bf-io", "br-0", "br-h"]
REQUESTS = generate(70, Uniform(1, 60), Geometric(6), rng=np.random.default_rng(3))
CLUSTER = Cluster(2, 3, step_overhead_s=1.0, token_time_s=0.1)


def _run_of(requests: Workload, policy: str, max_wait: int | None, engine: str) -> Run:
    limit = 10**6 if policy == "bf-io" else None
    given: dict[str, Any] = {"max_wait": max_wait, "work_limit": limit}
    return simulate(requests, policy, CLUSTER, engine=engine, pool=15, seed=1, **given)


@cache
def _run(policy: str, max_wait: int | None, engine: str = "reference") -> Run:
    return _run_of(REQUESTS, policy, max_wait, engine)


def _jumped_queues(run: Run, max_wait: int) -> int:
    """Count pairs of an overdue request and a younger one that started at a step without it."""
    found = 0
    for step in range(run.steps):
        started = np.flatnonzero(run.start_step == step)
        left = np.flatnonzero(
            (run.reveal_step >= 0) & (run.reveal_step <= step - max_wait) & (run.start_step > step)
        )
        found += int((started[:, None] > left).sum())
    return found


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("max_wait", [0, 4, 12])
def test_nobody_starts_before_who_is_overdue(policy: str, max_wait: int) -> None:
    """While one waits that is overdue, only older ones start; without the option many do not."""
    run = _run(policy, max_wait)
    assert run.is_drained
    assert run_violations(run, REQUESTS, CLUSTER) == {}
    assert _jumped_queues(run, max_wait) == 0
    assert _jumped_queues(_run(policy, None), max_wait) > 0
    if max_wait == 0:
        assert (np.diff(run.start_step) >= 0).all()


@pytest.mark.parametrize("policy", ["br-0", "br-h"])
@pytest.mark.parametrize("max_wait", [0, 4, 12])
def test_compiled_runs_agree(policy: str, max_wait: int) -> None:
    """Both engines start the same requests at the same steps on the same workers."""
    run, compiled = _run(policy, max_wait), _run(policy, max_wait, "compiled")
    assert compiled.start_step.tolist() == run.start_step.tolist()
    assert compiled.worker.tolist() == run.worker.tolist()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_large_request_waits_no_longer_than_it_must(policy: str) -> None:
    """One of 60 tokens among small ones is passed over, until it has waited three steps."""
    requests = workload([1] * 6 + [60] + [1] * 40, [2] * 47)
    assert _run_of(requests, policy, 3, "reference").start_step[6] <= 3 + 1
    assert _run_of(requests, policy, None, "reference").start_step[6] > 4


def test_a_wait_that_never_ends_changes_nothing() -> None:
    """Longer than the run: the decisions of today."""
    for policy in POLICIES:
        assert _run(policy, 10**6).worker.tolist() == _run(policy, None).worker.tolist()


@pytest.mark.parametrize("policy", POLICIES)
def test_memory_holds_beside(policy: str) -> None:
    """With little memory and two speeds runs drain, break no rule, and agree when compiled."""
    cluster = Cluster(2, 3, 1.0, 0.1, memory=110, speed=(1.0, 2.0))
    engines = ["reference"] if policy == "bf-io" else ["reference", "compiled"]
    runs = [
        simulate(REQUESTS, policy, cluster, max_wait=4, engine=engine, pool=15)
        for engine in engines
    ]
    assert all(run.is_drained for run in runs)
    assert run_violations(runs[0], REQUESTS, cluster) == {}
    assert runs[0].start_step.tolist() == runs[-1].start_step.tolist()


def test_bad_waits_are_named() -> None:
    """Below 0, and of a policy that does not read it."""
    with pytest.raises(InputError, match="max_wait: -1"):
        choose("br-0", {"max_wait": -1})
