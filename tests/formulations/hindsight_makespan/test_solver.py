"""Every backend against enumeration, and results that claim no more than is proven."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from bfio.testing.instances import makespan_problem, makespan_problems
from formulations import InputError
from formulations.errors import CapabilityError
from formulations.hindsight_makespan import (
    MakespanProblem,
    MakespanProgram,
    MakespanResult,
    list_schedule,
    solve,
    solve_by_enumeration,
)
from formulations.results import BoundKind, Termination
from tests.formulations.hindsight_makespan.cases import HAND_CHECKED


@pytest.mark.parametrize("backend", ["cp-sat", "highs", "pyomo"])
@pytest.mark.parametrize(("problem", "best", "_"), HAND_CHECKED)
def test_by_hand(backend: str, problem: MakespanProblem, best: int, _: object) -> None:
    """Optima as computed by hand next to the cases; only integer bounds prove them."""
    result = solve(problem, backend=backend)
    assert (result.objective, dict(result.violations)) == (best, {})
    proven = result.bound == best and result.bound_kind is BoundKind.INTEGER
    assert result.is_optimal == proven
    assert backend != "cp-sat" or proven


@given(makespan_problems(max_requests=3))
def test_cp_sat_proves_the_optimum(problem: MakespanProblem) -> None:
    """With and without aggregation it equals enumeration."""
    truth = solve_by_enumeration(problem)
    for aggregate in (True, False):
        result = MakespanProgram(problem, aggregate=aggregate).solved()
        assert result.is_optimal
        assert (result.objective, result.bound) == (truth.objective, truth.objective)


@given(makespan_problems(max_requests=3))
def test_highs_agrees_and_the_relaxation_bounds(problem: MakespanProblem) -> None:
    """HiGHS finds the optimum; the relaxation's value is not above it."""
    truth = solve_by_enumeration(problem)
    assert truth.objective is not None
    result = solve(problem, backend="highs", hint=truth.required_solution())
    assert result.objective == truth.objective
    relaxed = MakespanProgram(problem).relaxation_value()
    assert relaxed is not None
    assert relaxed <= truth.objective + 1e-6


def test_no_requests() -> None:
    """Nothing to start: 0, proven."""
    for result in (
        solve(makespan_problem(3, 1, [])),
        solve_by_enumeration(makespan_problem(3, 1, [])),
    ):
        assert (result.objective, result.bound, result.starts, result.workers) == (0, 0, (), ())
        assert result.is_optimal


def test_a_time_limit_leaves_a_bound() -> None:
    """Without a schedule there is still the integer bound, and no objective."""
    outputs = (9, 8, 7, 9, 8, 7, 9, 5, 4, 3, 6, 6)
    rows = [(0, 1 + i, output) for i, output in enumerate(outputs)]
    result = solve(makespan_problem(3, 2, rows), backend="highs", time_limit=0.0)
    assert result.termination in (Termination.TIME_LIMIT, Termination.FEASIBLE)
    assert result.bound is not None
    if result.starts is None:
        assert (result.objective, result.gap) == (None, None)
        with pytest.raises(InputError, match="no solution"):
            result.required_solution()


def test_times_too_fine_for_a_solver_are_refused() -> None:
    """Coefficients beyond 2^53 would be rounded: the remedy is named, however fine the times."""
    for fine in (Fraction(1, 3**40), Fraction(1, 10**400)):
        problem = makespan_problem(2, 1, [(0, 3, 1)], step_overhead=Fraction(1), token_time=fine)
        with pytest.raises(CapabilityError, match=r"step_overhead: .*2\^53.*fewer digits"):
            solve(problem)


def test_contradictions_are_refused() -> None:
    """Optimal requires an equal integer bound; a schedule needs both starts and workers."""
    with pytest.raises(ValueError, match="optimal"):
        MakespanResult(
            method="x",
            termination=Termination.OPTIMAL,
            objective=3,
            bound=2,
            starts=(0,),
            workers=(0,),
        )
    with pytest.raises(ValueError, match="together"):
        MakespanResult(method="x", termination=Termination.FEASIBLE, objective=3, starts=(0,))


def test_the_document_says_all() -> None:
    """Half a second per token: loads 9 and 10, then 10; 19 halves."""
    problem = makespan_problem(2, 1, [(0, 9, 2), (0, 10, 1)], token_time=Fraction(1, 2))
    document = solve(problem).to_mapping()
    assert (document["objective"], document["bound"], document["scale"]) == (19, 19, 2)
    assert (document["termination"], document["bound_kind"]) == ("optimal", "integer")
    assert document["starts"] == [0, 1]


def _plain(problem: MakespanProblem) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Let time pass step by step; each request goes to the least full worker with a free slot."""
    arrival, output = problem.arrival.tolist(), problem.output.tolist()
    sizes = (problem.prompt + problem.output).tolist()
    starts, workers = [-1] * len(arrival), [-1] * len(arrival)
    step = 0
    while min(starts, default=0) < 0:
        for i in (i for i in range(len(arrival)) if starts[i] < 0 and arrival[i] <= step):
            on: list[list[int]] = [[] for _ in range(problem.workers)]
            for j in range(len(arrival)):
                if starts[j] >= 0 and starts[j] + output[j] > step:
                    on[workers[j]].append(sizes[j])
            free = [g for g in range(problem.workers) if len(on[g]) < problem.slots]
            if free:
                starts[i], workers[i] = step, min(free, key=lambda g: (sum(on[g]), g))
        step += 1
    return tuple(starts), tuple(workers)


def test_the_rule() -> None:
    """Requests as listed, the least full worker, ties to the lower one."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        n, workers, slots = (
            int(rng.integers(low, high)) for low, high in ((0, 15), (1, 5), (1, 4))
        )
        draws = (rng.integers(0, 6, n), rng.integers(1, 5, n), rng.integers(1, 5, n))
        problem = MakespanProblem(workers, slots, *draws)
        assert list_schedule(problem) == _plain(problem)
