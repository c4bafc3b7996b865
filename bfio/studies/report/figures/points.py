"""Means with intervals over the rows of a point: what lines, scaling and heat maps draw."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from bfio.studies.report.figures.common import (
    Look,
    Places,
    drawn_unit,
    key_cells,
    key_columns,
    marks,
)
from bfio.studies.report.selection import (
    Group,
    distinct,
    estimate_of,
    keys_of,
    label,
    number_of,
)
from bfio.studies.report.statistics import Estimate
from bfio.studies.report.traced import (
    Column,
    Line,
    Phrase,
    counted,
    estimated,
    split,
    traced,
)
from bfio.studies.report_plan import Figure, FigureKind, Statistic
from bfio.studies.row import Row, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Means, and the lengths of their error bars below and above.
Bars: TypeAlias = tuple[list[float], list[list[float]]]
#: What intervals of means are, for captions.
MEANS = (
    "Means over the rows of a point, with 95 % Student-t intervals (of logarithms for what is 0 or"
    " more, of log odds for shares) where the rows differ"
)


@dataclass(frozen=True)
class Point:
    """The rows of a curve at one value of x, and their mean."""

    x: Value
    rows: Sequence[Row]
    estimate: Estimate


def points(plan: Figure, curve: Group[Row], places: Places) -> Iterator[Point]:
    """Yield the points of a curve along x; one whose values are all undefined has no mean."""
    for cell in places.cells(curve.items, plan.x):
        is_log = "y" in plan.log or plan.kind is FigureKind.SCALING
        estimate = estimate_of(cell.items, plan.y, Statistic.MEAN, log=is_log)
        yield Point(cell.values[0], distinct(cell.items, plan.y), estimate)


def columns(plan: Figure, rows: Sequence[Row]) -> list[Column]:
    """Return the columns of the data table of points."""
    return [*mean_columns(plan, rows, plan.x), Column("undefined")]


def mean_columns(plan: Figure, rows: Sequence[Row], along: str) -> list[Column]:
    """Return the columns of a data table of means with intervals along something."""
    unit = drawn_unit(plan, rows)
    values = [Column(name, unit) for name in (f"mean {plan.y}", "lower", "upper")]
    return [*key_columns(plan), Column(along), *values, Column("rows")]


def line(plan: Figure, point: Point) -> Line:
    """Return the line of the data table for a point."""
    keys = key_cells(plan, point.rows)
    numbers = split(estimated(point.estimate, "mean"))
    used = traced(point.estimate.count, "defined")
    undefined = traced(point.estimate.undefined, "undefined")
    cells = [*keys, ((label(point.x),),), *numbers, ((used,),), ((undefined,),)]
    return Line(cells, marks(point.rows, value=plan.y))


def has_values(plan: Figure, rows: Sequence[Row]) -> bool:
    """Return whether any of the rows has the value that is drawn."""
    return any(number_of(row, plan.y) is not None for row in rows)


def draw_bars(
    axes: "Axes", x: Sequence[float], bars: Bars, style: Look, name: str, line: str = "none"
) -> None:
    """Draw means with their error bars at these places, joined by a line if one is named."""
    means, lengths = bars
    look: dict[str, Any] = {"linestyle": line, "marker": style.marker, "markersize": 4}
    look |= {"color": style.colour, "capsize": 2, "elinewidth": 1}
    axes.errorbar(x, means, yerr=lengths, label=name, **look)


def without_interval(plan: Figure, found: Sequence[Point]) -> list[Phrase]:
    """Return what is to be said of points of several rows that have no interval."""
    equal = [point for point in found if point.estimate.why_none]
    if not equal:
        return []
    keys = keys_of(row for point in equal for row in point.rows)
    count = counted(keys, plan.y, "no-interval")
    return [("Rows of points without an interval, being equal: ", count, ".")]


def bars(drawn: Sequence[Point]) -> Bars:
    """Return means and the lengths of their error bars, as matplotlib wants them."""
    means = [float(point.estimate.value or 0) for point in drawn]
    below, above = [], []
    for mean, point in zip(means, drawn, strict=True):
        interval = point.estimate.interval
        below.append(mean - interval.lower if interval else 0.0)
        above.append(interval.upper - mean if interval else 0.0)
    return means, [below, above]
