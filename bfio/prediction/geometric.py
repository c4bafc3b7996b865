"""Test whether output lengths are geometric, as Theorem 2 of BF-IO assumes (BF-IO, fig. 5).

A geometric length has no memory: at each age the next token is the last one with the same
probability p, the hazard, and the mean remaining length is 1/p. So the hazard and the mean
residual life are measured by age, in addition to the distance of the distributions.

The distance is that of Kolmogorov and Smirnov. Its textbook critical value, 1.36/√n, holds for a
continuous law with known parameters. Here the law is discrete and p is fitted to the same lengths,
so that value is far too large. The critical value is therefore simulated from samples of the
fitted law, each with p fitted again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from bfio.workloads.statistics import ks_to_geometric
from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bfio.common.figure_style import ShownFigure

#: Significance level of the test; intervals have the confidence level 1 - LEVEL.
LEVEL = 0.05
#: Number of samples for the critical value, and their seed.
SAMPLES, _SEED = 399, 20_240_601
#: Number of bins of ages, each with about the same number of ends.
BINS = 12
#: Minimum number of lengths for a fit.
LEAST = 30
_NORMAL = 1.959964
#: A trend is "mostly" in one direction if it has more than this many pairs of bins per pair in
#: the other direction.
_MOSTLY = 3


@dataclass(frozen=True)
class AgeInterval:
    """Estimates for ages ``lower <= a < upper`` [tokens].

    Parameters
    ----------
    lower, upper : int
        Range of ages.
    at_risk : int
        Number of requests that reach age ``lower``.
    ends : int
        Number of requests that end at one of these ages, with token ``a + 1``.
    hazard, hazard_lower, hazard_upper : float
        Share of the tokens emitted at these ages that were the last one, with its 95 % interval
        (Wilson); equal to 1/mean at every age if lengths are geometric.
    residual, residual_lower, residual_upper : float
        Mean number of remaining tokens at age ``lower``, with its 95 % interval; equal to the mean
        length at every age if lengths are geometric.
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
    """Maximum-likelihood geometric law on 1, 2, ..., and the distance of the lengths to it.

    Parameters
    ----------
    count : int
        Number of lengths.
    p : float
        ``1/mean``, the maximum-likelihood fit.
    distance : float
        Maximum difference of the two distribution functions (Kolmogorov-Smirnov).
    critical : float
        Distance that a geometric sample of this size exceeds with probability 5 %.
    p_value : float
        Probability of at least this distance for a geometric sample, at least 1/400.
    residuals : tuple of float, optional
        Mean residual life at ages m/2, m and 2m for mean length m, in units of m; 1 if lengths
        are geometric; None at an age that no length exceeds.
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
        """Whether the geometric law is rejected at the level of 5 %."""
        return self.distance > self.critical

    @property
    def trend(self) -> str:
        """Trend of the hazard with age: rises, falls, mostly so, both, or flat.

        Pairs of ages with disjoint hazard intervals are compared: ``rises`` or ``falls`` if all
        pairs do, ``mostly`` so if more than three do for each that does not, ``rises and falls``
        otherwise, ``flat`` if there is no such pair.
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
        """Return the fit as a JSON object, with verdict and trend."""
        told = {"rejected": self.is_rejected, "trend": self.trend, "verdict": self.verdict}
        return asdict(self) | told

    def cells(self) -> list[list[str]]:
        """Return a row of texts per bin of ages; values are scaled by the mean."""
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
        """Result of the test and trend of the hazard, in one sentence."""
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
        Place named in errors.

    Raises
    ------
    InputError
        If there are fewer than 30 lengths, or all are 1.
    """
    if len(lengths) < LEAST:
        what = f"{len(lengths)} lengths are too few for a fit"
        raise InputError(where, what, f"give {LEAST} or more")
    if lengths.max() == 1:
        raise InputError(
            where, "every length is 1, which no geometric law fits", "use other lengths"
        )
    p = 1 / float(lengths.mean())
    distance = ks_to_geometric(lengths)
    rng = np.random.default_rng(_SEED)
    samples = (rng.geometric(p, len(lengths)) for _ in range(SAMPLES))
    distances = np.array([ks_to_geometric(sample) for sample in samples])
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
    """Return the mean residual life at an age, divided by the mean length."""
    left = lengths[lengths > age] - age
    return float(left.mean() / lengths.mean()) if len(left) else None


def ages_of(lengths: IntArray, bins: int = BINS) -> list[AgeInterval]:
    """Return hazard and mean residual life in bins of ages with about equal numbers of ends.

    Parameters
    ----------
    lengths : IntArray
        Shape (n,), each >= 1 [tokens].
    bins : int
        Maximum number of bins; there are fewer if many lengths are equal.
    """
    # A request of length o ends at age o - 1, at which it emits its last token.
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
    # The spread cannot be estimated from a single request.
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
    # Rounding errors may put a limit of the interval on the wrong side of the estimate.
    return min(max(0.0, centre - half), share), max(min(1.0, centre + half), share)


#: Colours of the geometric law and of the data.
_LAW, _DATA = "0.5", "C0"


def geometric_figure(traces: Mapping[str, tuple[IntArray, GeometricFit]]) -> "ShownFigure":
    """Draw survival, hazard and mean residual life by age: a row of panels per trace.

    The curves of the fitted geometric law are drawn in the same panels.

    Parameters
    ----------
    traces : mapping
        Lengths and their fit, by name of the trace.
    """
    from bfio.common.figure_style import styled

    rows = len(traces)
    with styled(10, 1.9 * rows + 0.5, rows, 3, squeeze=False) as (figure, grid):
        for row, (name, (lengths, fit)) in zip(grid, traces.items(), strict=True):
            _draw_survival(row[0], name, lengths, fit)
            _draw_hazard(row[1], fit)
            _draw_residual(row[2], fit)
        for axes in grid[-1]:
            axes.set_xlabel("age [tokens]")
    return figure


def _draw_survival(axes: "Axes", name: str, lengths: IntArray, fit: GeometricFit) -> None:
    values, counts = np.unique(lengths, return_counts=True)
    alive = 1 - np.cumsum(counts) / len(lengths)
    axes.step(values[:-1], alive[:-1], where="post", color=_DATA)
    ages = np.array([0, values[-1]])
    axes.plot(ages, np.exp(ages * np.log1p(-fit.p)), color=_LAW, linestyle="--")
    axes.set_yscale("log")
    axes.set_ylim(max(0.5 / len(lengths), 1e-4), 1.5)
    axes.set_title(name, loc="left")
    word = "not geometric" if fit.is_rejected else "geometric not rejected"
    axes.text(0.98, 0.95, word, transform=axes.transAxes, ha="right", va="top")
    axes.set_ylabel("share longer")


def _draw_hazard(axes: "Axes", fit: GeometricFit) -> None:
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    edges = [entry.lower for entry in fit.ages] + [fit.ages[-1].upper]
    found = np.array([[e.hazard, e.hazard_lower, e.hazard_upper] for e in fit.ages]) / fit.p
    axes.stairs(found[:, 0], edges, color=_DATA)
    axes.fill_between(edges, _ends(found[:, 1]), _ends(found[:, 2]), step="post", alpha=0.25)
    axes.axhline(1, color=_LAW, linestyle="--")
    axes.set_xscale("symlog", linthresh=10)
    axes.set_xlim(0, edges[-1])
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(min([0.1, *found[found > 0]]), max(10, found.max()))
    axes.set_title("hazard · mean", loc="left")


def _draw_residual(axes: "Axes", fit: GeometricFit) -> None:
    ages = [entry.lower for entry in fit.ages]
    found = np.array([[e.residual, e.residual_lower, e.residual_upper] for e in fit.ages])
    found = np.maximum(found * fit.p, 0)
    axes.plot(ages, found[:, 0], color=_DATA, marker=".")
    axes.fill_between(ages, found[:, 1], found[:, 2], alpha=0.25)
    axes.axhline(1, color=_LAW, linestyle="--")
    axes.set_ylim(bottom=0)
    axes.set_title("mean residual life / mean", loc="left")


def _ends(values: FloatArray) -> FloatArray:
    """Return the heights of steps, with the last one repeated at its right end."""
    return np.append(values, values[-1])
