"""Numbers that name the rows from which they are computed, and tables and sentences of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from bfio.studies.report.statistics import Estimate, Number
from bfio.studies.row import DASH
from formulations.scalars import percentage

#: Significant digits of a number without interval, and of the half width of an interval.
_DIGITS, _INTERVAL_DIGITS = 4, 2
_LARGE, _SMALL = 1e9, 1e-4
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Traced:
    """A number on the report page with the rows from which it is computed.

    Parameters
    ----------
    text : str
        The number as shown.
    exact : str
        The number with all digits.
    attributes : mapping of str to str
        Its source: ``data-keys`` (rows), ``data-value`` (value or series), ``data-statistic`` and
        others. Attributes missing here are set on a surrounding element.
    """

    text: str
    exact: str
    attributes: Mapping[str, str]


#: A sentence or a line of a cell: a sequence of texts and numbers.
Phrase: TypeAlias = Sequence[str | Traced]
#: A table cell: the main line, followed by small lines below it.
Cell: TypeAlias = Sequence[Phrase]

EMPTY: Cell = ((DASH,),)


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, its unit, and whether it holds numbers."""

    label: str
    unit: str = ""
    is_number: bool = True


@dataclass(frozen=True)
class Line:
    """A table line; its HTML attributes apply to all numbers in it."""

    cells: Sequence[Cell]
    attributes: Mapping[str, str] = field(default_factory=dict)
    is_published: bool = False


@dataclass(frozen=True)
class Body:
    """Table lines with common HTML attributes, which apply to all their numbers."""

    lines: Sequence[Line]
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DataTable:
    """A table of traced numbers; see `Traced`."""

    columns: Sequence[Column]
    bodies: Sequence[Body]

    @property
    def lines(self) -> list[Line]:
        """The table lines of all bodies."""
        return [line for body in self.bodies for line in body.lines]


def origin(keys: str, value: str, **more: str) -> Mapping[str, str]:
    """Return the HTML attributes that trace a number: row keys, name of the value, and others."""
    named = {"keys": keys, "value": value, **more}
    return {f"data-{name.replace('_', '-')}": text for name, text in named.items()}


def traced(
    value: Number,
    statistic: str,
    attributes: Mapping[str, str] = _NOTHING,
    decimals: int | None = None,
) -> Traced:
    """Return a number with its text and the attributes that trace it.

    Parameters
    ----------
    value : number
        The number.
    statistic : str
        Name of the statistic: ``mean``, ``ratio-lower``, ...
    attributes : mapping of str to str
        Further attributes, see `origin`; empty if they are set on the surrounding line or body.
    decimals : int, optional
        Decimal places. By default four significant digits, and integers in full.
    """
    return Traced(
        written(value, decimals), repr(value), {**attributes, "data-statistic": statistic}
    )


def traced_share(
    share: float, statistic: str, attributes: Mapping[str, str] = _NOTHING, decimals: int = 1
) -> Traced:
    """Return a traced share in percent."""
    text = percentage(share, decimals)
    return Traced(text, repr(100 * share), {**attributes, "data-statistic": statistic})


def counted(keys: str, value: str, statistic: str = "count", **more: str) -> Traced:
    """Return the number of rows with these keys as a traced number."""
    return traced(len(keys.split()), statistic, origin(keys, value, **more))


def estimated(
    estimate: Estimate, statistic: str, attributes: Mapping[str, str] = _NOTHING
) -> Cell:
    """Return a cell with an estimate and, below it, its interval or the reason for its absence."""
    if estimate.value is None:
        return EMPTY
    decimals = decimals_of(estimate)
    main = traced(estimate.value, statistic, attributes, decimals)
    if estimate.interval is None:
        return ((main,), (estimate.why_none,)) if estimate.why_none else ((main,),)
    lower = traced(estimate.interval.lower, f"{statistic}-lower", attributes, decimals)
    upper = traced(estimate.interval.upper, f"{statistic}-upper", attributes, decimals)
    return (main,), (lower, " to ", upper)


def split(cell: Cell) -> tuple[Cell, Cell, Cell]:
    """Return the estimate and the two ends of its interval as three cells."""
    if len(cell) < 2 or len(cell[1]) < 2:
        return (cell[0],), EMPTY, EMPTY
    lower, _, upper = cell[1]
    return (cell[0],), ((lower,),), ((upper,),)


def decimals_of(estimate: Estimate) -> int | None:
    """Return the decimal places that show two significant digits of the interval's half width."""
    value, interval = estimate.value, estimate.interval
    if value is None or interval is None:
        return None
    half = (interval.upper - interval.lower) / 2
    size = max(abs(value), half)
    # An interval this narrow is due to rounding.
    if not math.isfinite(half) or half <= 1e-12 * size or not _SMALL <= size < _LARGE:
        return None
    return max(0, _INTERVAL_DIGITS - 1 - math.floor(math.log10(half)))


def written(value: Number, decimals: int | None = None) -> str:
    """Return a number as shown on the page, with commas between thousands and a minus sign."""
    if not math.isfinite(value):
        text = "∞" if value > 0 else "-∞"
    elif decimals is not None:
        text = f"{value:,.{decimals}f}"
    elif isinstance(value, int) and abs(value) < 10**15:
        text = f"{value:,}"
    elif value == 0:
        text = "0"
    elif _SMALL <= abs(value) < _LARGE:
        text = f"{value:,.{max(0, _DIGITS - 1 - math.floor(math.log10(abs(value))))}f}"
    else:
        text = f"{value:.{_DIGITS - 1}e}"
    return text.replace("-", "−") if "e" not in text else text
