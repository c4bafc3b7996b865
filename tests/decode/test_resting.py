"""Pausing policies: state and cost of a preemption, against the naive engine and the replay."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift, DriftReading
from bfio.decode.metrics import measure
from bfio.decode.policy import Decision
from bfio.decode.replay import run_violations
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.decode.state import ActiveRequests, DecodeState
from bfio.gap import measure_gap
from bfio.hindsight.makespan.from_run import hindsight_of_run
from bfio.testing.runs import Scenario, capricious, scenarios
from bfio.workloads.workload import Workload
from formulations.errors import InputError
from tests.decode.cases import EXACT, build, crowded_tiers, first_come, workload
from tests.decode.machine.equality import differences
from tests.decode.test_reference import (
    Recorder,
    assert_same_record,
    assert_same_states,
    reference,
)

#: What tells a run of a policy that pauses from one of its base.
OF_PAUSING = {"policy", "rests", "max_pauses", "statistics", "options", "policy_options"}


class Erratic:
    """Routes at random, and lets active requests rest at random, as long as they may."""

    def __init__(self, max_pauses: int, horizon: int = 0) -> None:
        self.max_pauses, self.horizon = max_pauses, horizon

    def __call__(self, state: DecodeState) -> Decision:
        """At least one runs."""
        waits = state.num_waiting and state.free_slots.any()
        assignment = capricious(state) if waits else [None] * state.num_waiting
        rested, active = state.active.rested, len(state.active.request)
        rests = [
            k for k in range(active) if rested[k] < self.max_pauses and state.rng.random() < 0.6
        ]
        # Who was chosen may find no memory.
        return Decision(assignment, rests[1:] if len(rests) == active else rests)


class Scripted:
    """`first_come`, and rests of given requests at given steps."""

    def __init__(self, rests: dict[int, list[int]], max_pauses: Any = 3) -> None:
        self.rests, self.max_pauses = rests, max_pauses
        self.seen: dict[int, ActiveRequests] = {}

    def __call__(self, state: DecodeState) -> Any:
        """Name requests by their numbers; others stay as they are."""
        self.seen[state.step] = state.active
        who = state.active.request.tolist()
        rests = [who.index(r) if r in who else r for r in self.rests.get(state.step, [])]
        return Decision(first_come(state), rests)


class PausingRecorder(Recorder):
    """Keeps what a policy that pauses saw, also of active requests."""

    def __init__(self, policy: Any) -> None:
        super().__init__(policy)
        self.max_pauses, self.horizon = policy.max_pauses, getattr(policy, "horizon", 0)
        self.active: list[list[list[int]]] = []

    def __call__(self, state: DecodeState) -> Any:
        """Keep the state and the active requests, then ask the policy."""
        self.active.append([column.tolist() for column in state.active])
        return super().__call__(state)


def pooled(scenario: Scenario) -> Scenario:
    """Return a scenario in which policies may pause."""
    changes = {"dispatch": "pooled", "margin": None}
    return replace(scenario, options={**scenario.options, **changes})


def test_a_rest_by_hand() -> None:
    """One worker of two slots, 1 s and half a second a token.

    Requests of 4 and 6 tokens, 2 and 3 tokens to emit. Step 0: both run, 4 + 6, 6 s. Step 1: the
    second (7) rests, the first (5) runs alone and is done, 3.5 s; so at step 2, where it must run
    again as nothing else does: 7, 4.5 s; step 3: 8, 5 s.
    """
    policy = Scripted({1: [1]}, max_pauses=1)
    load, cluster = workload([4, 6], [2, 3]), replace(EXACT, workers=1, slots=2)
    run = simulate(load, policy, cluster)
    assert run.duration_s.tolist() == [6.0, 3.5, 4.5, 5.0]
    assert run.max_load.tolist() == run.total_load.tolist() == [10, 5, 7, 8]
    assert run.active.tolist() == [2, 1, 1, 1]
    assert run.resting().tolist() == [0, 1, 0, 0]
    assert run.finish_step.tolist() == [1, 3]
    assert run.start_step.tolist() == run.last_start_step.tolist() == [0, 0]
    assert run.emitted_tokens.tolist() == [2, 3]
    assert run.rests is not None
    assert run.rests.tolist() == [[1, 1, 2]]
    assert run.max_pauses == 1
    assert [column.tolist() for column in policy.seen[1]] == [
        [0, 1], [0, 0], [5, 7], [0, 0], [4, 6],
    ]  # fmt: skip
    assert [column.tolist() for column in policy.seen[2]] == [[1], [0], [7], [1], [6]]
    assert run_violations(run, load, cluster) == {}
    values = measure(run)
    assert values["rests"] == 1
    assert values["rest_share"] == 1 / 6
    assert values["longest_rest"] == 1
    # 19 s for 3 tokens, of which 3.5 s at rest; 9.5 s for 2.
    assert values["tpot_p95_s"] == pytest.approx(np.percentile([9.5 / 2, 19 / 3], 95))
    awake = np.percentile([9.5 / 2, 15.5 / 3], 95)
    assert values["tpot_p95_awake_s"] == pytest.approx(awake)


def test_a_slot_and_memory_are_kept() -> None:
    """Nobody takes the slot of one that rests, and what it holds fills the worker's memory."""
    load = workload([4, 6, 3], [3, 4, 2])
    slots = simulate(load, Scripted({1: [1], 2: [1]}), replace(EXACT, workers=1, slots=2))
    # The first is done at step 2; the third starts at step 3, beside the second.
    assert slots.start_step.tolist() == [0, 0, 3]
    tight = replace(EXACT, workers=1, slots=3, memory=12)
    memory = simulate(load, Scripted({1: [1]}), tight, overflow="recompute")
    assert memory.start_step.tolist()[2] > 0
    for run, cluster in ((slots, replace(EXACT, workers=1, slots=2)), (memory, tight)):
        assert run.is_drained
        assert run_violations(run, load, cluster) == {}


def test_growth_stops_while_at_rest() -> None:
    """Increments by age wait for the request, those by step pass it by."""
    cluster, load = replace(EXACT, workers=1, slots=2), workload([10, 1], [4, 4])
    script = {1: [0], 2: [0]}
    by_age = Drift((1, 10, 100), DriftReading.AGE)
    aged = simulate(load, Scripted(script), cluster, drift=by_age)
    assert aged.total_load.tolist() == [11, 2, 12, 11 + 112, 21, 121]
    by_step = Drift((1, 10, 100), DriftReading.GLOBAL_STEP)
    stepped = simulate(load, Scripted(script), cluster, drift=by_step)
    assert stepped.total_load.tolist() == [11, 2, 12, 11 + 112, 12, 22]


@pytest.mark.parametrize("max_pauses", [0, 1, 3])
@given(scenario=scenarios(prefill=True) | crowded_tiers(pooled=True))
def test_engine_agrees_with_naive_engine(max_pauses: int, scenario: Scenario) -> None:
    """States, active requests, rests, steps and requests agree bit by bit; no rule is broken."""
    scenario = pooled(scenario)
    horizon = scenario.options["horizon"]
    seen, expected_seen = (PausingRecorder(Erratic(max_pauses, horizon)) for _ in range(2))
    run = scenario.simulate(seen)
    expected = reference(scenario, expected_seen)
    assert_same_record(run, expected)
    assert run.interruptions.tolist() == [list(entry) for entry in expected.interruptions]
    assert sorted(rested_at(run)) == sorted(expected.rests)
    assert_same_states(seen.states, expected_seen.states)
    assert seen.active == expected_seen.active
    assert run_violations(run, scenario.workload, scenario.cluster) == {}


def rested_at(run: Run) -> list[tuple[int, int]]:
    """Return request and step of each step of rest."""
    assert run.rests is not None
    return [(who, step) for who, first, end in run.rests.tolist() for step in range(first, end)]


@given(scenario=scenarios(drained=True, prefill=True), max_pauses=st.integers(1, 4))
def test_nothing_is_lost(scenario: Scenario, max_pauses: int) -> None:
    """Each token is emitted once, each request ends once, and nobody rests longer than P."""
    run = pooled(scenario).simulate(Erratic(max_pauses))
    assert run.completed + run.cancelled == run.num_requests
    assert run.tokens == int(run.emitted_tokens.sum())
    done = run.finish_step >= 0
    assert np.array_equal(run.emitted_tokens[done], scenario.workload.output_tokens[done])
    assert run.rests is not None
    assert int((run.rests[:, 2] - run.rests[:, 1]).max(initial=0)) <= max_pauses


@pytest.mark.parametrize("base", ["br-0", "fcfs", "power-of-2", "balance-scheduling"])
@given(scenario=scenarios(prefill=True))
def test_without_pauses_it_is_the_base_policy(base: str, scenario: Scenario) -> None:
    """With P = 0 the run of `pausing` is that of its base, to the last bit."""
    scenario = pooled(scenario)
    scenario = replace(scenario, cluster=replace(scenario.cluster, mean_time_s=0.0))
    options = {**scenario.options, "engine": "reference"}
    paused = scenario.simulate("pausing", **options, base=base, max_pauses=0)
    plain = scenario.simulate(base, **options)
    assert set(differences(paused, plain)) <= OF_PAUSING
    assert paused.options == plain.options
    assert paused.rests is not None
    assert len(paused.rests) == 0


@pytest.mark.parametrize("method", ["heuristic", "exact"])
@pytest.mark.parametrize("base", ["br-0", "fcfs", "program"])
@given(scenario=scenarios(prefill=True), max_pauses=st.integers(0, 3))
def test_the_policy_keeps_the_rules(
    base: str, method: str, scenario: Scenario, max_pauses: int
) -> None:
    """Whatever the machine: failures, full memory, unequal workers, clients that leave."""
    drawn = scenario.workload
    # Loads up to 10^12 are what the program takes, and they grow.
    small = Workload(
        np.minimum(drawn.prompt_tokens, 2000), drawn.output_tokens, drawn.arrival_times
    )
    cluster = replace(scenario.cluster, mean_time_s=0.0, token_time_s=0.07, prefix_cache=None)
    scenario = replace(pooled(scenario), cluster=cluster, workload=small)
    if base == "program" and scenario.options["overflow"] == "reserve":
        scenario = replace(scenario, options={**scenario.options, "overflow": "recompute"})
        scenario.options["drift"] = Drift((1,))
        if cluster.memory is not None:
            # Loads grow now by a token per step.
            grown = cluster.worker_memory() + int(small.output_tokens.max(initial=0))
            cluster = replace(cluster, memory=tuple(grown.tolist()))
            scenario = replace(scenario, cluster=cluster)
    run = scenario.simulate("pausing", base=base, max_pauses=max_pauses, pausing_method=method)
    assert run_violations(run, scenario.workload, cluster) == {}


def test_the_program_decides() -> None:
    """The instance of docs/pausing.md: the load of 20 rests, and what waits starts."""
    load = workload([3, 4, 5, 19, 3], [9] * 5)
    cluster = Cluster(workers=2, slots=3, step_overhead_s=10.0, token_time_s=1.0)
    policy = build("pausing", base="program", max_pauses=2)
    active = ActiveRequests(
        *map(np.array, ([0, 1, 2, 3], [0, 0, 1, 1], [4, 5, 6, 20], [0] * 4, [3, 4, 5, 19]))
    )
    seen = Recorder(first_come)
    simulate(load, seen, cluster, steps=1)
    shown = replace(
        seen.states[0],
        free_slots=np.array([1, 0]),
        loads=np.array([9, 26]),
        sizes=np.array([3]),
        holdings=lambda: active,
        step_units=cluster.step_units(),
    )
    answer = policy(shown)
    assert isinstance(answer, Decision)
    assert (answer, answer.rests) == ((0,), (3,))
    late = replace(shown, holdings=lambda: active._replace(rested=np.array([0, 0, 0, 2])))
    answer = policy(late)
    assert isinstance(answer, Decision)
    assert (answer, answer.rests) == ((0,), ())


def test_a_heavy_request_rests() -> None:
    """FCFS with rests lets a heavy request wait, and freezes its worker."""
    load = workload([1000, 2, 2, 2], [3, 9, 9, 9])
    cluster = Cluster(workers=2, slots=2, step_overhead_s=0.1, token_time_s=1e-3)
    run = simulate(load, "pausing:base=fcfs:max_pauses=2:pausing-method=exact", cluster)
    assert run.rests is not None
    assert set(run.rests[:, 0].tolist()) == {0}
    assert run.statistics["unproven_steps"] == 0
    plain = simulate(load, "fcfs", cluster)
    assert run.finish_step[0] > plain.finish_step[0]
    assert run_violations(run, load, cluster) == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dispatch": "immediate"}, "dispatch decides about each arriving request"),
        ({"delay": 2}, "pauses requests, but decisions take effect later"),
        ({"telemetry": "delay=2"}, "telemetry reports only workers"),
        ({"predictor": "survival", "horizon": 3}, "predictors do not count paused steps"),
    ],
)
def test_what_a_run_with_rests_refuses(changes: dict[str, Any], message: str) -> None:
    """In one line, before anything runs."""
    with pytest.raises(InputError, match=message) as error:
        simulate(workload([4, 6], [2, 3]), Erratic(2), EXACT, **changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        ("pausing", {"dispatch": "immediate"}, "cannot bind a request when it arrives"),
        ("pausing", {"engine": "compiled"}, "the compiled engine cannot run policy pausing"),
        ("pausing:base=br-h", {}, "'br-h' cannot route for pausing.*use program or one of"),
        ("pausing:base=pausing", {}, "cannot route for pausing"),
        (
            "pausing:base=bf-io:horizon=2",
            {},
            "bf-io looks ahead, but pauses delay the ends of requests",
        ),
        ("pausing:max_pauses=-1", {}, "max_pauses"),
        ("pausing:pausing_method=luck", {}, "pausing_method"),
    ],
)
def test_what_the_policy_refuses(policy: str, options: dict[str, Any], message: str) -> None:
    """In one line."""
    with pytest.raises(InputError, match=message) as error:
        simulate(workload([4, 6], [2, 3]), policy, EXACT, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("cluster", "options", "message"),
    [
        (replace(EXACT, mean_time_s=0.1), {}, "step time \\(mean_time_s\\)"),
        (
            replace(EXACT, token_time_s=0.0),
            {},
            "token_time_s is 0, so no rest shortens a step; give",
        ),
        (
            replace(EXACT, memory=20),
            {"overflow": "reserve", "base": "program"},
            "overflow=reserve, because the program counts loads, not peaks; use another",
        ),
    ],
)
def test_machines_of_which_the_program_knows_too_little(
    cluster: Cluster, options: dict[str, Any], message: str
) -> None:
    """In one line."""
    with pytest.raises(InputError, match=message) as error:
        simulate(workload([4, 6], [2, 3]), "pausing", cluster, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Scripted({1: [0, 0]}), "an index occurs twice in the rests"),
        (Scripted({1: [7]}), r"step 1: rest 7 is not .*; use indices 0\.\.1 in active"),
        (Scripted({1: [-1]}), "step 1: rest -1 is not the index"),
        (Scripted({1: ["0"]}), "step 1: rest '0' is not the index"),  # type: ignore[list-item]
        (Scripted({1: [0, 1]}), "all active requests rest and none starts"),
        (Scripted({1: [0], 2: [0]}, max_pauses=1), "active request 0 has rested 1 step"),
        (Scripted({0: [9]}, max_pauses=None), "pauses requests, but declares no max_pauses; give"),
        (Scripted({0: []}, max_pauses=-1), "max_pauses"),
        (Scripted({0: []}, max_pauses="2"), "max_pauses"),
    ],
)
def test_bad_answers(policy: Scripted, message: str) -> None:
    """Policy and step are named, in one line."""
    with pytest.raises(InputError, match=message) as error:
        simulate(workload([4, 6], [4, 4]), policy, replace(EXACT, workers=1, slots=2))
    assert "\n" not in str(error.value)


def test_programs_that_know_nothing_of_rests() -> None:
    """Gaps of steps and hindsight refuse runs in which requests rest, in one line."""
    load, cluster = workload([4, 6, 5], [5, 6, 3]), replace(EXACT, workers=1, slots=2)
    script = Scripted({1: [1], 2: [1], 4: [0]})
    for policy in ("pausing", script):
        with pytest.raises(InputError, match="pauses active requests"):
            measure_gap(load, policy, cluster)
    with pytest.raises(InputError, match="active requests were paused 2 times"):
        hindsight_of_run(simulate(load, script, cluster), load)


def test_what_the_replay_finds() -> None:
    """Rests that are moved, made longer, split, forgotten or claimed."""
    load, cluster = workload([4, 6, 5], [5, 6, 3]), replace(EXACT, workers=1, slots=2)
    run = simulate(load, Scripted({1: [1], 2: [1], 4: [0]}), cluster)
    assert run.rests is not None
    assert run.rests.tolist() == [[1, 1, 3], [0, 4, 5]]
    assert run_violations(run, load, cluster) == {}

    def found(rests: Any, **changes: Any) -> set[str]:
        forged = None if rests is None else np.array(rests, dtype=np.int64).reshape(-1, 3)
        return set(run_violations(replace(run, rests=forged, **changes), load, cluster))

    assert "rests" in found(run.rests, max_pauses=1)
    assert {"rests"} == found([[1, 1, 2], [1, 2, 3], [0, 4, 5]])
    assert {"output-length", "loads"} <= found([[1, 1, 3]])
    assert {"loads", "active", "duration"} <= found([[1, 2, 4], [0, 4, 5]])
    assert "rests" in found([[1, 0, 2], [0, 4, 5]])
    assert "rests" in found(None)
    assert {"shape"} == found([[1, 3, 1], [0, 4, 5]])
    assert {"shape"} == found([[3, 1, 3], [0, 4, 5]])
