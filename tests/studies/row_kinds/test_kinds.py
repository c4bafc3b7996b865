"""The built-in kinds of rows: their values against the toolkit's own measures, and by hand."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bfio
from bfio.decode.cluster import Cluster
from bfio.decode.metrics import METRICS, measure, measure_steady
from bfio.decode.simulation import simulate
from bfio.gap import GapReport, StepRegret, measure_gap
from bfio.prediction.geometric import geometric_fit
from bfio.studies import kinds
from bfio.studies.row import MAX_POINTS, RowContext, RowResult
from bfio.studies.row_kinds.gap import gap_values
from bfio.workloads.synthetic_workloads import synthetic
from formulations.errors import InputError
from tests.studies.here import compute_row

HERE = RowContext(Path())
SMALL: dict[str, Any] = {
    "synthetic": "demo",
    "requests": 120,
    "workers": 3,
    "slots": 8,
    "pool": 12,
}


def test_there_are_these_kinds_and_each_says_what_it_is() -> None:
    """Found by name, described in one line."""
    ours = {"gap", "improvement-ratio", "price-of-myopia", "simulate"}
    of_the_cache = {"kv-cache", "hindsight-ratio", "hindsight-bound", "lower-bound"}
    assert {*kinds.names()} >= ours | of_the_cache
    assert kinds.names() == sorted(kinds.names())
    assert all(kinds.find(name).summary for name in kinds.names())


@pytest.mark.parametrize("policy", ["fcfs", "br-0", "br-h:horizon=5", "bf-io"])
def test_a_simulated_row_holds_the_metrics_of_the_run(policy: str) -> None:
    """Each under its name, and those of the steady part under theirs."""
    row = compute_row("simulate", policy=policy, **SMALL)
    run = simulate(synthetic("demo", SMALL["requests"], 0), policy, Cluster(3, 8), pool=12)
    assert {name: row.values[name] for name in measure(run)} == measure(run)
    steady = measure_steady(run)
    assert steady is not None
    assert {name: row.values[f"steady.{name}"] for name in steady} == steady
    assert row.values["is_drained"] is True
    assert row.violations == {}
    assert set(row.timings) >= {"wall_s", "decide_s"}


def test_a_run_without_a_steady_part_has_none_for_it() -> None:
    """One request on 24 slots: never full, so nothing is steady; the names stay."""
    row = compute_row("simulate", policy="fcfs", **{**SMALL, "requests": 1})
    names = [entry.name for entry in METRICS]
    assert all(row.values[f"steady.{name}"] is None for name in names)
    assert row.values["steady.avg_imbalance.half_width"] is None
    assert row.values["completed"] == 1


def test_nothing_that_a_clock_measures_is_a_value() -> None:
    """Two computations of a row agree in everything but the timings."""
    first, again = (compute_row("simulate", policy="bf-io", **SMALL) for _ in range(2))
    assert first.values == again.values
    assert first.series == again.series
    assert (first.solves, first.unproven) == (again.solves, again.unproven)


def test_both_engines_give_the_same_row() -> None:
    """Which one runs depends on what is compiled on a machine; values must not."""
    reference = compute_row("simulate", policy="br-h", engine="reference", **SMALL)
    compiled = compute_row("simulate", policy="br-h", engine="compiled", **SMALL)
    assert reference.values == compiled.values
    assert reference.series == compiled.series


def test_solves_are_counted_and_the_clock_is_marked() -> None:
    """Exact steps: all proven here. Under a limit of a microsecond: unproven, and marked."""
    exact = compute_row("simulate", policy="bf-io", **SMALL)
    assert exact.solves > 0
    assert (exact.unproven, exact.stopped_by_clock) == (0, False)
    assert exact.values["proven_share"] == 1.0
    hasty = compute_row("simulate", policy="bf-io:backend=cp-sat", time_limit=1e-6, **SMALL)
    assert hasty.unproven > 0
    assert hasty.stopped_by_clock
    assert hasty.values["proven_share"] == 1 - hasty.unproven / hasty.solves
    plain = compute_row("simulate", policy="fcfs", **SMALL)
    assert (plain.solves, plain.values["proven_share"]) == (0, None)


def test_series_of_a_run_fit_a_figure() -> None:
    """At most 400 points each; their mean is that of the run where buckets are equally long."""
    row = compute_row("simulate", policy="fcfs", steps=800, **SMALL)
    assert {len(points) for points in row.series.values()} == {MAX_POINTS}
    mean = float(np.mean(row.series["imbalance"]))
    assert row.values["avg_imbalance"] == pytest.approx(mean, rel=1e-12)
    assert set(row.series) == {"imbalance", "max_load", "mean_load", "idle_fraction"}


def test_a_log_is_kept_if_one_is_wanted() -> None:
    """The policy's statistics, or one line per solved step."""
    context = RowContext(Path(), want_log=True)
    row = kinds.find("simulate").compute({"policy": "bf-io", **SMALL}, context)
    assert isinstance(row, RowResult)
    assert json.loads(row.log)["unproven_steps"] == 0
    row = kinds.find("gap").compute({"policy": "fcfs", "every": 50, **SMALL}, context)
    assert isinstance(row, RowResult)
    assert len(row.log.splitlines()) == row.solves
    assert "optimum" in row.log


def test_gap_values_by_hand() -> None:
    """Four decisions, scale 2: the first apart, one of the others unproven, one not steady.

    Later proven regrets: (14 - 10)/2 = 2 and (6 - 6)/2 = 0; optima 5 and 3.
    """
    rows = (
        StepRegret(0, 9, 9, 30, 20, 20, 20, 0.1),
        StepRegret(1, 5, 2, 14, 10, 10, 10, 0.1),
        StepRegret(2, 5, 2, 8, None, 4, None, 0.1),
        StepRegret(3, 1, 1, 6, 6, 6, 6, 0.1),
    )
    found = gap_values(GapReport(rows, 8, 2), np.array([True, True, True, False]))
    expected: dict[str, object] = {
        "decisions": 8, "solved": 4, "proven": 3, "unproven": 1, "proven_share": 0.75,
        "proven_decisions": 2, "share_optimal": 0.5, "regret_mean": 1.0, "regret_median": 1.0,
        "regret_max": 2.0, "optimum_mean": 4.0, "relative_regret": 0.25,
        "steady.proven_decisions": 1, "steady.share_optimal": 0.0, "steady.regret_mean": 2.0,
        "steady.optimum_mean": 5.0, "steady.relative_regret": 0.4,
        "cold.is_proven": True, "cold.regret": 5.0, "cold.regret_at_most": 5.0,
        "cold.objective": 15.0,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    late = gap_values(GapReport(rows, 8, 2), np.array([False, False, True, False]))
    assert late["proven_decisions"] == 2
    assert late["steady.proven_decisions"] == 0


def test_gap_values_without_any_decision_are_none() -> None:
    """Names stay, so that tables have their columns."""
    found = gap_values(GapReport((), 0))
    assert found["solved"] == 0
    assert found["share_optimal"] is None
    assert found["cold.regret"] is None
    assert found["proven_share"] is None
    assert found.keys() == gap_values(GapReport((StepRegret(0, 1, 1, 1, 1, 1, 1, 0.0),), 1)).keys()


@pytest.mark.parametrize("options", [{}, {"gap_horizon": 5, "projection": "growing"}])
def test_a_gap_row_is_what_the_gap_command_measures(options: dict[str, Any]) -> None:
    """The same regrets in the same order, of every tenth decision."""
    from bfio.gap import GapObserver

    row = compute_row("gap", policy="br-0", every=10, **options, **SMALL)
    report = measure_gap(
        synthetic("demo", SMALL["requests"], 0),
        "br-0",
        Cluster(3, 8),
        observer=GapObserver(every=10, horizon=options.get("gap_horizon", 0)),
        pool=12,
        projection=options.get("projection", "constant"),
    )
    assert list(row.series["regrets"]) == report.regrets()
    assert row.values["decisions"] == report.num_decisions
    assert row.solves == len(report.rows)
    assert row.violations == {}


def test_the_gap_of_exact_decisions_is_zero() -> None:
    """bf-io against its own program."""
    row = compute_row("gap", policy="bf-io", every=7, **SMALL)
    assert row.values["share_optimal"] == 1.0
    assert row.values["regret_max"] == 0
    assert row.values["cold.regret"] == 0
    assert row.unproven == 0


def test_the_ratio_is_that_of_two_simulated_rows() -> None:
    """Numerator and denominator are the rows of the two policies; B = 8, G = 3."""
    row = compute_row("improvement-ratio", policy="br-0", baseline="jsq-tokens", **SMALL)
    policy, baseline = (
        compute_row("simulate", policy=name, **SMALL).values for name in ("br-0", "jsq-tokens")
    )
    assert row.values["sqrt_b_log_g"] == pytest.approx(math.sqrt(8 * math.log(3)))
    for part in ("", "steady."):
        before, after = (run[f"{part}avg_imbalance"] for run in (baseline, policy))
        assert isinstance(before, float)
        assert isinstance(after, float)
        assert row.values[f"{part}iir"] == before / after
        quotient = before / after / math.sqrt(8 * math.log(3))
        assert row.values[f"{part}iir_over_sqrt_b_log_g"] == pytest.approx(quotient)
    relative = [
        run["steady.avg_imbalance.half_width"] / run["steady.avg_imbalance"]  # type: ignore[operator]
        for run in (baseline, policy)
    ]
    iir = row.values["steady.iir"]
    assert isinstance(iir, float)
    assert row.values["steady.iir.half_width"] == pytest.approx(iir * math.hypot(*relative))
    assert row.violations == {}


def test_a_warm_up_is_left_out_of_the_steady_part() -> None:
    """In both kinds that have one; the whole run stays as it is."""
    row = compute_row("simulate", policy="br-0", warm_up=60, **SMALL)
    run = simulate(synthetic("demo", SMALL["requests"], 0), "br-0", Cluster(3, 8), pool=12)
    late = measure_steady(run, warm_up=60)
    assert late is not None
    assert row.values["steady.avg_imbalance"] == late["avg_imbalance"]
    assert row.values["avg_imbalance"] == measure(run)["avg_imbalance"]
    ratio = compute_row("improvement-ratio", policy="br-0", warm_up=60, **SMALL)
    assert ratio.values["steady.policy.avg_imbalance"] == late["avg_imbalance"]
    assert ratio.values["policy.avg_imbalance"] == measure(run)["avg_imbalance"]


def test_perfect_balance_has_no_ratio() -> None:
    """Equal requests under equal counts: imbalance 0, so the ratio is None, never infinite."""
    row = compute_row("improvement-ratio", policy="br-0", **{**SMALL, "synthetic": "equal"})
    assert row.values["steady.policy.avg_imbalance"] == 0
    assert row.values["steady.iir"] is None
    assert row.values["steady.iir.half_width"] is None
    assert row.values["steady.iir_over_sqrt_b_log_g"] is None


def test_a_policy_against_itself_is_one() -> None:
    """Paired requests make it exact."""
    row = compute_row("improvement-ratio", policy="fcfs", **SMALL)
    assert row.values["iir"] == 1.0


def test_rows_know_the_lengths_that_they_ask_for() -> None:
    """Those of active requests by default; of all if asked, which is another run."""
    options = {**SMALL, "policy": "br-h", "predictor": "oracle", "projection": "growing"}
    active = compute_row("simulate", **options, window_knows="active").values
    assert compute_row("simulate", **options).values == active
    assert compute_row("simulate", **options, window_knows="all").values != active
    without = {**options, "predictor": "none", "window_knows": "all"}
    remark = kinds.find("simulate").planned(without, HERE).remarks[-1]
    assert remark.startswith("The option window_knows=all has no effect")


def test_a_noisy_oracle_sees_the_seed_of_the_row() -> None:
    """Other errors, another run; the same seed, the same run."""
    options = {**SMALL, "policy": "br-h", "predictor": "noisy-oracle", "projection": "growing"}
    laws = {"prompts": "uniform:lowest=1:highest=9", "outputs": "homogeneous:value=40"}
    drawn = {"synthetic": None, **laws}
    first = compute_row("simulate", **{**options, **drawn}, seed=1)
    again = compute_row("simulate", **{**options, **drawn}, seed=1)
    assert first.values == again.values
    exact = compute_row("simulate", **{**options, **drawn, "predictor": "noisy-oracle:0"}, seed=1)
    oracle = compute_row("simulate", **{**options, **drawn, "predictor": "oracle"}, seed=1)
    assert exact.values == oracle.values
    assert first.values != oracle.values


DEMO: dict[str, Any] = {"synthetic": "demo", "requests": 200}


def test_a_predictor_row_is_its_report() -> None:
    """Values of the evaluation; what a clock measures is apart."""
    row = compute_row("predictor", **DEMO, predictor="noisy-oracle:0.3", horizon=8, every=5)
    load = bfio.synthetic("demo", 200, 0)
    report = bfio.evaluate_predictor(load, "noisy-oracle:0.3", 8, every=5)
    assert {name: getattr(report, name) for name in row.values} == row.values
    assert row.values["auc"] is not None
    assert row.violations == {}
    halved = compute_row("predictor", **DEMO, predictor="none", train_share=0.25)
    assert (halved.values["trained_on"], halved.values["evaluated_on"]) == (50, 150)
    assert set(row.timings) == {"call_s", "request_s"}
    assert sum(row.series["stated"]) > 0


def test_a_geometric_row_is_its_fit() -> None:
    """With the verdict in words."""
    row = compute_row("geometric-outputs", **DEMO)
    fit = geometric_fit(bfio.synthetic("demo", 200, 0).output_tokens)
    assert row.values["distance"] == fit.distance
    assert row.values["verdict"] == fit.verdict
    assert row.values["residual_mean"] == fit.residuals[1]
    assert row.values["most_hazard"] == max(e.hazard for e in fit.ages) / fit.p


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("predictor", {"predictor": "orcle"}, "'orcle' is unknown; did you mean oracle"),
        ("predictor", {"horizon": 0}, "argument horizon: 0 is out of range"),
        ("predictor", {"train_share": 2}, "argument train_share: 2 is out of range"),
        ("predictor", {"evry": 2}, "argument evry: unknown; did you mean every"),
        ("geometric-outputs", {"horizon": 3}, "argument horizon: unknown"),
    ],
)
def test_slips_stop_a_study_before_its_first_row(
    kind: str, arguments: dict[str, Any], message: str
) -> None:
    """While it is planned."""
    with pytest.raises(InputError, match=message):
        kinds.find(kind).instance({**DEMO, **arguments}, HERE)


def worst_case(**arguments: Any) -> RowResult:
    """Compute one row without violations."""
    result = compute_row("worst-case", **arguments)
    assert result.violations == {}
    return result


def test_a_row_of_the_cache() -> None:
    """Algorithm 1 on four requests."""
    values = worst_case(system="cache", requests=4, memory=6, convention="A").values
    assert values["exact"] == "9/8"
    assert values["ratio"] == 1.125
    assert values["instance"] == "M=6 [2x2 3x2]"
    assert values["is_maximal"] is True


def test_a_row_of_barriers() -> None:
    """Where the optimum has no imbalance there is no ratio."""
    row = {"system": "barrier", "requests": 4, "prompt": 1, "longest": 2, "criterion": "imbalance"}
    values = worst_case(**row).values
    assert (values["ratio"], values["exact"], values["least"]) == (None, "none", 0)
    assert values["instance"] == "[1+1 1+2 1+1 1+2]"
    long = worst_case(system="barrier", method="adversary", longest=8).values
    assert long["instance"] == "18 requests"
    assert long["is_maximal"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"system": "barrier", "memory": 3}, "argument memory: needs system = cache"),
        ({"system": "cache", "workers": 3}, "argument workers: needs system = barrier"),
        ({"system": "fluid"}, "argument system"),
        ({"system": "cache", "memory": 1}, "fits no memory"),
        ({"system": "cache", "method": "guess"}, "argument method"),
        ({"system": "cache", "polcy": "mc-sf"}, "argument polcy"),
        ({"system": "barrier", "known": "some"}, "argument known"),
    ],
)
def test_arguments_that_are_refused(arguments: dict[str, Any], message: str) -> None:
    """Before anything is computed."""
    with pytest.raises(InputError, match=message):
        kinds.find("worst-case").instance(arguments, HERE)
