"""The pausing program: statement, vectorised form, checker, bounds, and Dinkelbach's sequence."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations import CapabilityError, InputError
from formulations.pausing import (
    Action,
    PausingProblem,
    PausingProgram,
    PricedPausing,
    PricedProgram,
    Relaxation,
    brute_force,
    least_ratio,
    least_times,
    solve,
    time_and_tokens,
    violations,
)
from formulations.results import Termination
from tests.formulations.forms import assert_is_point, assert_written_as_stated
from tests.formulations.pausing.cases import HAND, drawn, problems

PROBLEM = PausingProblem.from_mapping(HAND)


def test_by_hand() -> None:
    """All four run: 10 + 26 units for 4 tokens, 9 each. Without the load of 20: 10 + 9 for 3.

    The waiting request fits beside 4 + 5 = 9 up to 12: 10 + 12 for 4 tokens, 11/2. On worker 1
    there is no slot. Pausing 5 as well: 10 + 7 for 3, 17/3. Nobody but it: 10 + 3 for 1.
    """
    best = brute_force(PROBLEM)
    assert best == ((22, 4), ((True, True, True, False), (0,)))
    assert least_ratio(least_times(Relaxation(PROBLEM)).tolist()) == Fraction(22, 4)
    forced = PausingProblem.from_mapping(HAND | {"max_pauses": 0})
    # Nobody may pause: 26 on worker 1, so that 12 on worker 0 costs nothing.
    assert brute_force(forced) == ((36, 5), ((True,) * 4, (0,)))


def test_actions_by_hand() -> None:
    """What a run or a pause is called depends on the step before; a worker may be frozen."""
    active = [{"worker": g, "load": 4, "paused": p} for g, p in ((0, 0), (0, 0), (0, 1), (1, 1))]
    problem = PausingProblem.from_mapping(HAND | {"active": active, "waiting": []})
    runs = (True, False, True, False)
    names = (Action.KEEP, Action.PAUSE, Action.RESUME, Action.STAY)
    assert problem.actions(runs) == names
    assert problem.frozen_workers(runs, ()) == (1,)
    assert problem.frozen_workers((True,) * 4, ()) == ()


@pytest.mark.parametrize(
    ("changes", "runs", "assignment", "broken"),
    [
        ({}, [True] * 4, [0], {}),
        ({}, [True] * 3, [0], {"runs": 1}),
        ({}, [True] * 4, [2], {"worker[0]": 1}),
        ({}, [1, True, True, True], [0], {"runs[0]": 1}),
        ({}, [True] * 4, [1], {"capacity[1]": 1}),
        ({}, [False] * 4, [None], {"one_token": 1}),
        ({"max_pauses": 0}, [True, True, True, False], [0], {"must_run[3]": 1}),
        ({"required": [True]}, [True] * 4, [None], {"required[0]": 1}),
        # 4 + 5 are held whether they run or not, and 3 more are 12.
        ({"token_capacity": [11, 30]}, [False, False, True, False], [0], {"token_capacity[0]": 1}),
        ({"token_capacity": [12, 30]}, [False, False, True, False], [0], {}),
        # Too much is held already: that alone is no fault of this step.
        ({"token_capacity": [5, 30]}, [True] * 4, [None], {}),
    ],
)
def test_the_checker(
    changes: dict[str, object], runs: list[Any], assignment: list[int | None], broken: object
) -> None:
    """Each family alone."""
    problem = PausingProblem.from_mapping(HAND | changes)
    assert violations(problem, runs, assignment) == broken


def test_the_checker_compares_what_is_claimed() -> None:
    """10 + 26 units, 5 tokens."""
    assert violations(PROBLEM, [True] * 4, [0], (36, 5)) == {}
    assert violations(PROBLEM, [True] * 4, [0], (35, 7)) == {"time": 1, "tokens": 2}


@given(problems(), st.integers(1, 9), st.integers(0, 200))
def test_the_vectorised_builder_writes_the_stated_program(
    problem: PausingProblem, time_price: int, token_price: int
) -> None:
    """Every row, side, column, bound and cost of the statement, and no other."""
    if problem.num_active + problem.num_requests:
        program = PricedProgram(PricedPausing(problem, time_price, token_price))
        assert_written_as_stated(program)
        assert_written_as_stated(PausingProgram(problem))


@given(problems())
def test_bounds_and_points(problem: PausingProblem) -> None:
    """No step is faster than the relaxation; solutions are points of the program."""
    best = brute_force(problem)
    times = least_times(Relaxation(problem)).tolist()
    if best is None:
        return
    (time, tokens), solution = best
    assert times[tokens - 1] <= time
    ratio = least_ratio(times)
    assert ratio is not None
    assert ratio <= Fraction(time, tokens)
    if problem.num_requests == 0 or not problem.capacity.any():
        assert ratio == Fraction(time, tokens)
    near = least_times(Relaxation(problem), Fraction(time, tokens)).tolist()
    assert all(known <= exact for known, exact in zip(near, times, strict=True))
    assert least_ratio(near) == ratio
    priced = PricedPausing.at(problem, Fraction(time, tokens))
    program = PricedProgram(priced)
    assert program.lower_bound() <= 0
    assert_is_point(program, solution, 0)


@pytest.mark.parametrize("chunk", range(2))
def test_dinkelbach_equals_enumeration(chunk: int) -> None:
    """From no step at all, and from a bad one."""
    for seed in range(8 * chunk, 8 * chunk + 8):
        problem = drawn(seed)
        best, found = brute_force(problem), solve(problem)
        if best is None:
            assert found.termination is Termination.INFEASIBLE
            continue
        assert found.is_optimal
        assert found.objective == found.bound == problem.ratio(*best[0])
        assert violations(problem, *best[1], best[0]) == {}
        bad = ((True,) * problem.num_active, (None,) * problem.num_requests)
        again = solve(problem, hint=bad)
        assert (again.objective, again.is_optimal) == (found.objective, True)


def test_float_solvers_prove_nothing_by_themselves() -> None:
    """HiGHS finds it; what is called optimal rests on the relaxation."""
    for seed in range(6):
        problem = drawn(seed)
        best, found = brute_force(problem), solve(problem, backend="highs")
        if best is not None:
            assert found.objective == problem.ratio(*best[0])
            ratio = least_ratio(least_times(Relaxation(problem)).tolist())
            assert found.is_optimal == (ratio == Fraction(*best[0]))


@given(problems())
def test_documents_hold_all_of_a_problem(problem: PausingProblem) -> None:
    """Read back as written."""
    again = PausingProblem.from_mapping(problem.to_mapping())
    assert again.to_mapping() == problem.to_mapping()
    assert again.scale == problem.scale


def test_times_are_exact() -> None:
    """Seconds of many digits have a scale; one time stands for all workers."""
    problem = PausingProblem.from_mapping(
        HAND | {"step_overhead": "0.0049", "token_time": ["1e-7", "1/3"]}
    )
    assert problem.scale == 3 * 10**7
    assert problem.overheads.tolist() == [147_000, 147_000]
    assert problem.rates.tolist() == [3, 10**7]
    time, tokens = time_and_tokens(problem, [True] * 4, [0])
    assert problem.ratio(time, tokens) == (Fraction("0.0049") + Fraction(26, 3)) / 5


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"capacity": []}, "capacity: no worker"),
        ({"active": [{"worker": 2, "load": 1}]}, r"^active\[0\].worker: 2 is out of range"),
        ({"active": [{"worker": 0, "load": 0}]}, r"active\[0\].load"),
        ({"active": [{"worker": 0}]}, r"active\[0\].load: missing"),
        ({"active": 3}, "active: a number; write a list"),
        ({"max_pauses": -1}, "max_pauses: -1"),
        ({"token_time": "0"}, r"token_time\[0\]: 0: tokens would take no time"),
        ({"token_time": ["1", "2", "3"]}, "token_time: 3 entries where 2"),
        ({"step_overhead": 0.5}, "step_overhead: 0.5 is not an exact rational"),
        ({"required": [1]}, "required: is not a list of true or false"),
        ({"required": []}, "required: 0 entries where 1"),
        ({"token_capacity": [1]}, "token_capacity: 1 entry where 2"),
        ({"token_time": "1e-59", "step_overhead": "1000000"}, "could last"),
        ({"slots": 3}, "document.slots: unknown"),
    ],
)
def test_bad_input(changes: dict[str, object], error: str) -> None:
    """One line says where and what."""
    with pytest.raises(InputError, match=error):
        PausingProblem.from_mapping(HAND | changes)


def test_too_many_solutions_to_look_at() -> None:
    """Enumeration refuses with a remedy."""
    many = [{"worker": 0, "load": 1}] * 30
    with pytest.raises(CapabilityError, match='method="exact"'):
        brute_force(PausingProblem.from_mapping(HAND | {"active": many}))


def test_nothing_at_all() -> None:
    """No request: no token, so no ratio."""
    empty = PausingProblem.from_mapping(HAND | {"active": [], "waiting": []})
    assert solve(empty).termination is Termination.INFEASIBLE
    assert brute_force(empty) is None
    assert len(least_times(Relaxation(empty))) == 0
    assert np.array_equal(empty.room, [0, 0])
