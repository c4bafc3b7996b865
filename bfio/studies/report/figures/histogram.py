"""Histogram: how is a series distributed? Zeros apart, the rest in logarithmic bins."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter

from bfio.studies.report.drawing import Drawing, look
from bfio.studies.report.figures.common import (
    WIDTH,
    Look,
    Panel,
    curve_label,
    drawn_value,
    key_cells,
    key_columns,
    legend,
    marks,
    name_panel,
    nothing,
    panels,
    per_panel,
    plain,
    short_number,
)
from bfio.studies.report.traced import (
    Body,
    Column,
    DataTable,
    Line,
    traced,
    traced_share,
    written,
)
from bfio.studies.report_plan import Figure
from bfio.studies.row import Row
from formulations.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Bins at most, and how many a decade may have.
_MAX_BINS = 40
_PER_DECADE = (10, 5, 2, 1)


def draw(plan: Figure, rows: Sequence[Row]) -> Drawing:
    """Draw how the entries of the series ``plan.y`` are distributed, pooled over each group."""
    done = [row for row in rows if row.is_done and row.series.get(plan.y)]
    if not done:
        return nothing(rows, f"a series {plan.y}")
    edges = _edges([_entries([row], plan.y) for row in done])
    parts = panels(plan, done)
    bodies = []
    with look():
        figure, grid = _canvas(len(parts))
        for (left, right), panel in zip(grid, parts, strict=True):
            bodies += _draw_panel(left, right, plan, panel, edges)
            right.set_xlabel(plain(drawn_value(plan, done)))
        figure.supylabel("share of all entries [%]", fontsize=9)
        legend(figure, [right for _, right in grid], plan.group)
    caption = (
        f"Distribution of {drawn_value(plan, done)} over all entries of the series of a group,"
        f" pooled{per_panel(plan)}: left the share that is exactly 0, right that of each bin, bins"
        f" being equally wide in logarithms. Shares in percent; no intervals."
    )
    columns = [Column(drawn_value(plan, done)), Column("entries"), Column("share", "%")]
    return Drawing(figure, DataTable([*key_columns(plan), *columns], bodies), caption)


def _entries(rows: Sequence[Row], name: str) -> FloatArray:
    pooled = [np.asarray(row.series.get(name, ()), dtype=np.float64) for row in rows]
    values: FloatArray = np.concatenate([*pooled, np.empty(0)])
    return values[np.isfinite(values)]


def _edges(pools: Sequence[FloatArray]) -> list[float]:
    """Return bin edges around all positive entries: powers of ten and even parts of them."""
    positive = [pool[pool > 0] for pool in pools if (pool > 0).any()]
    if not positive:
        return []
    low = math.log10(min(float(pool.min()) for pool in positive))
    high = math.log10(max(float(pool.max()) for pool in positive))
    step = next((n for n in _PER_DECADE if n * (high - low) <= _MAX_BINS - 2), 1)
    # One bin to spare on each side: a power of ten rounds either way.
    first, last = math.floor(low * step), math.floor(high * step) + 1
    edges = [10 ** (k / step) for k in range(first - 1, last + 2)]
    smallest = min(float(pool.min()) for pool in positive)
    largest = max(float(pool.max()) for pool in positive)
    start = max(i for i, edge in enumerate(edges) if edge <= smallest)
    end = min(i for i, edge in enumerate(edges) if edge > largest)
    return edges[start : end + 1]


def _canvas(num_panels: int) -> tuple[Canvas, list[tuple["Axes", "Axes"]]]:
    """Return a figure with a narrow and a wide part per panel."""
    columns = min(num_panels, 2)
    lines = math.ceil(num_panels / columns)
    figure = Canvas(
        figsize=(WIDTH, 3.2 if num_panels == 1 else 2.3 * lines + 0.5), layout="constrained"
    )
    ratios = [1, 7] if columns == 1 else [1, 4, 1, 4]
    grid = figure.subplots(lines, 2 * columns, squeeze=False, width_ratios=ratios)
    pairs = [(line[2 * c], line[2 * c + 1]) for line in grid for c in range(columns)]
    for spare in pairs[num_panels:]:
        for axes in spare:
            axes.set_visible(False)
    return figure, pairs[:num_panels]


def _draw_panel(
    left: "Axes", right: "Axes", plan: Figure, panel: Panel, edges: Sequence[float]
) -> list[Body]:
    """Draw a panel, and return the table of what is in it."""
    bodies = []
    for index, group in enumerate(panel.curves):
        if not group.items:
            continue
        values = _entries(group.items, plan.y)
        zeros, negatives = int((values == 0).sum()), int((values < 0).sum())
        places = np.searchsorted(np.array(edges), values[values > 0], side="right") - 1
        bins = np.bincount(places, minlength=max(len(edges) - 1, 0)).astype(np.int64)
        style, whole = Look.of(index), max(len(values), 1)
        left.bar(index, 100 * zeros / whole, color=style.colour, alpha=0.85)
        if edges:
            shares, name = 100 * bins / whole, curve_label(group)
            right.stairs(shares, edges, color=style.colour, ls=style.dashes, lw=1.4, label=name)
        found = [("below 0", negatives, "-inf", "0")] if negatives else []
        found.append(("0", zeros, "0", "0"))
        for low, high, count in zip(edges, edges[1:], bins.tolist(), strict=False):
            if count:
                found.append((f"{written(low)} to {written(high)}", count, repr(low), repr(high)))
        lines = []
        for place, count, start, end in found:
            share = traced_share(count / whole, "entries-percent", decimals=2)
            numbers = ((traced(count, "entries"),),), ((share,),)
            cells = [*key_cells(plan, group.items), ((place,),), *numbers]
            lines.append(Line(cells, {"data-from": start, "data-to": end}))
        bodies.append(Body(lines, marks(group.items, value=plan.y)))
    if edges:
        right.set_xscale("log")
    for axes in (left, right):
        if "y" in plan.log and math.isfinite(axes.yaxis.get_minpos()):
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: short_number(y)))
    left.set_xticks([(len(panel.curves) - 1) / 2], ["0"])
    left.tick_params(axis="x", length=0)
    left.grid(visible=False, axis="x")
    name_panel(right, panel)
    return bodies
