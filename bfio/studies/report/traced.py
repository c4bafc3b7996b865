"""Numbers that say which rows they come from, and the tables and sentences they stand in."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from bfio.common.number_text import percentage
from bfio.studies.report.statistics import Estimate, Number
from bfio.studies.row import DASH

#: Significant digits of a number without interval, and of the half-width of an interval.
_DIGITS, _INTERVAL_DIGITS = 4, 2
_LARGE, _SMALL = 1e9, 1e-4
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Traced:
    """A number on the page.

    Parameters
    ----------
    text : str
        As shown.
    exact : str
        All digits.
    attributes : mapping of str to str
        What it was made of: ``data-keys`` (rows), ``data-value`` (value or series),
        ``data-statistic`` and others. What is not here stands at an element around it.
    """

    text: str
    exact: str
    attributes: Mapping[str, str]


#: A sentence, or a line of a cell: texts and numbers in turn.
Phrase: TypeAlias = Sequence[str | Traced]
#: A cell of a table: its main line, and small ones below.
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
    """A line of a table; its attributes hold for all its numbers."""

    cells: Sequence[Cell]
    attributes: Mapping[str, str] = field(default_factory=dict)
    is_published: bool = False


@dataclass(frozen=True)
class Body:
    """Lines of a table; its attributes hold for all their numbers."""

    lines: Sequence[Line]
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DataTable:
    """A table of traced numbers."""

    columns: Sequence[Column]
    bodies: Sequence[Body]

    @property
    def lines(self) -> list[Line]:
        """All its lines."""
        return [line for body in self.bodies for line in body.lines]


def origin(keys: str, value: str, **more: str) -> Mapping[str, str]:
    """Return the attributes that trace a number: rows, name of the value, and others."""
    named = {"keys": keys, "value": value, **more}
    return {f"data-{name.replace('_', '-')}": text for name, text in named.items()}


def traced(
    value: Number,
    statistic: str,
    attributes: Mapping[str, str] = _NOTHING,
    decimals: int | None = None,
) -> Traced:
    """Return a traced number.

    Parameters
    ----------
    value : number
        The number.
    statistic : str
        What it is of its rows: ``mean``, ``ratio-lower``, ...
    attributes : mapping of str to str
        The others, see `origin`; none where they stand at the line or body around it.
    decimals : int, optional
        Digits after the point; without it four significant ones, and integers whole.
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
    """Return the number of these rows."""
    return traced(len(keys.split()), statistic, origin(keys, value, **more))


def estimated(
    estimate: Estimate, statistic: str, attributes: Mapping[str, str] = _NOTHING
) -> Cell:
    """Return a cell with an estimate and, below it, its interval or why there is none."""
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
    """Return digits after the point that show two digits of the interval's half-width."""
    value, interval = estimate.value, estimate.interval
    if value is None or interval is None:
        return None
    half = (interval.upper - interval.lower) / 2
    size = max(abs(value), half)
    # Narrower than doubles can tell: rounding, not spread.
    if not math.isfinite(half) or half <= 1e-12 * size or not _SMALL <= size < _LARGE:
        return None
    return max(0, _INTERVAL_DIGITS - 1 - math.floor(math.log10(half)))


def written(value: Number, decimals: int | None = None) -> str:
    """Return a number as the page shows it, with commas between thousands and a true minus."""
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
