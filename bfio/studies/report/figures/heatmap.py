"""Heat map: how does a value depend on two arguments? Means, written into the cells."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LogNorm, Normalize

from bfio.studies.report.drawing import Drawing, look
from bfio.studies.report.figures.common import (
    Places,
    canvas,
    drawn_value,
    label_outer,
    name_panel,
    nothing,
    panels,
    plain,
    short_number,
)
from bfio.studies.report.figures.points import MEANS, columns, has_values, line, points
from bfio.studies.report.selection import Group, label
from bfio.studies.report.statistics import as_number
from bfio.studies.report.traced import Body, DataTable
from bfio.studies.report_plan import Figure
from bfio.studies.row import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

    from formulations.arrays import FloatArray

_MAX_WRITTEN = 300


def draw(plan: Figure, rows: Sequence[Row]) -> Drawing:
    """Draw means of ``plan.y``: columns by ``plan.x``, lines by the groups."""
    done = [row for row in rows if row.is_done]
    if not has_values(plan, done):
        return nothing(rows, f"a value {plan.y}")
    across = Places.of(done, plan.x)
    parts = panels(plan, done)
    order = _order(parts[0].curves)
    found = [
        [list(points(plan, panel.curves[index], across)) for index in order] for panel in parts
    ]
    means = [np.full((len(order), len(across.values)), np.nan) for _ in parts]
    for field, shown in zip(means, found, strict=True):
        for index, curve in enumerate(shown):
            for point in curve:
                if point.estimate.value is not None:
                    field[index, across.place(point.x)] = point.estimate.value
    values = np.concatenate([field[np.isfinite(field)] for field in means])
    is_log = "y" in plan.log and values.min() > 0
    norm = (LogNorm if is_log else Normalize)(values.min(), values.max())
    with look():
        lines = len(order)
        figure, grid = canvas(len(parts), height=max(1.6, 0.32 * lines + 0.9))
        if len(parts) == 1:
            figure.set_figheight(max(2.4, 0.36 * lines + 1.2))
        names = [plain(parts[0].curves[index].label) for index in order]
        for axes, panel, field in zip(grid, parts, means, strict=True):
            mesh = _draw_panel(axes, field, across, names, norm)
            name_panel(axes, panel)
            axes.set_xlabel(plain(plan.x))
            axes.set_ylabel(plain(", ".join(plan.group)))
        label_outer(figure, grid)
        figure.colorbar(mesh, ax=grid, label=plain(drawn_value(plan, done)))
    caption = (
        f"Mean {drawn_value(plan, done)} by {plan.x} and {', '.join(plan.group)}"
        f"{f', one panel per {plan.panel}' if plan.panel else ''}; empty: no row done. {MEANS} in"
        " the table."
    )
    body = Body([line(plan, point) for panel in found for curve in panel for point in curve])
    return Drawing(figure, DataTable(columns(plan, done), [body]), caption)


def _order(curves: Sequence[Group[Row]]) -> list[int]:
    """Return the order of the lines: numbers sorted, words as planned."""
    indices = list(range(len(curves)))
    numbers = [as_number(curve.values[0]) for curve in curves]
    is_sorted = len(curves[0].values) == 1 and None not in numbers
    if is_sorted and not any(isinstance(curve.values[0], bool) for curve in curves):
        return sorted(indices, key=lambda index: numbers[index] or 0)
    return indices


def _draw_panel(
    axes: "Axes", field: "FloatArray", across: Places, names: Sequence[str], norm: Normalize
) -> "QuadMesh":
    mesh = axes.pcolormesh(
        np.ma.masked_invalid(field), norm=norm, cmap="cividis", edgecolors="white", linewidth=1
    )
    axes.grid(visible=False)
    axes.set_xticks(np.arange(field.shape[1]) + 0.5, [plain(label(v)) for v in across.values])
    axes.set_yticks(np.arange(field.shape[0]) + 0.5, names)
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if field.size <= _MAX_WRITTEN:
        for (low, high), value in np.ndenumerate(field):
            if np.isfinite(value):
                text = short_number(float(f"{value:.3g}"))
                look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
                colour = "white" if norm(value) < 0.55 else "black"
                axes.text(high + 0.5, low + 0.5, text, color=colour, **look)
    return mesh
