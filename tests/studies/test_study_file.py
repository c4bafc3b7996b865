"""Study files: what they mean, and what is said of a bad one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.studies.limits import Limits
from bfio.studies.report_plan import FigureKind, Statistic
from bfio.studies.study import Grid, Smoke, Study
from bfio.studies.study_file import find_study, read_study
from formulations.errors import InputError

_GOOD = """
name = "two-policies"
question = "Which is better?"
computes = "simulate"
data = "data"
[fixed]
workers = 16
[[grid]]
policy = ["fcfs", "br-0"]
seed = { from = 5, count = 3, step = 2 }
[[grid]]
policy = "bf-io"
seed = [1]
[limits]
seconds = 60
memory_gib = 1.5
[smoke.fixed]
requests = 10
[smoke.grid]
seed = [0]
[[report.tables]]
title = "All"
rows = ["policy"]
values = ["avg_imbalance"]
statistic = "median"
baseline = { policy = "fcfs" }
published = [{ policy = "fcfs", avg_imbalance = 3.5, source = "A, table 1" }]
[[report.figures]]
title = "How?"
kind = "lines"
x = "seed"
y = "avg_imbalance"
group = ["policy"]
"""


def _read(tmp_path: Path, text: str) -> Study:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return read_study(path)


def test_a_file_says_it_all(tmp_path: Path) -> None:
    """Every section of the format, once."""
    study = _read(tmp_path, _GOOD)
    assert study.rows() == [
        {"workers": 16, "policy": policy, "seed": seed}
        for policy in ("fcfs", "br-0")
        for seed in (5, 7, 9)
    ] + [{"workers": 16, "policy": "bf-io", "seed": 1}]
    assert study.small().rows() == [
        {"workers": 16, "requests": 10, "policy": policy, "seed": 0}
        for policy in ("fcfs", "br-0", "bf-io")
    ]
    assert study.limits == Limits(seconds=60, memory_gib=1.5)
    assert study.folder == tmp_path / "data"
    assert study.axes() == ["policy", "seed"]
    (table,), (figure,) = study.report.tables, study.report.figures
    assert table.statistic is Statistic.MEDIAN
    assert table.published[0]["source"] == "A, table 1"
    assert figure.kind is FigureKind.LINES
    assert figure.group == ("policy",)


def test_a_seed_on_the_command_line_moves_all_seeds(tmp_path: Path) -> None:
    """The same study on other random numbers."""
    study = _read(tmp_path, _GOOD).with_seed(100)
    assert [row["seed"] for row in study.rows()] == [105, 107, 109, 105, 107, 109, 101]
    assert Study("s", "?", "k", [Grid({"a": [1]})], {"seed": 3}).with_seed(1).rows() == [
        {"seed": 4, "a": 1}
    ]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('name = "two-policies"', "", "name: missing; write name = ..."),
        ('name = "two-policies"', 'name = "a/b"', "name: 'a/b' is no name"),
        ('name = "two-policies"', "name = 3", "name: 3 is no text"),
        ("[limits]", "[limit]", "limit: unknown; did you mean limits?"),
        ("seconds = 60", "seconds = 0", "limits.seconds: 0"),
        ("seconds = 60", "seconds = true", "limits.seconds: True is no number"),
        ("seconds = 60", "attempts = 2.5", "limits.attempts: expected an integer, found 2.5"),
        ("count = 3,", "", "grid[0].seed.count: missing"),
        ("count = 3", "count = 0", "grid[0].seed.count: 0 is out of range"),
        ("count = 3", "cuont = 3", "grid[0].seed.cuont: unknown; did you mean count?"),
        ('["fcfs", "br-0"]', "[]", "grid.policy: no value"),
        ('["fcfs", "br-0"]', "[[1]]", "grid[0].policy[0]: a list"),
        ('["fcfs", "br-0"]', "1979-05-27", "grid[0].policy: a date"),
        ('["fcfs", "br-0"]', "[nan]", "grid[0].policy[0]: nan; use a finite number"),
        ("workers = 16", "policy = 3", "grid.policy: the argument is fixed as well"),
        ('kind = "lines"', 'kind = "pie"', "report.figures[0].kind: 'pie' is unknown; use one of"),
        ('kind = "lines"', "", "report.figures[0]: kind missing"),
        ('x = "seed"', "", "report figure 'How?': lines needs x"),
        ('rows = ["policy"]', "rows = []", "report table 'All': rows or values empty"),
        ('baseline = { policy = "fcfs" }', "baseline = { seed = 1 }", "baseline argument seed"),
        ("[[report.tables]]", "[report.tables]", "report.tables: a dict, not a list"),
        ("[fixed]", "fixed = 3\n[x]", "x: unknown"),
        ('computes = "simulate"', 'computes = "simulate', "no TOML:"),
    ],
)
def test_a_bad_file_is_told_where_and_why(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    """One line: the file, the place in it, what is wrong."""
    assert old in _GOOD
    with pytest.raises(InputError) as caught:
        _read(tmp_path, _GOOD.replace(old, new, 1))
    assert str(tmp_path / "study.toml") in str(caught.value)
    assert complaint in str(caught.value)


def test_a_missing_file_and_a_wrong_name() -> None:
    """Before anything else happens."""
    with pytest.raises(InputError, match="cannot be read"):
        find_study("none.toml")
    with pytest.raises(InputError, match="a function, not a study"):
        find_study("bfio.studies.study_file:find_study")
    assert find_study(f"{__name__}:STUDY") is STUDY


def test_a_grid_too_large_is_refused_without_being_built() -> None:
    """A slip of the pen must not fill the memory."""
    axis = list(range(2000))
    with pytest.raises(InputError, match="more than 1,000,000 rows"):
        Study("s", "?", "k", [Grid({"a": axis, "b": axis, "c": axis})]).rows()


_values = st.lists(st.integers(0, 5), min_size=1, max_size=4)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), _values, max_size=3), min_size=1))
def test_rows_are_the_union_of_the_grids(grids: list[dict[str, list[int]]]) -> None:
    """Each combination once, in the order of its first grid."""
    study = Study("s", "?", "k", [Grid(axes) for axes in grids])
    rows = study.rows()
    for axes, grid in zip(grids, study.grids, strict=True):
        for cell in grid.cells():
            assert set(cell) == set(axes)
            assert rows.count(cell) == 1
    assert all(any(row in list(grid.cells()) for grid in study.grids) for row in rows)


STUDY = Study("s", "?", "k", [Grid({"a": [1]})], smoke=Smoke({}, {"a": [2]}))
