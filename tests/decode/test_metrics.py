"""Metrics against hand computation, and undefined metrics."""

import json
from dataclasses import replace
from itertools import product
from statistics import mean, median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.common.metrics import exact_sum
from bfio.decode.cluster import Cluster
from bfio.decode.metrics import METRICS, half_widths, jain_index, measure, measure_steady
from bfio.decode.simulation import simulate
from bfio.decode.stints import Cause
from bfio.testing.runs import Scenario, scenarios
from bfio.workloads.synthetic_workloads import synthetic
from formulations.errors import InputError
from tests.decode.cases import EXACT, first_come, workload

HAND = workload([3, 1, 4], [2, 3, 1])


#: Metrics of prefixes, of a prefill tier, of prompts that workers compute, of pauses, of limits.
NOT_OF_THIS_RUN = (
    "prefix_hit_tokens", "prefix_hit_rate",
    "expired", "expired_tokens", "prefill_held_s", "ready_delay_mean_s", "refused",
    "prefill_tokens", "prefill_mean_s", "budget_share",
    "barrier_loss_loads", "barrier_loss_batches",
    "rests", "rest_share", "longest_rest", "tpot_p95_awake_s",
    "slo_share", "goodput_requests_per_s", "goodput_tokens_per_s",
)  # fmt: skip


def test_hand_computed_metrics() -> None:
    """The hand trace of test_engine: loads (3,1), (4,2), (4,3); durations 2.5, 3, 3 s.

    Imbalance 2·3-4 = 2, 2·4-6 = 2, 2·4-7 = 1; gaps 2, 2, 1; idle fractions 2/6, 2/8, 1/8.
    r0 runs 0-5.5 (2 tokens), r1 0-8.5 (3 tokens), r2 5.5-8.5 (1 token); all revealed at 0.
    """
    found = measure(simulate(HAND, first_come, EXACT))
    tpot = [5.5 / 2, 8.5 / 3, 3.0]
    expected = {
        "steps": 3,
        "tokens": 6,
        "completed": 3,
        "partial": 0,
        "work": 17,
        "total_time_s": 8.5,
        "idle_time_s": 0.0,
        "avg_imbalance": 5 / 3,
        "avg_gap": 5 / 3,
        "idle_fraction": mean([2 / 6, 2 / 8, 1 / 8]),
        "idle_fraction_median": 2 / 8,
        # Waiting costs 0.5 s per token: 0.5·(2 + 2 + 1) of 2·8.5 worker-seconds.
        "barrier_loss": 2.5 / 17,
        "avg_load": 17 / 6,
        "load_balance_efficiency": 1 - 2.5 / 17,
        "balanced_throughput_tokens_per_s": 6 / (8.5 - 1.25),
        "started_prompt_mean": 8 / 3,
        # r2, of 4 tokens, is left waiting after steps 0 and 1, revealed at step 0.
        "waiting_prompt_mean": 4.0,
        "waiting_age_mean": 0.5,
        "max_waiting": 1,
        "interruptions": 0,
        "cancelled": 0,
        "cancelled_tokens": 0,
        "recomputed_tokens": 0,
        "swapped_tokens": 0,
        "throughput_tokens_per_s": 6 / 8.5,
        "tpot_mean_s": mean(tpot),
        "tpot_p50_s": median(tpot),
        # Linear interpolation: position 0.95·2 = 1.9 between the 2nd and 3rd smallest.
        "tpot_p95_s": tpot[1] + 0.9 * (tpot[2] - tpot[1]),
        "tpot_p99_s": tpot[1] + 0.98 * (tpot[2] - tpot[1]),
        "tpot_max_s": tpot[2],
        "queueing_delay_mean_s": 5.5 / 3,
        "queueing_delay_p50_s": 0.0,
        "queueing_delay_p95_s": 0.9 * 5.5,
        "queueing_delay_p99_s": 0.98 * 5.5,
        "queueing_delay_max_s": 5.5,
        # First steps end at 2.5, 2.5 and 8.5.
        "ttft_mean_s": 13.5 / 3,
        "ttft_p50_s": 2.5,
        "ttft_p95_s": 2.5 + 0.9 * 6,
        "ttft_p99_s": 2.5 + 0.98 * 6,
        "ttft_max_s": 8.5,
        "latency_mean_s": (5.5 + 8.5 + 8.5) / 3,
        "latency_p50_s": 8.5,
        "latency_p95_s": 8.5,
        "latency_p99_s": 8.5,
        "latency_max_s": 8.5,
        **dict.fromkeys(NOT_OF_THIS_RUN),
        # Rates 2/5.5, 3/8.5 and 1/8.5, relative to the first 1, 33/34, 11/34: (78/34)²/(3·Σ²).
        "fairness_jain": 78**2 / (3 * (34**2 + 33**2 + 11**2)),
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert set(found) - set(expected) == {
        "energy_j",
        "energy_per_token_j",
        "energy_averaged_j",
        "power_mean_w",
        "power_max_w",
    }


@pytest.mark.parametrize(
    ("limits", "met"),
    [
        # First tokens after 2.5, 2.5 and 8.5 s; times per token 2.75, 2.83.. and 3 s.
        ("ttft=2.5", [0, 1]),
        ("tpot=2.75", [0]),
        ("ttft=8.5,tpot=2.9", [0, 1]),
        ("ttft=8.5,tpot=3", [0, 1, 2]),
        ("ttft=2.4,tpot=3", []),
    ],
)
def test_goodput_counts_who_was_served_within_both_limits(limits: str, met: list[int]) -> None:
    """Limits are met with equality; requests and their tokens are over the 8.5 s of the run."""
    found = measure(simulate(HAND, first_come, EXACT, slo=limits))
    assert found["slo_share"] == len(met) / 3
    assert found["goodput_requests_per_s"] == len(met) / 8.5
    assert found["goodput_tokens_per_s"] == sum(HAND.output_tokens[i] for i in met) / 8.5


def test_who_is_not_done_met_no_limit_and_idle_time_counts() -> None:
    """Of three that started one is done after one step; a late arrival lets time pass idle."""
    cut = measure(simulate(HAND, first_come, EXACT, slo="ttft=9", steps=2))
    assert (cut["completed"], cut["partial"], cut["slo_share"]) == (1, 1, 0.5)
    late = workload([1, 1], [1, 1], arrivals=["0", "10"])
    found = measure(simulate(late, first_come, EXACT, arrivals="timed", slo="ttft=9"))
    assert found["idle_time_s"] == 8.5
    assert found["goodput_requests_per_s"] == 2 / 11.5


@pytest.mark.parametrize(
    "limits", ["", "2", "ttft=", "ttft=0", "tpot=nan", "ttft=1,ttft=2", "itl=3", "ttft=inf"]
)
def test_limits_that_cannot_be_read(limits: str) -> None:
    """One line names the limit."""
    with pytest.raises(InputError, match=r"slo|ttft|tpot"):
        simulate(HAND, first_come, EXACT, slo=limits)


def test_jain_index() -> None:
    """Equal shares 1, one of n got all 1/n, and no unit: 1, 2, 3 make 36/(3·14)."""
    assert jain_index(np.array([0.1] * 7)) == 1
    assert jain_index(np.array([0.0, 5.0, 0.0, 0.0])) == 0.25
    assert jain_index(np.array([1e-200, 2e-200, 3e-200])) == pytest.approx(36 / 42)


@given(scenario=scenarios())
def test_who_waits_is_counted_request_by_request(scenario: Scenario) -> None:
    """Means over all pairs of a step and a request that is left waiting there, and their count."""
    run = scenario.simulate(scenario.erratic_policy())
    prompts = scenario.workload.prompt_tokens.tolist()
    gone = np.where(run.cancel_step < 0, run.steps, run.cancel_step).tolist()
    pairs = [
        (prompts[i], k - int(run.reveal_step[i]))
        for i, k in product(range(len(prompts)), range(run.steps))
        if 0 <= run.reveal_step[i] <= k < gone[i] and not 0 <= run.start_step[i] <= k
    ]
    # Those that were interrupted wait again until their next stint, unless the host has them.
    stints = sorted(run.interruptions.tolist(), key=lambda row: (row[0], row[2]))
    for n, (i, _, _, left, cause) in enumerate(stints):
        later = [start for j, _, start, _, _ in stints[n + 1 :] if j == i]
        back = [*later, int(run.last_start_step[i]), run.steps]
        until = min(gone[i], next(step for step in back if step >= left))
        waits = range(left, until) if cause != Cause.SWAP else ()
        pairs += [(prompts[i], k - int(run.reveal_step[i])) for k in waits]
    assert len(pairs) == run.waiting.sum()
    found = measure(run)
    means = [mean(values) for values in zip(*pairs, strict=True)] or [None, None]
    assert found["waiting_prompt_mean"] == pytest.approx(means[0])
    assert found["waiting_age_mean"] == pytest.approx(means[1])


@given(scenario=scenarios())
def test_throughput_is_balance_times_what_is_served(scenario: Scenario) -> None:
    """The two factors multiply exactly, and the first is what the barrier leaves."""
    found = measure(scenario.simulate(scenario.erratic_policy()))
    if found["steps"]:
        efficiency, balanced = (
            found["load_balance_efficiency"],
            found["balanced_throughput_tokens_per_s"],
        )
        assert efficiency is not None
        assert balanced is not None
        assert found["barrier_loss"] == pytest.approx(1 - efficiency, abs=1e-9)
        assert found["throughput_tokens_per_s"] == pytest.approx(efficiency * balanced)


def test_steady_metrics_count_steady_steps_and_requests() -> None:
    """Steady are steps 0 and 1, and the requests that started there: r0 and r1.

    These are the steps of the hand trace; a fourth request is shown at step 1 and starts later.
    """
    four = workload([3, 1, 4, 2], [2, 3, 1, 1])
    found = measure_steady(simulate(four, first_come, EXACT, pool=3))
    assert found is not None
    assert (found["steps"], found["tokens"], found["work"], found["completed"]) == (2, 4, 10, 2)
    assert found["total_time_s"] == 5.5
    assert found["avg_imbalance"] == 2.0
    assert found["tpot_mean_s"] == pytest.approx(mean([5.5 / 2, 8.5 / 3]))
    assert found["queueing_delay_mean_s"] == 0.0


def test_timed_latency_counts_from_arrival() -> None:
    """Steps of 1 s in one slot, arrivals 0.5, 0.75, 10 (see test_engine): latencies 2, 2.75, 1."""
    cluster = Cluster(workers=1, slots=1, step_overhead_s=1.0, token_time_s=0.0)
    load = workload([5, 5, 5], [2, 1, 1], ["0.5", "0.75", "10"])
    found = measure(simulate(load, first_come, cluster, arrivals="timed"))
    assert found["latency_mean_s"] == pytest.approx(5.75 / 3)
    assert found["queueing_delay_mean_s"] == pytest.approx(1.75 / 3)
    assert (found["idle_time_s"], found["total_time_s"]) == (7.0, 11.0)
    # Idle time is no step: 4 tokens in 4 s of steps.
    assert found["throughput_tokens_per_s"] == 1.0


def test_pool_latency_counts_from_reveal() -> None:
    """With R = 1 the second request is revealed when the first has left, so it never waits."""
    cluster = Cluster(workers=1, slots=1, step_overhead_s=1.0, token_time_s=0.0)
    found = measure(simulate(workload([5, 5], [1, 1]), first_come, cluster, pool=1))
    assert found["queueing_delay_mean_s"] == 0.0
    assert found["latency_mean_s"] == 1.0


def test_nothing_completed_gives_none_and_not_zero() -> None:
    """After one step no request is complete: its metrics are None, those of steps are there."""
    found = measure(simulate(HAND, first_come, EXACT, steps=1))
    assert (found["completed"], found["partial"]) == (0, 2)
    assert found["tpot_mean_s"] is found["latency_p95_s"] is found["queueing_delay_mean_s"] is None
    assert found["avg_gap"] == 2.0


def test_no_steps_give_none() -> None:
    """An empty run counts 0 of everything and averages nothing."""
    run = simulate(workload([], []), first_come, EXACT)
    found = measure(run)
    assert (found["steps"], found["tokens"], found["work"]) == (0, 0, 0)
    for name in ("avg_imbalance", "idle_fraction", "throughput_tokens_per_s", "max_waiting"):
        assert found[name] is None
    assert measure_steady(run) is None


def test_energy_needs_the_trajectory() -> None:
    """Without kept loads the energy is None; everything else is as before."""
    with_loads = measure(simulate(HAND, first_come, EXACT))
    without = measure(simulate(HAND, first_come, EXACT, keep_trajectory=False))
    assert without["energy_j"] is without["energy_averaged_j"] is None
    assert without["energy_per_token_j"] is None
    same = [name for name in without if not name.startswith(("energy", "power"))]
    assert {n: without[n] for n in same} == {n: with_loads[n] for n in same}


def test_sums_are_exact_beyond_64_bits() -> None:
    """Three steps of imbalance 2·2^61 = 2^62 each: their sum exceeds 2^63, the mean is exact."""
    run = simulate(HAND, first_come, EXACT)
    heavy = replace(run, max_load=np.full(3, 2**61), total_load=np.zeros(3, dtype=np.int64))
    assert measure(heavy)["avg_imbalance"] == float(2**62)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50))
def test_exact_sum(values: list[int]) -> None:
    """It agrees with Python integers for any int64 values."""
    assert exact_sum(np.array(values, dtype=np.int64)) == sum(values)


@given(scenario=scenarios())
def test_relations_between_metrics(scenario: Scenario) -> None:
    """Imbalance <= (G-1)·gap, fractions in [0, 1], percentiles ordered, and plain JSON values."""
    run = scenario.simulate(scenario.erratic_policy())
    for found in (measure(run), measure_steady(run)):
        if found is None or run.steps == 0:
            continue
        numbers = {k: v for k, v in found.items() if v is not None}
        assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
        G = scenario.cluster.workers
        slack = 1e-9 * numbers["work"]
        assert numbers["avg_imbalance"] <= (G - 1) * numbers["avg_gap"] + slack
        assert numbers["avg_gap"] <= numbers["avg_imbalance"] + slack
        assert 0 <= numbers["idle_fraction"] <= 1
        if "tpot_mean_s" in numbers:
            assert numbers["tpot_p50_s"] <= numbers["tpot_p95_s"] <= numbers["tpot_p99_s"]
            assert 0 <= numbers["queueing_delay_mean_s"] <= numbers["latency_mean_s"]


def test_every_metric_is_described() -> None:
    """Names are unique and no unit or description is empty."""
    entries = list(METRICS)
    assert len({m.name for m in entries}) == len(entries) > 20
    assert all(m.unit and m.description for m in entries)


def test_the_metrics_of_a_run() -> None:
    """Names of metrics, in their units; all None without a part."""
    run = simulate(synthetic("demo", 400, 0), "fcfs", Cluster(2, 8), pool=8)
    widths = half_widths(run, run.steady_mask())
    of_steps = {"avg_imbalance", "avg_gap", "idle_fraction", "throughput_tokens_per_s"}
    of_steps |= {"avg_load", "load_balance_efficiency", "balanced_throughput_tokens_per_s"}
    of_steps |= {"waiting_prompt_mean", "waiting_age_mean"}
    of_requests = {"tpot_mean_s", "queueing_delay_mean_s", "latency_mean_s", "ttft_mean_s"}
    of_requests |= {"started_prompt_mean"}
    of_none = {"prefix_hit_rate", "ready_delay_mean_s", "rest_share"}
    of_none |= {"prefill_mean_s", "budget_share"}
    assert set(widths) == of_steps | of_requests | of_none
    # There are no caches to hit, no prefill tier to become ready in, and nobody rests.
    assert widths["prefix_hit_rate"] is None
    assert widths["ready_delay_mean_s"] is None
    assert widths["rest_share"] is None
    assert all((widths[name] or 0) > 0 for name in of_steps)
    assert set(half_widths(run, None).values()) == {None}
