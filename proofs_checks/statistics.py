"""Probability laws, exactly or in floats; and estimates with 95 % confidence intervals.

Estimates are means, means with upper bounds, and slopes. Laws are not sampled.

A numerical law on the non-negative integers is an array of probabilities by value. Sums of many
terms are convolved in double precision (relative error near 1e-13 where the probability is not
negligible). An exact law maps values to positive probabilities.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import comb, inf, lcm
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from bfio.common.statistics import fit_line, student_t
from formulations.arrays import FloatArray
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


#: Probability mass dropped when an infinite law is truncated.
CUT_OFF = 1e-15
#: Product of lengths above which convolutions use the Fourier transform.
_DIRECT = 10**7


def law(values: Sequence[int], weights: Sequence[float] | None = None) -> FloatArray:
    """Return the law with ``weights`` on ``values`` (distinct, >= 0); uniform by default."""
    chances = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    result = np.zeros(max(values) + 1)
    result[list(values)] = chances / chances.sum()
    return result


def mean(pmf: FloatArray) -> float:
    """Return the mean of a law."""
    # Convert to floats first: a product with integers leaves numpy's fast path.
    return float(pmf @ np.arange(len(pmf), dtype=np.float64))


def deviation(pmf: FloatArray) -> float:
    """Return the standard deviation of a law."""
    centred = np.arange(len(pmf)) - mean(pmf)
    return math.sqrt(float(pmf @ centred**2))


def sum_law(pmf: FloatArray, count: int) -> FloatArray:
    """Return the law of the sum of ``count >= 1`` independent draws from a law."""
    if count < 1:
        raise ValueError("count must be at least 1")
    return _sum_law(np.asarray(pmf, dtype=np.float64).tobytes(), count)


@lru_cache(maxsize=32)
def _sum_law(pmf: bytes, count: int) -> FloatArray:
    # Checks ask for the same law with 16, 64, 256, ... slots, and with many numbers of workers.
    one: FloatArray = np.frombuffer(pmf)
    if count == 1:
        return one
    # Split a power of two into halves, any other number into its highest bit and the rest.
    highest = 1 << count.bit_length() - 1
    rest = count - highest or count // 2
    total = convolved(_sum_law(pmf, rest), _sum_law(pmf, count - rest))
    total.flags.writeable = False
    return total


def expected_maximum(pmf: FloatArray, count: int) -> float:
    """Return the mean of the maximum of ``count`` independent draws, ``Σ_v 1 − F(v)^count``."""
    below = np.minimum(np.cumsum(pmf), 1.0)
    # 1 − F^n without cancellation where F is near 1.
    with np.errstate(divide="ignore"):
        return float(-np.expm1(count * np.log(below[:-1])).sum())


def expected_imbalance(slot: FloatArray, slots: int, workers: int) -> float:
    """Return the mean imbalance ``G·(E max − E load)`` of G workers of B independent slots.

    Parameters
    ----------
    slot : FloatArray
        Law of the size in one slot [tokens].
    slots, workers : int
        ``B`` and ``G``.
    """
    loads = sum_law(slot, slots)
    return workers * (expected_maximum(loads, workers) - mean(loads))


def snapshot_law(prompts: FloatArray, completion: float, increment: int = 1) -> FloatArray:
    """Return the stationary law of a slot's size under FCFS: prompt + increment × geometric age.

    Parameters
    ----------
    prompts : FloatArray
        Law of the prompt.
    completion : float
        ``p``: P(age = a) = p·(1 − p)^a.
    increment : int
        Growth per step, ``δ >= 0`` [tokens].
    """
    if increment == 0:
        return prompts
    ages = int(np.ceil(np.log(CUT_OFF) / np.log1p(-completion))) + 1
    age = completion * (1 - completion) ** np.arange(ages)
    grown = np.zeros((ages - 1) * increment + 1)
    grown[::increment] = age
    return convolved(prompts, grown / grown.sum())


def convolved(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the law of the sum of two independent variables."""
    if len(a) * len(b) <= _DIRECT:
        return np.convolve(a, b)
    from scipy.signal import fftconvolve

    result: FloatArray = np.maximum(fftconvolve(a, b), 0.0)
    return result


V = TypeVar("V", bound=Hashable)
#: Law of an integer.
ExactLaw = dict[int, Fraction]


def gathered(weighed: Iterable[tuple[V, Fraction]]) -> dict[V, Fraction]:
    """Return the law of (value, probability) pairs; probabilities of equal values are added."""
    law: dict[V, Fraction] = {}
    for value, chance in weighed:
        if chance:
            law[value] = law.get(value, Fraction(0)) + chance
    return law


def in_whole_numbers(law: ExactLaw) -> tuple[dict[int, int], int]:
    """Return a law as integer weights over a common denominator, which are fast to add."""
    whole = lcm(*(chance.denominator for chance in law.values()))
    return {v: c.numerator * (whole // c.denominator) for v, c in law.items()}, whole


def uniform(values: Sequence[int]) -> ExactLaw:
    """Return the uniform law on ``values``."""
    return {v: Fraction(1, len(values)) for v in values}


def binomial(trials: int, chance: Fraction) -> ExactLaw:
    """Return the law of the number of successes in ``trials`` independent trials."""
    return gathered((k, binomial_chance(trials, chance, k)) for k in range(trials + 1))


def binomial_chance(trials: int, chance: Fraction, successes: int) -> Fraction:
    """Return the binomial probability of a number of successes."""
    return comb(trials, successes) * chance**successes * (1 - chance) ** (trials - successes)


def binomial_tail(trials: int, chance: Fraction, outside: range) -> Fraction:
    """Return ``P(X not in outside)`` of a binomial; ``outside`` are the values kept."""
    kept = (binomial_chance(trials, chance, k) for k in outside if 0 <= k <= trials)
    return 1 - sum(kept, Fraction(0))


def of_sum(one: ExactLaw, other: ExactLaw) -> ExactLaw:
    """Return the exact law of the sum of two independent variables."""
    pairs = product(one.items(), other.items())
    return gathered((a + b, p * q) for (a, p), (b, q) in pairs)


def exact_mean(law: ExactLaw) -> Fraction:
    """Return the mean of an exact law."""
    weights, whole = in_whole_numbers(law)
    return Fraction(sum(v * w for v, w in weights.items()), whole)


def variance(law: ExactLaw) -> Fraction:
    """Return the variance of an exact law."""
    weights, whole = in_whole_numbers(law)
    first = sum(v * w for v, w in weights.items())
    total = sum(weights.values())
    # Σ w(v − first/whole)², multiplied by whole² to stay in integers.
    second = sum(v * v * w for v, w in weights.items())
    return Fraction(second * whole**2 - 2 * first**2 * whole + first**2 * total, whole**3)
