"""Estimates with 95 % confidence intervals: means, means with upper bounds, and slopes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

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
        The rule as a function of the ends of the interval.
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

    For exactly computed y, the interval shows how far the points are from a line.
    """
    line = fit_line(x, y)
    if line.half_width is None:
        raise ValueError("a slope needs at least 3 points for an interval")
    low, high = line.slope - line.half_width, line.slope + line.half_width
    return Estimate(name, line.slope, low, high, line.count, rule, accept(low, high))


@dataclass(frozen=True)
class Bounded:
    """An estimate, and the upper bound that its interval is compared with.

    Parameters
    ----------
    estimate : Estimate
        Mean of a non-negative quantity; its interval is truncated at 0.
    bound : float
        The bound.
    """

    estimate: Estimate
    bound: float

    @property
    def room(self) -> float:
        """Ratio of the bound to the upper end of the interval."""
        return self.bound / self.estimate.high if self.estimate.high else inf


def bounded_mean(name: str, samples: ArrayLike, bound_name: str, bound: float) -> Bounded:
    """Estimate the mean of samples >= 0; accepted if the interval is at most a bound.

    Parameters
    ----------
    name : str
        What is estimated, unit included.
    samples : array of float
        Shape (n,), n >= 2, independent, at least 0.
    bound_name : str
        The bound as a formula.
    bound : float
        Its value.
    """
    estimate = mean_estimate(
        name, samples, f"upper end at most {bound_name} = {bound:g}",
        lambda low, high: high <= bound,
    )  # fmt: skip
    return Bounded(replace(estimate, low=max(0.0, estimate.low)), bound)


def room(measured: Sequence[Bounded]) -> str:
    """Return a sentence with the smallest and largest ratio of bound to measured value."""
    least = min(m.room for m in measured)
    most = max(m.bound / m.estimate.low if m.estimate.low > 0 else inf for m in measured)
    return (
        f"The bound is {least:.3g} to {most:.3g} times what is measured, by both ends of the 95 % "
        "intervals: where it is least, a constant smaller by more than that would be refuted."
    )
