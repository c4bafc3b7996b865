"""The exact method against enumeration and CP-SAT, its bounds, and wrong variants caught."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.hindsight.makespan import list_interval, solve_makespan
from bfio.hindsight.makespan import solve as solve_module
from bfio.hindsight.makespan.search import StepSearch, is_searchable, search_form
from bfio.hindsight.makespan.solve import best_list
from bfio.testing.instances import makespan_problem, makespan_problems
from formulations import InputError
from formulations.deadline import OutOfTime
from formulations.hindsight_makespan import (
    MakespanObjective,
    MakespanProblem,
    MakespanResult,
    brute_force,
    solve,
    violations,
)
from formulations.results import Termination
from tests.formulations.hindsight_makespan.cases import HAND_CHECKED


def _drawn(rng: np.random.Generator, size: int) -> MakespanProblem:
    """Draw a problem of ``size`` requests, all objectives and rules."""
    objective = list(MakespanObjective)[rng.integers(3)]
    arrivals = rng.integers(0, 3, size) * int(rng.integers(0, 2))
    columns = (arrivals, rng.integers(1, 8, size), rng.integers(1, 4, size))
    return makespan_problem(
        int(rng.integers(1, 4)),
        int(rng.integers(1, 3)),
        list(zip(*columns, strict=True)),
        step_overhead=Fraction(int(rng.integers(0, 6)), int(rng.integers(1, 3))),
        objective=objective,
        work_conserving=objective is MakespanObjective.IMBALANCE or bool(rng.integers(2)),
    )


def _check(problem: MakespanProblem, result: MakespanResult) -> None:
    best, _, _ = brute_force(problem)
    assert result.is_optimal
    assert (result.objective, result.bound) == (best, best)
    assert violations(problem, *result.required_solution(), best) == {}


@pytest.mark.parametrize(("problem", "best", "_"), HAND_CHECKED)
def test_by_hand(problem: MakespanProblem, best: int, _: object) -> None:
    """The arithmetic beside the cases."""
    result = solve_makespan(problem)
    assert (result.objective, result.bound, result.is_optimal) == (best, best, True)


@given(makespan_problems())
def test_it_equals_enumeration(problem: MakespanProblem) -> None:
    """Proven optimal for every objective, conserving or not, arrivals or not.

    Workers of unequal memory have names, which the search does not know: they are CP-SAT's.
    """
    _check(problem, solve_makespan(problem, time_limit=None if problem.is_symmetric else 60.0))


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
def test_it_equals_enumeration_thousands_of_times(seed: int) -> None:
    """500 draws each."""
    rng = np.random.default_rng(seed)
    for _ in range(500):
        problem = _drawn(rng, int(rng.integers(1, 5)))
        _check(problem, solve_makespan(problem))


@pytest.mark.parametrize("seed", range(12))
def test_it_equals_cp_sat_beyond_enumeration(seed: int) -> None:
    """Six requests: two proofs that share nothing but the data."""
    problem = _drawn(np.random.default_rng(seed), 6)
    ours, theirs = solve_makespan(problem), solve(problem)
    assert ours.is_optimal
    assert theirs.is_optimal
    assert ours.objective == theirs.objective


@given(
    makespan_problems(min_requests=1).filter(lambda problem: problem.is_symmetric),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_narrow_searches_bound(problem: MakespanProblem, width: int, most: int) -> None:
    """Whatever is left out, the bound holds and the schedule costs what it says.

    Of workers that are alike: the search knows no others (`is_searchable`).
    """
    form = search_form(problem)
    best, _, _ = brute_force(problem)
    objective, _ = best_list(problem)
    found = StepSearch(form).run(form.cost(objective) + 1, width, most)
    assert form.objective(found.bound) <= best
    if found.cost is not None:
        schedule = form.schedule(found.starts, found.lanes)
        assert violations(problem, *schedule, form.objective(found.cost)) == {}


def test_a_search_that_forgets_what_it_left_out_is_caught() -> None:
    """Of width 1 it finds no optimum here: its own cost, as a bound, would exceed the optimum."""
    rng = np.random.default_rng(3)
    caught = 0
    for _ in range(12):
        problem = _drawn(rng, 4)
        form = search_form(problem)
        found = StepSearch(form).run(form.cost(best_list(problem)[0]) + 1, 1, 100)
        best = solve_makespan(problem).objective
        assert best is not None
        assert form.objective(found.bound) <= best
        caught += found.cost is not None and form.objective(found.cost) > best
    assert caught


def test_no_time_still_leaves_an_interval() -> None:
    """A list schedule and the combinatorial bound, not called optimal."""
    rows = [(0, 1 + (7 * i) % 11, 1 + (5 * i) % 8) for i in range(14)]
    problem = makespan_problem(3, 1, rows, step_overhead=Fraction(2))
    result = solve_makespan(problem, time_limit=0.0)
    assert result.termination is Termination.TIME_LIMIT
    assert result.objective is not None
    assert result.bound is not None
    assert result.bound < result.objective
    assert dict(result.violations) == {}


def test_equal_runs() -> None:
    """Without a time limit nothing depends on the clock or on the order of a set."""
    rows = [(0, 1 + (7 * i) % 11, 1 + (5 * i) % 6) for i in range(8)]
    problem = makespan_problem(2, 2, rows, objective=MakespanObjective.IMBALANCE)
    first, second = solve_makespan(problem), solve_makespan(problem)
    assert (first.starts, first.workers) == (second.starts, second.workers)
    assert first.is_optimal


def test_exact_times_of_any_fineness() -> None:
    """Times scaled by 3^40 / 10^30 move the objective by exactly that."""
    unit = Fraction(3**40, 10**30)
    rows = [(0, 9, 2), (0, 10, 1), (0, 4, 3)]
    plain = makespan_problem(2, 1, rows, step_overhead=Fraction(5))
    fine = replace(plain, step_overhead=5 * unit, token_time=unit)
    one, other = solve_makespan(plain), solve_makespan(fine)
    assert other.is_optimal
    assert one.objective is not None
    assert other.objective is not None
    assert Fraction(other.objective, other.scale) == one.objective * unit


def test_large_problems_get_an_interval() -> None:
    """Beyond the search: 1,000 requests, lists and bounds alone."""
    rng = np.random.default_rng(0)
    columns = (np.zeros(1000, np.int64), rng.integers(1, 900, 1000), rng.integers(1, 200, 1000))
    problem = makespan_problem(8, 16, list(zip(*columns, strict=True)))
    assert not is_searchable(search_form(problem), best_list(problem)[0])
    result = solve_makespan(problem)
    assert result.gap is not None
    assert 0 < result.gap < 0.2


def test_bad_options_are_named() -> None:
    """A negative limit, an unknown method."""
    problem = HAND_CHECKED[0][0]
    with pytest.raises(InputError, match="time_limit"):
        solve_makespan(problem, time_limit=-1.0)
    with pytest.raises(InputError, match="method"):
        solve_makespan(problem, method="abacus")
    assert solve_makespan(problem, method="brute-force").objective == 19


def test_what_is_in_hand_stays_where_enumeration_runs_out_of_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first schedule and its bound are answered; unequal memories leave the search out."""

    def too_late(*_: object) -> None:
        raise OutOfTime

    monkeypatch.setattr(solve_module, "_enumerate", too_late)
    problem = MakespanProblem(
        workers=3,
        slots=1,
        arrival=np.array([1, 2, 0]),
        prompt=np.array([9, 3, 1]),
        output=np.array([3, 3, 2]),
        objective=MakespanObjective.LATENCY,
        memory=np.array([11, 4, 4]),
    )
    result = solve_makespan(problem)
    assert result.objective == list_interval(problem).objective
    assert result.bound == list_interval(problem).bound
