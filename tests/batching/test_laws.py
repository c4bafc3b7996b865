"""Laws of sizes and arrivals have their stated means and supports."""

from fractions import Fraction

import numpy as np
import pytest

from bfio.batching.laws import (
    ArrivalName,
    DrawnArrivals,
    Law,
    LawName,
    ListedArrivals,
    ListedSizes,
)
from formulations.errors import InputError


@pytest.mark.parametrize("mean", [1, Fraction(3, 2), 4, 512])
def test_geometric_numbers(mean: Fraction) -> None:
    """Mean, variance m(m-1) and the share of ones, 1/m, within five standard errors."""
    drawn = Law(LawName.GEOMETRIC, mean).draw(np.random.default_rng(1), 200_000)
    m, variance = float(mean), float(mean) * (float(mean) - 1)
    assert drawn.min() == 1
    assert abs(drawn.mean() - m) <= 5 * (variance / 200_000) ** 0.5
    assert abs(float((drawn == 1).mean()) - 1 / m) <= 5 * (1 / m / 200_000) ** 0.5


def test_poisson_numbers_are_never_zero() -> None:
    """0 becomes 1: the mean is m + exp(-m)."""
    law = Law(LawName.POISSON, Fraction(1))
    drawn = law.draw(np.random.default_rng(1), 200_000)
    assert drawn.min() == 1
    assert law.mean == pytest.approx(1.36788, abs=1e-5)
    assert drawn.mean() == pytest.approx(law.mean, abs=0.01)


@pytest.mark.parametrize("name", ArrivalName)
@pytest.mark.parametrize("rate", ["0.001", "0.3", "1"])
def test_arrivals(name: ArrivalName, rate: str) -> None:
    """Their number per slot has the mean, and the variance of its law; windows follow another."""
    law, rng = DrawnArrivals(name, Fraction(rate)), np.random.default_rng(3)
    slots = np.concatenate([law.window(rng, first, 50_000) for first in range(0, 400_000, 50_000)])
    counts = np.bincount(slots, minlength=400_000)
    variance = law.rate * (1 - law.rate * (name is ArrivalName.BERNOULLI))
    assert np.all(np.diff(slots) >= 0)
    assert abs(counts.mean() - law.rate) <= 5 * (variance / 400_000) ** 0.5
    assert counts.var() == pytest.approx(variance, rel=0.1, abs=1e-9)


@pytest.mark.parametrize("rate", ["0.2", "0.3", "7"])
def test_arrivals_that_are_counted_into_order_are_those_that_were_drawn(rate: str) -> None:
    """On both sides of the rate from which they are counted: as if they were sorted."""
    law = DrawnArrivals(ArrivalName.POISSON, Fraction(rate))
    rng, same = np.random.default_rng(5), np.random.default_rng(5)
    for length in (1, 10, 1000):
        drawn = same.integers(0, length, same.poisson(law.rate * length))
        assert law.window(rng, 40, length).tolist() == (np.sort(drawn) + 40).tolist()


def test_a_list_of_arrivals_is_given_as_it_is() -> None:
    """Window by window; then it is over."""
    law = ListedArrivals(np.array([0, 0, 4, 9]))
    rng = np.random.default_rng()
    assert [law.window(rng, n, 5).tolist() for n in (0, 5, 10)] == [[0, 0, 4], [9], []]
    assert [law.is_over(n) for n in (9, 10)] == [False, True]
    with pytest.raises(InputError, match="is earlier than the previous slot"):
        ListedArrivals(np.array([3, 1]))


def test_sizes_of_a_trace_stay_pairs() -> None:
    """In order, again and again; or drawn, prompt and output together."""
    rng = np.random.default_rng(1)
    listed = ListedSizes(np.array([1, 2]), np.array([10, 20]), in_order=True)
    assert listed.draw(rng, 1, 3).tolist() == [[2, 20], [1, 10], [2, 20]]
    drawn = ListedSizes(np.array([1, 2]), np.array([10, 20])).draw(rng, 0, 100)
    assert {tuple(row) for row in drawn.tolist()} == {(1, 10), (2, 20)}


@pytest.mark.parametrize(
    ("name", "mean", "what"),
    [("geometric", "1/2", "out of range"), ("fixed", "3/2", "not whole"), ("even", 2, "unknown")],
)
def test_laws_that_there_are_not(name: str, mean: object, what: str) -> None:
    """An error that says why."""
    with pytest.raises(InputError, match=what):
        Law(name, mean)  # type: ignore[arg-type]


def test_more_than_one_arrival_in_a_slot_is_not_bernoulli() -> None:
    """Refused, with the law."""
    with pytest.raises(InputError, match="at most 1"):
        DrawnArrivals(ArrivalName.BERNOULLI, Fraction(2))
