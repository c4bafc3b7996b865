"""The line of settings above tables, and the notes below them."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bfio.cli.tables import print_remarks
from bfio.decode.cluster import Cluster
from bfio.decode.comparison import compare
from bfio.decode.drift import parse_drift
from bfio.decode.energy_model import EnergyModel
from bfio.decode.measured import measured_part
from bfio.decode.options import ArrivalMode, Dispatch, RunOptions
from bfio.decode.settings import (
    drain_share,
    load_drift,
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
    looks = [("fcfs", {}), ("br-h", {"horizon": 20})]
    line = settings(workload, Cluster(2, 3), [options], policies=looks)
    assert line.startswith(
        "mine: 1 request (1 without output dropped, 1 damaged rows skipped), "
        "2x3 (workers x slots), "
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


def test_machines_of_numpys_integers_are_written_as_json() -> None:
    """Results computed from them would not be numbers of JSON otherwise."""
    two: Any = np.int64(2)
    machine = Cluster(two, two, batch_token_time_s=1e-6, token_budget=two, free_tokens=two)
    assert json.dumps(compare(LONG, "fcfs", machine, repeat=1).documents())


def test_energies_of_a_comparison_name_their_constants() -> None:
    """As every table of one does."""
    runs = compare(LONG, "fcfs", Cluster(1, 3), energy_model=EnergyModel(idle_power_w=50))
    assert "energy with idle_power 50" in runs.settings


def test_windows_that_show_nothing_to_come_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither ends nor growth; with one of the two nothing is said, nor without look-ahead.

    Python says it in keywords, and the command in flags.
    """

    def told(*policies: str, **options: object) -> int:
        made = compare(LONG, policies, Cluster(1, 3), repeat=1, **options)
        return sum(said.startswith("Look-ahead has no effect") for said in made.remarks())

    assert told("fcfs", "br-h") == told("bf-io", horizon=3) == 1
    assert told("br-0") == told("br-h", projection="growing") == 0
    assert told("br-h", predictor="oracle") == told("br-h", predictor="survival") == 0
    print_remarks(compare(LONG, "br-h", Cluster(1, 3)).remarks())
    assert "--predictor survival or oracle" in capsys.readouterr().out


def test_a_predictor_that_is_an_object_is_named() -> None:
    """By its own name, which no registry knows."""

    class Guess:
        name = "guess"

        def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
            return np.full(len(requests), horizon + 1) + 0 * ages

        def finished(self, requests: IntArray, outputs: IntArray) -> None:
            del requests, outputs

    given = {"cluster": Cluster(workers=2, slots=4), "predictor": Guess(), "repeat": 1}
    found = compare(LONG, "fcfs", **given)
    assert "predictor guess (not asked)" in found._repr_html_()
    looking = compare(LONG, "br-h", **given)
    assert "predictor guess (predicted lengths of active requests)" in looking._repr_html_()


def test_a_predictor_that_nobody_asks_is_told() -> None:
    """Its numbers are those of none; a policy that looks ahead asks it."""
    runs = compare(LONG, ["fcfs", "br-0"], Cluster(1, 3), predictor="oracle")
    assert "predictor oracle (not asked)" in runs.settings
    assert any(remark.startswith("Predictor oracle has no effect") for remark in runs.remarks())
    asked = compare(LONG, ["fcfs", "br-h"], Cluster(1, 3), predictor="oracle")
    assert "predictor oracle (known lengths of active requests)" in asked.settings
    assert not any("has no effect" in remark for remark in asked.remarks())


def test_a_history_that_nobody_learns_from_is_told() -> None:
    """It is left out of the run all the same; what learns is not said to waste it."""
    learned = {
        predictor: compare(LONG.after("1/3"), "br-h", Cluster(1, 3), predictor=predictor).remarks()
        for predictor in ("oracle", "survival")
    }
    sentence = "Predictor oracle learns nothing: the first 4 requests are nevertheless left out"
    assert any(remark.startswith(sentence) for remark in learned["oracle"])
    assert not any("learns nothing" in remark for remark in learned["survival"])


def test_whose_lengths_the_window_knows_is_told() -> None:
    """Beside the predictor; without one it changes nothing, which is said as well."""
    known = compare(LONG, "br-h", Cluster(1, 3), predictor="oracle", window_knows="all")
    assert "predictor oracle (known lengths of all requests)" in known.settings
    assert not any("window_knows" in remark for remark in known.remarks())
    assert known.documents()[0]["options"]["window_knows"] == "all"
    without = compare(LONG, "br-h", Cluster(1, 3), window_knows="all")
    assert "predictor none (unknown lengths of all requests), seed" in without.settings
    assert any(
        r.startswith("The option window_knows=all has no effect") for r in without.remarks()
    )
    with pytest.raises(InputError, match="window_knows: 'waiting' is unknown; use one of active"):
        compare(LONG, "fcfs", window_knows="waiting")


def test_a_rule_of_overflow_without_memory_is_told() -> None:
    """It changes nothing, nor does the time of a swap where no token is swapped."""
    unlimited, limited = Cluster(1, 3), Cluster(1, 3, memory=100_000)

    def told(cluster: Cluster, **options: object) -> list[str]:
        made = compare(LONG, "fcfs", cluster, **options)
        return [said for said in made.remarks() if "overflow" in said]

    assert told(unlimited, overflow="swap", swap_time_s=1.0) == [
        "The option overflow=swap has no effect: the memory of the workers is not limited.",
        "The swap time has no effect: tokens move to the host only with limited memory and "
        "overflow=swap.",
    ]
    assert told(unlimited) == told(limited, overflow="swap", swap_time_s=1.0) == []
    assert len(told(limited, swap_time_s=1.0)) == 1


def test_growing_loads_that_nobody_sees_are_told() -> None:
    """Without look-ahead no window shows them."""

    def told(*policies: str, **options: object) -> list[str]:
        made = compare(LONG, policies, Cluster(1, 3), repeat=1, **options)
        return [said for said in made.remarks() if "projection" in said]

    assert told("fcfs", "br-0", projection="growing") == [
        "The option projection=growing has no effect: no policy here looks ahead."
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
        "prefix-affinity decides by tokens only: workers have no prefix cache (--prefix-cache)."
    )
    of_its_own = (
        "consistent-hash treats every prompt as unique: the requests have no prefix information."
    )
    assert told(LONG) == [by_tokens, of_its_own]
    assert told(hashed) == [by_tokens]
    assert told(hashed, prefix_cache=5120) == []


def test_timed_arrivals_have_no_pool() -> None:
    """A pool that would change nothing is refused, as a rate of a pool is."""
    with pytest.raises(
        InputError, match="pool: changes nothing without arrivals=pool; leave it out"
    ):
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


def test_why_nothing_is_measured() -> None:
    """One sentence, with what would do."""
    run = simulate(LONG, "fcfs", Cluster(2, 3), pool=8)
    (said,) = [text for text in remarks(LONG, [run]) if "measured" in text]
    assert said.startswith("No part of the run is measured: 12 requests keep all slots busy for")
    assert "repeat the requests" in said
    timed = RunOptions(arrivals=ArrivalMode.TIMED)
    for milliseconds, told in (
        ((0, 5), "2 requests arrive within 1 step of full slots"),
        ((3, 3), "give requests that arrive over a longer time"),
    ):
        times = tuple(Fraction(t, 1000) for t in milliseconds)
        requests = Workload(np.full(2, 5), np.full(2, 2), times)
        assert told in measured_part(requests, Cluster(2, 3), timed).why_not


@pytest.mark.parametrize("scale", [0.7, "0.7", Fraction(7, 10)])
def test_a_float_is_the_decimal_that_it_is_written_as(scale: Fraction | float | str) -> None:
    """As on the command line."""
    timed = ArrivalMode.TIMED
    assert RunOptions(arrivals=timed, load="5e-1").load == Fraction(1, 2)  # type: ignore[arg-type]
    assert RunOptions(arrivals=timed, rate_scale=scale).rate_scale == Fraction(7, 10)  # type: ignore[arg-type]
    assert RunOptions(arrivals=timed, load=scale).load == Fraction(7, 10)  # type: ignore[arg-type]


def test_the_drain_is_explained() -> None:
    """The share of steps after the last request was shown."""
    runs = compare(LONG, ["fcfs", "br-0"], Cluster(1, 3), pool=4, repeat=1).runs
    last = int(runs[0].reveal_step.max())
    assert drain_share(runs[0]) == pytest.approx(1 - (last + 1) / runs[0].steps)
    said = list(remarks(LONG, runs))[-1]
    assert f"In the last {100 * drain_share(runs[0]):.0f} % of the steps" in said
    assert "the pool is not refilled" in said


def _growing(factor: int) -> Workload:
    """4,000 short requests, then 4,000 that are ``factor`` times as large."""
    prompts = np.repeat([100, 100 * factor], 4000)
    return Workload(prompts, np.arange(8000) % 4 + 1, name="growing")


def test_a_measured_part_that_drifts_is_told() -> None:
    """With the mean loads by hand: 4 slots of 100 tokens and of 300, and at most 3 more each."""
    workload, cluster = _growing(3), Cluster(2, 4)
    runs = compare(workload, ["fcfs", "jsq"], cluster, pool=12).measured
    part = runs[0].measured
    assert part is not None
    steps = part.steps(runs[0])
    assert steps is not None
    first, last = load_drift(runs[0], steps)
    assert 400 <= first < 412
    assert 1200 <= last < 1212
    (said,) = [text for text in remarks(workload, runs) if "not stationary" in text]
    assert f"{first:,.0f} tokens in its first fifth and {last:,.0f} in its last" in said
    assert "(2 of 2 runs drift so)" in said


def test_a_measured_part_that_does_not_drift() -> None:
    """Nothing is said of equal requests; the warm-up is judged."""
    workload = _growing(1)
    run = simulate(workload, "fcfs", Cluster(2, 4), pool=12)
    said = list(remarks(workload, [run]))
    assert not any("not stationary" in text for text in said)
    assert any(text.startswith("Warm-up: ") and "MSER-5" in text for text in said)


def test_slots_that_are_never_all_busy_are_told() -> None:
    """A request of 4 tokens each 10 steps of about 5 ms: at most one of six slots is busy."""
    times = tuple(Fraction(k, 20) for k in range(4000))
    workload = Workload(np.full(4000, 5), np.arange(4000) % 4 + 1, times, name="sparse")
    run = simulate(workload, "fcfs", Cluster(2, 3), arrivals="timed")
    assert "At no step are all slots busy: at most 17 % are." in remarks(workload, [run])
