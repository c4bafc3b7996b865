"""Every backend against enumeration, and results that claim no more than is proven."""

import pytest
from hypothesis import given

from bfio.testing.instances import latency_problem, latency_problems
from formulations import InputError
from formulations.hindsight_latency import (
    LatencyProblem,
    LatencyProgram,
    LatencyResult,
    solve,
    solve_by_enumeration,
)
from formulations.results import BoundKind, Termination
from tests.formulations.hindsight_latency.cases import COUNTEREXAMPLES, common_prompt

BACKENDS = ("cp-sat", "highs", "pyomo")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("convention", "memory", "outputs", "_", "best"), COUNTEREXAMPLES)
def test_golden(
    backend: str, convention: str, memory: int, outputs: tuple[int, ...], _: int, best: int
) -> None:
    """Spec section 4.2: 11, 15 and 12."""
    result = solve(common_prompt(memory, outputs, convention), backend=backend)
    assert result.objective == best
    assert result.violations == {}
    assert (result.termination is Termination.OPTIMAL) == (
        result.bound == best and result.bound_kind is BoundKind.INTEGER
    )


@given(latency_problems(max_requests=3))
def test_cp_sat_proves_the_optimum(problem: LatencyProblem) -> None:
    """With and without aggregation it equals enumeration."""
    truth = solve_by_enumeration(problem)
    for aggregate in (True, False):
        result = LatencyProgram(problem, aggregate=aggregate).solved()
        assert (result.objective, result.bound) == (truth.objective, truth.objective)
        assert result.is_optimal


@given(latency_problems(max_requests=3))
def test_highs_agrees_and_the_relaxation_bounds(problem: LatencyProblem) -> None:
    """HiGHS finds the optimum; the relaxation's value is not above it."""
    truth = solve_by_enumeration(problem)
    assert truth.objective is not None
    result = solve(problem, backend="highs", hint=truth.starts)
    assert result.objective == truth.objective
    relaxed = LatencyProgram(problem).relaxation_value()
    assert relaxed is not None
    assert relaxed <= truth.objective + 1e-6


def test_no_requests() -> None:
    """Nothing to start: total latency 0, proven."""
    result = solve(latency_problem(3, []))
    assert (result.objective, result.bound, result.starts) == (0, 0, ())
    assert (result.gap, result.is_optimal) == (0.0, True)
    assert LatencyProgram(latency_problem(3, [])).relaxation_value() == 0


def test_a_time_limit_leaves_a_bound() -> None:
    """Without a schedule there is still the integer bound, and no objective."""
    problem = common_prompt(30, (9, 8, 7, 9, 8, 7, 20, 21), "C")
    result = solve(problem, backend="highs", time_limit=0.0)
    assert result.termination in (Termination.TIME_LIMIT, Termination.FEASIBLE)
    assert result.bound is not None
    if result.starts is None:
        assert result.objective is None
        assert result.gap is None
        with pytest.raises(InputError, match="no solution"):
            result.required_solution()


def test_unknown_backends_are_named() -> None:
    """The error lists the known backends."""
    with pytest.raises(InputError, match="cp-sat"):
        solve(latency_problem(3, [(0, 1, 1)]), backend="abacus")


def test_contradictions_are_refused() -> None:
    """Optimal needs an equal integer bound."""
    with pytest.raises(ValueError, match="optimal"):
        LatencyResult(
            method="x", termination=Termination.OPTIMAL, objective=3, bound=2, starts=(0,)
        )
    with pytest.raises(ValueError, match="together"):
        LatencyResult(method="x", termination=Termination.FEASIBLE, objective=3)


def test_the_document_says_all() -> None:
    """Two requests of 4 tokens in a memory of 4: one after the other, 1 + 2."""
    document = solve(latency_problem(4, [(0, 3, 1), (0, 3, 1)])).to_mapping()
    assert document["termination"] == "optimal"
    assert (document["objective"], document["bound"]) == (3, 3)
    assert document["starts"] == [0, 1]
