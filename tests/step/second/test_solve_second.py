"""The least second objective: against enumeration, its proofs, its ties, its limits."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bfio.step.exact import solve_exact
from bfio.step.exact.effort import Effort
from bfio.step.second import improved, one_program, settled, solve_second
from formulations.results import Termination
from formulations.second import (
    Second,
    SecondProblem,
    SecondProgram,
    second_problem,
    second_value,
    violations,
)
from formulations.step import Objective, StepProblem
from formulations.step.certificate import certified_bound
from formulations.step.check import brute_force
from formulations.step.problem import MAX_OBJECTIVE


def random_step(rng: np.random.Generator) -> StepProblem:
    """Return a step with ties, zeros, speeds, token capacities and required requests at times."""
    G, N, steps = (int(rng.integers(1, most)) for most in (4, 7, 4))
    largest = int(rng.choice([1, 3, 20, 1000]))
    rows = np.repeat(rng.integers(0, largest + 1, (N, 1)), steps, axis=1)
    if rng.random() < 0.4:
        rows += np.arange(steps)
    elif rng.random() < 0.5:
        rows = rng.integers(0, largest + 1, (N, steps))
    base = rng.integers(0, largest + 1, (G, steps))
    capacity = rng.integers(0, 4, G)
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["token_time"] = rng.integers(1, 4, G)
    if rng.random() < 0.3:
        options["required"] = rng.random(N) < 0.3
    if rng.random() < 0.3:
        options["token_capacity"] = base.max() + rng.integers(0, 4 * largest, G)
    if rng.random() < 0.3:
        options["admit"] = int(rng.integers(0, min(N, int(capacity.sum())) + 1))
    return StepProblem(
        capacity,
        base,
        rows,
        weights=tuple(rng.integers(0, 3, steps).tolist()),
        objective=rng.choice(list(Objective)),
        **options,
    )


def random_problems(seed: int, count: int) -> list[tuple[SecondProblem, tuple[int | None, ...]]]:
    """Return second programs of random steps, and the first optimum of each."""
    rng = np.random.default_rng(seed)
    found: list[tuple[SecondProblem, tuple[int | None, ...]]] = []
    while len(found) < count:
        step = random_step(rng)
        best = brute_force(step)
        if best is not None:
            slack = max(0, int(rng.integers(-3000, 3000)))
            name = rng.choice(list(Second))
            found.append((second_problem(step, best[0] + slack, name), tuple(best[1])))
    return found


def _check(seed: int, count: int, *, prove: bool) -> tuple[int, int]:
    """Compare with enumeration; return how many were proven and how many re-derived."""
    proven = derived = 0
    for problem, start in random_problems(seed, count):
        least = SecondProgram.solve_by_enumeration(problem).objective
        found = solve_second(problem, start, prove=prove)
        assert found.assignment is not None
        assert violations(problem, found.assignment, found.objective) == {}
        assert least is not None
        assert found.bound is not None
        assert found.objective is not None
        assert found.bound <= least <= found.objective
        proven += found.is_optimal
        if (proof := found.certified) is not None:
            derived += 1
            bound = certified_bound(proof.problem, proof.certificate)
            assert bound - proof.factor * problem.most == found.bound
    return proven, derived


def test_with_a_proof_it_is_what_enumeration_finds() -> None:
    """Every one is proven, and bounds of our own method are derived again from the data."""
    proven, derived = _check(1, 40, prove=True)
    assert proven == 40
    assert derived >= 2


def test_without_cp_sat_bounds_hold_and_most_are_proven() -> None:
    """The search alone: never below the least, and proven by bounds without a solver."""
    proven, derived = _check(2, 160, prove=False)
    assert proven >= 120
    assert derived >= 10


@pytest.mark.deep
def test_thousands_against_enumeration() -> None:
    """The same, with other seeds."""
    assert _check(3, 600, prove=True)[0] == 600
    assert _check(4, 3000, prove=False)[0] >= 2300


def test_the_search_finds_the_least_one() -> None:
    """On small problems the search misses hardly one."""
    missed = 0
    for problem, start in random_problems(5, 120):
        found = improved(problem, start, Effort())
        assert violations(problem, found) == {}
        least = SecondProgram.solve_by_enumeration(problem).objective
        assert least is not None
        missed += second_value(problem, found) > least
    assert missed <= 2


def test_the_search_ends_within_the_limit() -> None:
    """Where what is cheaper and just above the limit is near, of long and short requests."""
    rng = np.random.default_rng(8)
    for _ in range(4):
        sizes = np.sort(rng.lognormal(6, 1, (60, 1)).astype(np.int64))
        base = rng.integers(9_000, 14_000, (16, 1))
        step = StepProblem(rng.integers(0, 2, 16), base, sizes)
        start = solve_exact(step, fallback=None).assignment
        assert start is not None
        problem = second_problem(step, step.objective_value(start), "age")
        found = improved(problem, start, Effort())
        assert violations(problem, found) == {}
        assert second_value(problem, found) <= second_value(problem, start)


def test_bounds_of_one_program_hold_for_every_factor() -> None:
    """``J' >= B - K·J_most``, by enumeration of both."""
    rng = np.random.default_rng(6)
    checked = 0
    for problem, _ in random_problems(7, 150):
        factor = int(rng.integers(0, 50))
        if (one := one_program(problem, factor)) is not None:
            best, least = brute_force(one), SecondProgram.solve_by_enumeration(problem).objective
            assert best is not None
            assert least is not None
            assert best[0] - factor * problem.most <= least
            checked += 1
    assert checked >= 20


def test_one_program_is_of_the_same_loads_only() -> None:
    """Other loads, another kind of objective, costs or memory make none."""
    step = StepProblem(np.array([1, 1]), np.array([[3, 4], [5, 1]]), np.array([[1, 2], [4, 2]]))
    window = replace(step, weights=(1, 2))
    problem = SecondProblem(step, 99, window=window)
    one = one_program(problem, 10)
    assert one is not None
    assert one.weights == (11, 12)
    longer = replace(
        step,
        base=np.array([[3, 4, 9], [5, 1, 9]]),
        contribution=np.array([[1, 2, 3], [4, 2, 0]]),
        weights=(),
    )
    one = one_program(SecondProblem(step, 99, window=longer), 10)
    assert one is not None
    assert one.weights == (11, 11, 1)
    full = replace(step, token_capacity=np.array([50, 50]))
    for other in (
        SecondProblem(step, 99, window=replace(window, base=np.array([[3, 4], [5, 2]]))),
        SecondProblem(step, 99, window=replace(window, contribution=np.array([[1, 2], [4, 3]]))),
        SecondProblem(step, 99, window=replace(window, objective=Objective.GAP)),
        SecondProblem(step, 99, window=replace(window, token_time=np.array([1, 2]))),
        SecondProblem(step, 99, cost=np.array([0, 1]), window=window),
        SecondProblem(full, 99, window=longer),
        SecondProblem(step, 99),
    ):
        assert one_program(other, 10) is None
    assert one_program(SecondProblem(full, 99, window=window), 10) is not None
    assert one_program(problem, MAX_OBJECTIVE // 40) is None


def test_interchangeable_requests_are_dealt_by_one_rule() -> None:
    """The cheapest start, of equally cheap ones the oldest, on the lowest workers."""
    step = StepProblem(np.array([1, 2, 1]), np.array([[5], [5], [5]]), np.array([[2]] * 6))
    problem = SecondProblem(step, 99, cost=np.array([3, 1, 1, 0, 1, 9]))
    assert settled(problem, (2, 1, 1, None, None, 0)) == (None, 1, 1, 0, 2, None)
    required = replace(step, required=np.array([False] * 5 + [True]))
    problem = replace(problem, step=required)
    assert settled(problem, (2, 1, 1, None, None, 0)) == (None, 1, 2, 1, None, 0)
    apart = StepProblem(step.capacity, step.base, np.array([[0], [0], [0], [1], [1], [1]]))
    problem = SecondProblem(step, 99, window=apart)
    assert settled(problem, (2, None, 1, 1, None, 0)) == (1, 2, None, 0, 1, None)


def test_equal_calls_give_equal_answers_and_the_work_limit_stops_alike() -> None:
    """No answer depends on the clock; without work the start is what is left."""
    rng = np.random.default_rng(9)
    step = StepProblem(
        rng.integers(0, 3, 12),
        rng.integers(400, 480, (12, 3)),
        rng.integers(5, 90, (40, 1)) + np.arange(3),
    )
    start = _greedy(step)
    problem = second_problem(step, step.objective_value(start) + 200, "age")
    for limit in (0, 60, 5000):
        first, again = (solve_second(problem, start, prove=False, work_limit=limit) for _ in "ab")
        assert first.assignment == again.assignment
        assert first.ticks == again.ticks
        assert not first.stopped_by_time
        assert (first.termination is Termination.WORK_LIMIT) == (limit < 5000)
    nothing = solve_second(problem, start, prove=False, work_limit=0)
    assert nothing.assignment == settled(problem, start)
    assert first.objective is not None
    assert nothing.objective is not None
    assert first.objective < nothing.objective


def _greedy(step: StepProblem) -> tuple[int | None, ...]:
    """Deal the last requests to the slots."""
    slots = np.repeat(np.arange(step.num_workers), step.capacity).tolist()
    waiting = [None] * (step.num_requests - len(slots))
    return (*waiting, *slots)


def test_nothing_to_choose_is_proven_at_once() -> None:
    """No request, no slot, no admission, and weights of zero."""
    rng = np.random.default_rng(10)
    empty = StepProblem(np.array([1]), np.array([[3]]), np.zeros((0, 1), dtype=np.int64))
    full = StepProblem(np.array([0]), np.array([[3]]), np.array([[3]]))
    for step in (empty, full, replace(random_step(rng), admit=0)):
        start = (None,) * step.num_requests
        for name in ("age", "largest", "window", "gap"):
            found = solve_second(second_problem(step, MAX_OBJECTIVE, name), start)
            assert found.is_optimal
            assert found.assignment == start
    idle = StepProblem(np.array([1, 0]), np.array([[3], [9]]), np.array([[3], [1]]), weights=(0,))
    found = solve_second(second_problem(idle, 0, "smallest"), (0, None))
    assert (found.objective, found.assignment, found.is_optimal) == (1, (None, 0), True)


def test_loads_beyond_64_bits_keep_the_start() -> None:
    """Where sums could wrap around no search begins, and CP-SAT says what it can."""
    base, sizes = np.array([[10**12], [0]]), np.array([[10**12], [5], [5]])
    step = StepProblem(np.array([1, 1]), base, sizes, weights=(10**5,))
    start = (None, 0, 1)
    problem = second_problem(step, step.objective_value(start), "age")
    assert improved(problem, start, Effort()) == start
