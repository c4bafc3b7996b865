"""Scaling: how does a value grow with an argument? Log-log, with a fitted power law."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

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
    refuse,
    value_axes,
)
from bfio.studies.report.figures.points import (
    MEANS,
    bars,
    columns,
    draw_bars,
    has_values,
    line,
    points,
    without_interval,
)
from bfio.studies.report.power_laws import Fit, fitted
from bfio.studies.report.selection import Group, keys_of
from bfio.studies.report.traced import (
    Body,
    DataTable,
    Phrase,
    Traced,
    counted,
    estimated,
    origin,
    traced,
)
from bfio.studies.report_plan import Figure
from bfio.studies.row import Row

if TYPE_CHECKING:
    pass


def draw(plan: Figure, rows: Sequence[Row]) -> Drawing:
    """Draw means of ``plan.y`` along ``plan.x`` in log-log axes with fitted power laws."""
    done = [row for row in rows if row.is_done]
    if not has_values(plan, done):
        return nothing(rows, f"a value {plan.y}")
    places = Places.of(done, plan.x)
    if not places.is_numeric or any(places[value] <= 0 for value in places.values):
        raise refuse(plan, f"{plan.x} is not a positive number in every row", "choose another x")
    lines, notes = [], list[Phrase]()
    parts = panels(plan, done)
    heading = f"{', '.join(plan.group)}{' (exponent)' if len(parts) == 1 else ''}"
    names = [heading] if plan.group else ()
    with framed(plan, parts, height=3.0, share_y=False, names=names) as (figure, grid):
        for axes, panel in grid:
            for index, curve in enumerate(panel.curves):
                found = list(points(plan, curve, places))
                fit = fitted(curve.items, plan.x, plan.y)
                name, style = curve_label(curve), Look.of(index)
                if fit.law is not None and len(parts) == 1:
                    name = f"{name}  ({fit.law.exponent:.2f})"
                # A mean that is not positive has no place on a logarithmic axis; the data table
                # has it.
                drawn = [p for p in found if p.estimate.value is not None and p.estimate.value > 0]
                if drawn:
                    x = [places[point.x] for point in drawn]
                    means, (below, above) = bars(drawn)
                    below = [min(low, 0.999 * y) for low, y in zip(below, means, strict=True)]
                    draw_bars(axes, x, (means, [below, above]), style, name)
                if drawn and fit.law is not None:
                    ends = np.array([min(x), max(x)])
                    axes.plot(ends, fit.law.scale * ends**fit.law.exponent, lw=1, **style.line)
                lines += [line(plan, point) for point in found]
                notes += _said(plan, panel.label, curve, fit)
                notes += without_interval(plan, found)
            places.label(axes, plan.x, log=True)
            value_axes([(axes, panel)], drawn_value(plan, done), log=True)
    caption = (
        f"{drawn_value(plan, done)} against {plan.x}, both logarithmic{per_panel(plan)}. {MEANS};"
        " lines: power laws fitted by least squares to the logarithms of all rows, with the"
        " exponents below."
    )
    return Drawing(figure, DataTable(columns(plan, done), [Body(lines)]), caption, notes)


def _said(plan: Figure, panel: str, curve: Group[Row], fit: Fit) -> list[Phrase]:
    """Return the exponent of a curve, and what its fit leaves out."""
    name = ", ".join(text for text in (panel, curve.label) if text) or plan.y
    sentences: list[Phrase] = []
    if fit.law is not None:
        keys = keys_of(fit.used)
        attributes = origin(keys, plan.y, x=plan.x)
        main, *interval = estimated(fit.exponent(), "exponent", attributes)
        told: list[str | Traced] = [f"{name}: exponent ", *main]
        if interval:
            told += [" (", *interval[0], ")"]
        elif fit.law.count > 2:
            told.append(" (no interval: all on one line)")
        scale = traced(fit.law.scale, "scale", attributes)
        rows = counted(keys, plan.y, "defined")
        sentences.append([*told, ", factor ", scale, ", ", rows, " rows."])
    if fit.refused:
        left_out = counted(keys_of(fit.refused), plan.y, "not-positive")
        why = f" rows left out of the fit, {plan.y} not being positive."
        sentences.append((f"{name}: ", left_out, why))
    return sentences
