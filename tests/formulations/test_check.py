"""The checker finds each kind of violation, alone and with its amount."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.testing.instances import step_problem, step_problems
from formulations.step import StepProblem, violations

#: Spec section 9, P1: optimum 2 with r0->w0, r2,r4->w1 (loads 58, 60, 60).
P1 = step_problem([1, 2, 0], [[40], [25], [60]], [[18], [9], [30], [22], [5]])
OPTIMAL = [0, None, 1, None, 1]


def test_an_optimal_assignment_has_no_violation() -> None:
    """Loads 58, 60, 60: imbalance 3·60 − 178 = 2."""
    assert violations(P1, OPTIMAL, 2) == {}


@pytest.mark.parametrize(
    ("assignment", "objective", "expected"),
    [
        ([0, None, 1, None], None, {"assignment": 1}),
        ([0, 3, 1, None, 1], None, {"worker[1]": 1}),
        ([0, -1, 1, None, 1], None, {"worker[1]": 1}),
        ([True, None, 1, None, 1], None, {"worker[0]": 1}),
        ([0, 0, 1, None, None], None, {"capacity[0]": 1}),
        ([2, None, 1, None, 1], None, {"capacity[2]": 1}),
        ([0, None, 1, None, None], None, {"use_slots": 1}),
        ([0, 1, 1, 1, None], None, {"capacity[1]": 1, "use_slots": 1}),
        (OPTIMAL, 3, {"objective": 1}),
    ],
)
def test_each_violation_is_named(
    assignment: list[int | None], objective: int | None, expected: dict[str, int]
) -> None:
    """Each broken rule is reported under its own name, with how much it is broken."""
    assert violations(P1, assignment, objective) == expected


def test_optional_rows_are_checked() -> None:
    """Worker 1 holds 25 + 30 + 5 = 60 against 50; request 1 should have started."""
    problem = StepProblem.from_mapping(
        P1.to_mapping()
        | {"token_capacity": [100, 50, 100], "required": [False, True, False, False, False]}
    )
    assert violations(problem, OPTIMAL) == {"token_capacity[1,0]": 10, "required[1]": 1}


@given(step_problems(), st.data())
def test_the_checker_recomputes_the_objective_by_itself(
    problem: StepProblem, data: st.DataObject
) -> None:
    """Its objective, in plain integers, equals the data type's; one more or less is caught."""
    worker = st.none() | st.integers(0, problem.num_workers - 1)
    size = problem.num_requests
    assignment = data.draw(st.lists(worker, min_size=size, max_size=size))
    value = problem.objective_value(assignment)
    assert "objective" not in violations(problem, assignment, value)
    assert violations(problem, assignment, value + 1)["objective"] == 1
