"""Intervals by batch means and lines: by hand, and against a process of known variance."""

import math

import numpy as np
import pytest
from scipy.special import stdtrit

from bfio.common.statistics import (
    BATCHES,
    CONFIDENCE,
    MIN_STEPS,
    batch_means,
    fit_line,
    half_width,
    student_t,
)
from formulations.arrays import FloatArray

#: The 97.5 % quantile of Student's t with 19 degrees of freedom, from a printed table.
T_19 = 2.0930


def test_quantiles_are_those_of_scipy() -> None:
    """Those of few degrees stand in a table; SciPy says that there is none for 0 degrees."""
    for degrees in range(30):
        expected = stdtrit(degrees, (1 + CONFIDENCE) / 2)
        assert student_t(degrees) == pytest.approx(expected, rel=1e-15, nan_ok=True)


def test_a_constant_has_no_width() -> None:
    """All batches agree."""
    assert half_width(np.full(400, 7.0)) == 0.0


def test_alternating_batches_by_hand() -> None:
    """20 batches of ten, means 0, 1, 0, 1, ...: s² = 20·(1/2)²/19, half width t·s/√20."""
    values = np.repeat(np.tile([0.0, 1.0], 10), 10)
    expected = T_19 * math.sqrt(5 / 19) / math.sqrt(20)
    assert half_width(values) == pytest.approx(expected, rel=1e-4)


def test_a_ratio_by_hand() -> None:
    """X = 2y in every step: the ratio is known exactly, however both vary."""
    weights = np.linspace(1.0, 9.0, 300)
    assert half_width(2 * weights, weights) == pytest.approx(0.0, abs=1e-12)
    # With y = 4 throughout, the ratio is a quarter of the mean of x, and so is its width.
    values = np.repeat(np.tile([0.0, 1.0], 10), 10)
    assert half_width(values, np.full(200, 4.0)) == pytest.approx(half_width(values) / 4)  # type: ignore[operator]


def test_a_short_run_has_no_interval() -> None:
    """One step below the least number, and none at all."""
    assert half_width(np.arange(float(MIN_STEPS - 1))) is None
    assert half_width(np.arange(float(MIN_STEPS))) is not None
    assert half_width(np.zeros(0)) is None


def test_batches_cover_every_step() -> None:
    """Lengths that 20 does not divide: a single outlier anywhere is seen."""
    for step in (0, 10, 206):
        values = np.zeros(207)
        values[step] = 1.0
        assert (half_width(values) or 0) > 0


def _autoregressive(phi: float, length: int, rng: np.random.Generator) -> FloatArray:
    """Return a stationary AR(1) path with mean 0 and innovations of variance 1."""
    noise = rng.standard_normal(length)
    path = np.empty(length)
    state = noise[0] / math.sqrt(1 - phi**2)
    for t in range(length):
        state = phi * state + noise[t] if t else state
        path[t] = state
    return path


def _coverage(phi: float, replications: int) -> tuple[float, float]:
    """Return the share of intervals that hold the mean 0: batch means, and the naive interval."""
    rng = np.random.default_rng(20)
    length, hits, naive = 4000, 0, 0
    for _ in range(replications):
        path = _autoregressive(phi, length, rng)
        center = abs(float(path.mean()))
        hits += center <= (half_width(path) or 0)
        naive += center <= 1.96 * float(path.std(ddof=1)) / math.sqrt(length)
    return hits / replications, naive / replications


def test_the_width_is_that_of_the_long_run_variance() -> None:
    """AR(1), φ = 0.5: variance of a mean of n is about 1/((1 - φ)²·n), so 4/n.

    To look for correlation between batches that have none costs up to a fifth of the width.
    """
    rng = np.random.default_rng(3)
    found = [half_width(_autoregressive(0.5, 4000, rng)) or 0 for _ in range(60)]
    assert 1 <= np.mean(found) / (T_19 * math.sqrt(4 / 4000)) <= 1.2


@pytest.mark.deep
def test_intervals_cover_as_often_as_they_say() -> None:
    """φ = 0.8: 95 % within sampling error; the interval for independent steps fails badly."""
    batched, naive = _coverage(0.8, 1500)
    assert 0.93 < batched < 0.97
    assert naive < 0.7
    assert BATCHES == 20


def test_batches_of_nearly_equal_lengths() -> None:
    """Five values in two batches, fewer values than batches, and none."""
    assert batch_means(np.arange(1.0, 6.0), 2).tolist() == [1.5, 4.0]
    assert batch_means(np.arange(3.0), 5).tolist() == [0.0, 1.0, 2.0]
    assert batch_means(np.zeros(0), 5).tolist() == []


def test_a_line_by_hand() -> None:
    """(0, 0), (1, 1), (2, 5): slope 5/2, residuals 1/2, -1, 1/2, so s² = 3/2 and Σ(x - 1)² = 2."""
    line = fit_line([0, 1, 2], [0, 1, 5])
    assert (line.slope, line.intercept) == pytest.approx((2.5, -0.5))
    assert line.half_width == pytest.approx(12.7062 * math.sqrt(1.5 / 2), rel=1e-5)
    assert fit_line([0, 1], [3, 5]).half_width is None
