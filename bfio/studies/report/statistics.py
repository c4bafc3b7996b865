"""Many rows into one number: means, medians and ratios with intervals, and power laws.

Intervals have confidence level 95 % and stay in the domain of what is measured: that of a mean is
Student's t interval on the scale on which the domain is the whole line (identity, logarithm for
what is 0 or more, log odds for shares), carried over by the delta method (W. Meeker, G. Hahn and
L. Escobar, Statistical Intervals). Values that are all equal say nothing of their spread: there is
no interval then, and the reason takes its place. Nothing here knows of rows; a value that is
undefined is counted, never averaged over.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import TypeAlias

from bfio.common.metrics import Domain
from bfio.common.statistics import CONFIDENCE, fit_line, student_t
from bfio.studies.report_plan import Statistic
from bfio.studies.row import Value

Number: TypeAlias = int | float

#: Larger magnitudes count as undefined: no measured quantity has them, and squares would overflow.
LARGEST = 1e150
#: Relative distance below which numbers are equal but for rounding.
ROUNDING = 1e-12
#: Half widths of exponents below which points lie on the line.
_ON_THE_LINE = 1e-9
#: Beyond it powers of e are no doubles.
_LARGEST_LOGARITHM = math.log(sys.float_info.max)


@dataclass(frozen=True)
class Interval:
    """A confidence interval and the level it attains."""

    lower: float
    upper: float
    coverage: float = CONFIDENCE


@dataclass(frozen=True)
class Estimate:
    """One number made of several.

    Parameters
    ----------
    value : int or float, optional
        The number; None if no value was defined.
    interval : Interval, optional
        Its interval; None where there is none (one value, a sum, or values that are equal).
    count : int
        Values it was made of.
    undefined : int
        Values left out because they are none.
    why_none : str
        Why there is no interval although there are several values, in words for a cell of a table.
    """

    value: Number | None
    interval: Interval | None
    count: int
    undefined: int = 0
    why_none: str = ""


def as_number(value: Value) -> Number | None:
    """Return the value as a number, true as 1; None for text, None and what is not finite."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float) and abs(value) <= LARGEST:
        return value
    return None


def summarize(
    values: Sequence[Number | None], statistic: Statistic, domain: Domain = Domain.REAL
) -> Estimate:
    """Return the statistic of the values that are defined, with an interval where it has one.

    Parameters
    ----------
    values : sequence of number or None
        One value per row; equal for every order of them.
    statistic : Statistic
        `Statistic.MEAN` gets a Student-t interval, `Statistic.MEDIAN` one between order
        statistics, which holds for every continuous distribution; the others none.
    domain : Domain
        What the values can be.
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
        # The next higher values that were observed.
        Statistic.P95: defined[math.ceil(0.95 * (len(defined) - 1))],
        Statistic.P99: defined[math.ceil(0.99 * (len(defined) - 1))],
        Statistic.MAXIMUM: defined[-1],
        Statistic.SUM: total(defined),
    }
    return Estimate(single[statistic], None, len(defined), undefined)


def _estimate(
    value: Number, interval: Interval | None, ordered: Sequence[Number], undefined: int = 0
) -> Estimate:
    """Return an estimate; an interval without width gives way to the reason for it."""
    why = ""
    if are_equal(ordered[0], ordered[-1]):
        interval, why = None, "all rows equal" if len(ordered) > 1 else ""
    elif interval is not None and are_equal(interval.lower, interval.upper):
        interval, why = None, "most rows equal"
    return Estimate(value, interval, len(ordered), undefined, why)


def are_equal(low: Number, high: Number) -> bool:
    """Return whether two numbers are equal but for rounding."""
    return abs(high - low) <= ROUNDING * max(abs(low), abs(high))


def total(values: Sequence[Number]) -> Number:
    """Return the sum, exact for integers and rounded once for others."""
    if all(isinstance(value, int) for value in values):
        return sum(values)
    return math.fsum(values)


def mean(values: Sequence[Number]) -> float:
    """Return the arithmetic mean."""
    return total(values) / len(values)


def mean_interval(values: Sequence[Number], domain: Domain = Domain.REAL) -> Interval | None:
    """Return the t interval of a mean, n - 1 degrees of freedom; None for fewer than two values.

    With ``h = t·s/√n``: ``m ± h``; for what is 0 or more ``m·exp(±h/m)``; for shares the log odds
    of m, ``± h/(m·(1 - m))``. If a value is outside of the domain, the first.
    """
    if len(values) < 2:
        return None
    centre = mean(values)
    half = student_t(len(values) - 1) * _deviation(values, centre) / math.sqrt(len(values))
    if not all(map(domain.holds, values)):
        domain = Domain.REAL
    return interval_within(centre, half, domain)


def interval_within(centre: float, half: float, domain: Domain) -> Interval:
    """Return the interval around a mean with this half width on the scale of its domain."""
    if domain is Domain.NON_NEGATIVE and centre > 0:
        factor = _power(half / centre)
        return Interval(centre / factor, centre * factor)
    if domain is Domain.SHARE and 0 < centre < 1:
        factor = _power(half / (centre * (1 - centre)))
        odds = centre / (1 - centre)
        above = odds * factor
        # Not 1 - 1/(1 + odds): that is 0 for the smallest odds.
        return Interval(odds / (factor + odds), above / (1 + above) if above < math.inf else 1.0)
    lower, upper = centre - half, centre + half
    # A mean of varied values is an end of their domain only where it was rounded to it.
    if domain is not Domain.REAL:
        lower = max(0.0, lower)
    if domain is Domain.SHARE:
        upper = min(1.0, upper)
    return Interval(lower, upper)


def _deviation(values: Sequence[Number], centre: float) -> float:
    """Return the sample standard deviation; scaled, as squares over- and underflow."""
    distances = [abs(value - centre) for value in values]
    scale = max(distances)
    if scale == 0:
        return 0.0
    squares = math.fsum((distance / scale) ** 2 for distance in distances)
    return scale * math.sqrt(squares / (len(values) - 1))


def median_interval(ordered: Sequence[Number]) -> Interval | None:
    """Return an interval between two order statistics; None for fewer than two sorted values.

    It spans the r-th smallest to the r-th largest value, r as large as 95 % allow; below six
    values even r = 1 does not reach them, and the interval says how little it covers.
    """
    if len(ordered) < 2:
        return None
    rank, coverage = median_rank(len(ordered))
    return Interval(float(ordered[rank - 1]), float(ordered[-rank]), coverage)


@lru_cache(maxsize=4096)
def median_rank(count: int) -> tuple[int, float]:
    """Return r and the coverage of the interval between the r-th smallest and r-th largest value.

    The number of values below the median is binomial(n, 1/2), so the interval from the r-th
    misses it with probability 2·P(fewer than r).
    """
    outcomes, missed, ways = 1 << count, 1, 1
    rank = 1
    while rank < (count + 1) // 2:
        ways = ways * (count - rank + 1) // rank
        # In integers: 2·(missed + ways)/2^n must stay at or below 5 %.
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
    """``y = scale·x^exponent``, fitted by least squares to logarithms.

    Parameters
    ----------
    exponent, scale : float
        The fit.
    interval : Interval, optional
        Student-t interval of the exponent; None for two points, or if all lie on the line.
    count : int
        Points fitted.
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
    # Logarithms of points on a curve lie on a line but for rounding.
    if line.half_width is not None and line.half_width > _ON_THE_LINE:
        interval = Interval(line.slope - line.half_width, line.slope + line.half_width)
    return PowerLaw(line.slope, _power(line.intercept), interval, line.count)
