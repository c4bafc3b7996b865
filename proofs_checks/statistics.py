"""Estimates with 95 % intervals, and regressions of scaling claims."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from proofs_checks.evidence import Estimate

_CONFIDENCE = 0.95


def mean_estimate(
    name: str, samples: ArrayLike, rule: str, accept: Callable[[float, float], bool]
) -> Estimate:
    """Estimate a mean from independent samples, by Student's t.

    Parameters
    ----------
    name : str
        What is estimated.
    samples : array of float
        Shape (n,), n >= 2, independent.
    rule : str
        The acceptance rule in words.
    accept : callable
        The same, of the ends of the interval.
    """
    values = np.asarray(samples, dtype=np.float64)
    half = _quantile(len(values) - 1) * float(values.std(ddof=1)) / len(values) ** 0.5
    mean = float(values.mean())
    low, high = mean - half, mean + half
    return Estimate(name, mean, low, high, len(values), rule, accept(low, high))


def slope_estimate(
    name: str,
    x: Sequence[float],
    y: Sequence[float],
    rule: str,
    accept: Callable[[float, float], bool],
) -> Estimate:
    """Estimate the slope of y on x by least squares, n >= 3 points, by Student's t.

    Where y is computed exactly, the interval shows how far the points are from a line.
    """
    abscissa, ordinate = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    centred = abscissa - abscissa.mean()
    spread = float(centred @ centred)
    slope = float(centred @ ordinate) / spread
    residuals = ordinate - ordinate.mean() - slope * centred
    error = (float(residuals @ residuals) / (len(abscissa) - 2) / spread) ** 0.5
    half = _quantile(len(abscissa) - 2) * error
    low, high = slope - half, slope + half
    return Estimate(name, slope, low, high, len(abscissa), rule, accept(low, high))


def _quantile(degrees: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + _CONFIDENCE) / 2))
