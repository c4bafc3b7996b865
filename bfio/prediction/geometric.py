"""Whether output lengths are geometric, as theorem 2 of BF-IO takes them to be (BF-IO, fig. 5).

A geometric length has no memory: at each age a request ends with the next token with the same
probability p, its hazard, and the mean of what remains is 1/p whatever its age. So besides the
distance of the laws this measures hazard and mean residual life by age.

The distance is that of Kolmogorov and Smirnov. Its textbook critical value, 1.36/√n, is of a
continuous law that is known beforehand. Here the law is discrete and p is fitted to the same
lengths, for which that value is far too large. The critical value is therefore simulated: samples
of the fitted law, each with p fitted anew.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise
from math import sqrt
from typing import Any

import numpy as np

from bfio.workloads.statistics import ks_to_geometric
from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError

#: Level of the test; intervals are of 1 minus it.
LEVEL = 0.05
#: Samples that the critical value is of, and their seed.
SAMPLES, _SEED = 399, 20_240_601
#: Bins of ages, each with about as many ends.
BINS = 12
#: Lengths below which nothing is said.
LEAST = 30
_NORMAL = 1.959964
#: Pairs of bins that tell one way for each that tells the other, if it is mostly so.
_MOSTLY = 3


@dataclass(frozen=True)
class AgeInterval:
    """What is known of ages ``lower <= a < upper`` [tokens].

    Parameters
    ----------
    lower, upper : int
        The ages.
    at_risk : int
        Requests that reach age ``lower``.
    ends : int
        Requests that end at one of these ages, with token ``a + 1``.
    hazard, hazard_lower, hazard_upper : float
        Share of the tokens emitted at these ages that were the last one, and its 95 % interval
        (Wilson); 1/mean at every age if lengths are geometric.
    residual, residual_lower, residual_upper : float
        Mean tokens still to come at age ``lower``, and its 95 % interval; the mean length at
        every age if lengths are geometric.
    """

    lower: int
    upper: int
    at_risk: int
    ends: int
    hazard: float
    hazard_lower: float
    hazard_upper: float
    residual: float
    residual_lower: float
    residual_upper: float


@dataclass(frozen=True)
class GeometricFit:
    """The geometric law on 1, 2, ... that is most likely, and how far lengths are from it.

    Parameters
    ----------
    count : int
        Lengths.
    p : float
        ``1/mean``, the maximum-likelihood fit.
    distance : float
        Largest distance of the two distribution functions (Kolmogorov-Smirnov).
    critical : float
        What a geometric sample of that size exceeds with probability 5 %.
    p_value : float
        Probability that one is as far off, 1/400 at least.
    residuals : tuple of float, optional
        Mean residual life at half the mean length m, at m and at 2m, in units of m; 1 if lengths
        are geometric; None where no length is greater.
    ages : sequence of AgeInterval
        Hazard and mean residual life by age.
    """

    count: int
    p: float
    distance: float
    critical: float
    p_value: float
    residuals: tuple[float | None, ...]
    ages: Sequence[AgeInterval]

    @property
    def is_rejected(self) -> bool:
        """Whether the lengths are not geometric, at the level of 5 %."""
        return self.distance > self.critical

    @property
    def trend(self) -> str:
        """How the hazard moves with age, as far as pairs of disjoint intervals tell.

        ``rises`` or ``falls`` if all such pairs do, ``mostly`` so if there are more than three for
        each that does not, ``rises and falls`` otherwise, ``flat`` without any such pair.
        """
        pairs = list(combinations(self.ages, 2))
        rises = sum(early.hazard_upper < late.hazard_lower for early, late in pairs)
        falls = sum(early.hazard_lower > late.hazard_upper for early, late in pairs)
        if not rises and not falls:
            return "flat"
        if min(rises, falls) * _MOSTLY >= max(rises, falls):
            return "rises and falls"
        return f"{'mostly ' * bool(min(rises, falls))}{'rises' if rises > falls else 'falls'}"

    def to_mapping(self) -> dict[str, Any]:
        """Return it as a plain document, verdict and trend included."""
        told = {"rejected": self.is_rejected, "trend": self.trend, "verdict": self.verdict}
        return asdict(self) | told

    def cells(self) -> list[list[str]]:
        """Return a line of texts per bin of ages, hazard and residual life by the mean."""
        return [
            [
                _range(e),
                f"{e.at_risk:,}",
                f"{e.ends:,}",
                _scaled(1 / self.p, e.hazard, e.hazard_lower, e.hazard_upper),
                _scaled(self.p, e.residual, e.residual_lower, e.residual_upper),
            ]
            for e in self.ages
        ]

    @property
    def verdict(self) -> str:
        """One sentence: geometric or not, and what age tells."""
        test = f"KS {self.distance:.3f}, 5 % critical value {self.critical:.3f}"
        if not self.is_rejected:
            return f"geometric is not rejected ({test}); hazard by age: {self.trend}"
        least = min(self.ages, key=lambda entry: entry.hazard)
        most = max(self.ages, key=lambda entry: entry.hazard)
        return (
            f"not geometric ({test}); hazard by age: {self.trend}, "
            f"{least.hazard / self.p:.2g}/mean at ages {_range(least)}, "
            f"{most.hazard / self.p:.2g}/mean at {_range(most)}"
        )


def _scaled(unit: float, *values: float) -> str:
    value, lower, upper = (unit * value for value in values)
    return f"{value:.2f} ({lower:.2f}–{upper:.2f})"


def _range(entry: AgeInterval) -> str:
    return f"{entry.lower:,} to {entry.upper - 1:,}"


def geometric_fit(lengths: IntArray, where: str = "output_tokens") -> GeometricFit:
    """Fit the geometric law on 1, 2, ... to lengths, and test it.

    Parameters
    ----------
    lengths : IntArray
        Shape (n,), n >= 30, each >= 1 [tokens].
    where : str
        What errors name.

    Raises
    ------
    InputError
        If there are fewer lengths, or all are 1.
    """
    if len(lengths) < LEAST:
        raise InputError(where, f"{len(lengths)} lengths", f"give {LEAST} or more")
    if lengths.max() == 1:
        raise InputError(where, "every length is 1", "there is nothing to fit")
    p = 1 / float(lengths.mean())
    distance = ks_to_geometric(lengths)
    distances = _distances_of_samples(len(lengths), p)
    farther = int(np.count_nonzero(distances >= distance))
    return GeometricFit(
        count=len(lengths),
        p=p,
        distance=distance,
        critical=float(np.quantile(distances, 1 - LEVEL, method="higher")),
        p_value=(1 + farther) / (1 + SAMPLES),
        residuals=tuple(_residual(lengths, round(part / p)) for part in (0.5, 1, 2)),
        ages=ages_of(lengths),
    )


def _residual(lengths: IntArray, age: int) -> float | None:
    """Return the mean residual life at an age over the mean length."""
    left = lengths[lengths > age] - age
    return float(left.mean() / lengths.mean()) if len(left) else None


def _distances_of_samples(count: int, p: float) -> FloatArray:
    rng = np.random.default_rng(_SEED)
    found = [ks_to_geometric(rng.geometric(p, count)) for _ in range(SAMPLES)]
    return np.array(found)


def ages_of(lengths: IntArray, bins: int = BINS) -> list[AgeInterval]:
    """Return hazard and mean residual life in bins of ages with about equally many ends.

    Parameters
    ----------
    lengths : IntArray
        Shape (n,), each >= 1 [tokens].
    bins : int
        Bins at most; lengths that occur often make fewer of them.
    """
    # A request of length o ends at age o - 1, the age at which it emits its last token.
    ends = np.sort(lengths) - 1
    inner = ends[(np.arange(1, bins) * len(ends)) // bins]
    edges = np.unique(np.concatenate([[0], inner, [ends[-1] + 1]]))
    return [_interval(ends, int(lower), int(upper)) for lower, upper in pairwise(edges)]


def _interval(ends: IntArray, lower: int, upper: int) -> AgeInterval:
    alive = ends[np.searchsorted(ends, lower) :]
    count = int(np.searchsorted(alive, upper))
    emitted = int((np.minimum(alive, upper - 1) - lower + 1).sum())
    low, high = wilson(count, emitted)
    left = alive - lower + 1
    # Of one request nothing is known of the spread.
    half = _NORMAL * float(left.std(ddof=1)) / sqrt(len(left)) if len(left) > 1 else np.inf
    mean = float(left.mean())
    return AgeInterval(
        lower, upper, len(alive), count, count / emitted, low, high, mean, mean - half, mean + half
    )


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a probability, within [0, 1] (Wilson 1927)."""
    share, z = successes / trials, _NORMAL
    scale = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    half = z * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / scale
    # In floats an end may miss the estimate in the last place.
    return min(max(0.0, centre - half), share), max(min(1.0, centre + half), share)
