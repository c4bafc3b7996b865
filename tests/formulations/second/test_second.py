"""Second objectives: their values by hand, the program against enumeration."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.testing.instances import step_problem, step_problems
from formulations.errors import InputError
from formulations.results import Termination
from formulations.second import (
    Second,
    SecondProblem,
    SecondProgram,
    second_problem,
    second_value,
    solve,
    violations,
)
from formulations.step import Objective, StepProblem, StepProgram
from formulations.step.check import brute_force
from tests.formulations.forms import assert_is_point, assert_written_as_stated

#: Loads 10, 12 and 30 and a free slot on the first two: 5 and 3 fill up to 15 and 17 or 13 and 15.
HAND = step_problem([1, 1, 0], [[10, 0], [12, 4], [30, 9]], [[5, 6], [3, 0], [5, 1], [3, 3]])


@st.composite
def second_problems(draw: st.DrawFn) -> SecondProblem:
    """Any step with a solution, its optimum plus some ε, and any second objective."""
    step = draw(step_problems(max_workers=3, max_requests=5, benefit=False).filter(_has_choice))
    best = brute_force(step)
    assert best is not None
    most = best[0] + draw(st.sampled_from([0, 0, 0, 1, 40, 5000]))
    name = draw(st.sampled_from([*Second, None]))
    if name is not None:
        return second_problem(step, most, name)
    cost = draw(
        st.lists(st.integers(0, 9), min_size=step.num_requests, max_size=step.num_requests)
    )
    return SecondProblem(step, most, np.array(cost), draw(_windows(step)))


@st.composite
def _windows(draw: st.DrawFn, step: StepProblem) -> StepProblem | None:
    if draw(st.booleans()):
        return None
    columns = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    return replace(
        step,
        base=rng.integers(0, 20, (step.num_workers, columns)),
        contribution=rng.integers(0, 9, (step.num_requests, columns)),
        weights=tuple(rng.integers(0, 4, columns).tolist()),
        scale=1,
        objective=draw(st.sampled_from(list(Objective))),
        token_capacity=None,
    )


def _has_choice(step: StepProblem) -> bool:
    return step.num_requests > 0 and brute_force(step) is not None


#: H = 0 of the steps by hand: (5, 5), (5, 3) and (3, 3) cost 3·30 − 52 − the two sizes.
NOW = step_problem([1, 1, 0], [[10], [12], [30]], [[5], [3], [5], [3]])


@pytest.mark.parametrize(
    ("name", "value", "assignment"),
    [
        # Only both fives are optimal at H = 0; each name has its value there.
        ("age", 0 + 2, (0, None, 1, None)),
        ("largest", 0, (0, None, 1, None)),
        ("smallest", 10, (0, None, 1, None)),
        ("now", 3 * 30 - 52 - 10, (0, None, 1, None)),
        ("window", 3 * 30 - 52 - 10, (0, None, 1, None)),
        ("gap", 30 - 15, (0, None, 1, None)),
    ],
)
def test_values_by_hand(name: str, value: int, assignment: tuple[int | None, ...]) -> None:
    """Ranks, tokens and gaps of the one optimum but for the order of workers."""
    problem = second_problem(NOW, 28, name)
    assert second_value(problem, assignment) == value
    best = SecondProgram.solve_by_enumeration(problem)
    assert best.objective == value
    assert violations(problem, assignment, value) == {}
    assert violations(problem, assignment, value + 1) == {"objective": 1}


@pytest.mark.parametrize(
    ("name", "most", "value", "admitted"),
    [
        # A limit of 30 admits a five and a three as well, 32 any two.
        ("age", 30, 0 + 1, {0, 1}),
        ("largest", 32, 0, {0, 2}),
        ("smallest", 30, 8, {0, 1}),
        ("smallest", 32, 6, {1, 3}),
        ("gap", 32, 30 - 15, {0, 1}),
    ],
)
def test_a_limit_above_the_optimum_leaves_more_to_choose_from(
    name: str, most: int, value: int, admitted: set[int]
) -> None:
    """ε buys a better second objective, and no more than it allows."""
    best = SecondProgram.solve_by_enumeration(second_problem(NOW, most, name))
    assert best.objective == value
    assert best.assignment is not None
    assert {i for i, g in enumerate(best.assignment) if g is not None} == admitted


def test_a_window_counts_every_step_alike_and_now_the_first_one_only() -> None:
    """By hand: loads (15, 17, 30) and (6, 5, 9), for any weights of the step."""
    step = replace(HAND, weights=(0, 5))
    assignment = (0, None, 1, None)
    now, later = 3 * 30 - 15 - 17 - 30, 3 * 9 - 6 - 5 - 9
    assert step.objective_value(assignment) == 5 * later
    assert second_value(second_problem(step, 10**6, "window"), assignment) == now + later
    assert second_value(second_problem(step, 10**6, "now"), assignment) == now
    gap = second_problem(step, 10**6, "gap")
    assert second_value(gap, assignment) == 5 * (9 - 5)


def test_a_limit_that_is_exceeded_is_named() -> None:
    """Reports the excess over the limit, or the violated constraints of the step."""
    problem = second_problem(NOW, 28, "age")
    assert violations(problem, (0, 1, None, None)) == {"most": 2}
    assert violations(problem, (0, 0, 1, None)).keys() == {"capacity[0]", "use_slots"}
    assert violations(problem, (9, None, 1, None)) == {"worker[0]": 1}


@given(second_problems())
def test_the_written_program_is_the_stated_one(problem: SecondProblem) -> None:
    """Every row, side, column, bound and cost of the statement."""
    if StepProgram(problem.step).settled("cp-sat") is None:
        program = SecondProgram(problem)
        assert_written_as_stated(program)
        best = program.brute_force()
        assert best is not None
        assert_is_point(program, best[1], best[0])


@given(second_problems())
def test_cp_sat_finds_what_enumeration_finds(problem: SecondProblem) -> None:
    """The same least second objective, proven, above the bound that needs no solver."""
    exact = SecondProgram.solve_by_enumeration(problem)
    found = solve(problem)
    assert found.termination is Termination.OPTIMAL
    assert found.objective == exact.objective
    assert found.assignment is not None
    assert problem.step.objective_value(found.assignment) <= problem.most
    assert exact.objective is not None
    assert SecondProgram(problem).lower_bound() <= exact.objective


@given(second_problems())
def test_documents_hold_all_of_a_problem(problem: SecondProblem) -> None:
    """Written and read, it is the same problem."""
    again = SecondProblem.from_mapping(problem.to_mapping())
    assert again.digest() == problem.digest()
    most: Any = np.int64(problem.most)
    assert replace(problem, most=most).digest() == problem.digest()


def test_no_assignment_within_the_limit_is_infeasible() -> None:
    """A limit below the optimum is infeasible, also if no request may start."""
    assert solve(second_problem(NOW, 27, "age")).termination is Termination.INFEASIBLE
    waiting = replace(NOW, admit=0)
    assert solve(second_problem(waiting, 37, "age")).termination is Termination.INFEASIBLE
    assert solve(second_problem(waiting, 38, "age")).objective == 0


def test_what_does_not_fit_the_step_is_refused() -> None:
    """One line: field, what is wrong, remedy."""
    with pytest.raises(InputError, match="cost: 1 entry for 4 requests"):
        SecondProblem(NOW, 0, cost=np.array([1]))
    other = StepProblem(np.array([1]), np.array([[1]]), np.array([[1]]))
    with pytest.raises(InputError, match="window: 1 request on 1 worker;"):
        SecondProblem(NOW, 0, window=other)
    with pytest.raises(InputError, match=r"second: .*unknown.*did you mean.*age"):
        second_problem(NOW, 0, "ages")


def test_a_window_takes_its_limits_from_the_step() -> None:
    """The window's bound holds for the assignments of the step; its own slots are ignored."""
    full = replace(NOW, capacity=np.array([0, 0, 0]), objective=Objective.MAX_LOAD)
    problem = SecondProblem(NOW, 40, window=full)
    assert problem.window is not None
    assert problem.window.num_admitted == 2


def test_the_bound_without_a_solver_by_hand() -> None:
    """The bound is the cost of the required request plus that of the cheapest others."""
    required = np.array([True, False, False, False])
    step = replace(NOW, required=required)
    problem = SecondProblem(step, 99, cost=np.array([1, 4, 2, 9]))
    assert SecondProgram(problem).lower_bound() == 1 + 2
    problem = SecondProblem(step, 99, cost=np.array([7, 4, 2, 9]), window=NOW)
    assert SecondProgram(problem).lower_bound() == 7 + 2 + 28
