"""Combine many rows into one number: means, medians and ratios with intervals, and power laws.

Intervals have confidence level 95 % and stay in the domain of the value. The interval of a mean is
Student's t interval on a scale on which the domain is the whole line (identity; logarithm for
values >= 0; log odds for shares), obtained by the delta method (W. Meeker, G. Hahn and L. Escobar,
Statistical Intervals). Equal values carry no information on the spread: the estimate then has a
reason in place of an interval. Undefined values are counted and left out of every statistic.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median, stdev
from typing import TypeAlias

from bfio.common.metrics import Domain
from bfio.common.statistics import CONFIDENCE, fit_line, student_t
from bfio.studies.report_plan import Statistic
from bfio.studies.row import Value

Number: TypeAlias = int | float

#: Larger magnitudes count as undefined. No measured quantity is that large, and squares would
#: overflow.
LARGEST = 1e150
#: Relative distance below which numbers count as equal up to rounding.
ROUNDING = 1e-12
#: Half widths of exponents below which all points lie on the fitted line.
_ON_THE_LINE = 1e-9
#: Largest x for which exp(x) is a finite double.
_LARGEST_LOGARITHM = math.log(sys.float_info.max)


@dataclass(frozen=True)
class Interval:
    """A confidence interval with its actual coverage, which may differ from 95 %."""

    lower: float
    upper: float
    coverage: float = CONFIDENCE


@dataclass(frozen=True)
class Estimate:
    """A statistic of several values, such as a mean, with its interval.

    Parameters
    ----------
    value : int or float, optional
        The number; None if no value was defined.
    interval : Interval, optional
        Its interval; None for one value, for equal values, and for statistics without an interval.
    count : int
        Number of values used.
    undefined : int
        Number of values left out because they are undefined.
    why_none : str
        Text for a table cell: the reason why several values give no interval.
    """

    value: Number | None
    interval: Interval | None
    count: int
    undefined: int = 0
    why_none: str = ""


def as_number(value: Value) -> Number | None:
    """Return the value as a number, True as 1; None for text and values that are not finite."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float) and abs(value) <= LARGEST:
        return value
    return None


def summarize(
    values: Sequence[Number | None], statistic: Statistic, domain: Domain = Domain.REAL
) -> Estimate:
    """Return a statistic of the defined values, with an interval for means and medians.

    Parameters
    ----------
    values : sequence of number or None
        One value per row. The order does not matter.
    statistic : Statistic
        `Statistic.MEAN` gets a Student-t interval. `Statistic.MEDIAN` gets an interval between
        order statistics, valid for every continuous distribution. The others get none.
    domain : Domain
        Domain of the values.
    """
    defined = sorted(value for value in values if value is not None)
    undefined = len(values) - len(defined)
    if not defined:
        return Estimate(None, None, 0, undefined)
    if statistic is Statistic.MEAN:
        interval = mean_interval(defined, domain)
        return _estimate(mean(defined), interval, defined, undefined)
    if statistic is Statistic.MEDIAN:
        return _estimate(float(median(defined)), median_interval(defined), defined, undefined)
    single = {
        Statistic.MINIMUM: defined[0],
        # Percentiles are rounded up to the next observed value.
        Statistic.P95: defined[math.ceil(0.95 * (len(defined) - 1))],
        Statistic.P99: defined[math.ceil(0.99 * (len(defined) - 1))],
        Statistic.MAXIMUM: defined[-1],
        Statistic.SUM: total(defined),
    }
    return Estimate(single[statistic], None, len(defined), undefined)


def _estimate(
    value: Number, interval: Interval | None, ordered: Sequence[Number], undefined: int = 0
) -> Estimate:
    """Return an estimate; an interval of width 0 is replaced by the reason for its absence."""
    why = ""
    if are_equal(ordered[0], ordered[-1]):
        interval, why = None, "all rows equal" if len(ordered) > 1 else ""
    elif interval is not None and are_equal(interval.lower, interval.upper):
        interval, why = None, "most rows equal"
    return Estimate(value, interval, len(ordered), undefined, why)


def are_equal(low: Number, high: Number) -> bool:
    """Return whether two numbers are equal up to rounding."""
    return abs(high - low) <= ROUNDING * max(abs(low), abs(high))


def total(values: Sequence[Number]) -> Number:
    """Return the sum: exact for integers, rounded once for floats."""
    if all(isinstance(value, int) for value in values):
        return sum(values)
    return math.fsum(values)


def mean(values: Sequence[Number]) -> float:
    """Return the arithmetic mean of the values."""
    return total(values) / len(values)


def mean_interval(values: Sequence[Number], domain: Domain = Domain.REAL) -> Interval | None:
    """Return Student's t interval of a mean, n - 1 degrees of freedom; None for one value.

    With ``h = t·s/√n``: ``m ± h`` on the real line, ``m·exp(±h/m)`` for values >= 0, and log odds
    ``± h/(m·(1 - m))`` for shares. If a value is outside the domain, the first formula is used.
    """
    if len(values) < 2:
        return None
    centre = mean(values)
    half = student_t(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    if not all(map(domain.holds, values)):
        domain = Domain.REAL
    return interval_within(centre, half, domain)


def interval_within(centre: float, half: float, domain: Domain) -> Interval:
    """Return the interval around a mean, given its half width and domain."""
    if domain is Domain.NON_NEGATIVE and centre > 0:
        factor = _power(half / centre)
        return Interval(centre / factor, centre * factor)
    if domain is Domain.SHARE and 0 < centre < 1:
        factor = _power(half / (centre * (1 - centre)))
        odds = centre / (1 - centre)
        above = odds * factor
        # The form 1 - 1/(1 + odds) would be 0 for very small odds.
        return Interval(odds / (factor + odds), above / (1 + above) if above < math.inf else 1.0)
    lower, upper = centre - half, centre + half
    # Reached for a mean at an end of the domain, which is rounding if the values differ.
    if domain is not Domain.REAL:
        lower = max(0.0, lower)
    if domain is Domain.SHARE:
        upper = min(1.0, upper)
    return Interval(lower, upper)


def median_interval(ordered: Sequence[Number]) -> Interval | None:
    """Return an interval between two order statistics; None for fewer than two values.

    It spans the r-th smallest to the r-th largest value, with the largest r that has a coverage of
    95 %. Below six values even r = 1 has less; the interval reports its actual coverage.
    """
    if len(ordered) < 2:
        return None
    rank, coverage = median_rank(len(ordered))
    return Interval(float(ordered[rank - 1]), float(ordered[-rank]), coverage)


@lru_cache(maxsize=4096)
def median_rank(count: int) -> tuple[int, float]:
    """Return r and the coverage of the interval from the r-th smallest to the r-th largest value.

    The number of values below the median is binomial(n, 1/2). So the interval misses the median
    with probability 2·P(fewer than r).
    """
    outcomes, missed, ways = 1 << count, 1, 1
    rank = 1
    while rank < (count + 1) // 2:
        ways = ways * (count - rank + 1) // rank
        # In integers: 2·(missed + ways)/2^n must be at most 5 %.
        if 40 * (missed + ways) > outcomes:
            break
        missed += ways
        rank += 1
    return rank, 1 - 2 * missed / outcomes


def geometric_mean(numerators: Sequence[Number], denominators: Sequence[Number]) -> Estimate:
    """Return the geometric mean of the ratios of pairs, with a t interval on their logarithms.

    Parameters
    ----------
    numerators, denominators : sequence of number
        Positive, of equal length.
    """
    logs = [
        math.log(top) - math.log(bottom)
        for top, bottom in zip(numerators, denominators, strict=True)
    ]
    if not logs:
        return Estimate(None, None, 0)
    interval = mean_interval(logs)
    if interval is not None:
        interval = Interval(_power(interval.lower), _power(interval.upper))
    ratios = sorted(map(_power, logs))
    return _estimate(_power(mean(logs)), interval, ratios)


def _power(logarithm: float) -> float:
    return math.exp(logarithm) if logarithm < _LARGEST_LOGARITHM else math.inf


@dataclass(frozen=True)
class PowerLaw:
    """A power law ``y = scale·x^exponent``, fitted by least squares to logarithms.

    Parameters
    ----------
    exponent, scale : float
        The fit.
    interval : Interval, optional
        Student-t interval of the exponent; None for two points, or if all lie on the line.
    count : int
        Number of fitted points.
    """

    exponent: float
    scale: float
    interval: Interval | None
    count: int


def power_law(
    x: Sequence[Number], y: Sequence[Number], *others: Sequence[Number]
) -> PowerLaw | None:
    """Fit a power law to positive points; None if x takes fewer than two values.

    The exponent is that of x in one regression with the powers of ``others``.
    """
    if len(set(x)) < 2:
        return None
    across, up, *beside = ([math.log(value) for value in values] for values in (x, y, *others))
    line = fit_line(across, up, beside)
    interval = None
    # Up to rounding, the logarithms of points on a power curve lie on a line.
    if line.half_width is not None and line.half_width > _ON_THE_LINE:
        interval = Interval(line.slope - line.half_width, line.slope + line.half_width)
    return PowerLaw(line.slope, _power(line.intercept), interval, line.count)
