"""Rates that vary in time: integrals, busiest windows and largest shares, against brute force."""

from fractions import Fraction
from math import pi

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from formulations import InputError
from formulations.fluid import RateProfile, SinusoidalRates
from tests.formulations.fluid.cases import plain

quarters = st.integers(1, 60).map(lambda n: Fraction(n, 4))


@st.composite
def profiles(draw: st.DrawFn, num_classes: int | None = None) -> RateProfile:
    """Draw whole breaks and rates, pieces without arrivals included, periodic or not."""
    m = num_classes or draw(st.integers(1, 4))
    breaks = (0, *sorted(draw(st.sets(st.integers(1, 12), max_size=4))))
    row = st.lists(st.integers(0, 9), min_size=m, max_size=m)
    rates = draw(st.lists(row, min_size=len(breaks), max_size=len(breaks)))
    assume(all(any(column) for column in zip(*rates, strict=True)))
    period = draw(st.none() | st.integers(1, 5).map(lambda extra: breaks[-1] + extra))
    return RateProfile(breaks, tuple(map(tuple, rates)), period)  # type: ignore[arg-type]


def rate_by_hand(profile: RateProfile, j: int, time: Fraction) -> Fraction:
    """Return a rate by going through the pieces."""
    while profile.period is not None and time >= profile.period:
        time -= profile.period
    return [row[j] for b, row in zip(profile.breaks, profile.rates, strict=True) if b <= time][-1]


def window_by_hand(profile: RateProfile, j: int, start: Fraction, length: Fraction) -> Fraction:
    """Return arrivals in a window, quarter by quarter: all breaks are whole."""
    steps = range(int(length * 4))
    return sum((rate_by_hand(profile, j, start + Fraction(k, 4)) for k in steps), Fraction(0)) / 4


def test_a_profile_by_hand() -> None:
    """Rates (1, 2) for 2 s, (2, 1) for 2 s, again and again.

    Together they are 3; of class 0, 3 s hold 2·2 + 1 at most, on average 4.5; its share is 2/3 at
    most. From 1 to 7: 1 + 4 + 2 + 2 = 9. It is never more than 4 − 2·1.5 = 1 ahead of its mean.
    """
    profile = RateProfile((0, 2), ((1, 2), (2, 1)), 4)  # type: ignore[arg-type]
    assert profile.largest_window((0, 1), Fraction(3)) == 9
    assert profile.largest_window((0,), Fraction(3)) == 5
    assert profile.largest_share((0,), (1,)) == Fraction(2, 3)
    assert profile.mean_rate((0,)) == Fraction(3, 2)
    assert profile.integral(0, Fraction(1), Fraction(7)) == 9
    assert profile.largest_excess((0,)) == 1
    assert profile.largest_rates == plain(2, 2)
    assert profile.rates_at(Fraction(2)) == profile.rates_at(7.99) == plain(2, 1)
    assert profile.rates_at(8.0) == plain(1, 2)


def test_a_profile_that_ends() -> None:
    """After the last break the last rate stays: 5 in the first second, then 1."""
    profile = RateProfile((0, 1), (("5",), ("1",)))  # type: ignore[arg-type]
    assert profile.rates_at(10**6) == plain(1)
    assert profile.largest_window((0,), Fraction(3)) == 7
    assert (profile.mean_rate((0,)), profile.largest_excess((0,))) == plain(1, 4)
    rising = RateProfile((0, 1), (("1",), ("5",)))  # type: ignore[arg-type]
    assert rising.largest_window((0,), Fraction(3)) == 15
    assert RateProfile.constant((Fraction(2),)).largest_window((0,), Fraction(3)) == 6


@given(profiles(), quarters, quarters, st.data())
def test_windows(
    profile: RateProfile, length: Fraction, start: Fraction, data: st.DataObject
) -> None:
    """Integrals are sums of quarters; no window has more arrivals, and one has as many.

    All breaks and lengths are multiples of a quarter, hence so is where a busiest window begins;
    those after the last break, or the first period, only repeat.
    """
    m = len(profile.largest_rates)
    members = sorted(data.draw(st.sets(st.integers(0, m - 1), min_size=1)))
    for j in members:
        by_hand = window_by_hand(profile, j, start, length)
        assert profile.integral(j, start, start + length) == by_hand
    last = profile.breaks[-1] if profile.period is None else profile.period
    windows = [
        sum(profile.integral(j, t, t + length) for j in members)
        for t in (Fraction(k, 4) for k in range(int(last * 4) + 1))
    ]
    largest = profile.largest_window(members, length)
    assert largest == max(windows)
    allowed = profile.mean_rate(members) * length + profile.largest_excess(members)
    assert largest <= allowed
    assert largest >= profile.mean_rate(members) * length


@given(profiles(num_classes=3), quarters, quarters)
def test_shares(profile: RateProfile, start: Fraction, length: Fraction) -> None:
    """The share of any window is at most the largest one, which is attained in some piece."""
    most = profile.largest_share((2,), (0, 1))
    arrived = [window_by_hand(profile, j, start, length) for j in range(3)]
    if sum(arrived):
        assert arrived[2] / sum(arrived) <= most
    shares = [Fraction(row[2], sum(row)) for row in profile.rates if sum(row)]
    assert most == max(shares)


@given(profiles(), quarters)
def test_rates_at(profile: RateProfile, time: Fraction) -> None:
    """At breaks the new piece counts, whatever the number's type."""
    expected = tuple(rate_by_hand(profile, j, time) for j in range(len(profile.rates[0])))
    assert profile.rates_at(time) == profile.rates_at(float(time)) == expected
    assert all(x <= y for x, y in zip(expected, profile.largest_rates, strict=True))


eighths = st.integers(0, 8).map(lambda n: Fraction(n, 8))


@st.composite
def sinusoids(draw: st.DrawFn, num_classes: int | None = None) -> SinusoidalRates:
    """Draw means, amplitudes up to 1 and phases."""
    m = num_classes or draw(st.integers(1, 3))

    def several(values: st.SearchStrategy[Fraction]) -> tuple[Fraction, ...]:
        return tuple(draw(st.lists(values, min_size=m, max_size=m)))

    return SinusoidalRates(several(quarters), several(eighths), draw(quarters), several(eighths))


@given(sinusoids(num_classes=2), quarters)
def test_sinusoids(rates: SinusoidalRates, length: Fraction) -> None:
    """The bounds are at least the values at 120 windows and times, and only slightly larger."""
    period = float(rates.period)
    starts = np.linspace(0, period, 120)
    windows = [sum(rates.integral(j, t, t + float(length)) for j in (0, 1)) for t in starts]
    largest = float(rates.largest_window((0, 1), length))
    apart = 1e-2 * sum(map(float, rates.means)) * period
    assert max(windows) - 1e-9 <= largest <= max(windows) + apart
    assert rates.largest_window((0, 1), length) <= (
        rates.mean_rate((0, 1)) * length + rates.largest_excess((0, 1))
    )
    moments = np.array([rates.rates_at(float(t)) for t in starts])
    assert (moments <= np.array(rates.largest_rates, float) + 1e-9).all()
    assert (moments >= -1e-9).all()
    seen = moments.sum(1) > 1e-6
    share = float(rates.largest_share((1,), (0,)))
    assert (moments[seen, 1] / moments[seen].sum(1)).max() <= share + 1e-9


def test_a_sinusoid_by_hand() -> None:
    """Mean 3, amplitude 1/3, period 2π: half a period brings 3π + 2·1 at most.

    Rates 2 + sin and 2 − sin share 3/4 at most: 3 of 4 in all; alone they bring 2.
    """
    rates = SinusoidalRates(("3",), ("1/3",), Fraction(2 * pi))  # type: ignore[arg-type]
    assert float(rates.largest_window((0,), Fraction(pi))) == pytest.approx(3 * pi + 2, rel=1e-8)
    assert float(rates.largest_excess((0,))) == pytest.approx(2, rel=1e-8)
    assert rates.integral(0, 0, pi) == pytest.approx(3 * pi + 2)
    two = SinusoidalRates((2, 2), ("1/2", "1/2"), 9, (0, "1/2"))  # type: ignore[arg-type]
    share = two.largest_share((1,), (0,))
    assert Fraction(3, 4) <= share < Fraction(3, 4) + Fraction(1, 10**8)
    # Both waves cancel, so that a full period and a half one have alike many.
    assert float(two.largest_window((0, 1), Fraction(5))) == pytest.approx(20, rel=1e-8)
    full = SinusoidalRates((1, 1), (1, 0), 1)  # type: ignore[arg-type]
    assert full.largest_share((1,), (0,)) == 1


def test_bad_profiles() -> None:
    """Breaks, rates, period: the value at fault is named."""
    one = ((Fraction(1),),)
    for breaks, rates, period, message in (
        ((1,), one, None, "the first break is not 0"),
        ((), (), None, "the first break is not 0"),
        ((0, 2, 2), one * 3, None, r"breaks\[2\]: 2 does not exceed 2"),
        ((0, 2), one * 2, 2, "period: 2 ends before"),
        ((0,), one, 0, "period: 0 is not allowed"),
        ((0, 2), one, None, "1 row for 2 breaks"),
        ((0, 2), ((1,), (1, 2)), None, r"rates\[1\]: 2 rates"),
        ((0,), ((),), None, r"rates\[0\]: 0 rates"),
        ((0,), ((-1,),), None, r"rates\[0\]\[0\]: -1"),
        ((0, 1), ((1, 0), (1, 0)), None, r"rates\[0\]\[1\]: the rate is 0 in all pieces"),
    ):
        with pytest.raises(InputError, match=message):
            RateProfile(breaks, rates, period)  # type: ignore[arg-type]
    for means, amplitudes, period, message in (
        ((), (), 1, "means: found 0"),
        ((1,), (1, 1), 1, "amplitudes: found 2"),
        ((0,), (1,), 1, r"means\[0\]: 0"),
        ((1,), ("1.01",), 1, r"amplitudes\[0\]: 101/100 exceeds 1"),
        ((1,), (1,), 0, "period: 0"),
    ):
        with pytest.raises(InputError, match=message):
            SinusoidalRates(means, amplitudes, period)  # type: ignore[arg-type]
