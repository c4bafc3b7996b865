"""Trajectory: how does a series evolve? Its mean over the rows of a group, with a band."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bfio.common.metrics import Domain
from bfio.common.statistics import student_t
from bfio.studies.report.drawing import Drawing
from bfio.studies.report.figures.common import (
    Look,
    curve_label,
    drawn_value,
    framed,
    key_cells,
    marks,
    nothing,
    panels,
    per_panel,
    plain,
    short_number,
    value_axes,
)
from bfio.studies.report.figures.points import mean_columns
from bfio.studies.report.selection import Group, distinct, domain_of
from bfio.studies.report.statistics import ROUNDING, Estimate, Interval, interval_within
from bfio.studies.report.traced import (
    Body,
    DataTable,
    Line,
    estimated,
    split,
    traced,
)
from bfio.studies.report_plan import Figure
from bfio.studies.row import Row
from formulations.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    pass

#: Points of a curve at most; longer series are averaged over blocks.
_MAX_BLOCKS = 120


@dataclass(frozen=True)
class _Curve:
    """Mean over rows in each block of indices, its interval, and the rows that reach it."""

    mean: FloatArray
    lower: FloatArray
    upper: FloatArray
    count: IntArray


def draw(plan: Figure, rows: Sequence[Row]) -> Drawing:
    """Draw the series ``plan.y`` over its index (called ``plan.x``), averaged over each group.

    A row counts as far as its series reaches. Series longer than 120 entries are averaged over
    blocks of indices, first within each row, then over rows.
    """
    done = [row for row in rows if row.is_done and row.series.get(plan.y)]
    if not done:
        return nothing(rows, f"a series {plan.y}")
    length = max(len(row.series[plan.y]) for row in done)
    edges = np.unique(np.linspace(0, length, min(length, _MAX_BLOCKS) + 1).astype(np.int64))
    middle = (edges[:-1] + edges[1:] - 1) / 2
    parts = panels(plan, done)
    along = plan.x or "index"
    bodies, lowest = [], np.inf
    with framed(plan, parts) as (figure, grid):
        for axes, panel in grid:
            for index, group in enumerate(panel.curves):
                if group.items:
                    own = distinct(group.items, plan.y)
                    domain = domain_of(own, plan.y, log="y" in plan.log)
                    curve = _curve(_block_means(own, plan.y, edges), domain)
                    style = Look.of(index)
                    axes.plot(middle, curve.mean, label=curve_label(group), **style.line)
                    # Of two rows the interval is so wide that it would set the scale.
                    ends = np.where(curve.count > 2, (curve.lower, curve.upper), np.nan)
                    axes.fill_between(middle, *ends, color=style.colour, alpha=0.2, linewidth=0)
                    lowest = min(lowest, float(np.nanmin(curve.mean, initial=np.inf)))
                    bodies.append(_body(plan, group, edges, curve))
            axes.set_xlabel(plain(along))
            axes.xaxis.set_major_formatter(lambda x, _: short_number(x))
            if "x" in plan.log and math.isfinite(axes.xaxis.get_minpos()):
                axes.set_xscale("log")
        value_axes(grid, drawn_value(plan, done), log="y" in plan.log)
        if lowest >= 0 and grid[0][0].get_yscale() == "linear":
            grid[0][0].set_ylim(bottom=0)
    is_whole = len(edges) - 1 == edges[-1]
    blocks = "" if is_whole else f" Neighbouring values of {along} are averaged."
    caption = (
        f"{drawn_value(plan, done)} over {along}{per_panel(plan)}. Mean over rows, each as far as"
        f" its series reaches; band: its 95 % Student-t interval (of logarithms for what is 0 or"
        f" more, of log odds for shares), where three rows or more differ.{blocks}"
    )
    return Drawing(figure, DataTable(mean_columns(plan, done, along), bodies), caption)


def _block_means(rows: Sequence[Row], name: str, edges: IntArray) -> FloatArray:
    """Return the mean of each row's series in each block; NaN where it has no entry."""
    means = np.empty((len(rows), len(edges) - 1))
    for place, row in enumerate(rows):
        series = np.asarray(row.series[name], dtype=np.float64)
        padded = np.full(int(edges[-1]), np.nan)
        padded[: len(series)] = series
        known = np.isfinite(padded)
        counts = np.add.reduceat(known, edges[:-1], dtype=np.int64)
        sums = np.add.reduceat(np.where(known, padded, 0.0), edges[:-1])
        means[place] = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return means


def _curve(means: FloatArray, domain: Domain) -> _Curve:
    """Return mean and t interval down the rows, which are NaN where a series has ended.

    Intervals are NaN where all rows are equal.
    """
    known = np.isfinite(means)
    count = known.sum(axis=0)
    some = np.maximum(count, 1)
    mean = np.where(known, means, 0.0).sum(axis=0) / some
    squares = np.where(known, (means - mean) ** 2, 0.0).sum(axis=0)
    several = np.maximum(count - 1, 1)
    quantiles = np.array([student_t(int(n)) for n in several])
    half = quantiles * np.sqrt(squares / several / some)
    differ = (count > 1) & (half > ROUNDING * np.abs(mean))
    if not domain.holds(float(means[known].min())) or not domain.holds(float(means[known].max())):
        domain = Domain.REAL
    ends = np.full((2, len(mean)), np.nan)
    for k in np.flatnonzero(differ):
        interval = interval_within(float(mean[k]), float(half[k]), domain)
        ends[:, k] = interval.lower, interval.upper
    mean = np.where(count > 0, mean, np.nan)
    return _Curve(mean, ends[0], ends[1], count.astype(np.int64))


def _body(plan: Figure, group: Group[Row], edges: IntArray, curve: _Curve) -> Body:
    keys = key_cells(plan, group.items)
    lines = []
    for block in range(len(curve.mean)):
        first, end = int(edges[block]), int(edges[block + 1])
        if curve.count[block] == 0:
            continue
        interval = None
        if np.isfinite(curve.lower[block]):
            interval = Interval(float(curve.lower[block]), float(curve.upper[block]))
        estimate = Estimate(float(curve.mean[block]), interval, int(curve.count[block]))
        place = f"{first}" if end == first + 1 else f"{first} to {end - 1}"
        cells = [*keys, ((place,),), *split(estimated(estimate, "series-mean"))]
        cells.append(((traced(estimate.count, "series-rows"),),))
        lines.append(Line(cells, {"data-from": str(first), "data-to": str(end)}))
    return Body(lines, marks(distinct(group.items, plan.y), value=plan.y))
