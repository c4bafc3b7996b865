"""The line of settings above tables, and what is said below them."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from bfio.cli.main import main
from bfio.decode.cluster import Cluster
from bfio.decode.comparison import compare
from bfio.decode.drift import parse_drift
from bfio.decode.energy_model import EnergyModel
from bfio.decode.metrics import METRICS, measure
from bfio.decode.options import ArrivalMode, Dispatch, RunOptions
from bfio.decode.policy_options import PolicyOptions
from bfio.decode.settings import (
    by_the_clock,
    drain_share,
    load_drift,
    no_steady_part,
    remarks,
    settings,
)
from bfio.decode.simulation import simulate
from bfio.workloads import Workload, read_trace, synthetic
from formulations.arrays import IntArray
from formulations.errors import InputError

LONG = Workload(np.full(12, 5), np.array([1, 4, 2, 3] * 3), name="long")
TIMED = Workload(np.full(3, 5), np.full(3, 2), tuple(map(Fraction, (0, 100, 200))), name="timed")


@pytest.mark.parametrize("drift", ["age:8*1,-4", "global-step:2,1", "age:0"])
def test_settings_name_loads_that_grow_otherwise(drift: str) -> None:
    """As the option has it; the default is not named."""
    line = settings(LONG, Cluster(2, 3), [RunOptions(drift=parse_drift(drift, "drift"))])
    assert f"drift {drift}, look-ahead 0" in line
    assert "drift" not in settings(LONG, Cluster(2, 3), [RunOptions()])


def test_settings_name_everything(tmp_path: Path) -> None:
    """Requests and those left out, machine, arrivals, look-ahead, predictor, seed, version."""
    path = tmp_path / "mine.csv"
    path.write_text("arrival_time_s,prompt_tokens,output_tokens\n0,5,2\n1,5,0\n2,x,3\n")
    workload = read_trace(path, skip_bad_rows=True)
    options = RunOptions(
        pool=7, seed=3, predictor="oracle", steps=1000, dispatch=Dispatch.IMMEDIATE
    )
    line = settings(workload, Cluster(2, 3), [options, RunOptions(horizon=20)])
    assert line.startswith(
        "mine: 1 requests (1 without output dropped, 1 bad skipped), 2x3 (workers x slots), "
        "pool of 7, at most 1,000 steps, immediate dispatch, look-ahead 0 to 20 "
        "(constant loads), predictor oracle (known lengths of active requests), seed 3, bfio "
    )
    timed = settings(
        workload,
        Cluster(2, 3),
        [RunOptions(arrivals=ArrivalMode.TIMED, rate_scale=Fraction(5, 2))],
    )
    assert "timed arrivals at 2.5 times their rate, look-ahead 0, predictor none" in timed


def test_settings_name_constants_that_are_not_the_published_ones() -> None:
    """Of the step, of a swap, of energies, and limits that goodput counts by."""
    machine = Cluster(2, 3, step_overhead_s=(0.01, 0.02), mean_time_s=1e-8, memory=900)
    run = RunOptions(overflow="swap", swap_time_s=0.5, slo="ttft=2,tpot=0.05")  # type: ignore[arg-type]
    line = settings(LONG, machine, [run], energy=EnergyModel(parameters=7e10))
    assert (
        "step time 1*0.01,1*0.02 s + 1.00525e-07 s/token of the peak + 1e-08 s/token of the mean, "
        "memory 900 tokens (swap, 0.5 s a token), pool of 128, "
        "service level TTFT <= 2 s and TPOT <= 0.05 s, look-ahead 0" in line
    )
    assert ", energy with params 7e+10, bfio" in line
    plain = settings(LONG, Cluster(2, 3), [RunOptions()], energy=EnergyModel())
    assert not any(word in plain for word in ("step time", "service", "energy"))


def test_energies_of_a_comparison_name_their_constants() -> None:
    """As every table of one does."""
    runs = compare(LONG, "fcfs", Cluster(1, 3), energy_model=EnergyModel(idle_power_w=50))
    assert "energy with idle_power 50" in runs.settings


def test_windows_that_show_nothing_to_come_are_told() -> None:
    """Neither ends nor growth; with one of the two nothing is said, nor without look-ahead."""

    def told(*policies: str, **options: object) -> int:
        made = compare(LONG, policies, Cluster(1, 3), options=RunOptions(**options))  # type: ignore[arg-type]
        return sum(said.startswith("Who looks ahead sees nothing") for said in made.remarks())

    assert told("fcfs", "br-h") == told("bf-io", horizon=3) == 1
    assert told("br-0") == told("br-h", projection="growing") == 0
    assert told("br-h", predictor="oracle") == told("br-h", predictor="survival") == 0


def test_a_predictor_that_is_an_object_is_named() -> None:
    """By its own name, which no registry knows."""

    class Guess:
        name = "guess"

        def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
            return np.full(len(requests), horizon + 1) + 0 * ages

        def finished(self, requests: IntArray, outputs: IntArray) -> None:
            del requests, outputs

    found = compare(LONG, "fcfs", Cluster(workers=2, slots=4), predictor=Guess())
    assert "predictor guess (not asked)" in found._repr_html_()
    looking = compare(LONG, "br-h", Cluster(workers=2, slots=4), predictor=Guess())
    assert "predictor guess (predicted lengths of active requests)" in looking._repr_html_()


def test_a_predictor_that_nobody_asks_is_told() -> None:
    """Its numbers are those of none; a policy that looks ahead asks it."""
    runs = compare(LONG, ["fcfs", "br-0"], Cluster(1, 3), predictor="oracle")
    assert "predictor oracle (not asked)" in runs.settings
    assert any(remark.startswith("Nobody asked the predictor") for remark in runs.remarks())
    asked = compare(LONG, ["fcfs", "br-h"], Cluster(1, 3), predictor="oracle")
    assert "predictor oracle (known lengths of active requests)" in asked.settings
    assert not any("Nobody" in remark for remark in asked.remarks())


def test_a_history_that_nobody_learns_from_is_told() -> None:
    """It is left out of the run all the same; what learns is not said to waste it."""
    learned = {
        predictor: compare(LONG.after("1/3"), "br-h", Cluster(1, 3), predictor=predictor).remarks()
        for predictor in ("oracle", "survival")
    }
    sentence = "Predictor oracle learns nothing: the first 4 requests are left out of the run"
    assert any(remark.startswith(sentence) for remark in learned["oracle"])
    assert not any("learns nothing" in remark for remark in learned["survival"])


def test_whose_lengths_the_window_knows_is_told() -> None:
    """Beside the predictor; without one it changes nothing, which is said as well."""
    known = compare(LONG, "br-h", Cluster(1, 3), predictor="oracle", window_knows="all")
    assert "predictor oracle (known lengths of all requests)" in known.settings
    assert not any("window knows" in remark for remark in known.remarks())
    assert known.documents()[0]["options"]["window_knows"] == "all"
    without = compare(LONG, "br-h", Cluster(1, 3), window_knows="all")
    assert "predictor none (unknown lengths of all requests), seed" in without.settings
    assert any(r.startswith("It changes nothing that the window") for r in without.remarks())
    with pytest.raises(InputError, match="window_knows: 'waiting' is unknown; use one of active"):
        compare(LONG, "fcfs", window_knows="waiting")


def test_a_rule_of_overflow_without_memory_is_told() -> None:
    """It changes nothing, nor does the time of a swap where no token is swapped."""
    unlimited, limited = Cluster(1, 3), Cluster(1, 3, memory=100_000)

    def told(cluster: Cluster, **options: object) -> list[str]:
        made = compare(LONG, "fcfs", cluster, options=RunOptions(**options))  # type: ignore[arg-type]
        return [said for said in made.remarks() if "overflow" in said]

    assert told(unlimited, overflow="swap", swap_time_s=1.0) == [
        "It changes nothing that overflow is swap: the memory of the workers is not limited.",
        "The time of a swap is not used: only where memory is limited and overflow is swap does a "
        "token leave for the host.",
    ]
    assert told(unlimited) == told(limited, overflow="swap", swap_time_s=1.0) == []
    assert len(told(limited, swap_time_s=1.0)) == 1


def test_growing_loads_that_nobody_sees_are_told() -> None:
    """Without look-ahead no window shows them."""

    def told(*policies: str, **options: object) -> list[str]:
        made = compare(LONG, policies, Cluster(1, 3), options=RunOptions(**options))  # type: ignore[arg-type]
        return [said for said in made.remarks() if "projected" in said]

    assert told("fcfs", "br-0", projection="growing") == [
        "It changes nothing that projected loads are growing: no policy here looks ahead."
    ]
    assert told("fcfs", "br-h", projection="growing") == told("fcfs") == []
    assert told("bf-io", projection="growing", horizon=2) == []


def test_policies_that_go_by_prefixes_which_nothing_tells_are_told_of() -> None:
    """By caches that are not kept, or prompts that nothing tells apart."""
    prompts, outputs = np.array([600, 600, 5]), np.full(3, 2)
    hashed = Workload(prompts, outputs, block_hashes=[[1, 2], [1, 3], [4]])

    def told(requests: Workload, **machine: int) -> list[str]:
        policies = ("prefix-affinity", "consistent-hash", "fcfs")
        made = compare(requests, policies, Cluster(1, 3, **machine))
        return [said for said in made.remarks() if "pref" in said or "prompt" in said]

    by_tokens = (
        "prefix-affinity decides by tokens alone: workers keep no prefixes. --prefix-cache lets "
        + "them."
    )
    of_its_own = (
        "consistent-hash takes each request for a prompt of its own: nothing tells which prompts "
        "begin alike."
    )
    assert told(LONG) == [by_tokens, of_its_own]
    assert told(hashed) == [by_tokens]
    assert told(hashed, prefix_cache=5120) == []


def test_timed_arrivals_have_no_pool() -> None:
    """A pool that would change nothing is refused, as a rate of a pool is."""
    with pytest.raises(InputError, match="pool: timed arrivals have none; leave it out"):
        RunOptions(arrivals=ArrivalMode.TIMED, pool=1)


def test_requests_drawn_with_another_seed_say_so() -> None:
    """In Python the seed of the requests and that of the run are two, told once if equal."""
    drawn = synthetic("demo", 50, seed=3)
    assert settings(drawn, Cluster(2, 3), [RunOptions()]).startswith(
        "demo: 50 requests drawn with seed 3, 2x3"
    )
    assert settings(drawn, Cluster(2, 3), [RunOptions(seed=3)]).startswith(
        "demo: 50 requests, 2x3"
    )


@pytest.mark.parametrize(
    ("workload", "slots", "options", "reason"),
    [
        (LONG, 3, RunOptions(pool=8), None),
        (LONG, 3, RunOptions(), "all 12 requests were there at once"),
        (LONG, 13, RunOptions(), "12 requests never fill 26 slots"),
        (LONG, 6, RunOptions(pool=6), "no request waited while all slots were full"),
        (LONG, 3, RunOptions(steps=0), "no step was run"),
        (
            TIMED,
            1,
            RunOptions(arrivals=ArrivalMode.TIMED),
            "at their arrival times, requests never waited",
        ),
    ],
)
def test_why_there_is_no_steady_part(
    workload: Workload, slots: int, options: RunOptions, reason: str | None
) -> None:
    """One sentence, true of the run."""
    run = simulate(workload, "fcfs", Cluster(2, slots), options=options)
    found = no_steady_part(run)
    assert (found is None) == (reason is None)
    if reason is not None:
        assert reason in str(found)
        assert any(reason in remark for remark in remarks(workload, [run]))


def test_the_drain_is_explained() -> None:
    """The share of steps after the last request was shown."""
    runs = compare(LONG, ["fcfs", "br-0"], Cluster(1, 3), pool=4).runs
    last = int(runs[0].reveal_step.max())
    assert drain_share(runs[0]) == pytest.approx(1 - (last + 1) / runs[0].steps)
    (remark,) = remarks(LONG, runs)
    assert remark.startswith("The whole run includes its end, ")


def _growing(factor: int) -> Workload:
    """200 short requests, then 200 that are ``factor`` times as large."""
    prompts = np.repeat([100, 100 * factor], 200)
    return Workload(prompts, np.full(400, 4), name="growing")


def test_a_steady_part_that_drifts_is_told() -> None:
    """With the mean loads by hand: 4 slots of 100 tokens and of 300, which grow to 4 more."""
    workload, cluster = _growing(3), Cluster(2, 4)
    runs = compare(workload, ["fcfs", "jsq"], cluster, pool=12).runs
    drift = load_drift(runs[0])
    assert drift is not None
    assert 400 <= drift[0] < 420
    assert 1200 <= drift[1] < 1220
    (said,) = [text for text in remarks(workload, runs) if "not stationary" in text]
    assert f"{drift[0]:,.0f} tokens in its first fifth and {drift[1]:,.0f} in its last" in said
    assert "(2 of 2 runs drift so)" in said


@pytest.mark.parametrize(("factor", "steps"), [(1, None), (3, 40)])
def test_a_steady_part_that_does_not_drift_or_is_short(factor: int, steps: int | None) -> None:
    """Nothing is said of equal requests, nor of a few steps."""
    workload = _growing(factor)
    run = simulate(workload, "fcfs", Cluster(2, 4), pool=12, steps=steps)
    assert (load_drift(run) is None) == (steps is not None)
    assert not any("not stationary" in text for text in remarks(workload, [run]))


def test_a_run_that_is_cut_has_no_end() -> None:
    """Nothing is said of an end that was not reached."""
    run = simulate(LONG, "fcfs", Cluster(1, 3), pool=4, steps=3)
    assert run.steady_mask() is not None
    assert list(remarks(LONG, [run])) == []


def test_timed_runs_are_told_what_their_steady_part_is() -> None:
    """It is the congested part: times of all requests are those of the whole run."""
    times = tuple(map(Fraction, [0] * 6 + list(range(100, 104))))
    workload = Workload(np.full(10, 5), np.full(10, 4), times, name="burst")
    run = simulate(workload, "fcfs", Cluster(1, 2), arrivals="timed")
    (remark,) = remarks(workload, [run])
    assert "times of all requests are those of the whole run" in remark


def test_a_run_goes_by_the_name_of_its_policy() -> None:
    """In both engines."""
    for engine in ("reference", "compiled"):
        assert simulate(LONG, "br-0", Cluster(1, 3), engine=engine).policy == "br-0"


def test_unused_arrival_times_are_told() -> None:
    """With the flag that uses them."""
    pooled = simulate(TIMED, "fcfs", Cluster(1, 1))
    assert any("--arrivals timed uses them" in remark for remark in remarks(TIMED, [pooled]))
    timed = simulate(TIMED, "fcfs", Cluster(1, 1), arrivals="timed")
    assert not any("--arrivals" in remark for remark in remarks(TIMED, [timed]))


def test_time_to_first_token() -> None:
    """It ends with the first step of a request, latency with its last."""
    run = simulate(
        TIMED, "fcfs", Cluster(1, 1, step_overhead_s=1.0, token_time_s=0.0), arrivals="timed"
    )
    found = measure(run)
    assert found["ttft_mean_s"] == 1
    assert found["ttft_p95_s"] == 1
    assert found["latency_mean_s"] == 2
    assert found["queueing_delay_mean_s"] == 0


def test_chosen_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    """Only what is asked for is shown; a slip is told before anything runs."""
    small = ["compare", "--requests", "40", "--workers", "2", "--slots", "4", "--no-plots"]
    assert main([*small, "--policies", "fcfs,br-0", "--metrics", "ttft_p95_s,max_waiting"]) == 0
    shown = capsys.readouterr().out
    assert "TTFT" in shown
    assert "max_waiting" in shown
    assert "AvgImbalance" not in shown
    assert "÷" not in shown
    assert main([*small, "--metrics", "latency_meen_s"]) == 2
    assert (
        "unknown metric 'latency_meen_s'; did you mean latency_mean_s" in capsys.readouterr().err
    )


def test_timed_arrivals_show_latencies(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Latency, time to first token and queueing delay, without being asked for."""
    monkeypatch.setenv("COLUMNS", "200")
    small = ["compare", "--requests", "40", "--workers", "2", "--slots", "4", "--no-plots"]
    assert main([*small, "--policies", "fcfs", "--arrivals", "timed"]) == 0
    shown = capsys.readouterr().out
    for name in ("latency", "TTFT", "queueing"):
        assert name in shown
    assert {name for name, _ in METRICS.columns()}.isdisjoint({"ttft_mean_s"})


def test_a_column_of_arrivals_that_jumps_is_doubted() -> None:
    """Such as one of lengths taken for times; a few rows out of order are as logs are."""
    for rows, told in ((0, False), (2, True)):
        load = replace(TIMED, provenance={"out_of_order_rows": rows})
        run = simulate(load, "fcfs", Cluster(1, 1))
        said = any("whether the column of arrivals holds times" in r for r in remarks(load, [run]))
        assert said is told


def test_limits_are_part_of_the_settings() -> None:
    """Ticks, or seconds by the clock; a policy without a solver has none."""
    limits: list[dict[str, object]] = [
        {},
        {"work_limit": 1_000_000, "time_limit": None},
        {"work_limit": None, "time_limit": 2.0},
    ]
    line = settings(LONG, Cluster(2, 3), [RunOptions()] * 3, limits)
    assert ", at most 1,000,000 ticks a solve, at most 2 s by the clock a solve, bfio" in line


def test_numbers_that_a_clock_may_change_are_told() -> None:
    """Whether it struck or not; a work limit needs no such words."""
    (struck,) = by_the_clock("bf-io", {"time_limit": 2.0}, 3, 20)
    assert struck.startswith("bf-io: the time limit of 2 s cut 3 of 20 solves short; the numbers")
    (spared,) = by_the_clock("bf-io", {"time_limit": 2.0}, 0, 20)
    assert "which struck in none of 20 here" in spared
    assert not list(by_the_clock("bf-io", {"work_limit": 5}, 0, 20))


@pytest.mark.parametrize(
    ("options", "expected"), [({"time_limit": 1e-6}, 1), ({"work_limit": 0}, 0)]
)
def test_runs_say_what_the_clock_decided(options: dict[str, float], expected: int) -> None:
    """A run whose solves are cut short by the clock says so below its table, others do not."""
    workload = Workload(np.arange(7, 47) ** 2 % 97 + 1, np.arange(40) % 5 + 1, name="short")
    chosen = PolicyOptions(backend="cp-sat", **options)  # type: ignore[arg-type]
    run = simulate(workload, "bf-io", Cluster(3, 3), policy_options=chosen)
    said = [text for text in remarks(workload, [run]) if "machine to machine" in text]
    assert len(said) == expected
