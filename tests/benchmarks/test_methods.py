import pytest

from benchmarks.step_solvers.methods import METHODS, counted_seconds, derived_again, measure
from benchmarks.step_solvers.verdict import is_refuted, problems
from formulations.step.certificate import Certificate
from formulations.step.problem import StepProblem
from tests.benchmarks.examples import step_row, stored_problems

#: Its unique optimum starts request 0 on worker 0, requests 2 and 4 on worker 1.
P1 = StepProblem(
    capacity=[1, 2, 0],  # type: ignore[arg-type]
    base=[[40], [25], [60]],  # type: ignore[arg-type]
    contribution=[[18], [9], [30], [22], [5]],  # type: ignore[arg-type]
)


@pytest.mark.parametrize("method", METHODS)
def test_a_known_optimum(method: str) -> None:
    """Loads 40 + 18, 25 + 30 + 5, 60 leave 2 + 0 + 0 = 2.

    BR-0 may miss it, and proves nothing; HiGHS finds it, which alone is no proof.
    """
    measured = measure(P1, method, 10.0, 0)
    assert measured["objective"] >= 2
    assert measured["objective"] == 2 or method == "br-0"
    assert measured["violations"] == {}
    assert measured["proven"] or method in ("br-0", "highs", "highs-challenged")
    assert measured["finished"]
    assert measured["counted_s"] == measured["solve_s"] <= measured["wall_s"]


def test_methods_agree_on_stored_problems() -> None:
    """No row of any method fails beside those of all others, and claimed optima are equal."""
    for problem in stored_problems():
        rows = [step_row(method=method, **measure(problem, method, 10.0, 0)) for method in METHODS]
        for k, row in enumerate(rows):
            assert problems(row, rows[:k]) == []
            assert not is_refuted(row, rows)
        best = {r["measured"]["objective"] for r in rows if r["measured"]["claims_optimum"]}
        assert len(best) == 1
        assert all(r["measured"]["objective"] >= min(best) for r in rows)


def test_the_certificate_is_derived_again() -> None:
    """The exact method's certificate passes; a forged one is refused, and the row fails."""
    measured = measure(P1, "exact", 10.0, 0)
    if measured["certificate"]["kind"] == "sums":
        assert measured["certificate"]["derived"]
        assert measured["certificate"]["seconds"] > 0
    forged = derived_again(P1, Certificate("sums", 3))
    assert forged is not None
    assert forged["derived"] is False
    (problem,) = problems(step_row(certificate=forged), [])
    assert problem.startswith("certificate refused")


def test_a_search_is_derived_again() -> None:
    """The verifier searches by itself."""
    record = derived_again(P1, Certificate("enumeration", 2, nodes=5))
    assert record is not None
    assert record["derived"]


def test_two_proven_optima_that_differ_fail_the_row() -> None:
    """Whichever of the two came first; on another problem they are no contradiction."""
    low, high = step_row(method="a", objective=9, bound=9), step_row(method="b")
    assert problems(low, [high]) == ["b proves at least 10, a attains 9"]
    assert problems(high, [low]) == ["b proves at least 10, a attains 9"]
    assert problems(low, [step_row(problem="q")]) == []
    assert problems(step_row(), [step_row(method="b")]) == []


def test_an_answer_below_a_proof_fails_the_row() -> None:
    """A heuristic cannot beat a lower bound; a row without answer contradicts nothing."""
    heuristic = step_row(proven=False, bound=None, objective=8, claims_optimum=False)
    assert problems(heuristic, [step_row(method="b")]) != []
    empty = step_row(proven=False, bound=None, objective=None, claims_optimum=False)
    assert problems(empty, [step_row(method="b")]) == []
    crashed = step_row(method="b") | {"measured": None}
    assert problems(heuristic, [crashed]) == []


def test_violations_fail_the_row() -> None:
    """The checker's verdict is in the row."""
    assert problems(step_row(violations={"capacity[0]": 1}), []) == ["violates capacity[0] by 1"]


def test_a_claim_is_refuted_by_a_better_answer() -> None:
    """On the same problem only, and not by an equal answer."""
    claim = step_row(method="highs", bound=None, proven=False, objective=11)
    assert is_refuted(claim, [claim, step_row()])
    assert not is_refuted(step_row(), [claim, step_row()])
    assert not is_refuted(claim, [step_row(problem="q")])
    assert not is_refuted(step_row(claims_optimum=False, objective=11), [step_row()])


def test_unfinished_solves_count_as_the_limit() -> None:
    """Also one that gave up early, or ran over."""
    assert counted_seconds(2.0, 30.0, finished=True) == 2.0
    assert counted_seconds(2.0, 30.0, finished=False) == 30.0
    assert counted_seconds(30.5, 30.0, finished=False) == 30.0


def test_a_limit_that_strikes_leaves_no_claim() -> None:
    """CP-SAT with next to no time does not call its answer optimal."""
    problem = max(stored_problems(), key=lambda p: p.num_requests)
    measured = measure(problem, "cp-sat", 1e-6, 0)
    assert not measured["finished"]
    assert not measured["claims_optimum"]
    assert measured["counted_s"] == 1e-6
