"""The engine against a naive one: equal states for policies, equal trajectories."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from bfio.decode.policy import binds_together, margin_of
from bfio.decode.replay import run_violations
from bfio.decode.run import Run
from bfio.decode.state import DecodeState
from bfio.testing.runs import Scenario, scenarios
from tests.decode.cases import Together, crowded_tiers, first_come, least_projected
from tests.decode.reference import Policy, Reference

CLUSTER_ARRAYS = (
    "loads", "projected_loads", "free_slots", "running", "queued", "queued_tokens", "room",
    "pending_prefill",
)  # fmt: skip
REQUEST_ARRAYS = ("sizes", "ages", "contributions", "needs")


class Recorder:
    """Wraps a policy and keeps the states it saw."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.states: list[DecodeState] = []
        self.binds_together = binds_together(policy)

    def __call__(self, state: DecodeState) -> Sequence[int | None]:
        """Keep the state, then ask the policy."""
        self.states.append(state)
        return self.policy(state)


def reference(scenario: Scenario, policy: Policy, **asked: Any) -> Reference:
    """Run the naive engine on a scenario; ``asked`` says what a predictor is asked, and when."""
    options = dict(scenario.options)
    timed, rate = options.pop("arrivals") == "timed", options.pop("rate_scale")
    pool = None if timed else options["pool"]
    if options["dispatch"] == "immediate" and options["margin"] is None:
        options["margin"] = margin_of(policy)
    for name in ("failures", "cancellations"):
        options[name] = () if options[name] == "none" else options[name]
    times = [float(t / rate) for t in scenario.workload.arrival_times or ()]
    return Reference(
        scenario.workload,
        policy,
        scenario.cluster,
        **{**options, "pool": pool, **asked},
        arrival_s=times,
    ).simulate()


@pytest.mark.parametrize("policy", [first_come, None, least_projected, Together()])
@given(scenario=scenarios(delays=True, prefill=True, telemetry=True))
def test_engine_agrees_with_naive_engine(policy: Policy | None, scenario: Scenario) -> None:
    """States, step records and request records agree bit by bit, times included."""
    assert_agrees(policy or scenario.erratic_policy(), scenario)


@pytest.mark.parametrize("policy", [first_come, None])
@given(scenario=scenarios(delays=True, prefill=True, telemetry=True, crowded=True))
def test_where_memory_overflows(policy: Policy | None, scenario: Scenario) -> None:
    """Requests are preempted by recompute or swap, and come back, beside all other features."""
    assert_agrees(policy or scenario.erratic_policy(), scenario)


@given(scenario=crowded_tiers())
def test_where_all_times_of_a_prefill_tier_meet(scenario: Scenario) -> None:
    """Ends of prefills, transfers, steps and caches, failures, and clients that give up."""
    assert_agrees(scenario.erratic_policy(), scenario)


#: What both engines tell of requests: name in the run, name in a job.
_OF_REQUESTS = (
    ("reveal_step", "reveal"),
    ("start_step", "start"),
    ("finish_step", "finish"),
    ("worker", "worker"),
    ("bound_step", "bound"),
    ("last_start_step", "begun"),
    ("emitted_tokens", "emitted"),
    ("cancel_step", "cancel"),
)


def assert_agrees(policy: Policy, scenario: Scenario) -> None:
    """Assert that both engines show a policy the same and record the same, by the rules."""
    seen, expected_seen = Recorder(policy), Recorder(policy)
    run = scenario.simulate(seen)
    expected = reference(scenario, expected_seen)
    assert_same_record(run, expected)
    assert run.interruptions.tolist() == [list(entry) for entry in expected.interruptions]
    assert np.array_equal(run.reveal_s, [j.reveal_s for j in expected.jobs], equal_nan=True)
    assert_same_states(seen.states, expected_seen.states)
    assert run_violations(run, scenario.workload, scenario.cluster) == {}


def assert_same_record(run: Run, expected: Reference) -> None:
    """Assert that steps are the same, and what is told of requests: of the run, of a job."""
    assert run.steps == len(expected.trace)
    for k, row in enumerate(expected.trace):
        for name, value in row.items():
            assert getattr(run, name)[k].tolist() == value, (k, name)
    for name, attribute in _OF_REQUESTS:
        assert getattr(run, name).tolist() == [getattr(j, attribute) for j in expected.jobs], name


def assert_same_states(found: list[DecodeState], expected: list[DecodeState]) -> None:
    """Assert that two policies saw the same states."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a.step, a.slots) == (b.step, b.slots)
        for name in CLUSTER_ARRAYS + REQUEST_ARRAYS:
            assert getattr(a, name).dtype == np.int64
            assert np.array_equal(getattr(a, name), getattr(b, name)), name
        assert a.binds == b.binds
        assert (a.bound_loads is None) == (b.bound_loads is None)
        assert np.array_equal(a.window_loads(10**3), b.window_loads(10**3))
