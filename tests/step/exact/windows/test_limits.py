"""The method for windows under limits: deterministic, and valid wherever it stops."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from bfio.step.exact import ExactResult, solve_exact
from bfio.step.exact.effort import Effort
from bfio.step.exact.windows.solve import solve_window
from formulations.step import StepProblem
from formulations.step.certificate import certified_bound
from formulations.step.check import violations
from tests.step.exact.windows.cases import crowded_window, optimum, small_problems

_LIMITS = (None, 0, 300, 3000)
#: Prints what another process answers to the same problems.
_PROGRAM = """
from tests.step.exact.windows.test_limits import _LIMITS, _essence, solve_exact, crowded_window
for limit in _LIMITS:
    print(_essence(solve_exact(crowded_window(7), fallback=None, work_limit=limit)))
"""


def _essence(result: ExactResult) -> str:
    """Return all of an answer but its times."""
    parts = (result.assignment, result.bound, result.ticks, result.method, result.certificate)
    return repr(parts)


def test_an_answer_is_the_same_again_and_elsewhere() -> None:
    """Assignment, bound, ticks and certificate, also where a work limit strikes."""
    answers = []
    for limit in _LIMITS:
        first, second = (
            solve_exact(crowded_window(7), fallback=None, work_limit=limit) for _ in range(2)
        )
        assert _essence(first) == _essence(second)
        answers.append(_essence(first))
    assert len(set(answers)) > 2
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == answers


@pytest.mark.parametrize("seed", [2, 5, 7])
@pytest.mark.parametrize(
    "limits", [{"time_limit": 0.001}, {"work_limit": 0}, {"work_limit": 1500}]
)
def test_a_stopped_search_is_right(seed: int, limits: dict[str, float]) -> None:
    """The placement is feasible, and the bound below the optimum and certified."""
    problem = crowded_window(seed)
    result = solve_exact(problem, fallback=None, **limits)  # type: ignore[arg-type]
    assert result.assignment is not None
    assert result.bound is not None
    assert violations(problem, result.assignment, result.objective) == {}
    best = solve_exact(problem)
    assert best.proven
    assert best.objective is not None
    assert result.bound <= best.objective
    assert result.certificate is not None
    assert certified_bound(problem, result.certificate) == result.bound


def test_small_problems_stopped_at_once() -> None:
    """No answer of a thousandth of a second is wrong, and none impossible that is not."""
    for problem in small_problems(31, 60):
        best = optimum(problem)
        result = solve_exact(problem, time_limit=0.001)
        assert not (result.infeasible and best is not None)
        assert not (result.proven and result.objective != best)
        if result.assignment is not None:
            assert violations(problem, result.assignment, result.objective) == {}
        if best is not None and result.bound is not None:
            assert result.bound <= best


def test_infeasible_problems_are_said_to_be() -> None:
    """Requests of 7, 7 and 6 fit one by one, not together: that takes the fallback to say."""
    steps = np.arange(3)
    problem = StepProblem(
        np.array([2, 2]),
        np.array([[0, 0, 0], [1, 0, 5]]),
        np.array([[7], [7], [6]]) + 0 * steps,
        token_capacity=np.array([12, 12]),
    )
    assert optimum(problem) is None
    alone = solve_exact(problem, fallback=None)
    assert (alone.assignment, alone.proven) == (None, False)
    assert solve_exact(problem).infeasible
    required = replace(problem, token_capacity=None, required=np.ones(3, dtype=np.bool_), admit=2)
    assert solve_exact(required, fallback=None).infeasible


def test_cold_starts_are_left_to_the_fallback_soon() -> None:
    """Sixteen workers with 72 free slots and 1,152 requests: placed, and no table filled."""
    rng = np.random.default_rng(1)
    problem = StepProblem(
        np.full(16, 72),
        rng.integers(0, 3, (16, 1)) + np.zeros((1, 21), dtype=np.int64),
        rng.geometric(1 / 300, (1152, 1)) + np.arange(21),
        token_capacity=np.full(16, 10**6),
    )
    result = solve_exact(problem, fallback=None)
    assert result.assignment is not None
    assert violations(problem, result.assignment, result.objective) == {}
    assert result.ticks < 2_000_000


def test_thousands_of_requests() -> None:
    """Three thousand wait for some twenty slots: proven, and certified."""
    problem = crowded_window(1, G=16, N=3000, H=20)
    result = solve_exact(problem, fallback=None)
    assert result.proven
    assert result.certificate is not None
    assert certified_bound(problem, result.certificate) == result.objective


def test_placements_within_token_limits_are_found() -> None:
    """What spares the peak is above the limit of its worker: the other one takes it.

    The cost of a token above a limit has to outgrow what it spares.
    """
    problem = StepProblem(
        np.array([1, 1]),
        np.array([[1205], [730]]),
        np.array([[1000]]),
        objective="max-load",  # type: ignore[arg-type]
        token_capacity=np.array([3017, 1691]),
    )
    result = solve_exact(problem, fallback=None)
    assert (result.assignment, result.objective, result.proven) == ((0,), 2205, True)


class StopsAt(Effort):
    """An effort whose limit strikes when it is asked for the k-th time."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self._left = k

    @property
    def is_over(self) -> bool:
        """Whether it has been asked so often."""
        self._left -= 1
        return self._left <= 0


def test_wherever_a_search_stops_its_bound_is_certified() -> None:
    """Also with cases of which some are closed, one is begun and others were never reached."""
    trees = 0
    problem = crowded_window(53, 6, 30, 8, 60)
    for k in range(1, 61, 4):
        result = solve_window(problem, None, StopsAt(k))
        assert result is not None
        assert result.certificate is not None
        assert certified_bound(problem, result.certificate) == result.bound
        trees += len(result.certificate.cases) > 1 and not result.proven
    assert trees > 2
