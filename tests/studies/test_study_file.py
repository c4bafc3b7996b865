"""Study files: their meaning, and the errors for invalid ones."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.studies.report.markdown import markdown_tables
from bfio.studies.report_plan import FigureKind, Statistic
from bfio.studies.row import Limits
from bfio.studies.runner import plan
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
    text = _GOOD.replace("x = ", "where = { seed = [5, 1] }\nx = ")
    study = _read(tmp_path, text.replace("baseline =", "where = { seed = 5 }\nbaseline ="))
    study = study.with_seed(100)
    assert [row["seed"] for row in study.rows()] == [105, 107, 109, 105, 107, 109, 101]
    assert {row["seed"] for row in study.small().rows()} == {100}
    assert study.report.tables[0].where == {"seed": 105}
    assert study.report.figures[0].where == {"seed": [105, 101]}
    assert Study("s", "?", "k", [Grid({"a": [1]})], {"seed": 3}).with_seed(1).rows() == [
        {"seed": 4, "a": 1}
    ]


#: Lines of the good file that are changed.
NAME = 'name = "two-policies"'
POLICIES = '["fcfs", "br-0"]'
ROWS = 'rows = ["policy"]'
BASELINE = 'baseline = { policy = "fcfs" }'
GROUP = 'group = ["policy"]'
LINES = 'kind = "lines"'
X = 'x = "seed"'


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (NAME, "", 'name: missing; write name = "..."'),
        (NAME, 'name = "a/b"', "name: 'a/b' is not a valid name"),
        (NAME, 'name = ""', 'name: is empty; write "..."'),
        (NAME, "name = 3", "name: 3 is not a string"),
        ("[limits]", "[limit]", "limit: unknown; did you mean limits?"),
        ("seconds = 60", "seconds = 0", "limits.seconds: 0"),
        ("seconds = 60", "seconds = true", "limits.seconds: True is not a number"),
        ("seconds = 60", f"seconds = {'9' * 400}", "limits.seconds: a number of 400 digits"),
        ("seconds = 60", "attempts = 2.5", "limits.attempts: expected an integer, found 2.5"),
        ("count = 3,", "", "grid[0].seed.count: missing"),
        ("count = 3", "count = 0", "grid[0].seed.count: 0 is out of range"),
        ("step = 2", "step = 0", "grid[0].seed.step: 0 repeats one value; give another step"),
        ("count = 3", "cuont = 3", "grid[0].seed.cuont: unknown; did you mean count?"),
        (POLICIES, "[]", "grid.policy: the axis has no values"),
        (POLICIES, "[[1]]", "grid[0].policy[0]: a list"),
        (POLICIES, "1979-05-27", "grid[0].policy: a date"),
        (POLICIES, "[nan]", "grid[0].policy[0]: nan; use a finite number"),
        ("workers = 16", "policy = 3", "grid.policy: the argument is fixed as well"),
        (LINES, 'kind = "pie"', "report.figures[0].kind: 'pie' is unknown; use one of"),
        (LINES, "", "report.figures[0]: kind is missing"),
        (X, "", "report figure 'How?': lines needs x"),
        (ROWS, "rows = []", "report table 'All': no rows or no values"),
        (ROWS, 'rows = ["polcy"]', "report table 'All': rows: no row has an argument 'polcy'"),
        (BASELINE, "baseline = { seed = 1 }", "baseline argument seed"),
        (
            "[[report.tables]]",
            "[report.tables]",
            "report.tables: a table, not a list; write [[report.tables]]",
        ),
        (ROWS, 'rows = "policy"', 'report.tables[0].rows: text, not a list; write ["..."]'),
        (
            BASELINE,
            "baseline = 3",
            "report.tables[0].baseline: an integer, not a table; write { NAME = value }",
        ),
        (
            "memory_gib = 1.5",
            "memory_gib = 1e300",
            "limits.memory_gib: 1e+300; use 0.25 to 65,536",
        ),
        # Names and values of the report
        (
            ROWS,
            'rows = ["policy", "sed"]',
            "report table 'All': rows: no row has an argument 'sed'; did you mean seed?",
        ),
        (
            BASELINE,
            'baseline = { policy = "fcsf" }',
            "report table 'All': baseline: no row of the table has policy = 'fcsf';"
            " did you mean fcfs? use one of 'fcfs', 'br-0', 'bf-io'",
        ),
        (
            'statistic = "median"',
            'statistic = "median"\nwhere = { policy = "bf-oi" }',
            "report table 'All': where: no row has policy = 'bf-oi'; did you mean bf-io?"
            " use one of 'fcfs', 'br-0', 'bf-io'",
        ),
        (
            BASELINE,
            'baseline = { policy = "fcfs" }\nwhere = { seed = [1, 2] }',
            "no row has policy = 'fcfs' and seed = [1, 2]; name values that occur together",
        ),
        (
            BASELINE,
            "where = { wokers = 16 }",
            "report table 'All': where: no row has an argument 'wokers'; did you mean workers?",
        ),
        (
            BASELINE,
            "where = { seed = [] }",
            "report.tables[0].where.seed: the condition has no values",
        ),
        (BASELINE, "where = { seed = [[1]] }", "report.tables[0].where.seed[0]: a list"),
        ("avg_imbalance = 3.5,", "avg_inbalance = 3.5,", "published: 'avg_inbalance' is neither"),
        (X, 'x = "sead"', "report figure 'How?': x: no row has an argument 'sead'; did"),
        (GROUP, 'group = ["polcy"]', "figure 'How?': group: no row has an argument"),
        (GROUP, 'panel = "polcy"', "figure 'How?': panel: no row has an argument"),
        (GROUP, "where = { s = 1 }", "figure 'How?': where: no row has an argument"),
        # The smoke size
        ("[smoke.grid]", "[smoke.grid]\nsede = [0]", "smoke.grid.sede: no grid has this axis"),
        (
            "[smoke.grid]",
            "[smoke.grid]\nworkers = [4]",
            "smoke.grid.workers: no grid has this axis; write it in [smoke.fixed], or",
        ),
        (
            "requests = 10",
            'policy = "fcfs"',
            "smoke.fixed.policy: the argument is an axis of a grid; write it in [smoke.grid]",
        ),
        ("seed = [0]", "seed = []", "smoke.grid.seed: the axis has no values"),
        (
            "seed = [0]",
            "seed = { count = 100000 }\npolicy = { count = 11 }",
            "grid at smoke size: more than 1,000,000 rows",
        ),
        ("[fixed]", "fixed = 3\n[x]", "x: unknown"),
        ('computes = "simulate"', 'computes = "simulate', "is not valid TOML:"),
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


def test_what_only_the_smoke_size_has_may_be_named(tmp_path: Path) -> None:
    """Arguments of [smoke.fixed] are arguments; its grid need not hold the baseline."""
    text = _GOOD.replace('group = ["policy"]', 'group = ["requests"]')
    text = text.replace("seed = [0]", 'seed = [0]\npolicy = ["br-0"]')
    assert len(_read(tmp_path, text).small().rows()) == 1


def test_the_index_of_a_trajectory_may_have_any_name(tmp_path: Path) -> None:
    """It is no argument."""
    text = _GOOD.replace('kind = "lines"', 'kind = "trajectory"').replace('"seed"', '"step"')
    assert _read(tmp_path, text).report.figures[0].x == "step"


def test_a_heatmap_and_a_profile_need_group(tmp_path: Path) -> None:
    """Told before the first row."""
    for kind in ("heatmap", "performance-profile"):
        text = _GOOD.replace('kind = "lines"', f'kind = "{kind}"')
        with pytest.raises(InputError, match=f"report figure 'How.': a {kind} needs group"):
            _read(tmp_path, text.replace('group = ["policy"]', ""))


def test_where_may_list_values(tmp_path: Path) -> None:
    """In tables and in figures."""
    text = _GOOD.replace("x = ", "where = { seed = [5, 1] }\nx = ")
    assert _read(tmp_path, text).report.figures[0].where == {"seed": [5, 1]}


def test_a_grid_that_is_not_there_is_told_how(tmp_path: Path) -> None:
    """In the form that TOML wants."""
    with pytest.raises(InputError, match=r"grid: missing; write \[\[grid\]\]"):
        _read(tmp_path, 'name = "a"\nquestion = "?"\ncomputes = "simulate"\n')


def test_a_mark_of_byte_order_is_no_text(tmp_path: Path) -> None:
    """Some editors write one."""
    path = tmp_path / "study.toml"
    path.write_text(_GOOD, encoding="utf-8-sig")
    assert read_study(path).name == "two-policies"


def test_a_trace_that_is_not_there_is_told_with_its_folder(tmp_path: Path) -> None:
    """Where it was looked for, once the study is planned."""
    text = _GOOD.replace("workers = 16", 'workers = 16\ntrace = "none.csv"')
    with pytest.raises(InputError, match=r"data.none\.csv"):
        plan(_read(tmp_path, text))


@pytest.mark.parametrize(
    ("data", "workers", "names_recipe"),
    [("cuts", 16, True), ("absent", 16, True), (".", 16, False), ("absent", -1, False)],
)
def test_a_missing_trace_cut_is_told_how_to_make_it(
    data: str, workers: int, names_recipe: bool, tmp_path: Path
) -> None:
    """Where the study names a folder of data, with or without the folder; no other error."""
    (tmp_path / "cuts").mkdir()
    text = _GOOD.replace('data = "data"', f'data = "{data}"')
    text = text.replace("workers = 16", f'workers = {workers}\ntrace = "none.csv"')
    with pytest.raises(InputError) as found:
        plan(_read(tmp_path, text))
    assert ("docs/trace-cuts.md" in found.value.remedy) is names_recipe
    assert ("none.csv" in found.value.where) is (workers == 16)


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
    with pytest.raises(InputError, match="grid: more than 1,000,000 rows"):
        Study("s", "?", "k", [Grid({"a": axis, "b": axis, "c": axis})])


def test_values_that_repeat_are_no_rows() -> None:
    """More than a million cells, of which two differ."""
    assert Grid({"a": [0, 1], "b": [7] * 1001, "c": [True] * 1001}).count_rows() == 2
    assert Grid({"a": [1, 1.0, True, "1"]}).count_rows() == 4


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


def test_former_names_of_values_are_read(tmp_path: Path) -> None:
    """What rows called saturated is now the steady part, in study files and tables of results."""
    text = """
        name = "former"
        question = "?"
        computes = "simulate"
        [[grid]]
        policy = ["fcfs", "br-0"]
        [[report.tables]]
        title = "t"
        rows = ["policy"]
        values = ["saturated.avg_imbalance"]
        published = [{ policy = "fcfs", "saturated.avg_imbalance" = 3, source = "a paper" }]
        [[report.figures]]
        title = "f"
        kind = "lines"
        x = "policy"
        y = "saturated.idle_fraction"
    """
    study = _read(tmp_path, text)
    assert study.report.tables[0].values == ("steady.avg_imbalance",)
    assert study.report.tables[0].published[0]["steady.avg_imbalance"] == 3
    assert study.report.figures[0].y == "steady.idle_fraction"
    kept = [{"table": "t", "argument.policy": "br-0", "value": "saturated.avg_imbalance"}]
    (table,) = markdown_tables(study, kept).values()
    assert "avg_imbalance (steady part) [tokens]" in table
