"""Draw the figures of reports: one function for each `FigureKind`."""

import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.ticker import FuncFormatter

from bfio.common.metrics import Domain
from bfio.common.statistics import student_t
from bfio.studies.report.drawing import (
    MEANS,
    Drawing,
    Look,
    Panel,
    Places,
    Point,
    bars,
    canvas,
    columns,
    draw_bars,
    drawn_value,
    framed,
    key_cells,
    key_columns,
    label_outer,
    legend,
    line,
    look,
    mean_columns,
    name_panel,
    panels,
    per_panel,
    plain,
    points,
    short_number,
    value_axes,
    without_interval,
)
from bfio.studies.report.selection import (
    Fit,
    Group,
    distinct,
    domain_of,
    fitted,
    keys_of,
    number_of,
    varying,
)
from bfio.studies.report.statistics import (
    ROUNDING,
    Estimate,
    Number,
    interval_within,
)
from bfio.studies.report.traced import (
    Body,
    Column,
    DataTable,
    Line,
    Phrase,
    Traced,
    counted,
    estimated,
    origin,
    split,
    traced,
    traced_share,
    written,
)
from bfio.studies.report_plan import Figure, FigureKind
from bfio.studies.row import Row, identity, label
from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh


def draw(plan: Figure, rows: Sequence[Row]) -> Drawing:
    """Draw a figure from the computed rows that match its plan.

    Parameters
    ----------
    plan : Figure
        The planned figure.
    rows : sequence of Row
        Computed rows of any status. Only rows that are done are drawn.

    Raises
    ------
    InputError
        If the rows cannot be drawn as planned, e.g. log-log axes for values that are not positive.
    """
    what, chosen = "a value", [row for row in rows if row.is_done]
    if plan.kind in (FigureKind.TRAJECTORY, FigureKind.HISTOGRAM):
        what, chosen = "a series", [row for row in chosen if row.series.get(plan.y)]
    elif not any(number_of(row, plan.y) is not None for row in chosen):
        chosen = []
    if not chosen:
        why = (
            f"no successful row has {what} {plan.y}"
            if rows
            else "no computed row meets the conditions"
        )
        return Drawing(None, DataTable((), ()), f"Nothing to draw: {why}.")
    if plan.kind is FigureKind.PERFORMANCE_PROFILE:
        return draw_performance_profile(plan, rows)
    return _DRAWN[plan.kind](plan, chosen)


#: Horizontal offset between curves over categories, so that their error bars do not overlap.
_DODGE = 0.06


def draw_lines(plan: Figure, done: Sequence[Row]) -> Drawing:
    """Draw means of ``plan.y`` with 95 % intervals along ``plan.x``, one curve per group."""
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
                draw_bars(axes, x, bars(drawn), style, plain(curve.label), dashes)
            places.label(axes, plan.x, log="x" in plan.log)
        value_axes(grid, drawn_value(plan, done), log="y" in plan.log)
    caption = f"{drawn_value(plan, done)} against {plan.x}{per_panel(plan)}. {MEANS}."
    notes = [*_hidden_points(plan, found_points, places), *without_interval(plan, found_points)]
    return Drawing(figure, DataTable(columns(plan, done), [Body(lines)]), caption, notes)


def _hidden_points(plan: Figure, found: Sequence[Point], places: Places) -> list[Phrase]:
    """Return a note on the points that a logarithmic axis cannot show."""
    drawn = [point for point in found if point.estimate.value is not None]
    along = [places[point.x] for point in drawn]
    up = [point.estimate.value or 0 for point in drawn]
    # An axis without positive values stays linear.
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
    where = f"whose {plan.x} or mean {plan.y} is not positive (logarithmic axis)"
    return [("Rows not drawn: ", counted(keys, plan.y, "not-drawn"), f", in points {where}.")]


def draw_scaling(plan: Figure, done: Sequence[Row]) -> Drawing:
    """Draw means of ``plan.y`` along ``plan.x`` in log-log axes with fitted power laws."""
    places = Places.of(done, plan.x)
    if not places.is_numeric or any(places[value] <= 0 for value in places.values):
        what = f"{plan.x} is not a positive number in every row"
        raise InputError(plan.place, what, "choose another x")
    lines, notes = [], list[Phrase]()
    parts = panels(plan, done)
    heading = f"{', '.join(plan.group)}{' (exponent)' if len(parts) == 1 else ''}"
    names = [heading] if plan.group else ()
    with framed(plan, parts, height=3.0, share_y=False, names=names) as (figure, grid):
        for axes, panel in grid:
            for index, curve in enumerate(panel.curves):
                found = list(points(plan, curve, places))
                fit = fitted(curve.items, plan.x, plan.y)
                name, style = plain(curve.label), Look.of(index)
                if fit.law is not None and len(parts) == 1:
                    name = f"{name}  ({fit.law.exponent:.2f})"
                # A logarithmic axis cannot show a mean <= 0. The data table still lists it.
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
                notes += _fit_sentences(plan, panel.label, curve, fit)
                notes += without_interval(plan, found)
            places.label(axes, plan.x, log=True)
            value_axes([(axes, panel)], drawn_value(plan, done), log=True)
    caption = (
        f"{drawn_value(plan, done)} against {plan.x}, both logarithmic{per_panel(plan)}. {MEANS};"
        " lines: power laws fitted by least squares to the logarithms of all rows, with the"
        " exponents below."
    )
    return Drawing(figure, DataTable(columns(plan, done), [Body(lines)]), caption, notes)


def _fit_sentences(plan: Figure, panel: str, curve: Group[Row], fit: Fit) -> list[Phrase]:
    """Return a sentence with the fitted exponent of a curve and the number of rows not fitted."""
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
            told.append(" (no interval: all points on one line)")
        scale = traced(fit.law.scale, "scale", attributes)
        rows = counted(keys, plan.y, "defined")
        sentences.append([*told, ", factor ", scale, ", ", rows, " rows."])
    if fit.refused:
        left_out = counted(keys_of(fit.refused), plan.y, "not-positive")
        why = f" rows left out of the fit, because {plan.y} is not positive."
        sentences.append((f"{name}: ", left_out, why))
    return sentences


_MAX_WRITTEN = 300


def draw_heatmap(plan: Figure, done: Sequence[Row]) -> Drawing:
    """Draw means of ``plan.y`` as a heatmap: a column per ``plan.x`` value, a line per group."""
    across = Places.of(done, plan.x)
    parts = panels(plan, done)
    curves = parts[0].curves
    order = list(range(len(curves)))
    if len(plan.group) == 1:
        # Numbers ascending, other values as planned.
        up = Places.of(done, plan.group[0])
        order.sort(key=lambda index: up[curves[index].values[0]])
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
        names = [plain(curves[index].label) for index in order]
        for axes, panel, field in zip(grid, parts, means, strict=True):
            mesh = _draw_field(axes, field, across, names, norm)
            name_panel(axes, panel)
            axes.set_xlabel(plain(plan.x))
            axes.set_ylabel(plain(", ".join(plan.group)))
        label_outer(figure, grid)
        figure.colorbar(mesh, ax=grid, label=plain(drawn_value(plan, done)))
    caption = (
        f"Mean {drawn_value(plan, done)} by {plan.x} and {', '.join(plan.group)}"
        f"{f', one panel per {plan.panel}' if plan.panel else ''}; empty: no result. {MEANS} in"
        " the table."
    )
    body = Body([line(plan, point) for panel in found for curve in panel for point in curve])
    return Drawing(figure, DataTable(columns(plan, done), [body]), caption)


def _draw_field(
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


#: Largest number of bins, and the allowed numbers of bins per decade.
_MAX_BINS = 40
_PER_DECADE = (10, 5, 2, 1)


def draw_histogram(plan: Figure, done: Sequence[Row]) -> Drawing:
    """Draw the distribution of the entries of the series ``plan.y``, pooled over each group."""
    edges = _edges(_entries(done, plan.y))
    parts = panels(plan, done)
    bodies = []
    with look():
        # Each panel has a narrow axes for zeros and a wide one for bins.
        is_single = len(parts) == 1
        figure, axes = canvas(len(parts), share_y=False, widths=(1, 7 if is_single else 4))
        if is_single:
            figure.set_figheight(3.2)
        grid = list(zip(axes[::2], axes[1::2], strict=True))
        for (left, right), panel in zip(grid, parts, strict=True):
            bodies += _draw_histogram(left, right, plan, panel, edges)
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


def _edges(entries: FloatArray) -> list[float]:
    """Return bin edges that cover all positive entries, evenly spaced in logarithms."""
    positive = entries[entries > 0].tolist()
    if not positive:
        return []
    smallest, largest = min(positive), max(positive)
    low, high = math.log10(smallest), math.log10(largest)
    step = next((n for n in _PER_DECADE if n * (high - low) <= _MAX_BINS - 2), 1)
    # Add one bin on each side, because a power of ten may be rounded up or down.
    first, last = math.floor(low * step), math.floor(high * step) + 1
    edges = [10 ** (k / step) for k in range(first - 1, last + 2)]
    return edges[bisect_right(edges, smallest) - 1 : bisect_right(edges, largest) + 1]


def _draw_histogram(
    left: "Axes", right: "Axes", plan: Figure, panel: Panel, edges: Sequence[float]
) -> list[Body]:
    """Draw a histogram panel and return the bodies of its data table."""
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
            shares, name = 100 * bins / whole, plain(group.label)
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
        bodies.append(Body(lines, origin(keys_of(group.items), plan.y)))
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


#: Largest number of points of a curve. Longer series are averaged over blocks.
_MAX_BLOCKS = 120


def draw_trajectory(plan: Figure, done: Sequence[Row]) -> Drawing:
    """Draw the series ``plan.y`` over its index (called ``plan.x``), averaged over each group.

    A row contributes up to the end of its series. Series longer than 120 entries are averaged over
    blocks of indices, first within each row, then over rows.
    """
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
                    style, mean = Look.of(index), np.array([e.value for e in curve], dtype=float)
                    axes.plot(middle, mean, label=plain(group.label), **style.line)
                    # With only two rows, the interval is so wide that it would set the scale.
                    shown = (e.interval if e.count > 2 else None for e in curve)
                    ends = np.array([(i.lower, i.upper) if i else (np.nan,) * 2 for i in shown]).T
                    axes.fill_between(middle, *ends, color=style.colour, alpha=0.2, linewidth=0)
                    lowest = min(lowest, float(np.nanmin(mean, initial=np.inf)))
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
    """Return the mean of each row's series in each block; NaN for blocks beyond its end."""
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


def _curve(means: FloatArray, domain: Domain) -> list[Estimate]:
    """Return the mean over rows of each block with its t interval; no value after all series.

    There is no interval where all rows are equal.
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
    found = []
    for k, (middle, width) in enumerate(zip(mean.tolist(), half.tolist(), strict=True)):
        interval = interval_within(middle, width, domain) if differ[k] else None
        found.append(Estimate(middle if count[k] else None, interval, int(count[k])))
    return found


def _body(plan: Figure, group: Group[Row], edges: IntArray, curve: Sequence[Estimate]) -> Body:
    keys = key_cells(plan, group.items)
    lines = []
    for (first, end), estimate in zip(pairwise(edges.tolist()), curve, strict=True):
        if estimate.value is None:
            continue
        place = f"{first}" if end == first + 1 else f"{first} to {end - 1}"
        cells = [*keys, ((place,),), *split(estimated(estimate, "series-mean"))]
        cells.append(((traced(estimate.count, "series-rows"),),))
        lines.append(Line(cells, {"data-from": str(first), "data-to": str(end)}))
    return Body(lines, origin(keys_of(distinct(group.items, plan.y)), plan.y))


_Instance = tuple[Hashable, ...]
#: Exponents k of the factors at which profiles are evaluated: 1 and 1 + 10^(k/16).
_EXPONENTS = range(-32, 81)
#: Relative tolerance for equal values: recomputation in another order may change them this much.
_SLACK = 1e-9


def draw_performance_profile(plan: Figure, rows: Sequence[Row]) -> Drawing:
    """Draw the share of instances on which each group is within a factor of the best value.

    Rows belong to the same instance if they agree in every argument that all rows have, apart from
    the arguments of groups and panels.
    """
    done = [row for row in rows if row.is_done]
    # An instance has a value of each argument that varies, except those of groups and panel.
    shared = set.intersection(*(set(row.task.arguments) for row in rows))
    names = [name for name in varying(rows, [*plan.group, plan.panel]) if name in shared]
    parts = panels(plan, rows)
    found = [_factors(plan, panel, names) for panel in parts]
    bounds = _bounds([factor for curves in found for factors in curves for factor in factors])
    bodies = []
    with framed(plan, parts) as (figure, grid):
        for (axes, panel), curves in zip(grid, found, strict=True):
            everyone = keys_of(row for curve in panel.curves for row in curve.items)
            for index, (curve, factors) in enumerate(zip(panel.curves, curves, strict=True)):
                shares = [_share(factors, bound) for bound in bounds]
                heights = [100 * share for share in shares]
                name = plain(curve.label)
                axes.step(bounds, heights, where="post", label=name, **Look.of(index).line)
                if not curve.items:
                    continue
                lines = []
                for bound, share in zip(bounds, shares, strict=True):
                    cell = traced_share(share, "within-percent")
                    cells = [*key_cells(plan, curve.items), ((f"{bound:.4g}",),), ((cell,),)]
                    lines.append(Line(cells, {"data-factor": repr(bound)}))
                more = {"instance": " ".join(names), "best": plan.best}
                own = origin(keys_of(curve.items), plan.y, baseline_keys=everyone, **more)
                bodies.append(Body(lines, own))
            _label(axes, plan, bounds[-1])
    columns = [*key_columns(plan), Column("factor"), Column("instances within", "%")]
    told = f" (one per {', '.join(names)})" if names else ""
    caption = (
        f"Share of instances{told} on which {drawn_value(plan, rows)} is within a factor τ of the"
        f" best, that is the {'largest' if plan.best == 'max' else 'smallest'}, of all curves"
        f"{per_panel(plan)}. Rows that failed are within no factor and count. No intervals."
    )
    notes: list[Phrase] = []
    values = [(row, number_of(row, plan.y)) for row in done]
    if keys := keys_of(row for row, value in values if value is not None and value <= 0):
        count = counted(keys, plan.y, "not-positive")
        why = "if the best value is not positive, only equal values are within a factor"
        notes.append(("Rows whose ", plan.y, " is not positive: ", count, f"; {why}."))
    return Drawing(figure, DataTable(columns, bodies), caption, notes)


def _factors(plan: Figure, panel: Panel, names: Sequence[str]) -> list[list[float]]:
    """Return each curve's ratio to the best value, per instance."""
    values = [_values(plan, curve, names) for curve in panel.curves]
    instances = list(dict.fromkeys(instance for found in values for instance in found))
    choose = max if plan.best == "max" else min
    best = {
        instance: choose(known)
        for instance in instances
        if (known := [v for found in values if (v := found.get(instance)) is not None])
    }
    return [
        [_factor(plan, found.get(instance), best.get(instance)) for instance in instances]
        for found in values
    ]


def _values(
    plan: Figure, curve: Group[Row], names: Sequence[str]
) -> Mapping[_Instance, Number | None]:
    found: dict[_Instance, Number | None] = {}
    for row in curve.items:
        instance = tuple(identity(row.task.arguments[name]) for name in names)
        if instance in found:
            what = f"{curve.label} has several rows for one instance"
            remedy = "name the argument in which they differ in group, panel or where"
            raise InputError(plan.place, what, remedy)
        found[instance] = number_of(row, plan.y) if row.is_done else None
    return found


def _factor(plan: Figure, value: Number | None, best: Number | None) -> float:
    if value is None or best is None:
        return math.inf
    if value == best:
        return 1.0
    worse, better = (best, value) if plan.best == "max" else (value, best)
    # Ratios to the best value are defined only if both values are positive.
    return worse / better if worse > 0 and better > 0 else math.inf


def _bounds(found: Sequence[float]) -> list[float]:
    """Return the factors to evaluate, up to the first one >= the largest finite ratio."""
    largest = max((factor for factor in found if factor < math.inf), default=1.0)
    factors = [1.0]
    for exponent in _EXPONENTS:
        factors.append(1 + 10 ** (exponent / 16))
        if factors[-1] >= max(largest, 1.05):
            break
    return factors


def _share(factors: Sequence[float], bound: float) -> float:
    return sum(own <= bound * (1 + _SLACK) for own in factors) / len(factors)


def _label(axes: "Axes", plan: Figure, largest: float) -> None:
    axes.set_ylim(0, 103)
    axes.set_ylabel("instances within the factor [%]")
    axes.set_xlabel(f"factor τ of the best {plain(plan.y)}")
    if "x" in plan.log or largest > 3:
        axes.set_xscale("log")
        ticks = [
            t for t in (1, 1.1, 1.2, 1.5, 2, 3, 5, 10, 30, 100, 1e3, 1e4, 1e5) if t <= largest
        ]
        chosen = ticks if largest <= 5 else [t for t in ticks if t not in (1.1, 1.2, 1.5)]
        axes.set_xticks(chosen, [short_number(tick) for tick in chosen])
        axes.minorticks_off()


#: The function that draws each kind of figure from rows that are done and have the value.
_DRAWN: Mapping[FigureKind, Callable[[Figure, Sequence[Row]], Drawing]] = {
    FigureKind.LINES: draw_lines,
    FigureKind.SCALING: draw_scaling,
    FigureKind.HEATMAP: draw_heatmap,
    FigureKind.HISTOGRAM: draw_histogram,
    FigureKind.TRAJECTORY: draw_trajectory,
}
