"""Lines: how does a value depend on an argument? Means with intervals."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bfio.studies.report.drawing import Drawing
from bfio.studies.report.figures.common import (
    Look,
    Places,
    curve_label,
    drawn_value,
    framed,
    nothing,
    panels,
    per_panel,
    value_axes,
)
from bfio.studies.report.figures.points import (
    MEANS,
    Point,
    bars,
    columns,
    draw_bars,
    has_values,
    line,
    points,
    without_interval,
)
from bfio.studies.report.selection import keys_of
from bfio.studies.report.traced import Body, DataTable, Phrase, counted
from bfio.studies.report_plan import Figure
from bfio.studies.row import Row

if TYPE_CHECKING:
    pass

#: Curves over words stand this far apart, so that their bars do not hide each other.
_DODGE = 0.06


def draw(plan: Figure, rows: Sequence[Row]) -> Drawing:
    """Draw means of ``plan.y`` with 95 % intervals along ``plan.x``, one curve per group."""
    done = [row for row in rows if row.is_done]
    if not has_values(plan, done):
        return nothing(rows, f"a value {plan.y}")
    places = Places.of(done, plan.x)
    parts = panels(plan, done)
    lines, found_points = [], list[Point]()
    with framed(plan, parts) as (figure, grid):
        for axes, panel in grid:
            for index, curve in enumerate(panel.curves):
                found = list(points(plan, curve, places))
                lines += [line(plan, point) for point in found]
                found_points += found
                shift = 0 if places.is_numeric else _DODGE * (index - (len(panel.curves) - 1) / 2)
                drawn = [point for point in found if point.estimate.value is not None]
                x, style = [places[point.x] + shift for point in drawn], Look.of(index)
                dashes = style.dashes if places.is_numeric else "none"
                draw_bars(axes, x, bars(drawn), style, curve_label(curve), dashes)
            places.label(axes, plan.x, log="x" in plan.log)
        value_axes(grid, drawn_value(plan, done), log="y" in plan.log)
    caption = f"{drawn_value(plan, done)} against {plan.x}{per_panel(plan)}. {MEANS}."
    notes = [*_said(plan, found_points, places), *without_interval(plan, found_points)]
    return Drawing(figure, DataTable(columns(plan, done), [Body(lines)]), caption, notes)


def _said(plan: Figure, found: Sequence[Point], places: Places) -> list[Phrase]:
    """Return what is to be said of points that have no place on a logarithmic axis."""
    drawn = [point for point in found if point.estimate.value is not None]
    along = [places[point.x] for point in drawn]
    up = [point.estimate.value or 0 for point in drawn]
    # An axis on which nothing is positive is not logarithmic.
    is_log_x = "x" in plan.log and places.is_numeric and max(along) > 0
    is_log_y = "y" in plan.log and max(up) > 0
    hidden = [
        point
        for point, x, y in zip(drawn, along, up, strict=True)
        if (is_log_x and x <= 0) or (is_log_y and y <= 0)
    ]
    if not hidden:
        return []
    keys = keys_of(row for point in hidden for row in point.rows)
    where = f"whose {plan.x} or mean {plan.y} is not positive, which a logarithmic axis lacks"
    return [("Rows not drawn: ", counted(keys, plan.y, "not-drawn"), f", in points {where}.")]
