"""Rows against the hindsight optimum: recomputed by brute force, and wrong solves caught."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.hindsight.latency import solve_hindsight
from bfio.kvcache.simulation import serve
from bfio.studies import kinds
from bfio.studies.row import RowContext
from bfio.studies.row_kinds.hindsight_bound import Enclosure, enclosure_values
from bfio.studies.row_kinds.hindsight_ratio import hindsight_violations, ratio_values
from bfio.studies.row_parts.arguments import DRAWN_ARGUMENTS, Arguments, drawn_problem
from formulations.errors import InputError
from formulations.hindsight_latency import LatencyProblem, brute_force
from tests.studies.here import compute_row

HERE = RowContext(Path())
#: Small enough for brute force.
TINY: dict[str, Any] = {"count": "3-5", "memory": "7-9", "prompt": "1-2", "time_limit": 20}
KINDS = ("hindsight-ratio", "hindsight-bound")


def drawn(**arguments: Any) -> LatencyProblem:
    """Return the instance that a row's arguments draw."""
    kept = {name: value for name, value in arguments.items() if name in DRAWN_ARGUMENTS}
    return drawn_problem(Arguments(kept, DRAWN_ARGUMENTS))


@pytest.mark.parametrize("model", [1, 2])
@pytest.mark.parametrize("convention", ["A", "B", "C"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_ratio_is_that_of_brute_force(model: int, convention: str, seed: int) -> None:
    """Recomputed without the row's solver, the same convention on both sides."""
    arguments = {**TINY, "arrival_model": model, "convention": convention, "seed": seed}
    arguments |= {"rate": 0.7} if model == 2 else {}
    row, problem = compute_row("hindsight-ratio", **arguments), drawn(**arguments)
    optimum, _ = brute_force(problem)
    latency = serve(problem, "mc-sf").total_latency
    assert latency is not None
    assert row.values["total_latency"] == latency
    assert row.values["optimum_at_least"] == row.values["optimum_at_most"] == optimum
    expected = latency / optimum if optimum else None
    assert row.values["ratio_at_least"] == row.values["ratio_at_most"] == expected
    assert row.values["surely_optimal"] is row.values["possibly_optimal"] is (latency == optimum)
    assert (row.solves, row.unproven, row.violations) == (1, 0, {})


def test_a_common_prompt_is_common() -> None:
    """And the ratio of the famous counterexample of Theorem 4.2 is no accident of the draw."""
    problem = drawn(count=5, memory=9, prompt="1-4", common_prompt=True, seed=3)
    assert len(set(problem.prompt.tolist())) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_a_clock_are_reproducible(kind: str) -> None:
    """Proven well within the limit: values and series agree, and neither holds a time."""
    first, again = (compute_row(kind, seed=5, **TINY) for _ in range(2))
    assert first.values == again.values
    assert first.series == again.series
    assert not first.stopped_by_clock
    assert first.timings["solve_s"] > 0


def test_an_unproven_optimum_leaves_an_interval() -> None:
    """Without time the bound is weak: both ends are kept and the trial is marked, not dropped."""
    row = compute_row("hindsight-ratio", count=30, seed=1, time_limit=0)
    low, high = row.values["ratio_at_least"], row.values["ratio_at_most"]
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert 1 <= low < high
    assert row.series == {"excess": [low - 1], "excess_over_bound": [high - 1]}
    assert (row.values["proven"], row.values["surely_optimal"]) == (False, False)
    assert (row.unproven, row.stopped_by_clock) == (1, True)


def test_a_run_that_does_not_finish_has_no_ratio() -> None:
    """Full clearing loops where three requests of 2 tokens outgrow the memory of 7 together."""
    arguments = {**TINY, "count": 5, "prompt": 1, "memory": 7, "algorithm": "alpha-greedy:alpha=0"}
    rows = [compute_row("hindsight-ratio", **arguments, seed=seed) for seed in range(4)]
    loops = [row for row in rows if row.values["verdict"] == "loop"]
    assert loops
    for row in loops:
        assert row.values["ratio_at_least"] is row.values["total_latency"] is None
        assert row.values["surely_optimal"] is None
        assert row.series["excess"] == []
        assert row.values["optimum_at_most"] is not None


@given(st.integers(0, 10**6))
def test_wrong_solves_are_caught(seed: int) -> None:
    """A bound above the optimum, a schedule that claims too little, one that does not fit."""
    problem = drawn(**{**TINY, "count": "2-4"}, seed=seed)
    found = solve_hindsight(problem, 20)
    assert hindsight_violations(problem, found) == {}
    assert "optimum.bound" in hindsight_violations(problem, replace(found, bound=found.bound + 1))
    cheaper = replace(found, objective=found.objective - 1)
    assert "optimum.objective" in hindsight_violations(problem, cheaper)
    crowded = replace(found, starts=(-1,) * problem.num_requests)
    assert any(
        name.startswith("optimum.arrival") for name in hindsight_violations(problem, crowded)
    )
    assert "optimum.bound" in hindsight_violations(problem, found, found.bound - 1)


def test_ratio_values_by_hand() -> None:
    """Algorithm 12, schedule 11, bound 10: 12/11 to 12/10. At 10 it beats the schedule."""
    problem = drawn(**TINY)
    found = replace(solve_hindsight(problem, 20), objective=11, bound=10)
    values = ratio_values(problem, 12, found)
    assert (values["ratio_at_least"], values["ratio_at_most"]) == (12 / 11, 1.2)
    assert (values["proven"], values["optimum_gap"]) == (False, 1 / 11)
    better = ratio_values(problem, 10, found)
    assert (better["optimum_at_most"], better["proven"], better["surely_optimal"]) == (
        10,
        True,
        True,
    )


def test_all_methods_enclose_one_optimum() -> None:
    """Bounds at most the brute-force optimum, schedules at least; only integers prove."""
    optimum, _ = brute_force(drawn(**TINY, seed=7))
    rows = {
        method: compute_row("hindsight-bound", method=method, seed=7, **TINY)
        for method in ("exact", "lp", "highs", "cp-sat")
    }
    for method, row in rows.items():
        low, high = row.values["optimum_at_least"], row.values["optimum_at_most"]
        assert isinstance(low, int)
        assert isinstance(high, int)
        assert low <= optimum <= high
        assert row.violations == {}
        assert row.values["proven"] is (method in ("exact", "cp-sat"))
        assert row.values["relaxation"] == rows["lp"].values["relaxation"]
    assert rows["highs"].values["closed"] is True
    assert (rows["highs"].unproven, rows["lp"].unproven, rows["lp"].solves) == (1, 0, 0)
    assert rows["lp"].values["incumbent"] is rows["lp"].values["own_gap"] is None


def test_a_start_is_kept_until_something_better_is_found() -> None:
    """Without time the schedule of MC-SF is all there is; with time it is the optimum."""
    given = {**TINY, "count": 6, "memory": 9}
    for seed in range(2):
        stopped, finished = (
            compute_row(
                "hindsight-bound", method="highs-from-mc-sf", seed=seed, **{**given, **limit}
            )
            for limit in ({"time_limit": 0}, {})
        )
        optimum, _ = brute_force(drawn(**given, seed=seed))
        assert stopped.values["incumbent"] in {None, stopped.values["mc_sf_latency"]}
        assert stopped.values["mc_sf_stands"] is True
        assert finished.values["incumbent"] == optimum


def test_enclosure_values_by_hand() -> None:
    """Bound 90, own schedule 120, MC-SF 100, relaxation 90.5: gaps 1/10 and 1/4."""
    problem = drawn(**TINY)
    values = enclosure_values(problem, Enclosure(90, True, 120), 100, 90.5)
    assert (values["optimum_gap"], values["own_gap"], values["below_mc_sf"]) == (0.1, 0.25, 0.1)
    assert (values["optimum_at_most"], values["incumbent"]) == (100, 120)
    assert (values["mc_sf_ratio"], values["mc_sf_stands"]) == (100 / 120, True)
    assert (values["proven"], values["beats_relaxation"]) == (False, False)
    floats = enclosure_values(problem, Enclosure(100, False, 100), 100, 90.5)
    assert (floats["proven"], floats["closed"], floats["beats_relaxation"]) == (False, True, True)
    better = enclosure_values(problem, Enclosure(80, False, 80), 100, 90.5)
    assert (better["mc_sf_ratio"], better["mc_sf_stands"]) == (1.25, False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arrival_model": 3}, "argument arrival_model"),
        ({"count": "many"}, "argument count: 'many' is not a range"),
        ({"count": "5-"}, "is not a range"),
        ({"count": "9-5"}, "count"),
        ({"count": 2.5}, "2.5 is not a range"),
        ({"count": True}, "True is not a range"),
        ({"prompt": "1-30"}, "prompt: 30 tokens leave no space"),
        ({"rate": 0}, "rate"),
        ({"convention": "D"}, "use one of A, B, C"),
        ({"time_limit": -1}, "argument time_limit: -1.0 is negative"),
        ({"seeds": 1}, "did you mean seed"),
    ],
)
def test_bad_settings_are_refused_in_one_line(
    kind: str, arguments: dict[str, Any], message: str
) -> None:
    """While a study is planned, before any row is computed."""
    with pytest.raises(InputError) as caught:
        kinds.find(kind).instance(arguments, HERE)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_methods_and_algorithms_are_refused() -> None:
    """Each by the kind that has it."""
    with pytest.raises(InputError, match="use one of exact, lp, highs, highs-from-mc-sf, cp-sat"):
        kinds.find("hindsight-bound").instance({"method": "gurobi"}, HERE)
    with pytest.raises(InputError, match="did you mean mc-sf"):
        kinds.find("hindsight-ratio").instance({"algorithm": "mcsf"}, HERE)


def test_the_digest_is_of_the_instance() -> None:
    """Another seed or convention, another digest; the time limit is no part of it."""
    digest = kinds.find("hindsight-bound").instance
    assert digest({"seed": 1}, HERE) == digest({"seed": 1, "time_limit": 5}, HERE)
    assert digest({"seed": 1}, HERE) != digest({"seed": 2}, HERE)
    assert digest({"seed": 1}, HERE) != digest({"seed": 1, "convention": "A"}, HERE)
