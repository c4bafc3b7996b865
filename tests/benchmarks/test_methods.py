"""Each method on problems with known optimum, and the checks of its answers."""

from functools import cache
from pathlib import Path

import pytest

from benchmarks.requests import SYNTHETIC
from benchmarks.step_harvest import Harvest, Size, harvested, with_horizon
from benchmarks.step_times import METHODS, derived_again, measure
from bfio.studies.row import RowVerdict
from formulations.step.certificate import Certificate
from formulations.step.problem import StepProblem

#: Its unique optimum starts request 0 on worker 0, requests 2 and 4 on worker 1.
P1 = StepProblem(
    capacity=[1, 2, 0],  # type: ignore[arg-type]
    base=[[40], [25], [60]],  # type: ignore[arg-type]
    contribution=[[18], [9], [30], [22], [5]],  # type: ignore[arg-type]
)


@cache
def small_problems() -> list[StepProblem]:
    """Return a cold start and two warm steps of two runs of 3 workers with 4 slots, H = 2."""
    return [
        with_horizon(problem, 2)
        for seed in (0, 1)
        for problem in harvested(
            Harvest(Size(3, 4, 8), SYNTHETIC, Path(), 6, "constant", seed, warm=2)
        )
    ]


@pytest.mark.parametrize("method", METHODS)
def test_a_known_optimum(method: str) -> None:
    """Loads 40 + 18, 25 + 30 + 5, 60 leave 2 + 0 + 0 = 2.

    BR-0 may miss it, and proves nothing; HiGHS finds it, which alone is no proof.
    """
    result = measure(P1, method, 10.0, 0)
    objective = result.values["objective"]
    assert isinstance(objective, int)
    assert objective >= 2
    assert objective == 2 or method == "br-0"
    assert result.verdict is RowVerdict.PASSED
    assert result.values["proven"] or method in ("br-0", "highs", "highs-challenged", "scip")
    assert result.unproven == (not result.values["proven"])
    assert result.values["finished"]
    assert result.timings["counted_s"] == result.timings["solve_s"]


def test_methods_agree_on_harvested_problems() -> None:
    """All claimed optima are equal, no answer is better, every answer passes the checker."""
    for problem in small_problems():
        results = [measure(problem, method, 10.0, 0) for method in METHODS]
        assert all(result.verdict is RowVerdict.PASSED for result in results)
        best = {int(str(r.values["objective"])) for r in results if r.values["claims_optimum"]}
        assert len(best) == 1
        assert all(int(str(r.values["objective"])) >= min(best) for r in results)


def test_the_certificate_is_derived_again() -> None:
    """The exact method's certificate passes; a forged one is a violation."""
    result = measure(P1, "exact", 10.0, 0)
    assert "certificate_s" in result.timings
    (forged,) = derived_again(P1, Certificate("sums", 3)).violations or {}
    assert forged.startswith("certificate rejected")


def test_a_search_is_derived_again() -> None:
    """The verifier searches by itself."""
    assert not derived_again(P1, Certificate("enumeration", 2, nodes=5)).violations


def test_a_limit_that_strikes_leaves_no_claim() -> None:
    """CP-SAT with next to no time does not call its answer optimal; it counts as the limit."""
    problem = max(small_problems(), key=lambda p: p.num_requests)
    result = measure(problem, "cp-sat", 1e-6, 0)
    assert not result.values["finished"]
    assert not result.values["claims_optimum"]
    assert result.stopped_by_clock
    assert result.timings["counted_s"] == 1e-6


def test_a_limit_of_work_gives_the_same_values_again() -> None:
    """It stops without a clock, before and after the proof; the rest goes to no other solver."""
    problem = max(small_problems(), key=lambda p: p.num_requests)
    few, many, again = (measure(problem, "exact", 1e-6, 0, (), n) for n in (1, 10**6, 10**6))
    assert (few.values["proven"], many.values["proven"]) == (False, True)
    assert int(str(many.values["ticks"])) < 10**6
    assert many.values == again.values
    assert not few.stopped_by_clock
    assert not few.values["claims_optimum"]
