"""Work limits: where they stop, the answer then returned, and independence of the clock."""

import numpy as np
import pytest

from bfio.step.exact import solve_exact
from bfio.step.exact.effort import Effort
from bfio.step.solve import solve_step
from formulations.deadline import DEFAULT_WORK_LIMIT, OPERATIONS, work_limit_beside
from formulations.errors import InputError
from formulations.results import Termination
from formulations.step.bound import lower_bound
from formulations.step.check import violations
from tests.step.exact.cases import crowded, instant

#: Closes only by prices and searches, in some thousand ticks.
HARD = crowded(2, 8, 40, 500, 14)


def test_work_is_counted_in_ticks() -> None:
    """1,000 operations are a tick; what is left of a limit never falls below 0."""
    effort = Effort(work_limit=2)
    effort.spend(OPERATIONS + 1)
    assert (effort.ticks, effort.ticks_left, effort.is_over) == (2, 0, False)
    effort.spend(OPERATIONS)
    assert (effort.ticks, effort.ticks_left, effort.is_over) == (3, 0, True)
    assert effort.stopped_by_work
    assert not effort.stopped_by_time


def test_a_part_of_what_is_left() -> None:
    """Half of what is left after 4 of 10 ticks is used up at 7."""
    effort = Effort(work_limit=10)
    effort.spend(4 * OPERATIONS)
    is_over = effort.part(0.5)
    effort.spend(2 * OPERATIONS)
    assert not is_over()
    effort.spend(OPERATIONS)
    assert is_over()
    assert not effort.is_over


def test_the_clock_is_told_apart() -> None:
    """Without a work limit only the clock can strike; where both have, it was the work."""
    clocked = Effort(time_limit=0.0)
    assert clocked.is_over
    assert (clocked.stopped_by_time, clocked.stopped_by_work) == (True, False)
    both = Effort(time_limit=0.0, work_limit=0)
    assert both.is_over
    assert (both.stopped_by_time, both.stopped_by_work) == (False, True)


@pytest.mark.parametrize("work_limit", [0, 100, 1_000, 5_000, 50_000])
def test_limits_leave_an_assignment_and_a_bound(work_limit: int) -> None:
    """What is in hand is feasible, its bound holds, and work explains what is not proven."""
    optimum = solve_exact(HARD).objective
    assert optimum is not None
    found = [solve_exact(HARD, work_limit=work_limit) for _ in range(2)]
    assert found[0].assignment == found[1].assignment
    assert (found[0].bound, found[0].ticks) == (found[1].bound, found[1].ticks)
    result = found[0]
    assert result.assignment is not None
    assert result.objective is not None
    assert result.bound is not None
    assert not violations(HARD, result.assignment, result.objective)
    assert lower_bound(HARD) <= result.bound <= optimum <= result.objective
    assert not result.stopped_by_time
    assert result.proven or (result.stopped_by_work and result.ticks >= work_limit)


def test_a_limit_that_strikes_says_so() -> None:
    """No proof within 100 ticks; the answer names the limit and what was used."""
    short = solve_step(HARD, work_limit=100)
    assert short.termination is Termination.WORK_LIMIT
    assert short.ticks is not None
    assert short.ticks >= 100
    assert short.to_mapping()["ticks"] == short.ticks
    assert solve_step(HARD, work_limit=10**9).is_optimal


@pytest.mark.parametrize("method", ["cp-sat", "highs", "pyomo"])
def test_solvers_stop_by_work(method: str) -> None:
    """No node, no deterministic second: nothing is proven, and it was not the clock."""
    result = solve_step(HARD, method=method, work_limit=0)
    assert result.termination is Termination.WORK_LIMIT
    assert (result.ticks is None) == (method == "pyomo")


def test_a_solver_without_such_a_limit_refuses_it() -> None:
    """Rather than run without one."""
    from formulations.backends.pyomo_solver import PyomoSolver

    with pytest.raises(InputError, match="cannot set a work limit for object; give time_limit"):
        PyomoSolver("knitro_direct")._work_options(object(), 5)  # noqa: SLF001


def test_bad_limits_are_refused() -> None:
    """A limit is a whole number of ticks."""
    for limit in (-1, 1.5, True):
        with pytest.raises(InputError, match="work_limit"):
            solve_exact(HARD, work_limit=limit)  # type: ignore[arg-type]


def test_the_default_gives_way() -> None:
    """To a time limit, which is then the only one, and to any work limit."""
    assert work_limit_beside(None, None) == DEFAULT_WORK_LIMIT
    assert work_limit_beside(2.0, None) is None
    assert work_limit_beside(2.0, 7) == work_limit_beside(None, 7) == 7


@pytest.mark.parametrize("sizes", [[3, 3, 3, 3], [5, 3, 3, 1, 1], [4, 4, 4, 4, 4, 4]])
def test_ties_go_to_the_start(sizes: list[int]) -> None:
    """An optimal start stays, also where the search meets another optimum."""
    problem = instant([2, 2], [0, 0], sizes)
    best = solve_exact(problem)
    assert best.assignment is not None
    mirrored = tuple(None if g is None else 1 - g for g in best.assignment)
    again = solve_exact(problem, hint=mirrored)
    assert (again.assignment, again.objective) == (mirrored, best.objective)
    assert np.array_equal(problem.base[:, 0], [0, 0])
