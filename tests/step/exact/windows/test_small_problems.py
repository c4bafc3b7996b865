"""Small problems of every kind: the method for windows, enumeration and CP-SAT agree."""

from collections import Counter

import numpy as np
import pytest

from bfio.step.exact import ExactResult, solve_exact
from formulations.errors import CapabilityError
from formulations.results import Termination
from formulations.step import StepProblem, solve
from formulations.step.certificate import certified_bound
from formulations.step.check import violations
from tests.step.exact.windows.cases import optimum, small_problems

#: From here on the sums of few sizes are too far apart for tables of all sums.
_TABLES_END = 10**7
#: What CP-SAT may spend on a problem [ticks].
_WORK = 200_000


def check(problem: StepProblem, best: int | None, result: ExactResult) -> str:
    """Assert that an answer of our own method is right; return what became of the problem."""
    if result.certificate is not None:
        assert certified_bound(problem, result.certificate) == result.bound
    if best is None:
        assert result.assignment is None
        return "infeasible" if result.infeasible else "infeasible, not proven"
    assert not result.infeasible
    assert result.bound is not None
    assert result.bound <= best
    if result.assignment is not None:
        assert result.objective is not None
        assert result.objective >= best
        assert violations(problem, result.assignment, result.objective) == {}
    if not result.proven:
        largest = max(problem.base.max(), problem.contribution.max(initial=0))
        if largest >= _TABLES_END:
            return "open"
        # No split is left, which the default method answers by enumeration.
        assert solve_exact(problem).method == "brute-force"
        return "enumerated"
    assert result.certificate is not None
    return "proven"


def test_own_method_is_enumeration() -> None:
    """Of 200 problems, own method proves all but the hugest, each with a certificate."""
    found: Counter[str] = Counter()
    for problem in small_problems(1, 200):
        result = solve_exact(problem, fallback=None)
        found[check(problem, optimum(problem), result)] += 1
    assert found["proven"] > 140
    assert found["infeasible"] > 20
    assert found["open"] > 0


@pytest.mark.deep
def test_own_method_enumeration_and_cp_sat() -> None:
    """Of 20,000 problems each verdict is that of CP-SAT too, and so is the fallback's."""
    found: Counter[str] = Counter()
    for problem in small_problems(2, 20_000):
        best = optimum(problem)
        result = solve_exact(problem, fallback=None)
        said = check(problem, best, result)
        found[said] += 1
        found[f"{result.method}: {said}"] += 1
        found["certificates"] += result.certificate is not None
        try:
            other = solve(problem, backend="cp-sat", work_limit=_WORK)
        except CapabilityError:
            found["beyond CP-SAT"] += 1
            continue
        if other.termination not in (Termination.OPTIMAL, Termination.INFEASIBLE):
            # Huge numbers: it bounds them in steps of one.
            found["not ended by CP-SAT"] += 1
            continue
        assert other.objective == best
        assert (other.termination is Termination.INFEASIBLE) == (best is None)
        if said in ("open", "infeasible, not proven"):
            # CP-SAT rounds its bound down where numbers are huge.
            closed = solve_exact(problem, work_limit=_WORK)
            assert closed.objective == best
            assert closed.infeasible == (best is None)
    print(dict(found))
    assert found["proven"] + found["infeasible"] > 19_000
    assert found["enumerated"] < 20
    assert found["beyond CP-SAT"] + found["not ended by CP-SAT"] < 500


def test_what_the_fallback_cannot_take_keeps_our_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speeds by the ten thousand and tokens by the hundred billion: feasible and bounded.

    Enumeration settles it, as it is tiny.
    """
    problem = StepProblem(
        np.array([1, 1]),
        np.array([[2 * 10**11, 10**11], [3 * 10**11, 10**11]]),
        np.array([[10**11, 7], [9 * 10**10, 10**9], [8 * 10**10, 10**10]]),
        token_time=np.array([3 * 10**4, 5 * 10**4]),
    )
    with pytest.raises(CapabilityError):
        solve(problem, backend="cp-sat")
    assert solve_exact(problem).proven
    assert solve_exact(problem).objective == optimum(problem)
    monkeypatch.setattr("bfio.step.exact.solve._TINY", 0)
    result = solve_exact(problem)
    assert result.assignment is not None
    assert check(problem, optimum(problem), result) == "open"
