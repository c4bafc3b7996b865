"""Lines: how does a value depend on an argument? Means with intervals."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bfio.studies.report.drawing import Drawing, look
from bfio.studies.report.figures.common import (
    Look,
    Places,
    canvas,
    curve_label,
    label_outer,
    legend,
    nothing,
    panels,
    per_panel,
    plain,
    value_axes,
)
from bfio.studies.report.figures.points import (
    MEANS,
    Point,
    bars,
    columns,
    has_values,
    line,
    points,
)
from bfio.studies.report.glossary import with_unit
from bfio.studies.report.traced import Body, DataTable
from bfio.studies.report_plan import Figure
from bfio.studies.row import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Curves over words stand this far apart, so that their bars do not hide each other.
_DODGE = 0.06


def draw(plan: Figure, rows: Sequence[Row]) -> Drawing:
    """Draw means of ``plan.y`` with 95 % intervals along ``plan.x``, one curve per group."""
    done = [row for row in rows if row.is_done]
    if not has_values(plan, done):
        return nothing(rows, f"a value {plan.y}")
    places = Places.of(done, plan.x)
    parts = panels(plan, done)
    lines = []
    with look():
        figure, grid = canvas(len(parts))
        for axes, panel in zip(grid, parts, strict=True):
            for index, curve in enumerate(panel.curves):
                found = list(points(plan, curve, places))
                lines += [line(plan, point) for point in found]
                shift = 0 if places.is_numeric else _DODGE * (index - (len(panel.curves) - 1) / 2)
                _draw_curve(axes, found, places, shift, Look.of(index), curve_label(curve))
            axes.set_title(plain(panel.label))
            places.label(axes, plan.x, log="x" in plan.log)
        value_axes(grid, with_unit(plan.y), log="y" in plan.log)
        label_outer(figure, grid)
        legend(figure, grid, plan.group)
    caption = f"{with_unit(plan.y)} against {plan.x}{per_panel(plan)}. {MEANS}."
    return Drawing(figure, DataTable(columns(plan), [Body(lines)]), caption)


def _draw_curve(
    axes: "Axes", found: Sequence[Point], places: Places, shift: float, style: Look, name: str
) -> None:
    drawn = [point for point in found if point.estimate.value is not None]
    means, lengths = bars(drawn)
    axes.errorbar(
        [places[point.x] + shift for point in drawn],
        means,
        yerr=lengths,
        color=style.colour,
        linestyle=style.dashes if places.is_numeric else "none",
        marker=style.marker,
        markersize=4,
        capsize=2,
        elinewidth=1,
        label=name,
    )
