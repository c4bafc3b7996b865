"""Laws of lengths and arrivals: exact values, limits, and tests with fixed seeds."""

import gzip
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bfio.workloads import (
    ArrivalProcess,
    Diurnal,
    Empirical,
    GammaRenewal,
    Geometric,
    Homogeneous,
    LengthDistribution,
    Lognormal,
    MarkovModulated,
    OnOff,
    Poisson,
    Surges,
    Uniform,
    read_pmf,
)
from bfio.workloads.arrivals import exact_times
from formulations.arrays import FloatArray
from formulations.errors import InputError

LAWS: list[LengthDistribution] = [
    Geometric(1.0),
    Geometric(37.5),
    Geometric(1e6),
    Lognormal(800, 1.1, 32_768),
    Lognormal(0.5, 1.0, 10),
    Lognormal(50, 0.0),
    Lognormal.with_mean(300, 2.0, 10_000),
    Uniform(1, 1),
    Uniform(5, 10**12),
    Homogeneous(10**12),
    Empirical([7, 1, 10**12], [0.25, 0.75, 0.0]),
]
PROCESSES: list[ArrivalProcess] = [
    Poisson(0.5),
    Poisson(1e6),
    GammaRenewal(10, cv=0.1),
    GammaRenewal(10, cv=5),
    OnOff(100, 1, 0.5, 2.0),
    OnOff(100, 0, 0.01, 3.0),
    OnOff(3, 3, 1.0, 1.0),
    MarkovModulated((100, 0, 7), (0.5, 2.0, 1.0)),
    Diurnal(5, 1.0, 60),
    Diurnal(5000, 0.5, 3600),
    Surges(0, 50, 4.0, 1.0),
    Surges(20, 5, 1.0, 0.1),
]


def _label(law: LengthDistribution | ArrivalProcess) -> str:
    return law.label


@pytest.mark.parametrize("law", LAWS, ids=_label)
def test_length_samples(law: LengthDistribution) -> None:
    """Samples are positive integers, the same for the same seed, with the stated mean."""
    num_samples = 20_000
    drawn = law.sample(num_samples, np.random.default_rng(11))
    again = law.sample(num_samples, np.random.default_rng(11))
    assert drawn.dtype == np.int64
    assert drawn.shape == (num_samples,)
    assert drawn.min() >= 1
    assert np.array_equal(drawn, again)
    # Five standard errors: a false alarm once in two million seeds, and the seed is fixed.
    assert abs(drawn.mean() - law.mean) <= 5 * drawn.std() / math.sqrt(num_samples) + 1e-9
    assert len(law.sample(0, np.random.default_rng(0))) == 0


def test_geometric_law() -> None:
    """P(o = k) = p (1 - p)^(k - 1), by a chi-square test on k = 1..9 and the rest."""
    p, num_samples = 0.25, 40_000
    drawn = Geometric(1 / p).sample(num_samples, np.random.default_rng(5))
    observed = [int((drawn == k).sum()) for k in range(1, 10)]
    observed.append(num_samples - sum(observed))
    expected = [p * (1 - p) ** (k - 1) for k in range(1, 10)]
    expected.append(1 - sum(expected))
    assert stats.chisquare(observed, np.array(expected) * num_samples).pvalue > 1e-4
    # The same data are not geometric on 0, 1, 2, ... nor with another p: the test has power.
    other = [0.3 * 0.7 ** (k - 1) for k in range(1, 10)]
    other.append(1 - sum(other))
    assert stats.chisquare(observed, np.array(other) * num_samples).pvalue < 1e-6


def test_lognormal_law() -> None:
    """Half the samples are at most the median; the cut-off carries the mass of the tail."""
    law = Lognormal(100, 1.0, 300)
    drawn = law.sample(40_000, np.random.default_rng(6))
    assert abs(float((drawn <= 100).mean()) - 0.5) < 0.0125
    # P(Y > 299) = 1 - Phi(log(2.99)) = 0.1367: these all become 300.
    assert abs(float((drawn == 300).mean()) - float(stats.norm.sf(math.log(2.99)))) < 0.01
    assert drawn.max() == 300


def test_lognormal_mean_by_hand() -> None:
    """Median 2, sigma 0: ceil(2) = 2. Maximum 1: every sample is 1."""
    assert Lognormal(2, 0.0).mean == 2.0
    assert Lognormal(1, 3.0, 1).mean == 1.0
    # Far from the cut-off and the rounding, the mean is close to that of Y plus 1/2.
    assert Lognormal.with_mean(5_000, 0.5, 10**6).mean == pytest.approx(5_000.5, rel=1e-6)


@given(st.integers(1, 10**12), st.integers(0, 10**6), st.integers(0, 2**32))
def test_uniform_bounds(lowest: int, width: int, seed: int) -> None:
    """Both ends are included and nothing lies beyond."""
    highest = min(lowest + width, 10**12)
    drawn = Uniform(lowest, highest).sample(50, np.random.default_rng(seed))
    assert lowest <= drawn.min() <= drawn.max() <= highest


def test_uniform_reaches_both_ends() -> None:
    """Of {3, 4, 5} every value occurs, equally often (chi-square)."""
    drawn = Uniform(3, 5).sample(9_000, np.random.default_rng(1))
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [3, 4, 5]
    assert stats.chisquare(counts).pvalue > 1e-4


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30))
def test_empirical_of_lengths(lengths: list[int]) -> None:
    """The law of a column has its values, its shares and its mean."""
    law = Empirical.of(np.array(lengths))
    assert law.values.tolist() == sorted(set(lengths))
    shares = [lengths.count(v) / len(lengths) for v in law.values.tolist()]
    assert law.probabilities == pytest.approx(shares)
    assert law.mean == pytest.approx(sum(lengths) / len(lengths))
    assert set(law.sample(40, np.random.default_rng(2)).tolist()) <= set(lengths)


def test_empirical_frequencies() -> None:
    """Values come as often as stated, unsorted ones and those of probability 0 included."""
    law = Empirical([9, 2, 5, 4], [0.0, 0.2, 0.0, 0.8])
    drawn = law.sample(10_000, np.random.default_rng(3))
    assert set(drawn.tolist()) == {2, 4}
    assert abs(float((drawn == 2).mean()) - 0.2) < 0.02


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Geometric(0.5), r"mean: 0.5 is out of range"),
        (lambda: Geometric(math.nan), r"mean: nan"),
        (lambda: Geometric(math.inf), r"mean: inf"),
        (lambda: Lognormal(0.0, 1.0), r"median: 0.0"),
        (lambda: Lognormal(5, -1.0), r"sigma: -1.0"),
        (lambda: Lognormal(5, 1.0, 4), r"median: 5"),
        (lambda: Lognormal(5, 1.0, 10**8), r"maximum: 100000000"),
        (lambda: Lognormal.with_mean(math.nan, 1.0), r"mean: nan"),
        (lambda: Uniform(0, 3), r"lowest: 0"),
        (lambda: Uniform(4, 3), r"highest: 3"),
        (lambda: Homogeneous(0), r"value: 0"),
        (lambda: Homogeneous(3.0), r"value: expected an integer"),  # type: ignore[arg-type]
        (lambda: Empirical([], []), r"values: the distribution has no values"),
        (lambda: Empirical([1, 1], [0.5, 0.5]), r"values: a value occurs twice"),
        (lambda: Empirical([1, 2], [0.5]), r"probabilities: has shape"),
        (lambda: Empirical([1, 2], [1.5, -0.5]), r"probabilities: has a negative"),
        (
            lambda: Empirical([1, 2], [0.5, math.nan]),
            r"probabilities: has a negative or non-finite",
        ),
        (lambda: Empirical([1, 2], [0.5, 0.4]), r"probabilities: the sum is 0.9"),
        (lambda: Empirical([1, 2], "ab"), r"probabilities: is not a list of numbers"),
        (
            lambda: Empirical.of(np.zeros(0, dtype=np.int64)),
            r"lengths: the list of lengths is empty",
        ),
        (lambda: Poisson(0.0), r"rate: 0.0"),
        (lambda: Poisson(math.inf), r"rate: inf"),
        (lambda: GammaRenewal(1.0, 0.0), r"cv: 0.0"),
        (lambda: OnOff(1.0, -1.0, 1.0, 1.0), r"rate_off: -1.0"),
        (lambda: OnOff(1.0, 0.0, 1e-5, 1e-5), r"changes .* times per arrival"),
        (lambda: MarkovModulated((1.0,), (1.0,)), r"rates: 1 rates and 1 mean stays"),
        (lambda: MarkovModulated((1.0, 2.0), (1.0,)), r"rates: 2 rates and 1 mean stays"),
        (lambda: MarkovModulated((0.0, 0.0), (1.0, 1.0)), r"rates: 0.0 is out of range"),
        (lambda: MarkovModulated((1.0, -2.0), (1.0, 1.0)), r"rates: -2.0"),
        (lambda: MarkovModulated((1.0, 0.0), (1e-5, 1e-5)), r"changes .* times per arrival"),
        (lambda: Diurnal(1.0, 1.5, 60), r"amplitude: 1.5"),
        (lambda: Diurnal(1.0, 0.5, 0.0), r"period_s: 0.0"),
        (lambda: Surges(1.0, 9.0, 5.0, 5.0), r"length_s: surges of 5 s every 5 s"),
        (lambda: Surges(0.0, 1.0, 1e-3, 5e-4), r"changes .* times per arrival"),
    ],
)
def test_bad_parameters(make: Callable[[], object], message: str) -> None:
    """Every parameter out of range is refused by name."""
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("process", PROCESSES, ids=_label)
def test_arrival_times(process: ArrivalProcess) -> None:
    """Times are whole microseconds in order, the same for the same seed."""
    times = process.sample(2_000, np.random.default_rng(7))
    assert times == process.sample(2_000, np.random.default_rng(7))
    assert len(times) == 2_000
    assert times[0] >= 0
    assert list(times) == sorted(times)
    assert all(isinstance(time, Fraction) and 10**6 % time.denominator == 0 for time in times)
    assert process.sample(0, np.random.default_rng(0)) == ()


def _gaps(process: ArrivalProcess, num_requests: int, seed: int) -> FloatArray:
    times = process.sample(num_requests, np.random.default_rng(seed))
    gaps: FloatArray = np.diff(np.array([float(time) for time in times]))
    return gaps


def test_poisson_gaps_are_exponential() -> None:
    """Kolmogorov-Smirnov against the exponential law, and not against one of another mean."""
    gaps = _gaps(Poisson(20.0), 10_000, seed=8)
    assert stats.kstest(gaps, stats.expon(scale=1 / 20).cdf).pvalue > 1e-4
    assert stats.kstest(gaps, stats.expon(scale=1 / 21).cdf).pvalue < 1e-3


@pytest.mark.parametrize("cv", [0.25, 1.0, 3.0])
def test_gamma_gaps(cv: float) -> None:
    """The gaps have the stated mean and coefficient of variation."""
    gaps = _gaps(GammaRenewal(20.0, cv), 40_000, seed=9)
    assert gaps.mean() == pytest.approx(1 / 20, rel=5 * cv / 200)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.1)


def test_on_off_equal_rates_are_poisson() -> None:
    """With one rate in both states the switching cannot be seen."""
    gaps = _gaps(OnOff(20.0, 20.0, 0.3, 0.7), 10_000, seed=10)
    assert stats.kstest(gaps, stats.expon(scale=1 / 20).cdf).pvalue > 1e-4


def test_on_off_rate_and_bursts() -> None:
    """Long-run rate (100·1 + 2·3)/4 = 26.5 per second; counts vary more than Poisson counts."""
    process = OnOff(100.0, 2.0, 1.0, 3.0)
    assert process.rate == 26.5
    times = process.sample(60_000, np.random.default_rng(12))
    assert 60_000 / float(times[-1]) == pytest.approx(26.5, rel=0.08)
    counts = np.bincount([int(time) for time in times])
    # For Poisson the ratio is 1; here most seconds have about 2 or about 100 arrivals.
    assert counts.var() / counts.mean() > 20


def test_on_off_starts_stationary() -> None:
    """The first state is on with probability 1/4: first gaps below 0.1 s are about as rare."""
    process = OnOff(1000.0, 0.0, 1.0, 3.0)
    firsts = [float(process.sample(1, np.random.default_rng(s))[0]) for s in range(800)]
    share = sum(first < 0.05 for first in firsts) / len(firsts)
    # P(on) + P(off ends within 0.05 s) = 0.25 + 0.75·(1 - e^(-0.05/3)) = 0.262.
    assert share == pytest.approx(0.262, abs=0.06)


@pytest.mark.parametrize(
    "process", [OnOff(40.0, 4.0, 1.0, 3.0), MarkovModulated((4.0, 40.0), (3.0, 1.0))], ids=_label
)
def test_counts_of_modulated_arrivals_vary_as_they_must(process: ArrivalProcess) -> None:
    """Rate (40·1 + 4·3)/4 = 13, and the index of dispersion of counts in one second.

    H. Heffes, D. Lucantoni (1986): with rates λ, jumps at r1 = 1, r2 = 1/3, r = 4/3,
    ``1 + 2(λ1-λ2)²r1r2/(r²(λ1r2+λ2r1)) · (1 - (1-e^(-rt))/(rt))``.
    """
    assert process.rate == pytest.approx(13)
    times = process.sample(60_000, np.random.default_rng(5))
    counts = np.bincount([int(time) for time in times])[:-1]
    r, together = 4 / 3, 40 / 3 + 4
    index = 1 + 2 * 36**2 / 3 / (r**2 * together) * (1 - (1 - math.exp(-r)) / r)
    assert counts.mean() == pytest.approx(13, rel=0.05)
    assert counts.var() / counts.mean() == pytest.approx(index, rel=0.06)


def test_states_of_modulated_arrivals_are_visited_as_long_as_stated() -> None:
    """Three states of which one sends, for one second of six."""
    process = MarkovModulated((1000.0, 0.0, 0.0), (1.0, 2.0, 3.0))
    assert process.rate == pytest.approx(1000 / 6)
    times = process.sample(400_000, np.random.default_rng(3))
    assert 400_000 / float(times[-1]) == pytest.approx(1000 / 6, rel=0.1)


def test_diurnal_arrivals_follow_the_sine() -> None:
    """Of a period's first half the share is 1/2 + a/π; gaps are Poisson on the expected count."""
    process = Diurnal(20.0, 0.8, 10.0)
    times = process.sample(20_000, np.random.default_rng(4)).seconds()
    assert 20_000 / times[-1] == pytest.approx(20, rel=0.03)
    assert np.mean(times % 10 < 5) == pytest.approx(0.5 + 0.8 / math.pi, abs=0.01)
    omega = 2 * math.pi / 10
    expected = 20 * (times + 0.8 / omega * (1 - np.cos(omega * times)))
    assert stats.kstest(np.diff(expected), stats.expon.cdf).pvalue > 1e-3
    assert stats.kstest(np.diff(20 * times), stats.expon.cdf).pvalue < 1e-6


def test_surges_come_when_stated() -> None:
    """3/s, and 30/s in the last of every four seconds: 30/39 of the arrivals are there."""
    process = Surges(3.0, 30.0, 4.0, 1.0)
    assert process.rate == 39 / 4
    times = process.sample(20_000, np.random.default_rng(6)).seconds()
    in_surge = times % 4 >= 3
    assert np.mean(in_surge) == pytest.approx(30 / 39, abs=0.01)
    assert 20_000 / times[-1] == pytest.approx(39 / 4, rel=0.03)
    # Within a surge nothing tells where in it.
    assert stats.kstest(times[in_surge] % 4 - 3, "uniform").pvalue > 1e-3


def test_rounding_to_microseconds() -> None:
    """Half a microsecond and less is rounded, ties in time may arise, order is kept."""
    times = exact_times(np.array([0.0, 4e-7, 6e-7, 1.0000004]))
    assert list(times) == [0, 0, Fraction(1, 10**6), 1]


def test_times_beyond_the_limit() -> None:
    """A process too slow for the requests asked for is an error, not an overflow."""
    with pytest.raises(InputError, match="raise the rate"):
        Poisson(1e-9).sample(100_000, np.random.default_rng(0))
    with pytest.raises(InputError, match="arrivals: last at nan"):
        exact_times(np.array([np.nan]))


def _file(folder: Path, content: bytes) -> Path:
    path = folder / "pmf.csv.gz"
    path.write_bytes(content)
    return path


def test_read(tmp_path: Path) -> None:
    """Probabilities in scientific notation, rounded so that they sum to 0.99999."""
    content = b"tokens,probability\n9,2.5e-01\n4,7.4999e-01\n"
    law = read_pmf(_file(tmp_path, gzip.compress(content)))
    assert law.values.tolist() == [9, 4]
    assert law.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert law.mean == pytest.approx(5.25, abs=1e-4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"tokens,weight\n1,1\n", "line 1: expected the columns tokens,probability"),
        (b"tokens,probability\n0,1\n", r"values\[0\]: 0 is out of range"),
        (b"tokens,probability\n1,0.5\n1,0.5\n", "values: a value occurs twice"),
        (b"tokens,probability\n1,0.5\n2,0.4\n", "probabilities: the sum is 0.9"),
        (b"tokens,probability\n1,1.5\n", "line 2 column 'probability': 1.5 is not a probability"),
        (b"tokens,probability\n1,nan\n", "line 2 column 'probability': 'nan' is not a finite"),
        (b"tokens,probability\n1.5,1\n", "line 2 column 'tokens': '1.5' is not a whole number"),
        (b"tokens,probability\n1\n", "line 2: has 1 cells for 2 columns"),
        (b"tokens,probability\n", "values: the distribution has no values"),
        (b"", "is empty"),
    ],
)
def test_damaged(tmp_path: Path, content: bytes, message: str) -> None:
    """What is wrong is told with file and line."""
    path = _file(tmp_path, content)
    with pytest.raises(InputError, match=message) as caught:
        read_pmf(path)
    assert caught.value.where.startswith(str(path))
