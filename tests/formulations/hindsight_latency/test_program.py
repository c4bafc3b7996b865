"""The stated program, its vectorised form, the horizon, and the enumeration oracle."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.testing.instances import latency_problem, latency_problems
from formulations import CapabilityError
from formulations.hindsight_latency import (
    LatencyProblem,
    LatencyProgram,
    brute_force,
    kinds,
    lower_bound,
    occupied_rounds,
    total_latency,
    violations,
)
from formulations.hindsight_latency.program import build
from formulations.standard_form import compile_model
from tests.formulations.forms import assert_is_point, assert_same_form, assert_written_as_stated
from tests.formulations.hindsight_latency.cases import COUNTEREXAMPLES, common_prompt


@given(latency_problems(min_requests=1, max_requests=3), st.booleans())
def test_the_vectorised_builder_writes_the_stated_program(
    problem: LatencyProblem, aggregate: bool
) -> None:
    """Every row, side, column, bound and cost of the statement, and no other."""
    assert_written_as_stated(LatencyProgram(problem, aggregate=aggregate))


@given(latency_problems(min_requests=1, max_requests=3), st.booleans())
def test_an_optimum_is_a_point_of_the_program(problem: LatencyProblem, aggregate: bool) -> None:
    """It satisfies every row at the same cost, and reads back to a solution of this cost."""
    best, starts = brute_force(problem)
    program = LatencyProgram(problem, aggregate=aggregate)
    assert_is_point(program, tuple(starts), best)


def test_a_changed_statement_is_noticed() -> None:
    """The comparison detects a single additional coefficient."""
    problem = latency_problem(5, [(0, 1, 2), (1, 2, 1)])
    model = build(problem)
    model.memory[3].set_value(model.memory[3].body + model.x[0, 0] <= 5)
    with pytest.raises(AssertionError):
        assert_same_form(LatencyProgram(problem).standard_form, compile_model(model))


def _plain_optimum(problem: LatencyProblem, horizon: int) -> int:
    """Return the optimum over all starts up to ``horizon``, by the checker alone."""
    ranges = [range(arrival, horizon + 1) for arrival in problem.arrival.tolist()]
    return min(
        total_latency(problem, starts)
        for starts in itertools.product(*ranges)
        if not violations(problem, starts)
    )


@given(latency_problems(max_requests=2))
def test_the_oracle_and_its_horizon(problem: LatencyProblem) -> None:
    """Starts over a longer horizon give no better optimum than that of the oracle."""
    objective, starts = brute_force(problem)
    assert violations(problem, starts, objective) == {}
    longest = max((kind.last_start for kind in kinds(problem)), default=0)
    assert objective == _plain_optimum(problem, longest + 2)


@pytest.mark.parametrize(
    ("convention", "memory", "outputs", "shortest_first", "best"), COUNTEREXAMPLES
)
def test_counterexamples_of_shortest_first(
    convention: str, memory: int, outputs: tuple[int, ...], shortest_first: int, best: int
) -> None:
    """Spec section 4.2: optimal totals 11, 15, 12 against 12, 16, 13, starts as printed there."""
    problem = common_prompt(memory, outputs, convention)
    objective, starts = brute_force(problem)
    assert objective == best
    printed = {"A": (0, 1, 1, 3), "B": (0, 1, 1, 3), "C": (0, 1, 0, 3)}[convention]
    assert total_latency(problem, printed) == best
    assert violations(problem, printed, best) == {}
    greedy = {"A": (0, 0, 2, 4), "B": (0, 0, 2, 4), "C": (0, 0, 1, 4)}[convention]
    assert total_latency(problem, greedy) == shortest_first
    assert violations(problem, greedy) == {}
    assert len(starts) == 4


@given(latency_problems())
def test_conventions_translate(problem: LatencyProblem) -> None:
    """A(s, o) = B(s, o + 1), n rounds of latency apart, and C(s, o) = B(s + 1, o)."""
    shifts = {"A": (0, 1), "B": (0, 0), "C": (1, 0)}
    more_prompt, more_output = shifts[problem.convention.value]
    rows = zip(problem.arrival, problem.prompt, problem.output, strict=True)
    twin = latency_problem(
        problem.memory, [(a, s + more_prompt, o + more_output) for a, s, o in rows], "B"
    )
    objective, starts = brute_force(problem)
    other, other_starts = brute_force(twin)
    assert (other - more_output * problem.num_requests, other_starts) == (objective, starts)


@given(latency_problems())
def test_conventions_are_ordered(problem: LatencyProblem) -> None:
    """For the same data OPT_B <= OPT_C <= OPT_A, as B holds no more at any round than C, than A.

    Problems whose peak fits only under B are compared where they exist.
    """
    rows = list(zip(problem.arrival, problem.prompt, problem.output, strict=True))
    optima = [brute_force(latency_problem(problem.memory, rows, "B"))[0]]
    if all(s + o <= problem.memory for _, s, o in rows):
        optima += [brute_force(latency_problem(problem.memory, rows, c))[0] for c in "CA"]
    assert optima == sorted(optima)


@given(latency_problems())
def test_the_area_bound_holds(problem: LatencyProblem) -> None:
    """No schedule is below the area bound."""
    assert lower_bound(problem) <= brute_force(problem)[0]


def test_the_area_bound_is_met() -> None:
    """Two requests of 4 tokens x 1 round, memory 4: ends 1 and 2, total 1 + 2 = 3."""
    assert lower_bound(latency_problem(4, [(0, 3, 1), (0, 3, 1)])) == 3


def test_a_broken_area_bound_is_caught() -> None:
    """One more than the bound exceeds the optimum somewhere, so the test above can fail."""
    problem = latency_problem(4, [(0, 3, 1), (0, 3, 1)])
    assert lower_bound(problem) + 1 > brute_force(problem)[0]


def test_identical_requests_form_one_kind() -> None:
    """Two of three are identical; kept apart they are three kinds with the same horizon."""
    problem = latency_problem(9, [(0, 1, 2), (1, 1, 2), (0, 1, 2)])
    assert [kind.members for kind in kinds(problem)] == [(0, 2), (1,)]
    assert [kind.members for kind in kinds(problem, aggregate=False)] == [(0,), (1,), (2,)]
    # Last arrival 1, durations 2, 2, 2: start by 1 + 4.
    assert {kind.last_start for kind in kinds(problem)} == {5}
    assert occupied_rounds(problem) == [2, 2, 2]


def test_huge_programs_are_refused() -> None:
    """They are refused before any memory is allocated."""
    problem = latency_problem(10**9, [(0, 1, 10**8), (0, 1, 10**8)])
    with pytest.raises(CapabilityError, match="nonzeros"):
        _ = LatencyProgram(problem).standard_form
    with pytest.raises(CapabilityError, match="start vectors"):
        brute_force(problem)
    # Areas of 10^8 rounds: exact beyond 64 bits.
    assert lower_bound(problem) >= 2 * 10**8


def test_the_bound_waits_for_arrivals() -> None:
    """Memory 4 under convention B: two requests of area 4, then two more a hundred rounds later.

    Each pair ends at the earliest 1 and 2 rounds after its arrival, 0 and 1 as last rounds: no
    request waits for more than its own pair. Latencies (1 + 2) twice.
    """
    problem = latency_problem(4, [(0, 4, 1), (0, 4, 1), (100, 4, 1), (100, 4, 1)], "B")
    assert lower_bound(problem) == 6 == brute_force(problem)[0]
