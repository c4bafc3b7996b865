"""Certificates prove what they claim, and nothing more."""

import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.step.exact import solve_exact
from formulations.errors import InputError
from formulations.step import certificate, exhaustion
from formulations.step.certificate import Certificate, certified_bound
from formulations.step.problem import Objective, StepProblem
from tests.step.exact.cases import core_problems, crowded, instant, smallest_imbalance


@given(core_problems())
def test_every_proof_is_rederived(problem: StepProblem) -> None:
    """Whatever closed it, the certificate gives the bound again, and no more."""
    result = solve_exact(problem, fallback=None)
    assert result.certificate is not None
    assert certified_bound(problem, result.certificate) == result.bound
    if result.proven:
        raised = replace(result.certificate, bound=result.certificate.bound + 1)
        assert _is_rejected(problem, raised)


@given(core_problems(), st.data())
def test_no_certificate_exceeds_the_optimum(problem: StepProblem, data: st.DataObject) -> None:
    """Whatever prices a forger writes, a claim above the optimum is refused."""
    optimum = smallest_imbalance(problem)
    prices = st.lists(
        st.integers(0, 10**6), min_size=problem.num_requests, max_size=problem.num_requests
    )
    forged = Certificate(
        data.draw(st.sampled_from(["sums", "branches", "enumeration"])),
        optimum + data.draw(st.integers(1, 100)),
        tuple(tuple(p) for p in data.draw(st.lists(prices, max_size=2))),
        data.draw(st.integers(1, 100)),
    )
    with pytest.raises(InputError, match="does not prove"):
        certified_bound(problem, forged)


@pytest.mark.parametrize("seed", range(6))
def test_crowded_steps_are_certified(seed: int) -> None:
    """Steps of 8 workers and 40 requests: the bound holds for the loads that were found."""
    problem = crowded(seed, 8, 40, 400, 6)
    result = solve_exact(problem, fallback=None)
    assert result.certificate is not None
    assert certified_bound(problem, result.certificate) == result.bound


def test_tampered_prices_are_rejected() -> None:
    """Where the proof needs its prices, it falls without them."""
    for seed in range(40):
        problem = crowded(seed, 6, 20, 30, 9)
        result = solve_exact(problem, fallback=None)
        assert result.certificate is not None
        if result.certificate.prices and result.method == "bound":
            stripped = replace(result.certificate, prices=())
            inflated = replace(result.certificate, bound=result.certificate.bound + 1)
            if _is_rejected(problem, stripped):
                assert _is_rejected(problem, inflated)
                return
    raise AssertionError("no step needed its prices")


def _is_rejected(problem: StepProblem, certificate: Certificate) -> bool:
    try:
        certified_bound(problem, certificate)
    except InputError:
        return True
    return False


def test_prices_relax_a_hand_checked_step() -> None:
    """Two single slots, margins 7 and 7, sizes 6, 6 and 1: T = 12, J = 3·12 − 22 − 12 = 2.

    With sizes 6, 1 and 1 both want the 6: T = 7, J = 7. Price 5 on the 6 proves it:
    5 + (6 − 5) + (6 − 5) = 7. Nested thresholds know it without.
    """
    problem = instant([1, 1, 0], [5, 5, 12], [6, 1, 1])
    claim = Certificate("sums", 7, ((5, 0, 0),))
    assert certified_bound(problem, claim) == 7
    assert certified_bound(problem, Certificate("sums", 7)) == 7
    with pytest.raises(InputError, match="does not prove the bound 8"):
        certified_bound(problem, replace(claim, bound=8))


@pytest.mark.parametrize(
    ("certificate", "message"),
    [
        (Certificate("trees", 0, nodes=5), "use sums, branches or enumeration"),
        (Certificate("sums", 0, ((1,),)), "not one price >= 0 per request"),
        (Certificate("sums", 0, ((1, -1),)), "not one price >= 0 per request"),
        (Certificate("sums", 0, price_scale=0), "below 1"),
        (Certificate("sums", 2**64), "bound: too large"),
        (Certificate("branches", 0, cases=((1, 0),)), "cases: .* is not 4 whole numbers"),  # type: ignore[arg-type]
        (Certificate("shares", 0, shares=(((0, 0, 1, 2),),)), "shares: .* is not 5 whole"),  # type: ignore[arg-type]
        (Certificate("shares", 0, shares=(((0, 0, 1, 2, "2"),),)), "is not 5 whole"),  # type: ignore[arg-type]
    ],
)
def test_malformed_certificates(certificate: Certificate, message: str) -> None:
    """Form errors name the field."""
    with pytest.raises(InputError, match=message):
        certified_bound(instant([1], [0], [1, 2]), certificate)


@pytest.mark.parametrize("price", [2**58, 2**63 - 1, 2**63, 2**64 + 5])
def test_prices_that_would_wrap_around(price: int) -> None:
    """Of 2 sizes on one slot the optimum is 0; no price, however large, proves 1."""
    problem = instant([1, 0], [0, 2], [1, 2, 2])
    assert smallest_imbalance(problem) == 0
    for prices in ((price, price, price), (0, price, price)):
        with pytest.raises(InputError, match=r"too large|does not prove"):
            certified_bound(problem, Certificate("sums", 1, (prices,)))
    with pytest.raises(InputError, match="too large"):
        certified_bound(problem, Certificate("sums", 1, ((0, 0, 0),), 2**60))


def test_other_problems_are_refused() -> None:
    """A window that is not one-dimensional, or another objective, has no such certificate."""
    window = StepProblem(
        np.array([1, 1]), np.array([[1, 2], [1, 3]]), np.array([[1, 1], [2, 2], [3, 3]])
    )
    largest = replace(instant([1], [0], [1]), objective=Objective.MAX_LOAD)
    for problem in (window, largest):
        with pytest.raises(InputError, match="one-dimensional"):
            certified_bound(problem, Certificate("sums", 0))


@given(core_problems())
def test_weaker_claims_are_proven_too(problem: StepProblem) -> None:
    """A certificate of the optimum also proves any smaller bound."""
    result = solve_exact(problem, fallback=None)
    assert result.certificate is not None
    weaker = replace(result.certificate, bound=result.certificate.bound - 1)
    assert certified_bound(problem, weaker) == weaker.bound


@given(core_problems(), st.data())
def test_searches_decide_every_claim(problem: StepProblem, data: st.DataObject) -> None:
    """With any prices at all, a search proves the optimum and refuses one more."""
    optimum = smallest_imbalance(problem)
    vector = st.lists(
        st.integers(0, 50), min_size=problem.num_requests, max_size=problem.num_requests
    )
    prices = tuple(tuple(v) for v in data.draw(st.lists(vector, max_size=2)))
    claim = Certificate("enumeration", optimum, prices, data.draw(st.integers(1, 5)))
    assert certified_bound(problem, claim) == optimum
    if any(problem.weights):
        with pytest.raises(InputError, match="does not prove"):
            certified_bound(problem, replace(claim, bound=optimum + 1))


def test_pairs_of_columns_by_hand() -> None:
    """Two workers with two slots under a closed one at 10, sizes 4, 4, 6, 1, 1.

    Either worker alone reaches 4 + 6 = 10: by sums T = 20 and J = 3·10 − 10 − 20 = 0. But the 6
    is there once: 6 + 4 beside 4 + 1, or 6 + 1 beside 4 + 4, make T = 15 and J = 5, and more than
    15 is not to be had from four of 4, 4, 6, 1, 1. A peak of 11 costs 3 more.
    """
    problem = instant([2, 2, 0], [0, 0, 10], [4, 4, 6, 1, 1])
    assert smallest_imbalance(problem) == 5
    assert certified_bound(problem, Certificate("enumeration", 5)) == 5
    with pytest.raises(InputError, match="does not prove"):
        certified_bound(problem, Certificate("enumeration", 6))


@pytest.mark.parametrize("seed", [107, 109, 111, 113, 115])
def test_near_best_subsets_are_searched(seed: int) -> None:
    """Steps of which some are closed by columns: the verifier's own search agrees."""
    problem = crowded(seed, 6, 24, 1000, 14)
    result = solve_exact(problem, fallback=None)
    assert result.certificate is not None
    claim = replace(result.certificate, kind="enumeration")
    assert certified_bound(problem, claim) == result.bound
    if result.proven:
        assert _is_rejected(problem, replace(claim, bound=claim.bound + 1))


def test_searches_stop_at_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty requests of nearly equal size: the verifier says that it gave up."""
    monkeypatch.setattr(certificate, "WorkBudget", partial(exhaustion.WorkBudget, 400_000))
    problem = instant([6] * 6, [0] * 6, [10_000 + 7 * k * k for k in range(50)])
    with pytest.raises(InputError, match="not re-derived within the limit"):
        certified_bound(problem, Certificate("enumeration", 1))
    with pytest.raises(InputError, match="not re-derived within the limit"):
        exhaustion.WorkBudget(3).spend(4)


def test_peaks_are_bounded_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that leaves thousands of peaks open is given up, one that leaves few is not."""
    monkeypatch.setattr(certificate, "WorkBudget", partial(exhaustion.WorkBudget, 10_000))
    problem = instant([3] * 5, [0] * 5, [1000 + 700 * k for k in range(30)])
    assert certified_bound(problem, Certificate("sums", 0)) == 0
    with pytest.raises(InputError, match="not re-derived within the limit"):
        certified_bound(problem, Certificate("sums", 20_000))
    # Few requests are placed one by one instead.
    few = instant([1, 1], [5836, 5853], [13_924, 17_385, 5855, 18_775, 30])
    with pytest.raises(InputError, match="not re-derived within the limit"):
        certified_bound(few, Certificate("sums", 1373))
    assert certified_bound(few, Certificate("enumeration", 1373)) == 1373
    assert _is_rejected(few, Certificate("enumeration", 1374))


@pytest.mark.parametrize("claim", [10**6, 10**9])
def test_a_claim_far_beyond_the_bound_takes_little_memory(claim: int) -> None:
    """Millions of peaks on many workers are not held at once."""
    problem = instant([2] * 40, [100 * g for g in range(40)], [500 + 7 * i for i in range(90)])
    tracemalloc.start()
    try:
        assert _is_rejected(problem, Certificate("sums", claim))
        assert tracemalloc.get_traced_memory()[1] < 2**28
    finally:
        tracemalloc.stop()
