"""Parts shared by all figures of reports: style, panels, curves, axes and data tables."""

import io
import itertools
import math
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from bfio.common.figure_style import STYLE
from bfio.studies.kinds import describe, with_unit
from bfio.studies.report.files import printable
from bfio.studies.report.selection import Group, distinct, estimate_of, grouped, keys_of
from bfio.studies.report.statistics import Estimate
from bfio.studies.report.traced import (
    Cell,
    Column,
    DataTable,
    Line,
    Phrase,
    counted,
    estimated,
    origin,
    split,
    traced,
)
from bfio.studies.report_plan import Figure, FigureKind, Statistic
from bfio.studies.row import Row, Value, identity, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Resolution of PNG files [dots per inch].
_DPI = 200
_LOOK = {
    "svg.hashsalt": "bfio",
    "svg.fonttype": "path",
    "axes.unicode_minus": True,
    "font.family": "DejaVu Sans",
    "axes.edgecolor": "0.35",
    "axes.labelcolor": "0.15",
    "xtick.color": "0.25",
    "ytick.color": "0.25",
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "legend.fontsize": 8.5,
    "legend.title_fontsize": 8.5,
}
#: Characters per line of the settings below a figure, and the height of a line [inches].
_SETTINGS_WIDTH, _SETTINGS_LINE = 118, 0.11
_IDENTIFIER = re.compile(r'(\bid="|href="#|url\(#)')


@dataclass(frozen=True)
class Drawing:
    """A figure together with the data it shows.

    Parameters
    ----------
    figure : Canvas, optional
        The figure; None if there is nothing to draw.
    table : DataTable
        The data drawn.
    caption : str
        Text on axes, units and intervals.
    notes : sequence of Phrase
        Remarks, with traced numbers.
    """

    figure: Canvas | None
    table: DataTable
    caption: str
    notes: Sequence[Phrase] = field(default_factory=tuple)


@contextmanager
def look() -> Iterator[None]:
    """Apply the project's Matplotlib style while drawing and writing figures."""
    with mpl.rc_context(STYLE | _LOOK), warnings.catch_warnings():
        # Characters that the font lacks appear as boxes; the data table has the full text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        # Labels may be too long for the layout. The figure is still drawn.
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        yield


def add_settings(figure: Canvas, settings: str) -> None:
    """Write the settings below a figure, wrapped to its width."""
    lines = textwrap.wrap(printable(settings).replace("$", r"\$"), _SETTINGS_WIDTH)
    figure.set_figheight(figure.get_figheight() + _SETTINGS_LINE * len(lines))
    with look():
        figure.supxlabel("\n".join(lines), fontsize=6, color="0.3", x=0.01, ha="left")


def to_svg(figure: Canvas) -> str:
    """Return the figure as SVG text; equal figures give equal texts."""
    buffer = io.StringIO()
    with look():
        # `savefig` would draw twice, the first time for the layout.
        writer = FigureCanvasSVG(figure)
        writer.print_svg(buffer, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def to_png(figure: Canvas) -> bytes:
    """Return the figure as PNG bytes."""
    buffer = io.BytesIO()
    with look():
        figure.set_dpi(_DPI)
        writer = FigureCanvasAgg(figure)
        writer.print_png(buffer, metadata={"Software": None})  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def inline_svg(svg: str, prefix: str) -> str:
    """Return SVG text for embedding in HTML: without header, with prefixed identifiers."""
    start = svg.index("<svg")
    bare = re.sub(r"<metadata>.*?</metadata>", "", svg[start:], flags=re.DOTALL)
    # Comments only repeat the texts of the figure.
    bare = re.sub(r"<!--.*?-->", "", bare, flags=re.DOTALL)
    return _IDENTIFIER.sub(rf"\g<1>{prefix}-", bare)


#: Okabe and Ito's palette, safe for colour-blind readers. Its yellow is left out because it is too
#: light on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_DASHES = ("-", "--", "-.", ":")
_MARKERS = "osD^vP*X"
WIDTH = 5.8
_SINGLE_HEIGHT, _PANEL_HEIGHT = 3.4, 2.3
_COLUMNS = 2
_LEGEND_CHARACTERS = 72
_LONGEST_LABEL = 44
#: Characters per line of a heading that spans the whole width.
_HEADING_CHARACTERS = 72
_MAX_TICKS = 9


@dataclass(frozen=True)
class Panel:
    """A panel of a figure. All panels have the same curves in the same order."""

    label: str
    curves: Sequence[Group[Row]]


@dataclass(frozen=True)
class Look:
    """Colour, dashes and marker of a curve. Each of them alone tells the first curves apart."""

    colour: str
    dashes: str
    marker: str

    @classmethod
    def of(cls, index: int) -> "Look":
        """Return the look of the curve with the given index."""
        return cls(
            COLOURS[index % len(COLOURS)],
            _DASHES[index % len(_DASHES)],
            _MARKERS[index % len(_MARKERS)],
        )

    @property
    def line(self) -> dict[str, Any]:
        """Colour and dashes as keyword arguments of Matplotlib."""
        return {"color": self.colour, "linestyle": self.dashes}


def panels(plan: Figure, rows: Iterable[Row]) -> list[Panel]:
    """Return the panels of a figure; a curve without rows in a panel is kept as an empty curve."""
    chosen = list(rows)
    found = []
    for part in grouped(chosen, [plan.panel]) if plan.panel else [Group((), chosen)]:
        own = {tuple(map(identity, g.values)): g.items for g in grouped(part.items, plan.group)}
        curves = [
            Group(curve.values, own.get(tuple(map(identity, curve.values)), []))
            for curve in grouped(chosen, plan.group)
        ]
        found.append(Panel(f"{plan.panel} = {part.label}" if plan.panel else "", curves))
    return found


def canvas(
    num_panels: int,
    *,
    height: float = _PANEL_HEIGHT,
    share_y: bool = True,
    widths: tuple[float, ...] = (1,),
) -> tuple[Canvas, list["Axes"]]:
    """Return an empty figure with the given number of panels, at most two side by side.

    A panel consists of axes of the given relative widths.
    """
    columns = min(num_panels, _COLUMNS)
    lines = math.ceil(num_panels / columns)
    tall = _SINGLE_HEIGHT if num_panels == 1 else height * lines + 0.5
    figure = Canvas(figsize=(WIDTH, tall), layout="constrained")
    how: dict[str, Any] = {"squeeze": False, "sharey": share_y, "width_ratios": widths * columns}
    grid = list(figure.subplots(lines, columns * len(widths), **how).flat)
    drawn = num_panels * len(widths)
    for spare in grid[drawn:]:
        spare.set_visible(False)
    return figure, grid[:drawn]


@contextmanager
def framed(
    plan: Figure,
    parts: Sequence[Panel],
    *,
    height: float = _PANEL_HEIGHT,
    share_y: bool = True,
    names: Sequence[str] | None = None,
) -> Iterator[tuple[Canvas, list[tuple["Axes", Panel]]]]:
    """Yield an empty figure with one axes per panel; label them after drawing.

    Parameters
    ----------
    plan : Figure
        The figure.
    parts : sequence of Panel
        The panels.
    height : float
        Height of one panel if there are several [inches].
    share_y : bool
        Whether all panels share one vertical scale with one label.
    names : sequence of str, optional
        Title of the legend; by default the arguments that distinguish curves.
    """
    with look():
        figure, grid = canvas(len(parts), height=height, share_y=share_y)
        yield figure, list(zip(grid, parts, strict=True))
        for axes, panel in zip(grid, parts, strict=True):
            name_panel(axes, panel)
        if share_y:
            label_outer(figure, grid)
        legend(figure, grid, plan.group if names is None else names)


def name_panel(axes: "Axes", panel: Panel) -> None:
    """Write the heading above a panel, wrapped to its width."""
    place = axes.get_subplotspec()
    columns = 1 if place is None else place.get_gridspec().ncols
    broken = textwrap.fill(plain(panel.label), _HEADING_CHARACTERS // columns)
    axes.set_title(broken, fontsize=9)


def label_outer(figure: Canvas, grid: Sequence["Axes"]) -> None:
    """Label the vertical axis once, and the horizontal axes of the lowest panels only."""
    columns = min(len(grid), _COLUMNS)
    if len(grid) > 1:
        figure.supylabel(grid[0].get_ylabel(), fontsize=9)
        for axes in grid:
            axes.set_ylabel("")
    for index, axes in enumerate(grid):
        if index + columns < len(grid):
            axes.tick_params(labelbottom=False)
            axes.set_xlabel("")
        if index % columns:
            axes.tick_params(labelleft=False)


def legend(figure: Canvas, grid: Sequence["Axes"], names: Sequence[str]) -> None:
    """Put one legend above all panels if the curves have names."""
    found: dict[str, Any] = {}
    for axes in grid:
        for handle, text in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(text, handle)
    labels = list(found)
    if not names or not labels:
        return
    longest = max(len(text) for text in labels) + 5
    columns = max(1, min(len(labels), _LEGEND_CHARACTERS // longest))
    figure.set_figheight(figure.get_figheight() + 0.18 * (math.ceil(len(labels) / columns) - 1))
    figure.legend(
        list(found.values()),
        labels,
        title=plain(", ".join(names)),
        loc="outside upper center",
        ncols=columns,
    )


def plain(text: str) -> str:
    """Return a short one-line text that Matplotlib shows literally, without formulas."""
    short = text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"
    one_line = " ".join(printable(short).split()).replace("$", r"\$")
    return f" {one_line}" if one_line.startswith("_") else one_line


@dataclass(frozen=True)
class Places:
    """Positions of an argument's values on an axis: the numbers themselves, or 0, 1, 2, ...

    Parameters
    ----------
    values : sequence of values
        Distinct values: numbers ascending, others in the order of the plan.
    is_numeric : bool
        Whether all values are numbers.
    """

    values: Sequence[Value]
    is_numeric: bool

    @classmethod
    def of(cls, rows: Iterable[Row], name: str) -> "Places":
        """Collect the values that an argument has in the rows."""
        values = [group.values[0] for group in grouped(rows, [name])]
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        if len(numbers) == len(values):
            return cls(sorted(numbers), True)
        return cls(values, False)

    def place(self, value: Value) -> int:
        """Return the index of a value in axis order."""
        return [identity(v) for v in self.values].index(identity(value))

    def __getitem__(self, value: Value) -> float:
        """Return the position of a value on the axis."""
        if self.is_numeric and isinstance(value, int | float):
            return float(value)
        return float(self.place(value))

    def cells(self, rows: Iterable[Row], name: str) -> list[Group[Row]]:
        """Return the rows grouped by the argument's value, in axis order."""
        return sorted(grouped(rows, [name]), key=lambda group: self[group.values[0]])

    def label(self, axes: "Axes", name: str, *, log: bool) -> None:
        """Set the label and tick labels of the horizontal axis."""
        axes.set_xlabel(plain(name))
        if not self.is_numeric:
            axes.set_xticks(
                range(len(self.values)),
                [plain(label(value)) for value in self.values],
                rotation=20 if sum(len(label(value)) for value in self.values) > 30 else 0,
            )
            return
        ticks = [float(value) for value in self.values if isinstance(value, int | float)]
        if log and max(ticks) > 0:
            axes.set_xscale("log")
        # On a linear axis, tick labels that are close would overlap.
        least = 0.08 * (ticks[-1] - ticks[0])
        are_apart = all(b - a >= least for a, b in itertools.pairwise(ticks))
        if len(ticks) <= _MAX_TICKS and (log or are_apart):
            axes.set_xticks(ticks, [short_number(tick) for tick in ticks])
            axes.xaxis.set_minor_locator(NullLocator())
        elif not log:
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short_number(x)))


def value_axes(grid: Sequence[tuple["Axes", Panel]], name: str, *, log: bool) -> None:
    """Set scale and label of the vertical axes of drawn panels.

    Axes stay linear if no drawn value is positive, even if a logarithm is asked for.
    """
    is_log = log and any(math.isfinite(axes.yaxis.get_minpos()) for axes, _ in grid)
    for axes, _ in grid:
        axes.set_ylabel(plain(name))
        if is_log:
            axes.set_yscale("log")
        else:
            axes.yaxis.set_major_locator(MaxNLocator(5))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: short_number(y)))


def short_number(value: float) -> str:
    """Return a tick label: plain, with commas between thousands."""
    if value != 0 and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    return f"{value:,.10g}".replace("-", "−")


def key_columns(plan: Figure) -> list[Column]:
    """Return the columns of a data table that identify the panel and curve of a line."""
    return [Column(name, is_number=False) for name in _key_names(plan)]


def key_cells(plan: Figure, rows: Sequence[Row]) -> list[Cell]:
    """Return the cells of `key_columns` for the rows of one curve."""
    return [((label(rows[0].task.arguments.get(name)),),) for name in _key_names(plan)]


def _key_names(plan: Figure) -> list[str]:
    return ([plan.panel] if plan.panel else []) + list(plan.group)


def drawn_value(plan: Figure, rows: Sequence[Row]) -> str:
    """Return the name of the value drawn by a figure, with its unit."""
    return with_unit(rows[0].task.computes, plan.y)


def per_panel(plan: Figure) -> str:
    """Return the last part of a caption, which names the arguments of curves and panels."""
    curves = f", one curve per {' and '.join(plan.group)}" if plan.group else ""
    return f"{curves}, one panel per {plan.panel}" if plan.panel else curves


#: Means, and the lengths of their error bars below and above.
Bars: TypeAlias = tuple[list[float], list[list[float]]]
#: Text on the intervals of means, for captions.
MEANS = (
    "Means over the rows of a point, with 95 % Student-t intervals (of logarithms for what is 0 or"
    " more, of log odds for shares) where the rows differ"
)


@dataclass(frozen=True)
class Point:
    """The rows of a curve at one x value, and the mean of their y values."""

    x: Value
    rows: Sequence[Row]
    estimate: Estimate


def points(plan: Figure, curve: Group[Row], places: Places) -> Iterator[Point]:
    """Yield the points of a curve along x; a point without defined y values has mean None."""
    for cell in places.cells(curve.items, plan.x):
        is_log = "y" in plan.log or plan.kind is FigureKind.SCALING
        estimate = estimate_of(cell.items, plan.y, Statistic.MEAN, log=is_log)
        yield Point(cell.values[0], distinct(cell.items, plan.y), estimate)


def columns(plan: Figure, rows: Sequence[Row]) -> list[Column]:
    """Return the columns of the data table of a figure with points."""
    return [*mean_columns(plan, rows, plan.x), Column("undefined")]


def mean_columns(plan: Figure, rows: Sequence[Row], along: str) -> list[Column]:
    """Return the columns of a data table of means and intervals, with ``along`` as the index."""
    unit = describe(rows[0].task.computes, plan.y).unit
    values = [Column(name, unit) for name in (f"mean {plan.y}", "lower", "upper")]
    return [*key_columns(plan), Column(along), *values, Column("rows")]


def line(plan: Figure, point: Point) -> Line:
    """Return the data-table line of a point."""
    keys = key_cells(plan, point.rows)
    numbers = split(estimated(point.estimate, "mean"))
    used = traced(point.estimate.count, "defined")
    undefined = traced(point.estimate.undefined, "undefined")
    cells = [*keys, ((label(point.x),),), *numbers, ((used,),), ((undefined,),)]
    return Line(cells, origin(keys_of(point.rows), plan.y))


def draw_bars(
    axes: "Axes", x: Sequence[float], bars: Bars, style: Look, name: str, line: str = "none"
) -> None:
    """Draw means with error bars at the given positions, joined by a line of the given style."""
    means, lengths = bars
    look: dict[str, Any] = {"linestyle": line, "marker": style.marker, "markersize": 4}
    look |= {"color": style.colour, "capsize": 2, "elinewidth": 1}
    axes.errorbar(x, means, yerr=lengths, label=name, **look)


def without_interval(plan: Figure, found: Sequence[Point]) -> list[Phrase]:
    """Return a note on points without an interval, because their rows have equal values."""
    equal = [point for point in found if point.estimate.why_none]
    if not equal:
        return []
    keys = keys_of(row for point in equal for row in point.rows)
    count = counted(keys, plan.y, "no-interval")
    return [("Rows of points without an interval, because their values are equal: ", count, ".")]


def bars(drawn: Sequence[Point]) -> Bars:
    """Return means and lengths of error bars as arguments of Matplotlib."""
    means = [float(point.estimate.value or 0) for point in drawn]
    below, above = [], []
    for mean, point in zip(means, drawn, strict=True):
        interval = point.estimate.interval
        below.append(mean - interval.lower if interval else 0.0)
        above.append(interval.upper - mean if interval else 0.0)
    return means, [below, above]
