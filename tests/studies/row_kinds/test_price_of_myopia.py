"""Rows on the price of myopia: by hand, against enumeration, and wrong optima caught."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.hindsight.makespan import solve_makespan
from bfio.hindsight.makespan.filling import filled
from bfio.hindsight.makespan.search import search_form
from bfio.hindsight.makespan.solve import best_list
from bfio.studies import kinds
from bfio.studies.row import RowContext
from bfio.studies.row_kinds.price_of_myopia import (
    ARGUMENTS,
    CRITERIA,
    MyopiaInstance,
    arrival_steps,
    hindsight_problem,
    myopia_instance,
    myopia_plan,
    price_values,
    price_violations,
)
from bfio.studies.row_parts.arguments import Arguments
from formulations.deadline import UNLIMITED
from formulations.errors import InputError
from formulations.hindsight_makespan import (
    list_schedule,
    objective_value,
    solve_by_enumeration,
)
from formulations.results import Termination
from tests.studies.here import compute_row

HERE = RowContext(Path())
#: Small enough for enumeration.
TINY: dict[str, Any] = {
    "prompts": "uniform:lowest=1:highest=9",
    "outputs": "uniform:lowest=1:highest=3",
    "requests": 4,
    "workers": 2,
    "slots": 1,
    "overhead": 7,
    "policy": "fcfs",
    "hindsight_limit": 30,
}
POISSON: dict[str, Any] = {"arrivals": "poisson", "load": 0.8}


compute = partial(compute_row, "price-of-myopia")


def drawn(**arguments: Any) -> MyopiaInstance:
    """Return the instance of a row."""
    given = Arguments(arguments, ARGUMENTS)
    return myopia_instance(given, myopia_plan(given, HERE))


def traced(folder: Path, *requests: tuple[int, int]) -> dict[str, Any]:
    """Write a trace of prompts and outputs, and return arguments of its rows."""
    rows = "".join(f"0,{prompt},{output}\n" for prompt, output in requests)
    (folder / "trace.csv").write_text("arrival_time_s,prompt_tokens,output_tokens\n" + rows)
    return {"trace": "trace.csv", "workers": 2, "slots": 1, "overhead": 7, "hindsight_limit": 30}


def test_by_hand(tmp_path: Path) -> None:
    """5, 1, 5 one step each: first come pairs 5 with 1, hindsight 5 with 5.

    Peaks 5 + 5 against 5 + 1, with two steps of 7 each 24 against 20; imbalance 4 + 5 against
    0 + 1; capacity 2 · 10; latencies 1, 1, 2 whoever is late.
    """
    row = compute(tmp_path, policy="fcfs", **traced(tmp_path, (5, 1), (1, 1), (5, 1)))
    values = row.values
    assert (values["peaks.attained"], values["peaks.best_known"]) == (10, 6)
    assert values["wall_clock.price_at_least"] == values["wall_clock.price_at_most"] == 24 / 20
    assert values["wall_clock_conserving.price_at_most"] == 24 / 20
    assert values["imbalance.price_at_least"] == values["imbalance.price_at_most"] == 9
    assert values["imbalance.avoidable_idle_at_least"] == 8 / 20
    assert (values["latency.attained"], values["latency.price_at_most"]) == (4, 1)
    assert values["latency.surely_optimal"] is values["latency.possibly_optimal"] is True
    assert row.series["imbalance.excess"] == [8]
    assert (row.solves, row.unproven, row.violations) == (6, 0, {})


def test_a_perfect_optimum_leaves_no_finite_price(tmp_path: Path) -> None:
    """1, 5, 5, 1 pair up without imbalance; first come loses 4 twice. Counted, in no histogram."""
    requests = traced(tmp_path, (1, 1), (5, 1), (5, 1), (1, 1))
    row = compute(tmp_path, policy="fcfs", **requests)
    assert (row.values["imbalance.attained"], row.values["imbalance.bound"]) == (8, 0)
    assert row.values["imbalance.price_at_least"] is row.values["imbalance.price_at_most"] is None
    assert row.values["imbalance.has_no_limit"] is True
    assert row.values["imbalance.avoidable_idle_at_most"] == 8 / 20
    assert row.series["imbalance.excess"] == []
    twins = traced(tmp_path, (3, 2), (3, 2))
    perfect = compute(tmp_path, policy="fcfs", **twins).values
    assert (perfect["imbalance.price_at_most"], perfect["imbalance.has_no_limit"]) == (1, False)


@pytest.mark.parametrize("more", [{}, {**POISSON, "requests": 3}], ids=["at-once", "poisson"])
@pytest.mark.parametrize(("policy", "seed"), [("br-0", 0), ("bf-io", 1)])
def test_the_optimum_is_that_of_enumeration(more: dict[str, Any], policy: str, seed: int) -> None:
    """Every criterion, recomputed without the row's solver."""
    arguments = {**TINY, **more, "policy": policy, "seed": seed}
    row, instance = compute(**arguments), drawn(**arguments)
    found = {name.partition(".")[0] for name in row.values} & set(CRITERIA)
    assert found == set(CRITERIA) - ({"wall_clock", "peaks"} if more else set())
    for name in sorted(found):
        optimum = solve_by_enumeration(hindsight_problem(instance, name)).objective
        assert row.values[f"{name}.best_known"] == row.values[f"{name}.bound"] == optimum
    assert row.violations == {}
    assert not row.stopped_by_clock


@given(
    st.sampled_from(["fcfs", "br-0", "br-h", "bf-io", "jsq-tokens", "random"]),
    st.sampled_from(["none", "oracle"]),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 40),
    st.sampled_from([None, 0.1, 0.9, 3.0]),
    st.sampled_from([None, 11, 20]),
    st.integers(0, 10**6),
)
def test_nobody_beats_hindsight(
    policy: str,
    predictor: str,
    workers: int,
    slots: int,
    requests: int,
    load: float | None,
    memory: int | None,
    seed: int,
) -> None:
    """Of any size: bound <= best known <= run, the run a schedule of every program."""
    arguments = {
        **TINY,
        "policy": policy,
        "predictor": predictor,
        "horizon": 5,
        "workers": workers,
        "slots": slots,
        "requests": requests,
        "seed": seed,
        "hindsight_limit": 0,
    }
    arguments |= {} if load is None else {"arrivals": "poisson", "load": load}
    arguments |= {} if memory is None else {"memory": memory}
    row = compute(**arguments)
    assert row.violations == {}
    assert (row.solves, row.unproven, row.stopped_by_clock) == (0, 0, False)
    for name in CRITERIA:
        if f"{name}.attained" in row.values:
            values = [row.values[f"{name}.{key}"] for key in ("bound", "best_known", "attained")]
            assert values == sorted(values)  # type: ignore[type-var]


def test_memory_by_hand(tmp_path: Path) -> None:
    """Loads 5, 6 twice in 11 tokens: 6 + 6 do not fit, 5 + 6 do, one slot of two is left empty.

    First come runs them one after the other, since their peaks of 6 are reserved: latencies 2 and
    4, peaks 5 + 6 + 5 + 6. Hindsight lets the second start beside the last step of the first:
    latencies 2 and 3, peaks 5 + 11 + 6 of 22 as well, but three steps instead of four.
    """
    requests = traced(tmp_path, (5, 2), (5, 2)) | {"workers": 1, "slots": 2, "memory": 11}
    row = compute(tmp_path, policy="fcfs", **requests)
    values = row.values
    assert (values["latency.attained"], values["latency.best_known"]) == (6, 5)
    assert (values["peaks.attained"], values["peaks.best_known"]) == (22, 22)
    assert values["wall_clock.attained"] == 22 + 4 * 7
    assert values["wall_clock.best_known"] == values["wall_clock.bound"] == 22 + 3 * 7
    assert {name.partition(".")[0] for name in values} & set(CRITERIA) == {
        "wall_clock",
        "peaks",
        "latency",
    }
    assert row.violations == {}
    with pytest.raises(InputError, match="imbalance is not defined with a memory"):
        compute(tmp_path, policy="fcfs", criteria="imbalance", **requests)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_optimum_with_memory_is_that_of_enumeration(seed: int) -> None:
    """Workers of unequal memory, in the run and in hindsight."""
    arguments = {**TINY, "slots": 2, "memory": "1*12,1*9", "policy": "br-0", "seed": seed}
    arguments["prompts"] = "uniform:lowest=1:highest=6"
    row, instance = compute(**arguments), drawn(**arguments)
    for name in ("wall_clock", "peaks", "latency"):
        optimum = solve_by_enumeration(hindsight_problem(instance, name)).objective
        assert row.values[f"{name}.best_known"] == row.values[f"{name}.bound"] == optimum
    assert row.violations == {}


def test_without_time_an_interval_is_left() -> None:
    """The bound and first schedules stand for the optimum; nothing is asked for or unproven."""
    row = compute(**{**TINY, "requests": 40, "slots": 4, "hindsight_limit": 0})
    low, high = row.values["wall_clock.price_at_least"], row.values["wall_clock.price_at_most"]
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert 1 <= low < high
    assert row.values["wall_clock.is_proven"] is False
    assert (row.solves, row.unproven, row.stopped_by_clock) == (0, 0, False)


def test_without_time_bound_and_schedules_are_not_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However slow the machine, the interval is that of the bound and of all first schedules."""
    monkeypatch.setattr("bfio.hindsight.makespan.solve.FIRST_GRACE_S", 0.0)
    arguments = {**TINY, "requests": 41, "slots": 4, "hindsight_limit": 0}
    row = compute(**arguments)
    problem = hindsight_problem(drawn(**arguments), "peaks")
    form, attained = search_form(problem), row.values["peaks.attained"]
    assert isinstance(attained, int)
    inserted = min(objective for objective, _ in filled(form, UNLIMITED))
    listed = min(best_list(problem)[0], attained)
    assert row.values["peaks.best_known"] == min(listed, inserted) < listed
    bound = row.values["peaks.bound"]
    assert bound == form.objective(form.bound()) > 0
    assert row.values["peaks.lists_gap"] == (listed - bound) / listed
    assert row.values["latency.lists_gap"] == row.values["latency.optimum_gap"]


def test_a_solve_stopped_by_the_clock_marks_its_row() -> None:
    """A thousandth of a second proves little about 30 requests."""
    row = compute(**{**TINY, "requests": 30, "slots": 4, "hindsight_limit": 1e-3})
    assert row.stopped_by_clock
    assert row.solves == 6
    assert row.unproven == sum(not row.values[f"{name}.is_proven"] for name in CRITERIA) > 0


def test_policies_on_one_instance_share_its_optimum() -> None:
    """The second row shows the seconds of the solve that the first one made."""
    arguments = {**TINY, "seed": 77}
    first, second = (compute(**{**arguments, "policy": policy}) for policy in ("fcfs", "br-0"))
    assert first.timings["hindsight_s"] == second.timings["hindsight_s"] > 0
    assert first.values["peaks.bound"] == second.values["peaks.bound"]


def test_poisson_arrivals_offer_the_load() -> None:
    """Whole steps from 0 on, never falling; 4,000 requests of 2 tokens on 2 slots, load 0.8."""
    steps = arrival_steps(drawn(**{**TINY, **POISSON, "requests": 4000}))
    assert steps[0] == 0
    assert (steps[1:] >= steps[:-1]).all()
    # Mean gap 2 / (0.8 · 2) = 1.25 steps, standard error 1.6 %.
    assert 1.17 < steps[-1] / len(steps) < 1.33
    assert not arrival_steps(drawn(**TINY)).any()


def test_wrong_optima_are_caught() -> None:
    """A bound above the optimum, a cost that is not its schedule's, slots used twice."""
    problem = hindsight_problem(drawn(**TINY), "peaks")
    schedule, found = list_schedule(problem), solve_makespan(problem)
    assert price_violations(problem, schedule, found) == {}
    assert found.objective is not None
    high = replace(found, bound=found.objective + 1, objective=found.objective + 1)
    assert {"optimum.bound", "optimum.objective"} <= price_violations(
        problem, schedule, high
    ).keys()
    crowded = replace(found, starts=(0,) * 4, workers=(0,) * 4)
    assert any(
        name.startswith("optimum.slots") for name in price_violations(problem, schedule, crowded)
    )
    assert any(
        name.startswith("slots") for name in price_violations(problem, ((0,) * 4, (0,) * 4), found)
    )


def test_the_run_counts_as_a_schedule() -> None:
    """Where it beats the schedule of the solver, it is the best one known."""
    problem = hindsight_problem(drawn(**TINY), "latency")
    best, worst = solve_makespan(problem), list_schedule(problem, range(4)[::-1])
    assert best.objective is not None
    worse = replace(
        best,
        starts=worst[0],
        workers=worst[1],
        objective=objective_value(problem, *worst),
        termination=Termination.TIME_LIMIT,
    )
    assert worse.objective != best.objective
    values = price_values(problem, best.required_solution(), worse)
    assert values["best_known"] == values["attained"] == best.objective
    assert values["price_at_least"] == values["price_at_most"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arrivals": "timed"}, "argument arrivals: 'timed' is unknown"),
        ({"arrivals": "poisson"}, "argument load"),
        ({"load": 0.5}, "argument load"),
        ({**POISSON, "load": 0}, "load"),
        ({**POISSON, "load": -1.0}, "out of range"),
        ({"criteria": "wall_clock speed"}, "'speed' is unknown"),
        ({**POISSON, "criteria": "peaks"}, "use peaks_conserving"),
        ({"overhead": -1}, "argument overhead"),
        ({"overhead": 1.5}, "argument overhead"),
        ({"hindsight_limit": -1}, "argument hindsight_limit: -1.0 is negative"),
        ({"pool": 1}, "argument pool: a pool of 1 cannot fill all slots at once"),
        ({"policy": "magic"}, "magic"),
        ({"step_overhead": 1.0}, "argument step_overhead: unknown"),
        ({"polices": "fcfs"}, "did you mean policy"),
    ],
)
def test_bad_settings_are_refused_in_one_line(arguments: dict[str, Any], message: str) -> None:
    """While a study is planned, before any row is computed."""
    with pytest.raises(InputError) as caught:
        kinds.find("price-of-myopia").instance({**TINY, **arguments}, HERE)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_digest_is_of_requests_and_arrivals() -> None:
    """Another seed or load, another digest; the policy and the time limit are no part of it."""
    digest = kinds.find("price-of-myopia").instance
    one = digest(TINY, HERE)
    assert one == digest({**TINY, "policy": "br-0", "hindsight_limit": 1}, HERE)
    others = [{"seed": 1}, POISSON, {**POISSON, "load": 0.1}, {"requests": 6}]
    assert len({one, *(digest({**TINY, **other}, HERE) for other in others)}) == 5
