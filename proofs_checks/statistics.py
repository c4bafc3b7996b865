"""Estimates with 95 % intervals, and regressions of scaling claims."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from bfio.common.statistics import fit_line, student_t
from proofs_checks.evidence import Estimate


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
    half = student_t(len(values) - 1) * float(values.std(ddof=1)) / len(values) ** 0.5
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
    line = fit_line(x, y)
    if line.half_width is None:
        raise ValueError("two points have no interval")
    low, high = line.slope - line.half_width, line.slope + line.half_width
    return Estimate(name, line.slope, low, high, line.count, rule, accept(low, high))
