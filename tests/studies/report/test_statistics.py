"""Means, medians, ratios and power laws: hand-computed anchors, laws, and coverage."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from bfio.common.metrics import Domain
from bfio.studies.report.statistics import (
    LARGEST,
    Estimate,
    Interval,
    as_number,
    geometric_mean,
    mean,
    mean_interval,
    median_interval,
    median_rank,
    power_law,
    summarize,
)
from bfio.studies.report_plan import Statistic

numbers = st.one_of(st.integers(-(10**18), 10**18), st.floats(-1e150, 1e150))
positive = st.floats(1e-150, 1e150)
samples = st.lists(numbers, min_size=2, max_size=40)


def test_mean_and_its_interval_by_hand() -> None:
    """1, 2, 3, 4: mean 2.5, s² = 5/3, t(3) = 3.182446, half-width t·√(5/12) = 2.054260."""
    estimate = summarize([4, 1, 3, 2], Statistic.MEAN)
    assert estimate.value == 2.5
    assert estimate.interval is not None
    assert estimate.interval.lower == pytest.approx(2.5 - 2.054260, abs=1e-6)
    assert estimate.interval.upper == pytest.approx(2.5 + 2.054260, abs=1e-6)
    assert (estimate.count, estimate.undefined) == (4, 0)


@pytest.mark.parametrize(
    ("count", "rank", "coverage"),
    [
        # 1 - 2·(sum of C(n, i) for i < r)/2^n
        (2, 1, 0.5),
        (5, 1, 0.9375),
        (6, 1, 0.96875),
        (9, 2, 1 - 2 * (1 + 9) / 2**9),
        (10, 2, 1 - 2 * (1 + 10) / 2**10),
        (20, 6, 1 - 2 * (1 + 20 + 190 + 1140 + 4845 + 15504) / 2**20),
    ],
)
def test_rank_and_coverage_of_medians_by_hand(count: int, rank: int, coverage: float) -> None:
    """The published ranks of the sign-test interval."""
    found, covered = median_rank(count)
    assert found == rank
    assert covered == pytest.approx(coverage, abs=1e-15)


@given(st.integers(2, 2000))
def test_the_rank_is_the_largest_that_covers(count: int) -> None:
    """It covers 95 % if any does, and one more would not."""
    rank, coverage = median_rank(count)
    assert coverage == pytest.approx(1 - 2 * stats.binom.cdf(rank - 1, count, 0.5), abs=1e-12)
    assert coverage >= 0.95 or rank == 1
    if 2 * rank + 1 <= count:
        assert 1 - 2 * stats.binom.cdf(rank, count, 0.5) < 0.95


def test_medians_by_hand() -> None:
    """Odd: the middle one. Even: halfway. Ten values: from the second to the ninth."""
    assert summarize([5, 1, 9], Statistic.MEDIAN).value == 5
    assert summarize([1, 2, 4, 9], Statistic.MEDIAN).value == 3
    assert median_interval(list(range(10))) == Interval(1.0, 8.0, 1 - 22 / 1024)


def test_ratios_by_hand() -> None:
    """2 and 8: geometric mean 4; logs differ from ln 4 by ln 2, so half-width t(1)·ln 2."""
    estimate = geometric_mean([2, 24], [1, 3])
    assert estimate.value == pytest.approx(4)
    assert estimate.interval is not None
    assert estimate.interval.upper == pytest.approx(4 * 2**12.7062047, rel=1e-5)
    single = geometric_mean([3], [2])
    assert single.value == pytest.approx(1.5)
    assert (single.interval, single.count) == (None, 1)
    assert geometric_mean([], []).value is None


def test_a_power_law_by_hand() -> None:
    """Logs (0, 0), (1, 1), (2, 3): slope 3/2, residues 1/6, -1/3, 1/6, t(1)·√(1/12) = 3.667965."""
    law = power_law([1, math.e, math.e**2], [1, math.e, math.e**3])
    assert law is not None
    assert law.interval is not None
    assert law.exponent == pytest.approx(1.5)
    assert law.scale == pytest.approx(math.exp(-1 / 6))
    assert law.interval.upper - law.exponent == pytest.approx(3.667965, abs=1e-5)
    assert power_law([2, 2, 2], [1, 2, 3]) is None
    assert power_law([1, 2], [3, 12]).interval is None  # type: ignore[union-attr]


@given(
    st.lists(st.floats(1, 1e6), min_size=3, max_size=20, unique=True),
    st.floats(-3, 3),
    st.floats(0.01, 100),
)
def test_an_exact_power_law_is_found(x: list[float], exponent: float, scale: float) -> None:
    """Points on a curve give its exponent; an interval as narrow as rounding is none."""
    logs = [math.log(value) for value in x]
    if max(logs) - min(logs) < 0.1:
        return
    law = power_law(x, [scale * value**exponent for value in x])
    assert law is not None
    assert law.exponent == pytest.approx(exponent, abs=1e-9)
    assert law.interval is None or law.interval.upper - law.interval.lower < 1e-8


def test_what_is_undefined_is_counted() -> None:
    """None is no zero, and one value has no interval."""
    assert summarize([None, 4, None], Statistic.MEAN) == Estimate(4.0, None, 1, 2)
    assert summarize([None], Statistic.MEAN) == Estimate(None, None, 0, 1)
    assert summarize([], Statistic.SUM) == Estimate(None, None, 0, 0)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (True, 1),
        (0, 0),
        (2**70, 2**70),
        (0.5, 0.5),
        (None, None),
        ("7", None),
        (math.nan, None),
        (math.inf, None),
        (-2 * LARGEST, None),
    ],
)
def test_what_counts_as_a_number(value: float | str | None, number: float | None) -> None:
    """Text does not, even of digits; nor does what is not finite."""
    assert as_number(value) == number


def test_integers_are_summed_exactly() -> None:
    """2^53 + 1 is lost in doubles."""
    assert summarize([2**53, 1], Statistic.SUM).value == 2**53 + 1
    assert summarize([2**60 + 1, 2**60], Statistic.MAXIMUM).value == 2**60 + 1
    assert summarize([3, -2], Statistic.MINIMUM).value == -2
    assert summarize(range(101), Statistic.P95).value == 95
    assert summarize(range(21), Statistic.P99).value == 20


@given(samples, st.sampled_from(list(Statistic)), st.randoms())
def test_order_does_not_count(values: list[float], statistic: Statistic, random: object) -> None:
    """Rows come in any order; the number and its interval are the same to the last bit."""
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert summarize(values, statistic) == summarize(shuffled, statistic)


@given(samples)
def test_intervals_hold_their_estimate(values: list[float]) -> None:
    """The estimate is inside; the mean lies between the extremes."""
    slack = 1e-9 * max(abs(value) for value in values) + 1e-300
    for statistic in (Statistic.MEAN, Statistic.MEDIAN):
        estimate = summarize(values, statistic)
        assert estimate.value is not None
        assert (estimate.interval is None) == bool(estimate.why_none)
        if estimate.interval is not None:
            assert estimate.interval.lower <= estimate.value + slack
            assert estimate.value <= estimate.interval.upper + slack
        assert min(values) - slack <= estimate.value <= max(values) + slack


tame = st.floats(-1e100, 1e100).map(lambda value: value if abs(value) > 1e-100 else 0.0)


@given(st.lists(tame, min_size=2, max_size=40))
def test_the_interval_of_a_mean_agrees_with_scipy(values: list[float]) -> None:
    """An independent implementation, where its squares neither over- nor underflow."""
    spread = float(np.std(values, ddof=1))
    interval = mean_interval(values)
    assert interval is not None
    half = float(stats.t.ppf(0.975, len(values) - 1)) * spread / math.sqrt(len(values))
    size = max(abs(value) for value in values)
    assert interval.upper - interval.lower == pytest.approx(2 * half, rel=1e-9, abs=1e-12 * size)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=20))
# One end is almost too large for a double, the other almost too small.
@example([(1.0, 1.184097871204895e135), *[(1.0, 9.81684118410365e-150)] * 3])
def test_ratios_turn_over(pairs: list[tuple[float, float]]) -> None:
    """The mean ratio of b to a is one over that of a to b; so are the ends of the interval."""
    top, bottom = zip(*pairs, strict=True)
    there, back = geometric_mean(top, bottom), geometric_mean(bottom, top)
    assert there.value is not None
    assert back.value is not None
    assert math.log(there.value) == pytest.approx(-math.log(back.value), abs=1e-9)
    if there.interval is not None and back.interval is not None and back.interval.lower > 0:
        assert there.interval.upper == pytest.approx(1 / back.interval.lower, rel=1e-6)


@given(st.lists(positive, min_size=2, max_size=20))
def test_equal_pairs_have_ratio_one(values: list[float]) -> None:
    """Exactly, and the reason in place of an interval of no width."""
    found = geometric_mean(values, values)
    assert found == Estimate(1.0, None, len(values), why_none="all rows equal")


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
@example([5e-324, 0.0])
@example([1.0, 1.0 - 2**-53])
def test_intervals_stay_in_their_domain(values: list[float]) -> None:
    """Shares between 0 and 1, what is 0 or more above 0, and around the mean."""
    for domain in (Domain.SHARE, Domain.NON_NEGATIVE):
        found = summarize(values, Statistic.MEAN, domain)
        assert found.value is not None
        if found.interval is not None:
            assert domain.holds(found.interval.lower)
            assert domain.holds(found.interval.upper)
            assert found.interval.lower <= found.value <= found.interval.upper


def test_intervals_by_hand() -> None:
    """Of 0.2 and 0.4: mean 0.3, h = t(1)·0.1; odds 3/7 times or over exp(h/0.21)."""
    half = 12.7062047 * 0.1
    plain = mean_interval([0.2, 0.4])
    assert plain is not None
    assert (plain.lower, plain.upper) == pytest.approx((0.3 - half, 0.3 + half))
    above = mean_interval([0.2, 0.4], Domain.NON_NEGATIVE)
    assert above is not None
    factor = math.exp(half / 0.3)
    assert (above.lower, above.upper) == pytest.approx((0.3 / factor, 0.3 * factor))
    share = mean_interval([0.2, 0.4], Domain.SHARE)
    assert share is not None
    odds = [3 / 7 / math.exp(half / 0.21), 3 / 7 * math.exp(half / 0.21)]
    assert (share.lower, share.upper) == pytest.approx([x / (1 + x) for x in odds])
    # Who declares a domain that the values leave gets the plain one.
    assert mean_interval([-0.2, 0.4], Domain.SHARE) == mean_interval([-0.2, 0.4])


def test_equal_values_have_no_interval() -> None:
    """But for rounding; one value needs no reason."""
    for statistic in (Statistic.MEAN, Statistic.MEDIAN):
        equal = summarize([0.1 + 0.2, 0.3, 0.3], statistic)
        assert (equal.interval, equal.why_none) == (None, "all rows equal")
        assert summarize([3], statistic).why_none == ""
    most = summarize([1, *[2] * 9], Statistic.MEDIAN)
    assert (most.interval, most.why_none) == (None, "most rows equal")


def coverage(kind: str, count: int, repetitions: int = 4000) -> float:
    """Return the share of intervals, each of some values, that contain the truth."""
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(repetitions):
        if kind == "share":
            interval, truth = mean_interval(rng.beta(8, 2, count).tolist(), Domain.SHARE), 0.8
        elif kind == "positive":
            sample = rng.gamma(4, 1, count).tolist()
            interval, truth = mean_interval(sample, Domain.NON_NEGATIVE), 4.0
        elif kind == "mean":
            interval, truth = mean_interval(rng.normal(3, 2, count).tolist()), 3.0
        elif kind == "median":
            sample = sorted(rng.exponential(1, count).tolist())
            interval, truth = median_interval(sample), math.log(2)
        elif kind == "ratio":
            bottom = rng.lognormal(0, 2, count)
            top = bottom * 0.8 * rng.lognormal(0, 0.3, count)
            interval, truth = geometric_mean(top.tolist(), bottom.tolist()).interval, 0.8
        else:
            x = [*rng.choice([4, 8, 16, 32], count - 2).tolist(), 4, 32]
            y = [2 * value**1.5 * float(rng.lognormal(0, 0.4)) for value in x]
            law = power_law(x, y)
            interval, truth = (law.interval if law else None), 1.5
        assert interval is not None
        held += interval.lower <= truth <= interval.upper
    return held / repetitions


@pytest.mark.deep
@pytest.mark.parametrize("count", [3, 10, 30])
@pytest.mark.parametrize("kind", ["mean", "positive", "share", "median", "ratio", "exponent"])
def test_intervals_cover_what_they_say(kind: str, count: int) -> None:
    """4,000 repetitions: within four standard errors of the coverage stated."""
    stated = median_rank(count)[1] if kind == "median" else 0.95
    error = math.sqrt(stated * (1 - stated) / 4000)
    assert coverage(kind, count) == pytest.approx(stated, abs=4 * error)


def test_coverage_can_fail() -> None:
    """With the quantile of the normal distribution, intervals of three values are too narrow."""
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(1000):
        sample = rng.normal(0, 1, 3)
        half = 1.96 * float(np.std(sample, ddof=1)) / math.sqrt(3)
        held += abs(mean(sample.tolist())) <= half
    assert held / 1000 < 0.9
