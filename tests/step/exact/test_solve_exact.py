"""The exact solver against enumeration, hand-checked optima and CP-SAT."""

import subprocess
import sys
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.step.exact import ExactResult, solve_exact
from bfio.step.exact.effort import Phase
from bfio.testing.instances import step_problems
from formulations.errors import InputError
from formulations.results import Termination
from formulations.step import StepProblem, solve
from formulations.step.check import violations
from tests.formulations.test_false_optimum import INSTANCE, OPTIMUM
from tests.step.exact.cases import core_problems, crowded, instant, smallest_imbalance


def check(problem: StepProblem, result: ExactResult) -> None:
    """Assert that the result agrees with the problem and with itself."""
    assert result.assignment is not None
    assert result.objective is not None
    assert result.bound is not None
    assert violations(problem, result.assignment, result.objective) == {}
    assert result.bound <= result.objective


@given(core_problems())
def test_equals_enumeration(problem: StepProblem) -> None:
    """Our own phases, without a solver, prove the enumerated optimum."""
    result = solve_exact(problem, fallback=None)
    check(problem, result)
    assert result.proven
    assert result.objective == smallest_imbalance(problem)


@given(core_problems())
def test_bounds_are_valid_without_search(problem: StepProblem) -> None:
    """With the enumeration off, the bound may be weak but never exceeds the optimum."""
    result = solve_exact(problem, fallback=None, node_limit=0)
    check(problem, result)
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound <= smallest_imbalance(problem) <= result.objective


@given(step_problems(max_workers=3, max_requests=4))
def test_any_step_problem(problem: StepProblem) -> None:
    """Other objectives, constraints and windows reach the fallback and agree with it."""
    result = solve_exact(problem)
    expected = solve(problem, backend="cp-sat")
    assert result.objective == expected.objective
    assert result.infeasible == (expected.termination is Termination.INFEASIBLE)
    assert result.proven or result.infeasible
    answer = result.to_step_result(problem)
    assert (answer.termination, answer.bound) == (expected.termination, expected.objective)


@given(core_problems(), st.booleans())
def test_fallback_closes_what_is_open(problem: StepProblem, highs: bool) -> None:
    """Without enumeration the fallback meets the optimum; a float solver's word proves nothing."""
    result = solve_exact(problem, node_limit=0, fallback="highs" if highs else "cp-sat")
    check(problem, result)
    optimum = smallest_imbalance(problem)
    assert result.objective is not None
    assert result.bound is not None
    assert result.bound <= optimum <= result.objective
    assert highs or (result.proven and result.objective == optimum)


@pytest.mark.parametrize("seed", range(6))
def test_incumbent_outside_the_open_peaks(seed: int) -> None:
    """A start that is optimal stays proven when CP-SAT finds nothing better in its range."""
    problem = crowded(seed, 5, 12, 25, 7)
    best = solve_exact(problem)
    assert best.proven
    again = solve_exact(problem, hint=best.assignment, node_limit=0)
    assert (again.objective, again.bound) == (best.objective, best.objective)


@given(core_problems(), st.data())
def test_fewer_admissions(problem: StepProblem, data: st.DataObject) -> None:
    """With a prescribed number of admissions the optimum is that of the enumeration."""
    fewer = replace(problem, admit=data.draw(st.integers(0, problem.num_admitted)))
    result = solve_exact(fewer)
    check(fewer, result)
    assert result.proven
    assert result.objective == smallest_imbalance(fewer)


def test_golden_p1() -> None:
    """P1: loads 58, 60, 60; 3·60 − 178 = 2; the only optimum is r0->w0, r2,r4->w1."""
    problem = instant([1, 2, 0], [40, 25, 60], [18, 9, 30, 22, 5])
    result = solve_exact(problem)
    assert (result.objective, result.proven) == (2, True)
    assert result.assignment == (0, None, 1, None, 1)


def test_golden_p2() -> None:
    """P2, a window of three steps: optimum 32 at r1->w0, r2->w1."""
    problem = StepProblem(
        np.array([1, 1]),
        np.array([[50, 51, 22], [30, 31, 32]]),
        np.array([[20, 21, 22], [8, 9, 10], [31, 0, 0]]),
    )
    result = solve_exact(problem)
    assert (result.objective, result.proven) == (32, True)
    assert result.assignment == (None, 0, 1)


def test_false_optimum_instance() -> None:
    """Where a float solver claims 43,894,278, the optimum is 43,889,056."""
    result = solve_exact(INSTANCE)
    check(INSTANCE, result)
    assert (result.objective, result.bound) == (OPTIMUM, OPTIMUM)


def test_pairs_behind_one_peak() -> None:
    """Two single slots want the same request of 5: one takes 5, the other 3; 3·9 − 25 = 2."""
    result = solve_exact(instant([1, 1, 0], [4, 4, 9], [5, 3, 8]), fallback=None)
    assert (result.objective, result.proven) == (2, True)


def test_everyone_is_admitted() -> None:
    """7,6,5,4,4,4 on three empty workers: 30/3 = 10, but 7 is alone or with 4 or more.

    Alone, it leaves 23 to two workers (12 on one); 7+4, 6+5, 4+4 has peak 11: 33 − 30 = 3.
    """
    result = solve_exact(instant([6, 6, 6], [0, 0, 0], [7, 6, 5, 4, 4, 4]), fallback=None)
    assert (result.objective, result.proven) == (3, True)


@pytest.mark.parametrize(
    ("capacity", "base", "sizes", "optimum"),
    [
        ([0, 0], [3, 8], [1, 2], 5),
        ([2, 2], [0, 0], [], 0),
        ([3], [7], [1, 2, 3, 4], 0),
        ([2, 1], [0, 0], [0, 0, 0, 0], 0),
        ([1, 1], [5, 5], [4, 4, 4], 0),
        ([2, 2], [0, 0], [10**6, 1, 1], 10**6 - 2),
    ],
)
def test_degenerate_steps(
    capacity: list[int], base: list[int], sizes: list[int], optimum: int
) -> None:
    """No slot, no request, one worker, zero and equal sizes, one giant request."""
    problem = instant(capacity, base, sizes)
    result = solve_exact(problem, fallback=None)
    check(problem, result)
    assert (result.objective, result.proven) == (optimum, True)


@pytest.mark.parametrize("seed", range(8))
def test_two_open_workers_by_pairs(seed: int) -> None:
    """A crowded step with capacities 2 and 1 against all disjoint pairs and singles."""
    problem = crowded(seed, 8, 24, 300, 0)
    capacity = np.zeros(8, dtype=np.int64)
    capacity[seed % 8] = 2
    capacity[(seed + 3) % 8] = 1
    problem = StepProblem(capacity, problem.base, problem.contribution)
    base = problem.base[:, 0].tolist()
    sizes = problem.contribution[:, 0].tolist()
    values = []
    for i, j in combinations(range(24), 2):
        for k in range(24):
            if k not in (i, j):
                loads = list(base)
                loads[seed % 8] += sizes[i] + sizes[j]
                loads[(seed + 3) % 8] += sizes[k]
                values.append(8 * max(loads) - sum(loads))
    result = solve_exact(problem, fallback=None)
    assert (result.objective, result.proven) == (min(values), True)


@given(core_problems(), st.integers(0, 2**32))
def test_hint_never_hurts(problem: StepProblem, seed: int) -> None:
    """A feasible start is used, an infeasible one ignored, and the optimum is the same."""
    start = solve_exact(problem, fallback=None, node_limit=0).assignment
    wrong = [0] * (problem.num_requests + 1 + seed % 2)
    for hint in (start, wrong):
        assert solve_exact(problem, hint=hint, fallback=None).objective == smallest_imbalance(
            problem
        )


@given(core_problems())
def test_is_deterministic(problem: StepProblem) -> None:
    """The same problem gives the same assignment, whatever was solved in between."""
    first = solve_exact(problem, fallback=None)
    solve_exact(crowded(1, 4, 12, 50, 5), fallback=None)
    assert solve_exact(problem, fallback=None).assignment == first.assignment


def test_time_limit_keeps_the_incumbent() -> None:
    """With no time left there is an assignment, a valid bound, and the reason."""
    problem = crowded(5, 16, 128, 500, 40)
    result = solve_exact(problem, time_limit=0.0)
    check(problem, result)
    if not result.proven:
        assert result.to_step_result(problem).termination is Termination.TIME_LIMIT


def test_limits_are_checked() -> None:
    """A negative limit is an error that names it."""
    problem = instant([1], [0], [1])
    with pytest.raises(InputError, match="time_limit: -1 is not a number >= 0; give"):
        solve_exact(problem, time_limit=-1)
    with pytest.raises(InputError, match="node_limit: -1"):
        solve_exact(problem, node_limit=-1)


@pytest.mark.parametrize("phase", list(Phase))
def test_any_phase_can_be_skipped(phase: Phase) -> None:
    """Without a phase a solve may prove less, but what it claims stays true."""
    tight = instant([9] * 6, [0] * 6, [403, 398, 251, 249, 102] * 4)
    level = instant([8] * 3, [0] * 3, list(range(100, 130)))
    for problem in (crowded(111, 6, 24, 1000, 14), tight, level):
        optimum = solve_exact(problem, fallback=None).objective
        result = solve_exact(problem, fallback=None, skip=[phase.value], node_limit=100)
        check(problem, result)
        assert optimum is not None
        assert result.bound is not None
        assert result.objective is not None
        assert result.bound <= optimum <= result.objective


def test_skipping_is_felt() -> None:
    """Eight empty workers of 8 slots and 96 requests get one load soonest by refills."""
    rng = np.random.default_rng(0)
    problem = instant([8] * 8, [0] * 8, rng.geometric(1 / 900, 96).tolist())
    assert solve_exact(problem, fallback=None, work_limit=20_000).proven
    skipped = solve_exact(problem, fallback=None, skip=["refills"], work_limit=100_000)
    assert not skipped.proven
    with pytest.raises(InputError, match="phase 'refill': unknown"):
        solve_exact(problem, skip=["refill"])


def test_import_is_lazy() -> None:
    """Importing the package loads neither Numba nor a solver."""
    code = (
        "import sys, bfio.step.exact; print([m for m in ('numba', 'ortools') if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(300))
def test_agrees_with_cp_sat(seed: int) -> None:
    """Crowded and cold steps of up to 6 workers and 20 requests against the plain program."""
    problem = crowded(seed, 2 + seed % 5, 6 + seed % 15, (20, 200, 2000)[seed % 3], 2 + seed % 9)
    result = solve_exact(problem)
    check(problem, result)
    assert result.proven
    assert result.objective == solve(problem, backend="cp-sat").objective
