"""Tables: lines as planned, cells that say what is not there, published figures apart."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.studies.report.statistics import Estimate, Interval
from bfio.studies.report.tables import TableView, build
from bfio.studies.report.traced import Cell, Traced, decimals_of, estimated, written
from bfio.studies.report_plan import Statistic, Table
from bfio.studies.results import Results
from bfio.studies.row import Row, Status, Value
from bfio.studies.study import Grid, Study
from formulations.errors import InputError
from tests.studies.report import synthetic

AXES: Mapping[str, Sequence[Value]] = {"policy": ("fcfs", "br-0", None), "seed": (0, 1)}


def text(cell: Cell) -> str:
    """Return a cell as it reads, its lines apart by a bar."""
    return " | ".join(
        "".join(p.text if isinstance(p, Traced) else p for p in line) for line in cell
    )


def lines(view: TableView) -> list[list[str]]:
    """Return the cells of a table as they read."""
    return [[text(cell) for cell in line.cells] for line in view.data.lines]


def results(values: Sequence[Mapping[str, Value] | None]) -> Results:
    """Return results with these values, in the order of the plan; None marks a failed row."""
    study = Study("small", "?", "made-up", (Grid(AXES),))
    rows = [
        synthetic.done(task, own) if own is not None else Row(task, Status.FAILED, error="no")
        for task, own in zip(synthetic.tasks(study), values, strict=False)
    ]
    return synthetic.results(study, rows)


def test_lines_are_those_planned() -> None:
    """Two done, one failed, three not computed: a line without any row shows dashes."""
    view = build(Table("t", ("policy",), ("y",)), results([{"y": 1}, {"y": 3}, {"y": 5}, None]))
    assert lines(view) == [
        # mean 2, s = √2, t(1) = 12.706: 2 ± 12.7
        ["fcfs", "2", "2 | −11 to 15"],
        ["br-0", "1 | of\u00a02\u00a0planned", "5.000"],
        ["–", "0 | of\u00a02\u00a0planned", "–"],
    ]
    assert [record["rows_done"] for record in view.records] == [2, 1, 0]


def test_undefined_values_are_counted() -> None:
    """None is told as 'undefined', not averaged."""
    view = build(Table("t", ("policy",), ("y",)), results([{"y": None}, {"y": 3}, {}, {}]))
    assert lines(view)[0][2] == "3.000 | 1 of 2 undefined"
    assert lines(view)[1][2] == "– | 2 of 2 undefined"


def test_words_are_counted() -> None:
    """Values that are text have no mean."""
    view = build(
        Table("t", ("policy",), ("y",)), results([{"y": "optimal"}, {"y": "optimal"}, {"y": "no"}])
    )
    assert lines(view)[0][2] == "optimal 2"
    assert lines(view)[1][2] == "no 1"


def test_published_lines_stand_below_ours() -> None:
    """With their source, as printed; those about no line of ours, or several, come last."""
    published = (
        {"policy": "br-0", "y": 7, "source": "BF-IO"},
        {"policy": "else", "y": "7.10"},
        {"y": 8},
    )
    plan = Table("t", ("policy",), ("y",), published=published)
    view = build(plan, results([{"y": 1}, {"y": 3}, {"y": 5}]))
    found = lines(view)
    assert found[2] == ["br-0 | BF-IO", "published", "7"]
    assert found[4] == ["else | published", "published", "7.10"]
    assert [line.is_published for line in view.data.lines] == [
        False,
        False,
        True,
        False,
        True,
        True,
    ]


def test_ratios_stand_beside_their_values() -> None:
    """Seed 0: 6/2, seed 1 failed; the baseline itself is not divided."""
    plan = Table("t", ("policy",), ("y",), baseline={"policy": "fcfs"})
    view = build(plan, results([{"y": 2}, {"y": 3}, {"y": 6}, None]))
    assert lines(view)[0][3] == "baseline"
    assert lines(view)[1][3] == "3.000 | 1 pair | 1 incomplete"
    assert lines(view)[2][3] == "– | 0 pairs | 2 incomplete"


def test_a_ratio_that_no_line_has_takes_no_column() -> None:
    """All zeros, as counts of unproven optima often are: a sentence instead."""
    plan = Table("t", ("policy",), ("y", "z"), baseline={"policy": "fcfs"})
    view = build(plan, results([{"y": 2, "z": 0}, {"y": 3, "z": 0}, {"y": 4, "z": 0}]))
    assert [column.label for column in view.data.columns] == [
        "policy",
        "rows",
        "y",
        "y / that of fcfs",
        "z",
    ]
    assert any("No ratio of z" in str(note) for note in view.notes)


def test_lines_are_sorted_by_argument() -> None:
    """Grids one after the other: lines of one policy stay together, values as planned."""
    grids = (Grid({"p": ("b", "a"), "q": (2,)}), Grid({"p": ("b", "c"), "q": (1,)}))
    study = Study("small", "?", "made-up", grids)
    found = synthetic.results(study, [])
    view = build(Table("t", ("p", "q"), ("y",)), found)
    assert [line[:2] for line in lines(view)] == [["b", "2"], ["b", "1"], ["a", "2"], ["c", "1"]]


def test_where_chooses_rows() -> None:
    """Only seed 1."""
    view = build(
        Table("t", ("policy",), ("y",), where={"seed": 1}, statistic=Statistic.SUM),
        results([{"y": 2}, {"y": 3}, {"y": 6}, {"y": 2**60}]),
    )
    assert [line[1:] for line in lines(view)][:2] == [["1", "3"], ["1", f"{2.0**60:.3e}"]]


def test_where_takes_several_values() -> None:
    """Seeds 0 and 1 of three: 2 and 3 count, 40 does not."""
    study = Study("small", "?", "made-up", (Grid({"policy": ("fcfs",), "seed": (0, 1, 2)}),))
    rows = [
        synthetic.done(task, {"y": y})
        for task, y in zip(synthetic.tasks(study), (2, 3, 40), strict=True)
    ]
    plan = Table("t", ("policy",), ("y",), where={"seed": [0, 1]}, statistic=Statistic.SUM)
    assert lines(build(plan, synthetic.results(study, rows))) == [["fcfs", "2", "5"]]


@pytest.mark.parametrize(
    ("computes", "units"), [("gap", ["tokens", "s"]), ("mine:rows", ["", ""])]
)
def test_only_our_own_kinds_have_our_units(computes: str, units: list[str]) -> None:
    """A user's objective may be in apples."""
    study = Study("small", "?", computes, (Grid({"policy": ("fcfs",)}),))
    rows = [
        synthetic.done(task, {"objective": 1, "solve_s": 2}) for task in synthetic.tasks(study)
    ]
    plan = Table("t", ("policy",), ("objective", "solve_s"))
    view = build(plan, synthetic.results(study, rows))
    assert [column.unit for column in view.data.columns[2:]] == units


def test_a_value_that_no_row_has_is_refused() -> None:
    """A slip of the pen does not look like a failure of all rows; what is None in all is told."""
    with pytest.raises(InputError, match=r"has a value 'heigth'; did you mean height\?"):
        build(Table("t", ("policy",), ("heigth",)), results([{"height": 1}]))
    view = build(Table("t", ("policy",), ("y",)), results([{"y": None}]))
    assert any("No successful row has a value y." in note for note in view.notes)


def test_chosen_ratios_only() -> None:
    """The baseline divides what is asked for, by default everything."""
    rows = results([{"y": 1.0, "z": 2.0}, {"y": 3.0, "z": 4.0}, {"y": 5.0, "z": 6.0}, None])
    baseline = {"policy": rows.tasks[0].arguments["policy"]}
    plan = Table("t", ("policy",), ("y", "z"), baseline=baseline)
    labels = [column.label for column in build(plan, rows).data.columns]
    assert labels == ["policy", "rows", "y", "y / that of fcfs", "z", "z / that of fcfs"]
    labels = [column.label for column in build(replace(plan, ratios=("z",)), rows).data.columns]
    assert labels == ["policy", "rows", "y", "z", "z / that of fcfs"]
    with pytest.raises(InputError, match="'x' is not among the values of the table"):
        replace(plan, ratios=("x",))


@pytest.mark.parametrize(
    ("value", "decimals", "shown"),
    [
        (0, None, "0"),
        (-3, None, "−3"),
        (1234567, None, "1,234,567"),
        (0.012346, None, "0.01235"),
        (12345.6, None, "12,346"),
        (1.5e12, None, "1.500e+12"),
        (-2e-7, None, "-2.000e-07"),
        (float("inf"), None, "∞"),
        (1234.56, 1, "1,234.6"),
    ],
)
def test_how_numbers_are_written(value: float, decimals: int | None, shown: str) -> None:
    """Four significant digits, unless an interval says how many mean something."""
    assert written(value, decimals) == shown


def test_an_interval_sets_the_digits() -> None:
    """Half-width 0.0313: two digits of it, so three decimals; no width: four digits."""
    estimate = Estimate(0.53211, Interval(0.5008, 0.5634), 5)
    assert text(estimated(estimate, "mean")) == "0.532 | 0.501 to 0.563"
    assert decimals_of(Estimate(2.0, Interval(2.0, 2.0), 5)) is None


@given(st.floats(-1e150, 1e150), st.floats(0, 1e150))
def test_any_number_can_be_written(value: float, half: float) -> None:
    """Text that parses back to the number, to the digits displayed."""
    for piece in estimated(Estimate(value, Interval(value - half, value + half), 2), "mean")[0]:
        assert isinstance(piece, Traced)
        back = float(piece.text.replace(",", "").replace("−", "-"))
        assert back == pytest.approx(value, rel=1e-3, abs=max(half, 1e-300))


def test_exponents_are_those_of_power_laws() -> None:
    """3·x² with noise has exponent 2; a zero has no logarithm, and is counted."""
    study = Study("growth", "?", "made-up", (Grid({"policy": ["a"], "x": [1, 2, 4, 8, 16]}),))
    values = [3.0001, 12, 48.001, 192, 0]
    rows = [
        synthetic.done(task, {"y": value})
        for task, value in zip(synthetic.tasks(study), values, strict=True)
    ]
    view = build(Table("t", ("policy",), ("y",), against="x"), synthetic.results(study, rows))
    assert view.data.columns[-1].label == "y: exponent in x"
    (record,) = view.records
    assert record["estimate"] == pytest.approx(2, abs=1e-4)
    assert record["lower"] < 2 < record["upper"]  # type: ignore[operator]
    assert (record["statistic"], record["undefined"]) == ("exponent", 1)
    assert lines(view)[0][2].endswith("1 not positive")


def test_two_exponents_of_one_regression() -> None:
    """3·x²·√(ln z) over a lopsided grid: alone the exponent in x takes some of z's growth."""
    cells = [(1, 4), (2, 4), (2, 16), (4, 64), (8, 64), (8, 256), (16, 4)]
    study = Study("growth", "?", "made-up", tuple(Grid({"x": [x], "z": [z]}) for x, z in cells))
    rows = [
        synthetic.done(task, {"y": 3 * x**2 * log(z) ** 0.5, "p": "a"})
        for task, (x, z) in zip(synthetic.tasks(study), cells, strict=True)
    ]

    def exponent(against: str, *beside: str) -> object:
        table = Table("t", ("p",), ("y",), against=against, beside=beside)
        return build(table, synthetic.results(study, rows)).records[0]["estimate"]

    assert exponent("x", "ln z") == pytest.approx(2)
    assert exponent("ln z", "x") == pytest.approx(0.5)
    assert exponent("x") != pytest.approx(2)


@pytest.mark.parametrize(
    "options", [{"rows": ("x",)}, {"statistic": Statistic.SUM}, {"baseline": {"policy": "a"}}]
)
def test_exponents_take_no_statistic_and_no_ratio(options: dict[str, Any]) -> None:
    """What would have no meaning is refused."""
    given = {"title": "t", "rows": ("policy",), "values": ("y",), **options}
    with pytest.raises(InputError, match="against"):
        Table(**given, against="x")
