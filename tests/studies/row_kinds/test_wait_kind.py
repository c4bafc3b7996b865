"""Rows about one engine in stages: against the engine itself, by hand, and broken ones caught."""

import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.studies import kinds
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kinds.wait import ThresholdFacts, _beyond_full_batch
from bfio.studies.row_parts.wait_offer import (
    WantedRate,
    multiplied,
    offered_load,
    spread,
    total_rate,
)
from bfio.wait.arrivals import poisson_instance
from bfio.wait.registry import build
from bfio.wait.simulation import serve
from formulations.errors import InputError
from formulations.fluid import FluidProblem, FluidWorker, RequestClass, work_rate
from formulations.thresholds import NestedProblem, WaitProblem, safety_buffer, solve
from tests.studies.here import compute_row

#: The instance of the paper's appendix A: K = 9, ρ = load/2, the equilibrium holds 9 tokens.
INSTANCE = {
    "classes": [{"rate": 1, "prompt": 1, "output": 1}, {"rate": 1, "prompt": 1, "output": 2}],
    "d0": "1/2",
    "d1": "1/18",
    "memory": 9,
}
PROBLEM = FluidProblem.from_mapping(INSTANCE)
SHORT: dict[str, Any] = {"fluid": "instance.json", "horizon_s": 60, "policy": "wait"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the instance."""
    (tmp_path / "instance.json").write_text(json.dumps(INSTANCE))
    return tmp_path


def compute(folder: Path, **arguments: Any) -> RowResult:
    """Compute one row of a small offer."""
    return compute_row("wait", folder, **{**SHORT, **arguments})


@pytest.mark.parametrize("policy", ["wait", "nested-wait", "fcfs", "new-first:limit=3"])
def test_a_row_is_the_run_of_the_engine(folder: Path, policy: str) -> None:
    """Poisson arrivals and policy built by hand give the same summary."""
    row = compute(folder, policy=policy, seed=3)
    run = serve(poisson_instance(PROBLEM, 60, 3), build(policy, PROBLEM), horizon_s=60)
    summary = run.summary()
    for name in ("requests", "completed", "throughput", "decode_throughput", "gap", "evictions"):
        assert row.values[name] == summary[name]
    for name in ("latency_mean_s", "latency_p99_s", "ttft_mean_s", "peak_memory", "overflows"):
        assert row.values[name] == summary[name]
    assert row.values["peak_memory_share"] == run.peak_memory / 9
    open_share = 1 - summary["completed"] / summary["requests"]
    assert row.values["open_share"] == pytest.approx(open_share)
    assert row.violations == {}


def test_a_drained_row_goes_on_past_the_horizon(folder: Path) -> None:
    """As ``bfio wait --drain`` does, and as `serve` without a horizon: arrivals end there."""
    row = compute(folder, drain=True, seed=3)
    data = poisson_instance(PROBLEM, 60, 3)
    run, kept = (serve(data, build("wait", PROBLEM), **given) for given in ({}, {"horizon_s": 60}))
    asked = serve(data, build("wait", PROBLEM), horizon_s=60, drain=True)
    assert row.values["completed"] == asked.summary()["completed"] == len(data)
    assert asked.summary() == run.summary()
    assert kept.summary()["completed"] < len(data)
    assert compute(folder, seed=3).values["completed"] == kept.summary()["completed"]


def test_even_arrivals_by_hand(folder: Path) -> None:
    """One request of each class a second, one of each per batch, which lasts 1 s when all is full.

    Latencies are 2 and 3 s, first tokens after 2 s. At 200 s the end itself does not count: open
    are the short one of 199 s and the long ones of 198 and 199 s, 2 + 3 + 3 stages.
    """
    arguments = {"policy": "wait:thresholds=1,1", "arrivals": "even", "horizon_s": 200}
    row = compute(folder, **arguments)
    assert row.values["latency_mean_s"] == pytest.approx(2.5, abs=0.02)
    assert row.values["ttft_mean_s"] == pytest.approx(2, abs=0.02)
    assert row.values["gap"] == pytest.approx(8 / 200)
    assert (row.values["requests"], row.values["peak_memory"]) == (398, 9)


def test_scaling_is_a_longer_horizon_path_by_path(folder: Path) -> None:
    """Rates times 4 and times over 4 for 30 s are what 120 s are."""
    scaled = compute(folder, scale=4, horizon_s=30, seed=5).values
    longer = compute(folder, horizon_s=120, seed=5).values
    for name in ("unscaled_gap", "unscaled_latency_mean_s", "unscaled_ttft_mean_s"):
        assert scaled[name] == pytest.approx(longer[name], rel=1e-5)
    for name in ("peak_memory", "requests", "batches", "offered_load", "conditions_hold"):
        assert scaled[name] == longer[name]
    assert scaled["latency_mean_s"] == pytest.approx(float(longer["latency_mean_s"] or 0) / 4)


def test_load_and_rate_are_offered(folder: Path) -> None:
    """K = 9/(1/2 + 9/18) = 9 and A = 9 at two requests a second."""
    by_load = compute(folder, load=0.5).values
    assert (by_load["offered_load"], by_load["rate_per_s"]) == (0.5, 1)
    assert (by_load["work_load"], by_load["equilibrium_memory"]) == (0.25, 3)
    by_rate = compute(folder, rate=1).values
    assert by_rate == by_load


def test_the_optimum_is_that_of_the_knapsack(folder: Path) -> None:
    """With 4 tokens: K = 4/(1/2 + 4/18) = 72/13; short ones first, 3 work each: 3 of 72/13.

    The rest, 33/13, serves 11/26 long ones a second: 2 + 3·11/26 = 85/26 stages.
    """
    row = compute(folder, memory=4, policy="fcfs")
    assert row.values["fluid_throughput"] == pytest.approx(85 / 26)
    share = row.values["throughput_share"]
    assert share == pytest.approx(float(row.values["throughput"] or 0) / (85 / 26))
    assert row.violations == {}


def test_the_limit_is_an_axis(folder: Path) -> None:
    """As in the text of the policy."""
    apart = compute(folder, policy="new-first", limit=2)
    inside = compute(folder, policy="new-first:limit=2")
    assert apart.values == inside.values
    printed = compute(folder, policy="wait:thresholds=printed", limit=10)
    # 10·(1/2)/2 = 2.5 and 10·(1/2)/3 = 1.67, rounded down.
    assert printed.values["thresholds"] == "2,1"


def test_thresholds_are_those_of_the_design_load(folder: Path) -> None:
    """At a load of 3, ρ is 1.5 and none exist; those of a load of 0.9 do."""
    with pytest.raises(
        InputError, match="no thresholds can process all arrivals at load 3; set design_load"
    ):
        compute(folder, load=3)
    with pytest.raises(
        InputError, match="no thresholds can process all arrivals at design_load 5/2; set"
    ):
        compute(folder, load=3, design_load=2.5)
    row = compute(folder, load=3, design_load=0.9)
    wanted = solve(WaitProblem(multiplied(PROBLEM, Fraction(9, 10)), strict=True)).thresholds
    assert wanted is not None
    assert row.values["thresholds"] == ",".join(map(str, wanted))
    assert row.values["conditions_hold"] is False
    # Below the design load, the offered one counts.
    low = [compute(folder, load=0.5, design_load=design).values for design in (0.9, 5)]
    assert low[0] == low[1]


@pytest.mark.parametrize(
    ("policy", "memory", "batch", "holds"),
    [
        # n_1 w_1 + n_2 w_2 with w = 3, 6; ΔT = 1/2 + M/18 against n_j.
        ("wait:thresholds=1,1", 9, 1.0, False),
        ("wait:thresholds=2,2", 18, 1.5, True),
        # Segment 1 has stages 0 and 1, 3 tokens; segment 2 stage 2, 3 tokens. ΔT < n_1/2.
        ("nested-wait:thresholds=4,3", 21, 5 / 3, True),
        ("nested-wait:thresholds=4,2", 18, 1.5, False),
        ("nested-wait:thresholds=3,2", 15, 4 / 3, True),
        ("nested-wait:groups=prompts", 21, 5 / 3, None),
    ],
)
def test_what_theory_says_of_thresholds(
    folder: Path, policy: str, memory: int, batch: float, holds: bool | None
) -> None:
    """Full batch, its time and the strict condition, by hand."""
    row = compute(folder, policy=policy).values
    if holds is None:
        # Least thresholds of one group are those without groups.
        assert row["thresholds"] == compute(folder, policy="nested-wait").values["thresholds"]
        return
    assert (row["policy_memory"], row["policy_memory_share"]) == (memory, memory / 9)
    assert row["policy_batch_s"] == pytest.approx(batch)
    assert row["conditions_hold"] is holds


def test_the_memory_bound(folder: Path) -> None:
    """WAIT needs its full batch, Nested WAIT a buffer as well, which has no end without drift."""
    wait = compute(folder, probability=0.05).values
    assert (wait["memory_bound"], wait["exceeds_bound"]) == (18, False)
    nested = compute(folder, policy="nested-wait:thresholds=4,3", probability=0.05).values
    problem = NestedProblem.single_from_fluid(PROBLEM)
    buffer = safety_buffer(problem, (4, 3), duration=60, probability="0.05")
    assert nested["memory_bound"] == buffer.total
    still = compute(folder, policy="nested-wait:thresholds=4,2", probability=0.05).values
    assert still["memory_bound"] is None
    fcfs = compute(folder, policy="fcfs", probability=0.05).values
    assert (fcfs["memory_bound"], fcfs["thresholds"], fcfs["policy_memory"]) == (None, None, None)


def test_wait_beyond_its_full_batch_is_caught() -> None:
    """A run of (2, 2) holds 18 tokens: 9 more than thresholds (1, 1) would ever allow."""
    run = serve(poisson_instance(PROBLEM, 200, 1), build("wait", PROBLEM), horizon_s=200)
    problem = WaitProblem(PROBLEM, strict=True)
    assert _beyond_full_batch(ThresholdFacts(problem, (2, 2)), run) == {}
    assert _beyond_full_batch(ThresholdFacts(problem, (1, 1)), run) == {"full_batch": 9}


def test_spread_by_hand(folder: Path) -> None:
    """Bins 1..2 at 3 a second and 3..5 at 6: 3/2 each, and 2 each."""
    classes = (RequestClass(Fraction(3), 7, 2), RequestClass(Fraction(6), 7, 5))
    found = spread(FluidProblem(classes, PROBLEM.workers)).classes
    assert [(kind.output, kind.rate) for kind in found] == [
        (1, Fraction(3, 2)), (2, Fraction(3, 2)), (3, 2), (4, 2), (5, 2),
    ]  # fmt: skip
    # In the instance bins are single outputs, 1 and 2: nothing changes but who knows what.
    plain = compute(folder, policy="nested-wait").values
    for what in ("requests", "classes"):
        assert compute(folder, policy="nested-wait", spread=what).values == plain


bins = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=6)


@given(bins, st.booleans())
def test_spread_keeps_rates(steps: list[tuple[int, int]], is_prefill_first: bool) -> None:
    """Any bins: every output up to the last once, each bin's rate in full, work no larger."""
    outputs = [0] if is_prefill_first else []
    for width, _ in steps:
        outputs.append((outputs or [0])[-1] + width)
    rates = [1] * (len(outputs) - len(steps)) + [rate for _, rate in steps]
    pairs = zip(rates, outputs, strict=True)
    classes = tuple(RequestClass(Fraction(rate), 3, output) for rate, output in pairs)
    problem = FluidProblem(classes, PROBLEM.workers)
    found = spread(problem)
    first = 0 if is_prefill_first else 1
    assert [kind.output for kind in found.classes] == list(range(first, outputs[-1] + 1))
    assert total_rate(found) == total_rate(problem)
    assert work_rate(found.classes) <= work_rate(problem.classes)
    ends = [-1, *outputs]
    for (before, end), rate in zip(pairwise(ends), rates, strict=True):
        inside = (kind.rate for kind in found.classes if before < kind.output <= end)
        assert sum(inside) == rate


@given(
    st.lists(
        st.builds(
            RequestClass,
            st.fractions(Fraction(1, 10**6), 10**6, max_denominator=10**6),
            st.integers(1, 10**6),
            st.integers(0, 10**6),
        ),
        min_size=1,
        max_size=4,
    ),
    st.fractions(Fraction(1, 1000), 1000, max_denominator=1000),
)
def test_wanted_loads_and_rates_are_met_exactly(
    classes: list[RequestClass], wanted: Fraction
) -> None:
    """Any classes: in rationals."""
    problem = FluidProblem(tuple(classes), (FluidWorker(Fraction(1, 100), Fraction(0), 10**6),))
    by_load = multiplied(problem, WantedRate(wanted, None).met_by(problem))
    assert offered_load(by_load) == wanted
    by_rate = multiplied(problem, WantedRate(None, wanted).met_by(problem))
    assert total_rate(by_rate) == wanted
    assert WantedRate(None, None).met_by(problem) == 1


def oldest_first(state: Any) -> list[int]:
    """Serve the oldest request alone."""
    return [*state.held, *state.waiting][:1]


def test_policies_of_ones_own(folder: Path) -> None:
    """They have no thresholds; their source is part of the digest."""
    own = f"{__name__}:oldest_first"
    row = compute(folder, policy=own)
    assert row.values["thresholds"] is None
    assert row.violations == {}
    kind, context = kinds.find("wait"), RowContext(folder)
    assert kind.instance({**SHORT, "policy": own}, context) != kind.instance(SHORT, context)


def test_a_changed_file_makes_new_rows(folder: Path) -> None:
    """The digest is of its content."""
    kind, context = kinds.find("wait"), RowContext(folder)
    before = kind.instance(SHORT, context)
    (folder / "instance.json").write_text(json.dumps({**INSTANCE, "memory": 10}))
    assert kind.instance(SHORT, context) != before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fluid": None}, "argument fluid: missing"),
        ({"fluid": "absent.json"}, "absent.json: file: cannot be read"),
        ({"fluid": "folder.json"}, "cannot be read"),
        ({"fluid": "broken.json"}, "broken.json: line 1"),
        ({"fluid": "latin.json"}, "not UTF-8"),
        ({"fluid": "two.json"}, "two.json: workers: found 2"),
        ({"horizon_s": None}, "argument horizon_s: missing"),
        ({"horizon_s": 0}, "argument horizon_s: 0"),
        ({"policy": None}, "argument policy: missing"),
        ({"policy": "wiat"}, "did you mean wait"),
        ({"policy": "wait:thresholds=printed"}, "add limit=B"),
        ({"policy": "new-first:limit=2", "limit": 3}, "sets it as well"),
        ({"policy": "fcfs", "limit": 3}, "fcfs:limit=3: unknown option 'limit'"),
        ({"policy": "fcfs", "memory": 2}, "exceed the memory"),
        ({"policy": "nested-wait:segments=1:thresholds=2", "limit": 0}, "argument limit"),
        ({"load": 1, "rate": 1}, "rate is given as well"),
        ({"load": 0}, "argument load: 0"),
        ({"rate": -1}, "argument rate"),
        ({"design_load": 0}, "argument design_load: 0"),
        ({"scale": 0}, "argument scale: 0"),
        ({"d0": 0}, "argument d0: 0"),
        ({"d1": "x"}, "argument d1"),
        ({"memory": 0}, "argument memory"),
        ({"memory": 2.5}, "argument memory"),
        ({"spread": "bins"}, "argument spread: 'bins' is unknown"),
        ({"arrivals": "trace"}, "use one of poisson, even"),
        ({"bins": 3}, "argument bins: it needs a trace"),
        ({"trace": "x.csv"}, "fluid is given as well"),
        ({"probability": 1}, "argument probability: 1 is out of range"),
        ({"batches": 0}, "argument batches"),
        ({"drain": 1}, "argument drain"),
        ({"slots": 3}, "argument slots: unknown"),
    ],
)
def test_bad_settings_are_refused_in_one_line(
    folder: Path, arguments: dict[str, Any], message: str
) -> None:
    """While a study is planned, before any row is computed."""
    (folder / "broken.json").write_text("{")
    (folder / "latin.json").write_bytes(b'{"classes": "\xe9"}')
    (folder / "two.json").write_text(json.dumps({**INSTANCE, "workers": 2}))
    (folder / "folder.json").mkdir()
    with pytest.raises(InputError) as caught:
        kinds.find("wait").instance({**SHORT, **arguments}, RowContext(folder))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
