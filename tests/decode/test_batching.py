"""Workers with token budgets: instances by hand, the naive engine, and one engine of batches."""

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.batching.laws import ListedArrivals, ListedSizes
from bfio.batching.registry import build
from bfio.batching.scenario import Scenario as OneEngine
from bfio.batching.scenario import Serving
from bfio.batching.simulation import simulate as simulate_slots
from bfio.calibration.measurements import MeasuredSteps
from bfio.decode.cluster import Cluster
from bfio.decode.energy import EnergyObserver
from bfio.decode.energy_model import EnergyModel
from bfio.decode.metrics import measure
from bfio.decode.policy import Policy
from bfio.decode.policy_registry import built_in
from bfio.decode.replay import run_violations
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.gap import measure_gap
from bfio.studies.row_parts.runs import run_series
from bfio.testing.runs import Scenario
from formulations.batching import Agent, AgentNetwork, BatchTime, Stage
from formulations.errors import InputError
from tests.decode.cases import (
    BATCHING,
    EXACT,
    Together,
    batched_scenarios,
    first_come,
    least_projected,
    workload,
)
from tests.decode.test_reference import (
    Recorder,
    assert_same_record,
    assert_same_states,
    reference,
)

#: A second a step and half a second a token of the peak; four tokens a batch, the first of them
#: free, a quarter of a second each of the others.
SMALL = Cluster(
    workers=2,
    slots=2,
    step_overhead_s=1.0,
    token_time_s=0.5,
    token_budget=4,
    batch_token_time_s=0.25,
    free_tokens=1,
)
THREE = workload([6, 2, 3], [2, 3, 1])


def batches_of(run: Run) -> list[dict[int, tuple[int, bool]]]:
    """Return what was loaded of each request at each step: tokens, and whether it was decoded."""
    assert run.chunks is not None
    assert run.rests is not None
    found: list[dict[int, tuple[int, bool]]] = [{} for _ in range(run.steps)]
    rests: dict[int, set[int]] = defaultdict(set)
    for who, first, end in run.rests.tolist():
        rests[who] |= set(range(first, end))
    for who, (start, finish) in enumerate(
        zip(run.start_step.tolist(), run.finish_step.tolist(), strict=True)
    ):
        last = run.steps - 1 if finish < 0 else finish
        for step in range(start, last + 1) if start >= 0 else ():
            if step not in rests[who]:
                found[step][who] = (1, True)
    for step, who, tokens in run.chunks.tolist():
        assert who not in found[step]
        found[step][who] = (tokens, False)
    return found


def test_chunks_by_hand() -> None:
    """Worker 0 has requests 0 and 2, worker 1 request 1; decode tokens first (sarathi).

    | step | worker 0                     | worker 1         | lasts                        |
    | 0    | 4 of 6 tokens of request 0   | the 2 of 1       | 1 + 3/4                      |
    | 1    | 2 more, which read 4; 2 of 2 | decodes 1, reads 2 | 1 + 4/2 + 3/4              |
    | 2    | decodes 0 (6); the third of 2 (reads 2) | decodes (3) | 1 + 8/2 + 1/4         |
    | 3    | decodes 0 (7), 2 (3)         | decodes (4)      | 1 + 10/2 + 1/4               |
    """
    run = simulate(THREE, "fcfs", SMALL)
    assert run.worker.tolist() == [0, 1, 0]
    assert run.duration_s.tolist() == [1.75, 3.75, 5.25, 6.25]
    assert run.loads is not None
    assert run.loads.tolist() == [[0, 0], [4, 2], [8, 3], [10, 4]]
    assert run.active.tolist() == [0, 1, 2, 3]
    assert run.chunks is not None
    assert run.chunks.tolist() == [[0, 0, 4], [0, 1, 2], [1, 0, 2], [1, 2, 2], [2, 2, 1]]
    assert run.rests is not None
    assert run.rests.tolist() == [[0, 0, 2], [1, 0, 1], [2, 0, 3]]
    batches = run.batch_tokens()
    assert batches is not None
    assert batches.tolist() == [[4, 2], [4, 1], [2, 1], [2, 1]]
    assert run.decode_step().tolist() == run.first_token_step().tolist() == [2, 1, 3]
    assert run.finish_step.tolist() == [3, 3, 3]
    assert run_violations(run, THREE, SMALL) == {}
    values = measure(run)
    # First tokens at the ends of steps 2, 1 and 3: 10.75, 5.5 and 17 s.
    assert values["ttft_mean_s"] == pytest.approx((10.75 + 5.5 + 17) / 3)
    # From the ends of steps 1, 0 and 2, when the prompts are computed, to the end at 17 s.
    each = [11.5 / 2, 15.25 / 3, 6.25]
    assert values["tpot_mean_s"] == pytest.approx(np.mean(each))
    assert values["tpot_p95_awake_s"] == values["tpot_p95_s"] == np.percentile(each, 95)
    assert values["prefill_mean_s"] == pytest.approx((5.5 + 1.75 + 10.75) / 3)
    assert values["prefill_tokens"] == 11
    assert values["budget_share"] == 17 / 32
    # Worker 1 waits 0.5, 1.75, 2.75 and 3.25 s less of the 17 s of each of two workers.
    assert values["barrier_loss"] == pytest.approx((0.5 + 1.75 + 2.75 + 3.25) / 34)
    # By loads 0, 1, 2.5 and 3 s; by tokens 0.5, 0.75, 0.25 and 0.25 s.
    assert values["barrier_loss_loads"] == pytest.approx(6.5 / 34)
    assert values["barrier_loss_batches"] == pytest.approx(1.75 / 34)
    assert values["energy_j"] is None
    # No load at step 0 is no imbalance, in metrics and in the series of studies.
    assert run.idle_fractions().tolist() == [0.0, 0.25, 5 / 16, 0.3]
    assert list(run_series(run)["idle_fraction"]) == run.idle_fractions().tolist()


def test_decode_tokens_wait_for_prompts() -> None:
    """Under vllm request 0, computed after step 1, waits at step 2 for the last of request 2.

    It holds its slot and its cache meanwhile, and that wait is part of its time per token.
    """
    run = simulate(THREE, "fcfs", SMALL, batching="vllm")
    assert run.duration_s.tolist() == [1.75, 3.75, 2.5, 5.75, 4.5]
    assert run.decode_step().tolist() == [2, 1, 3]
    assert run.first_token_step().tolist() == [3, 1, 3]
    assert run_violations(run, THREE, SMALL) == {}
    values = measure(run)
    each = np.array([12.75 / 2, 12 / 3, 5.75])
    assert values["tpot_mean_s"] == pytest.approx(each.mean())
    awake = each - [2.5 / 2, 0, 0]
    assert values["tpot_p95_awake_s"] == pytest.approx(np.percentile(awake, 95))


def test_a_budget_for_everything_and_prompts_in_no_time() -> None:
    """The instance of docs/engine.md, each request with a step before its first token.

    Steps of 1 s and half a second a token: prompts 3 and 1 at step 0, no load; 3 and 1 are
    decoded (2.5 s), 4 and 2 (3 s); request 2 has the slot of request 0 then, and its prompt is
    computed beside the last token of request 1, 3 (2.5 s); at last its 4 (3 s).
    """
    load = workload([3, 1, 4], [2, 3, 1])
    cluster = Cluster(2, 1, step_overhead_s=1.0, token_time_s=0.5, token_budget=10**6)
    run = simulate(load, first_come, cluster)
    assert run.worker.tolist() == [0, 1, 0]
    assert run.duration_s.tolist() == [1.0, 2.5, 3.0, 2.5, 3.0]
    assert run.loads is not None
    assert run.loads.tolist() == [[0, 0], [3, 1], [4, 2], [0, 3], [4, 0]]
    assert run_violations(run, load, cluster) == {}


@pytest.mark.parametrize(
    ("budget", "durations", "end_s"),
    [
        (4, [3.0, 3.0, 1.5, 1.5], 9.0),
        (2, [2.0, 2.0, 2.0, 2.0, 1.5], 8.0),
        (8, [5.0, 1.5, 1.5, 1.5], 9.5),
    ],
)
def test_a_long_prompt_stalls_the_other_worker(
    budget: int, durations: list[float], end_s: float
) -> None:
    """A prompt of 8 tokens on worker 0, one of 1 with three tokens to decode on worker 1.

    A step is a second and half a second for each token of the largest batch. Alone the second
    request would take four steps of 1.5 s. Beside chunks of 4 the first two take 3 s; beside
    chunks of 2 all four take 2 s; beside the whole prompt at once the first takes 5 s.
    """
    load = workload([8, 1], [1, 3])
    cluster = Cluster(
        2, 1, step_overhead_s=1.0, token_time_s=0.0, token_budget=budget, batch_token_time_s=0.5
    )
    run = simulate(load, "fcfs", cluster)
    assert run.worker.tolist() == [0, 1]
    assert run.duration_s.tolist() == durations
    assert run.end_s()[run.finish_step[1]] == end_s
    assert run_violations(run, load, cluster) == {}
    alone = simulate(workload([1], [3]), "fcfs", cluster)
    assert alone.end_s()[-1] == 6.0


@pytest.mark.parametrize("policy", [first_come, None, least_projected, Together()])
@given(scenario=batched_scenarios())
def test_engine_agrees_with_naive_engine(policy: Policy | None, scenario: Scenario) -> None:
    """States, steps, chunks and requests agree bit by bit, and no rule is broken."""
    policy = policy or scenario.erratic_policy()
    seen, expected_seen = Recorder(policy), Recorder(policy)
    run = scenario.simulate(seen)
    expected = reference(scenario, expected_seen)
    assert_same_record(run, expected)
    assert run.chunks is not None
    assert sorted(run.chunks.tolist()) == sorted(map(list, expected.chunks))
    assert_same_states(seen.states, expected_seen.states)
    assert run_violations(run, scenario.workload, scenario.cluster) == {}


@given(scenario=batched_scenarios(drained=True), rule=st.sampled_from(["fcfs", "br-0", "jsq"]))
def test_nothing_is_lost(scenario: Scenario, rule: str) -> None:
    """Every prompt is computed once, every token emitted once, and stragglers break no rule."""
    slow = tuple((k / 2, k % scenario.cluster.workers, 1.0 + k % 3) for k in range(9))
    run = scenario.simulate(rule, stragglers=slow, horizon=0)
    assert run.is_drained
    assert run.chunks is not None
    computed = np.zeros(run.num_requests, dtype=np.int64)
    np.add.at(computed, run.chunks[:, 1], run.chunks[:, 2])
    assert np.array_equal(computed, scenario.workload.prompt_tokens)
    assert run.tokens == scenario.workload.total_output_tokens
    assert run_violations(run, scenario.workload, scenario.cluster) == {}
    values = measure(run)
    if run.steps:
        assert float(str(values["barrier_loss"])) >= -1e-12
        assert values["work"] == run.total_load.sum()


@given(batching=st.sampled_from(BATCHING), data=st.data())
def test_one_worker_is_an_engine_of_batches(batching: str, data: st.DataObject) -> None:
    """With one worker and loads that take no time, batches are those of `bfio.batching`.

    There an arrival in slot n may be loaded in slot n + 1, here a request that arrives at second n
    at the first step from then on; a batch lasts whole slots of a second.
    """
    n = data.draw(st.integers(1, 12))
    slots = sorted(data.draw(st.lists(st.integers(0, 40), min_size=n, max_size=n)))
    prompts, outputs = (
        data.draw(st.lists(st.integers(1, most), min_size=n, max_size=n)) for most in (25, 9)
    )
    c, a = (data.draw(st.integers(least, 4)) for least in (1, 0))
    free = data.draw(st.integers(0, 4)) if a else 0
    budget = data.draw(st.integers(1, 20))
    rule = build(batching)
    network = AgentNetwork(
        (Agent("gpu", budget, BatchTime(Fraction(c), Fraction(a), free)),),
        (Stage("all", "gpu", 1, 1, Fraction(1, 9), "all"),),  # type: ignore[arg-type]
    )
    scenario = OneEngine(
        network,
        Serving(rule, batching),
        listed_sizes={"all": ListedSizes(np.array(prompts), np.array(outputs), in_order=True)},
        listed_arrivals={"all": ListedArrivals(np.array(slots))},
    )
    expected = simulate_slots(scenario, engine="reference", keeps_log=True)
    assert expected.log is not None
    parts = expected.log.parts.tolist()
    theirs = [
        (slot, lasts, {who: (x, bool(is_d)) for b, who, x, is_d in parts if b == k})
        for k, (_, slot, lasts, _, _) in enumerate(expected.log.batches.tolist())
    ]
    load = workload(prompts, outputs, [str(slot + 1) for slot in slots])
    cluster = Cluster(
        1,
        n,
        step_overhead_s=c,
        token_time_s=0.0,
        token_budget=budget,
        batch_token_time_s=a,
        free_tokens=free,
    )
    run = simulate(load, "fcfs", cluster, arrivals="timed", batching=batching)
    steps = zip(run.start_s.tolist(), run.duration_s.tolist(), batches_of(run), strict=True)
    assert list(steps) == theirs
    assert run_violations(run, load, cluster) == {}


@pytest.mark.parametrize("name", sorted(set(built_in()) - {"bf-io", "rolling-horizon"}))
@pytest.mark.parametrize("dispatch", ["pooled", "immediate"])
def test_every_policy_routes_or_says_why_not(name: str, dispatch: str) -> None:
    """All that route; not those that keep books of requests or say themselves who rests."""
    load = workload([100 + 97 * k % 1900 for k in range(40)], [1 + 7 * k % 20 for k in range(40)])
    cluster = Cluster(workers=3, slots=4, token_budget=256, batch_token_time_s=1e-5)
    spec = built_in()[name]
    if name in {"adaptive", "pausing"} or dispatch not in spec.dispatch:
        with pytest.raises(
            InputError, match=r"decides which requests rest|assumes that requests|when it arrives"
        ):
            simulate(load, name, cluster, pool=9, dispatch=dispatch)
        return
    run = simulate(load, name, cluster, pool=9, dispatch=dispatch)
    assert run.engine == "reference"
    assert run.is_drained
    assert run_violations(run, load, cluster) == {}


def test_routers_see_prompts_in_whole() -> None:
    """A prompt counts from the start; what is left of it is told apart, for pending-prefill.

    Requests 0 and 1 start at step 0, 6 tokens on worker 0 and 2 on worker 1, in chunks of 2. When
    request 2 is revealed, at step 1, worker 0 has 4 tokens left and worker 1 none.
    """
    seen = Recorder(first_come)
    load = workload([6, 2, 1], [9, 9, 9], ["0", "0", "1"])
    cluster = replace(SMALL, token_budget=2)
    simulate(load, seen, cluster, arrivals="timed")
    assert seen.states[1].step == 1
    assert seen.states[1].loads.tolist() == [6, 2]
    assert seen.states[1].pending_prefill.tolist() == [4, 0]
    assert seen.states[1].running.tolist() == [1, 1]
    run = simulate(load, "pending-prefill", cluster, arrivals="timed")
    assert run.worker.tolist() == [0, 1, 1]


def test_peaks_are_reserved() -> None:
    """Memory holds whole prompts from the start: the second request waits for the first."""
    load = workload([6, 2], [2, 2])
    cluster = replace(SMALL, workers=1, memory=9)
    run = simulate(load, "fcfs", cluster, overflow="reserve")
    assert run.start_step.tolist() == [0, 4]
    assert run_violations(run, load, cluster) == {}
    both = simulate(load, "fcfs", replace(cluster, memory=10), overflow="reserve")
    assert both.start_step.tolist() == [0, 0]


TIMED = {"arrivals": "timed"}


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"memory": 99}, {}, "token_budget: requests may leave their worker.*overflow="),
        ({}, {"failures": ((1.0, 0, "fail"),)}, "token_budget: requests may leave"),
        ({}, {**TIMED, "cancellations": ((1.0, 0),)}, "token_budget: requests may leave"),
        ({}, {**TIMED, "prefill": "workers=1,token_time=1"}, "the prefill tier computes prompts"),
        ({}, {"telemetry": "delay=2"}, "reports do not include the progress of prompts"),
        ({"prefix_cache": 600}, {}, "prefix cache hits would not shorten"),
        ({}, {**TIMED, "load": "0.5"}, "the offered load is defined for decode tokens only"),
        ({}, {"policy": "br-h", "predictor": "survival"}, "predictors count decode steps"),
        ({"token_budget": None}, {"batching": "vllm"}, "batching: there are no token budgets"),
        ({}, {"batching": "vlm"}, "vlm: unknown policy; did you mean vllm"),
        ({}, {"batching": "sarathi:kp=x"}, "kp"),
        ({}, {"batching": 3}, "batching: 3 is not a string"),
        ({}, {"engine": "compiled"}, "cannot run policy fcfs with token budgets"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], options: dict[str, Any], message: str) -> None:
    """In one line, before anything runs."""
    if changes.get("token_budget", 1) is None:
        changes |= {"batch_token_time_s": 0.0, "free_tokens": 0}
    load = workload([6, 2], [2, 2], ["0", "1"])
    with pytest.raises(InputError, match=message) as error:
        simulate(load, cluster=replace(SMALL, **changes), **{"policy": "fcfs"} | options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"token_budget": 0}, "token_budget"),
        ({"token_budget": (4, 4, 4)}, "3 entries for 2 workers"),
        ({"batch_token_time_s": -1.0}, "batch_token_time_s"),
        ({"free_tokens": -1}, "free_tokens"),
        (
            {"token_budget": None, "batch_token_time_s": 0.0},
            "free_tokens: has no effect without token budgets",
        ),
        (
            {"token_budget": None, "free_tokens": 0},
            "batch_token_time_s: has no effect without token budgets",
        ),
        (
            {"batch_token_time_s": 0.0},
            "free_tokens: has no effect while batch_token_time_s is 0; give",
        ),
    ],
)
def test_clusters_that_cannot_be(fields: dict[str, Any], message: str) -> None:
    """Budgets and times have their domains, and times of batches need budgets."""
    with pytest.raises(InputError, match=message):
        replace(SMALL, **fields)


def nothing(state: Any) -> list[int]:
    """Load nothing."""
    return [0] * len(state)


def too_much(state: Any) -> list[int]:
    """Load all that there is, whatever the budget."""
    return [left or 1 for left in state.prefill]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            "nothing",
            "nothing, step 0: requests have slots, but all batches are empty; let one work",
        ),
        ("too_much", "too_much of worker 0, slot 0: 9 tokens exceed the budget of 4"),
    ],
)
def test_rules_of_ones_own_are_checked(rule: str, message: str) -> None:
    """What they answer is held against (2.5), and somebody always computes something."""
    with pytest.raises(InputError, match=message):
        simulate(THREE, "fcfs", SMALL, batching=f"{__name__}:{rule}")


def test_what_knows_nothing_of_batches() -> None:
    """Gaps, fits and energy refuse; a policy that lets requests rest does not route."""
    with pytest.raises(
        InputError, match="token_budget: step durations depend on token budgets, not"
    ):
        MeasuredSteps.from_run(simulate(THREE, "fcfs", SMALL))
    with pytest.raises(InputError, match="token_budget: loads depend on batches"):
        measure_gap(THREE, "fcfs", SMALL)
    with pytest.raises(InputError, match="count decode tokens only"):
        EnergyObserver(SMALL, EnergyModel())

    def pauses(state: DecodeState) -> list[int | None]:
        return first_come(state)

    pauses.max_pauses = 2  # type: ignore[attr-defined]
    with pytest.raises(
        InputError, match="decides which requests rest, but with a token budget the batches"
    ):
        simulate(THREE, pauses, SMALL)


def test_without_a_budget_nothing_changes() -> None:
    """No chunks, no rests, and every metric of batches is None."""
    run = simulate(THREE, "fcfs", EXACT)
    assert run.chunks is run.rests is run.batch_tokens() is None
    values = measure(run)
    names = ("prefill_tokens", "budget_share", "barrier_loss_loads", "barrier_loss_batches")
    assert [values[name] for name in (*names, "prefill_mean_s")] == [None] * 5
    assert run.decode_step().tolist() == run.first_token_step().tolist() == run.start_step.tolist()
