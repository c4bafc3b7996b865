"""Certificates prove what they claim, and nothing more."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bfio.exact import solve_exact
from formulations.errors import InputError
from formulations.step.certificate import Certificate, certified_bound
from formulations.step.problem import Objective, StepProblem
from tests.exact.cases import core_problems, crowded, instant, smallest_imbalance


@given(core_problems())
def test_every_proof_is_rederived(problem: StepProblem) -> None:
    """Whatever was not enumerated carries a certificate that gives the bound again."""
    result = solve_exact(problem, fallback=None)
    assert result.certificate is not None
    if result.method == "enumeration":
        assert result.certificate.kind == "enumeration"
    else:
        assert certified_bound(problem, result.certificate) == result.bound


@given(core_problems(), st.data())
def test_no_certificate_exceeds_the_optimum(problem: StepProblem, data: st.DataObject) -> None:
    """Whatever prices a forger writes, a claim above the optimum is refused."""
    optimum = smallest_imbalance(problem)
    prices = st.lists(
        st.integers(0, 10**6), min_size=problem.num_requests, max_size=problem.num_requests
    )
    forged = Certificate(
        "sums",
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
        (Certificate("enumeration", 0, nodes=5), "cannot be re-derived"),
        (Certificate("sums", 0, ((1,),)), "not one price >= 0 per request"),
        (Certificate("sums", 0, ((1, -1),)), "not one price >= 0 per request"),
        (Certificate("sums", 0, price_scale=0), "below 1"),
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
    assume(result.method != "enumeration")
    assert result.certificate is not None
    weaker = replace(result.certificate, bound=result.certificate.bound - 1)
    assert certified_bound(problem, weaker) == weaker.bound
