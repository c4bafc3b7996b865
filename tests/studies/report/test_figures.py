"""Figures: they show the values of their tables, and handle unusual arguments."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.collections import QuadMesh

from bfio.studies.report.drawing import Drawing, inline_svg, look, to_svg
from bfio.studies.report.figures import draw
from bfio.studies.report.traced import Cell, Traced
from bfio.studies.report_plan import Figure, FigureKind
from bfio.studies.row import Row, Status, Task, Value, row_key
from bfio.studies.study import Grid
from formulations.errors import InputError
from tests.studies.report import synthetic


def task_of(arguments: Mapping[str, Value]) -> Task:
    """Return a planned row with these arguments."""
    return Task(row_key("made-up", arguments, "", ""), "made-up", arguments, "", "")


def row(
    arguments: Mapping[str, Value], y: Value = None, series: Sequence[float] | None = None
) -> Row:
    """Return a row that is done, with a value y or a series s."""
    return synthetic.done(
        task_of(arguments), {"y": y}, series={} if series is None else {"s": series}
    )


def failed(arguments: Mapping[str, Value]) -> Row:
    """Return a row that failed."""
    return Row(task_of(arguments), Status.FAILED)


def text(cell: Cell) -> str:
    """Return the main line of a cell, numbers with all digits."""
    return "".join(p.exact if isinstance(p, Traced) else p for p in cell[0])


def data(drawing: Drawing) -> list[list[str]]:
    """Return the data table of a figure."""
    return [[text(cell) for cell in line.cells] for line in drawing.table.lines]


def lay_out(drawing: Drawing) -> None:
    """Find the place of everything in a figure; drawing it would warn of nothing else."""
    assert drawing.figure is not None
    with look():
        drawing.figure.draw_without_rendering()


def axes(drawing: Drawing) -> Any:
    """Return the panels of a figure."""
    assert drawing.figure is not None
    return drawing.figure.axes


def test_lines_draw_means() -> None:
    """Workers 2: rows 1 and 3, mean 2; workers 4: 5, no interval; a failed row is not drawn."""
    plan = Figure("t", FigureKind.LINES, "y", x="workers", group=("policy",))
    rows = [
        row({"workers": 4, "policy": "a"}, 5),
        row({"workers": 2, "policy": "a", "seed": 1}, 1),
        row({"workers": 2, "policy": "a", "seed": 2}, 3),
        row({"workers": 2, "policy": "a", "seed": 3}, None),
        failed({"workers": 8, "policy": "a"}),
    ]
    drawing = draw(plan, rows)
    first, second = data(drawing)
    assert [first[i] for i in (0, 1, 2, 5, 6)] == ["a", "2", "2.0", "2", "1"]
    assert second == ["a", "4", "5.0", "–", "–", "1", "0"]
    (line, *_) = axes(drawing)[0].get_lines()
    assert line.get_xydata().tolist() == [[2, 2], [4, 5]]


@pytest.mark.parametrize(("log", "hidden"), [("", 0), ("y", 3), ("x", 1), ("xy", 3)])
def test_lines_say_what_a_logarithmic_axis_lacks(log: str, hidden: int) -> None:
    """Means -1 at x = 0 (one row), 0 at x = 1 (two rows), 5 at x = 2."""
    plan = Figure("t", FigureKind.LINES, "y", x="x", log=log)
    rows = [
        row({"x": 0}, -1),
        row({"x": 1, "seed": 0}, 1),
        row({"x": 1, "seed": 1}, -1),
        row({"x": 2}, 5),
    ]
    drawing = draw(plan, rows)
    lay_out(drawing)
    numbers = [p.text for note in drawing.notes for p in note if isinstance(p, Traced)]
    assert numbers == ([str(hidden)] if hidden else [])


def test_an_axis_without_anything_positive_is_linear() -> None:
    """Whatever is asked for: all is drawn, and nothing said to be missing."""
    plan = Figure("t", FigureKind.LINES, "y", x="x", log="xy")
    drawing = draw(plan, [row({"x": 0}, 0), row({"x": -1}, -3)])
    lay_out(drawing)
    assert drawing.notes == []
    assert axes(drawing)[0].get_xscale() == axes(drawing)[0].get_yscale() == "linear"


@pytest.mark.parametrize(
    ("computes", "label"), [("gap", "objective [tokens]"), ("mine:rows", "objective")]
)
@pytest.mark.parametrize("kind", [FigureKind.LINES, FigureKind.SCALING, FigureKind.TRAJECTORY])
def test_figures_of_own_kinds_have_none_of_our_units(
    kind: FigureKind, computes: str, label: str
) -> None:
    """Axis and caption."""
    plan = Figure("t", kind, "objective", x="x")
    rows = [
        replace(found, task=replace(found.task, computes=computes))
        for x in (1, 2)
        for found in [
            synthetic.done(task_of({"x": x}), {"objective": x}, series={"objective": [1.0, 2.0]})
        ]
    ]
    drawing = draw(plan, rows)
    assert axes(drawing)[0].get_ylabel() == label
    assert drawing.caption.startswith(f"{label} ")


def test_lines_over_words_stand_apart() -> None:
    """Words, truth values and an absent argument have places, in the order of the plan."""
    plan = Figure("t", FigureKind.LINES, "y", x="mode")
    rows = [row({"mode": "exact"}, 1), row({"mode": True}, 2), row({}, 3), row({"mode": 7}, 4)]
    drawing = draw(plan, rows)
    assert [line[0] for line in data(drawing)] == ["exact", "true", "–", "7"]
    labels = [label.get_text() for label in axes(drawing)[0].get_xticklabels()]
    assert labels == ["exact", "true", "–", "7"]


def test_scaling_fits_a_power_law() -> None:
    """Y near 3·x² with a zero and a failed row: exponent 2, one row left out, and said so."""
    plan = Figure("t", FigureKind.SCALING, "y", x="workers")
    rows = [row({"workers": x}, 3.0001 * x**2) for x in (1, 4)] + [row({"workers": 2}, 12)]
    rows += [row({"workers": 8}, 0), failed({"workers": 16})]
    drawing = draw(plan, rows)
    numbers = [p for note in drawing.notes for p in note if isinstance(p, Traced)]
    assert [n.attributes["data-statistic"] for n in numbers] == [
        "exponent",
        "exponent-lower",
        "exponent-upper",
        "scale",
        "defined",
        "not-positive",
    ]
    assert float(numbers[0].exact) == pytest.approx(2)
    assert float(numbers[3].exact) == pytest.approx(3, rel=1e-4)
    assert [numbers[4].text, numbers[5].text] == ["3", "1"]
    assert axes(drawing)[0].get_xscale() == "log"


def test_points_on_a_power_law_leave_no_interval() -> None:
    """Exactly 3·x²: the exponent, and why it has no interval."""
    plan = Figure("t", FigureKind.SCALING, "y", x="workers")
    drawing = draw(plan, [row({"workers": x}, 3 * x**2) for x in (1, 2, 4)])
    (note,) = drawing.notes
    assert " (no interval: all points on one line)" in note


def test_scaling_needs_positive_numbers() -> None:
    """A power of a word, or of zero, is none."""
    plan = Figure("t", FigureKind.SCALING, "y", x="workers")
    for value in ("many", 0, None, True):
        with pytest.raises(InputError, match="not a positive number"):
            draw(plan, [row({"workers": value}, 1), row({"workers": "few"}, 1)])


def test_a_heat_map_draws_means() -> None:
    """Lines sorted by number, columns too, an empty cell where no row is done."""
    plan = Figure("t", FigureKind.HEATMAP, "y", x="slots", group=("workers",))
    rows = [
        row({"workers": 8, "slots": 2}, 4),
        row({"workers": 2, "slots": 1}, 1),
        row({"workers": 2, "slots": 2}, 2),
        failed({"workers": 8, "slots": 1}),
    ]
    drawing = draw(plan, rows)
    mesh = next(c for c in axes(drawing)[0].collections if isinstance(c, QuadMesh))
    field = mesh.get_array()
    assert field is not None
    assert field.tolist() == [[1, 2], [None, 4]]
    written = [label.get_text() for label in axes(drawing)[0].texts]
    assert written == ["1", "2", "4"]


def test_a_trajectory_averages_what_is_there() -> None:
    """Series 1 2 3 and 3 4: means 2, 3, and 3 of one row, which has no interval."""
    plan = Figure("t", FigureKind.TRAJECTORY, "s")
    rows = [row({"seed": 0}, series=[1, 2, 3]), row({"seed": 1}, series=[3, 4]), row({"seed": 2})]
    found = data(draw(plan, rows))
    assert [line[0] for line in found] == ["0", "1", "2"]
    assert [float(line[1]) for line in found] == [2, 3, 3]
    assert [line[4] for line in found] == ["2", "2", "1"]
    # s = √2, t(1) = 12.7062: half-width 12.7062
    assert float(found[0][2]) == pytest.approx(2 - 12.7062, abs=1e-4)
    assert found[2][2] == "–"


def test_a_long_trajectory_is_averaged_over_blocks() -> None:
    """1,200 entries: 120 blocks of ten, the first with mean 4.5."""
    plan = Figure("t", FigureKind.TRAJECTORY, "s")
    drawing = draw(plan, [row({}, series=list(range(1200)))])
    found = data(drawing)
    assert len(found) == 120
    assert found[0][:2] == ["0 to 9", "4.5"]
    assert drawing.table.lines[0].attributes == {"data-from": "0", "data-to": "10"}


def test_a_histogram_counts_everything() -> None:
    """Two negative, three zero, one entry on each side of 10, which opens a bin; all shares."""
    plan = Figure("t", FigureKind.HISTOGRAM, "s")
    drawing = draw(plan, [row({}, series=[-1, -2, 0, 0, 0, 9.99, 10, 1000])])
    found = data(drawing)
    assert [line[:2] for line in found[:2]] == [["below 0", "2"], ["0", "3"]]
    assert sum(int(line[1]) for line in found) == 8
    assert sum(float(line[2]) for line in found) == pytest.approx(100)
    lows = [float(line.attributes["data-from"]) for line in drawing.table.lines[2:]]
    assert lows[1:] == [10, 1000]


@pytest.mark.parametrize("log", [pytest.param("", marks=pytest.mark.deep), "xy"])
@pytest.mark.parametrize("series", [[0, 0], [5], [1e-9, 1e9], [10, 100, 1000], [-1, -2]])
def test_odd_series_are_drawn(series: list[float], log: str) -> None:
    """No positive entry, one, a wide range, all on edges of bins, none but negative ones.

    Logarithms are what may fail on them; linear axes are those of the other tests.
    """
    histogram = draw(Figure("t", FigureKind.HISTOGRAM, "s", log=log), [row({}, series=series)])
    assert sum(int(line[1]) for line in data(histogram)) == len(series)
    trajectory = draw(Figure("t", FigureKind.TRAJECTORY, "s", log=log), [row({}, series=series)])
    assert [float(line[1]) for line in data(trajectory)] == series
    for drawing in (histogram, trajectory):
        lay_out(drawing)


@pytest.mark.parametrize("kind", [FigureKind.LINES, FigureKind.HEATMAP])
@pytest.mark.parametrize("values", [[0, 0], [-5, 5], [1e-12, 1e12], [7, 7], [None, 3]])
def test_odd_values_are_drawn(kind: FigureKind, values: list[Value]) -> None:
    """Zeros and negative values on logarithmic axes, a wide range, no range, none."""
    plan = Figure("t", kind, "y", x="x", group=("g",), log="y")
    rows = [row({"x": i, "g": 1}, value) for i, value in enumerate(values)]
    lay_out(draw(plan, rows))


def test_many_curves_are_drawn() -> None:
    """Forty: colours repeat with other dashes, and the legend has room of its own."""
    plan = Figure("t", FigureKind.LINES, "y", x="x", group=("g",))
    rows = [row({"x": x, "g": f"a rather long name {g}"}, g) for x in (1, 2) for g in range(40)]
    drawing = draw(plan, rows)
    lay_out(drawing)
    styles = {(line.get_color(), line.get_linestyle()) for line in axes(drawing)[0].get_lines()}
    # Seven colours times four dashes; caps of error bars have none.
    assert len([dashes for _, dashes in styles if dashes != "None"]) == 28


def test_a_performance_profile_by_hand() -> None:
    """Instances 0..3: a is best on 0 and 1, b on 2; a failed on 2, both on 3.

    b's factors on 0 and 1 are 2 and 1.5. At factor 1: a 2/4, b 1/4; at 2: a 2/4, b 3/4.
    """
    plan = Figure("t", FigureKind.PERFORMANCE_PROFILE, "y", group=("policy",))
    rows = [
        row({"policy": "a", "seed": 0}, 1),
        row({"policy": "a", "seed": 1}, 2),
        failed({"policy": "a", "seed": 2}),
        failed({"policy": "a", "seed": 3}),
        row({"policy": "b", "seed": 0}, 2),
        row({"policy": "b", "seed": 1}, 3),
        row({"policy": "b", "seed": 2}, 5),
        failed({"policy": "b", "seed": 3}),
    ]
    found = data(draw(plan, rows))
    shares = {(line[0], line[1]): float(line[2]) for line in found}
    assert shares["a", "1"] == 50
    assert shares["b", "1"] == 25
    assert shares["b", "2"] == 75
    assert max(float(line[2]) for line in found if line[0] == "a") == 50


def test_a_profile_of_what_should_be_large() -> None:
    """With best = max the roles turn over; zeros are equal, and no multiple of -1 is 1."""
    plan = Figure("t", FigureKind.PERFORMANCE_PROFILE, "y", group=("policy",), best="max")
    rows = [
        row({"policy": "a", "seed": 0}, 4),
        row({"policy": "b", "seed": 0}, 2),
        row({"policy": "a", "seed": 1}, 0),
        row({"policy": "b", "seed": 1}, 0),
        row({"policy": "a", "seed": 2}, -1),
        row({"policy": "b", "seed": 2}, 1),
    ]
    found = data(draw(plan, rows))
    at_one = {line[0]: float(line[2]) for line in found if line[1] == "1"}
    assert at_one == {"a": pytest.approx(200 / 3), "b": pytest.approx(200 / 3)}
    with pytest.raises(InputError, match="use min or max"):
        replace(plan, best="least")


def test_a_profile_of_what_is_not_positive() -> None:
    """The best is within a factor, whatever its sign; nothing else is a multiple of it.

    Instance 0: -3 and -1; 1: 0 and 2; 2: 4 and 2. Best of the smallest: a, a, b; a's 4 is within
    the factor 2. Rows that are not positive: three.
    """
    plan = Figure("t", FigureKind.PERFORMANCE_PROFILE, "y", group=("policy",))
    values = {"a": (-3, 0, 4), "b": (-1, 2, 2)}
    rows = [row({"policy": p, "seed": i}, y) for p in "ab" for i, y in enumerate(values[p])]
    drawing = draw(plan, rows)
    shares = {(line[0], line[1]): float(line[2]) for line in data(drawing)}
    assert shares["a", "1"] == pytest.approx(200 / 3)
    assert shares["b", "1"] == pytest.approx(100 / 3)
    assert shares["a", "2"] == 100
    assert shares["b", "2"] == pytest.approx(100 / 3)
    (count,) = [p for note in drawing.notes for p in note if isinstance(p, Traced)]
    assert count.text == "3"


def test_a_profile_needs_one_row_per_method_and_instance() -> None:
    """A look-ahead that only one method has must be named."""
    plan = Figure("t", FigureKind.PERFORMANCE_PROFILE, "y", group=("policy",))
    rows = [
        row({"policy": "a", "seed": 0}, 1),
        row({"policy": "b", "seed": 0, "horizon": 1}, 1),
        row({"policy": "b", "seed": 0, "horizon": 2}, 1),
    ]
    with pytest.raises(InputError, match="several rows for one instance"):
        draw(plan, rows)
    assert data(draw(replace(plan, group=("policy", "horizon")), rows))


@pytest.mark.parametrize("kind", [FigureKind.HEATMAP, FigureKind.PERFORMANCE_PROFILE])
def test_group_is_asked_for(kind: FigureKind) -> None:
    """Where the kind makes no sense without it."""
    with pytest.raises(InputError, match="needs group"):
        draw(Figure("t", kind, "y", x="x"), [row({"x": 1}, 1)])


@pytest.mark.parametrize("kind", list(FigureKind))
def test_nothing_to_draw_is_told(kind: FigureKind) -> None:
    """No row, no row that is done, no such value: a sentence instead of a figure."""
    plan = Figure("t", kind, "z", x="x", group=("g",))
    for rows in ([], [failed({"x": 1, "g": 1})], [row({"x": 1, "g": 1}, 1)]):
        drawing = draw(plan, rows)
        assert drawing.figure is None
        assert drawing.caption.startswith("Nothing to draw")


@pytest.mark.parametrize("kind", [kind for kind in FigureKind if kind is not FigureKind.LINES])
def test_equal_rows_give_equal_bytes(kind: FigureKind) -> None:
    """SVG, drawn twice; of lines, and as PNG, in test_page.py."""
    plan = next(figure for figure in synthetic.FIGURES if figure.kind is kind)
    axes = {
        **synthetic.study().grids[0].axes,
        "policy": ("fcfs", "br-0"),
        "workers": (8, 16),
        "window": (0, 1),
    }
    rows = synthetic.rows(synthetic.study(grids=(Grid(axes),)))
    first, second = (draw(plan, rows).figure for _ in range(2))
    assert first is not None
    assert second is not None
    assert to_svg(first) == to_svg(second)


@pytest.mark.parametrize("kind", list(FigureKind))
def test_odd_names_are_drawn_as_they_are(kind: FigureKind) -> None:
    """Dollars, underscores, tags, scripts that the font lacks, a name longer than a line."""
    names = ["_hidden", "$a$ $b_", "<b>&amp;", "负载均衡", "x" * 300, "two\nlines", ""]
    plan = Figure("t", kind, "y", x="$x_", group=("$g$",), panel="_p")
    if kind in (FigureKind.TRAJECTORY, FigureKind.HISTOGRAM):
        plan = replace(plan, y="s")
    rows = [
        row({"$x_": x, "$g$": name, "_p": panel}, x, [1.0, 2.0])
        for x in (1, 2)
        for name in names
        for panel in ("$", "_")
    ]
    lay_out(draw(plan, rows))


def test_identifiers_of_two_figures_differ_on_a_page() -> None:
    """Every reference finds its target under the prefix, and no preamble is left."""
    plan = Figure("t", FigureKind.LINES, "y", x="x")
    figure = draw(plan, [row({"x": 1}, 1), row({"x": 2}, 1)]).figure
    assert figure is not None
    svg = inline_svg(to_svg(figure), "f1")
    assert svg.startswith("<svg")
    assert "<!--" not in svg
    assert "<metadata" not in svg
    identifiers = re.findall(r'\bid="([^"]*)"', svg)
    assert all(name.startswith("f1-") for name in identifiers)
    wanted = re.findall(r'href="#([^"]*)"', svg) + re.findall(r"url\(#([^)]*)\)", svg)
    assert wanted
    assert set(wanted) <= set(identifiers)


def test_the_style_does_not_leak() -> None:
    """Drawing leaves matplotlib's settings as they were."""
    before = dict(mpl.rcParams)
    draw(Figure("t", FigureKind.LINES, "y", x="x"), [row({"x": 1}, 1)])
    assert dict(mpl.rcParams) == before
