"""Tables in Markdown: by hand from records, the same from the store and from a small CSV."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bfio.studies.report.markdown import (
    filled,
    markdown_tables,
    parsed_records,
    read_records,
    records_csv,
    text_tables,
    write_markdown,
)
from bfio.studies.report_plan import ReportPlan, Shown, Statistic, Table
from bfio.studies.study import Grid, Study
from formulations.errors import InputError
from tests.studies.report import synthetic
from tests.studies.report.test_tables import results as small

_CSV = """\
table,argument.policy,argument.workers,value,rows_planned,rows_done,estimate,lower,upper,ratio
t,fcfs,4,avg_imbalance,2,2,10.0,9.5,10.5,
t,br-0,4,avg_imbalance,2,1,5,,,0.5
t,fcfs,8,avg_imbalance,2,2,20.25,,,
t,br-0,8,avg_imbalance,2,2,,,,
"""


def _markdown(plan: Table, text: str = _CSV) -> list[str]:
    report = ReportPlan((plan,))
    study = synthetic.study(report=report)
    above, _, table = markdown_tables(study, parsed_records(text))["t"].rpartition("\n\n")
    assert above in ("", "in brackets 95 % intervals")
    assert bool(above) == ("(9.50 to 10.50)" in table)
    return table.splitlines()


def test_a_table_by_hand() -> None:
    """A line per policy and number of workers, with intervals, ratios and what is missing."""
    plan = Table(
        "t", ("policy", "workers"), ("avg_imbalance",), baseline={"policy": "fcfs"},
        labels={"fcfs": "FCFS", "workers": "G"},
    )  # fmt: skip
    assert _markdown(plan) == [
        "| policy | G | avg_imbalance (whole run) [tokens] | "
        "avg_imbalance (whole run) / that of FCFS |",
        "| --- | --- | ---: | ---: |",
        "| FCFS | 4 | 10.00 (9.50 to 10.50) |  |",
        "| br-0 | 4 | 5 [1 of 2 rows] | 0.5000 |",
        "| FCFS | 8 | 20.25 |  |",
        "| br-0 | 8 | – |  |",
    ]


@pytest.mark.parametrize(
    ("rows", "said"),
    [(2, "intervals of 50 % or more"), (3, "intervals of 75 % or more"), (6, "95 % intervals")],
)
def test_medians_of_few_rows_say_what_their_intervals_cover(rows: int, said: str) -> None:
    """From six rows on 95 %: (1/2)^5 of them miss the median."""
    text = _CSV.replace("2,2,10.0", f"{rows},{rows},10.0")
    plan = Table("t", ("policy", "workers"), ("avg_imbalance",), statistic=Statistic.MEDIAN)
    study = synthetic.study(report=ReportPlan((plan,)))
    above = markdown_tables(study, parsed_records(text))["t"].splitlines()[0]
    assert above == f"in brackets {said}"


def test_an_argument_across() -> None:
    """Its values are the columns; with one number per cell they are the headings."""
    plan = Table("t", ("workers", "policy"), ("avg_imbalance",), across="policy")
    assert _markdown(plan) == [
        "| workers | fcfs | br-0 |",
        "| --- | ---: | ---: |",
        "| 4 | 10.00 (9.50 to 10.50) | 5 [1 of 2 rows] |",
        "| 8 | 20.25 | – |",
    ]
    ratios = replace(plan, baseline={"policy": "fcfs"}, show=Shown.RATIO)
    # The baseline has no ratio: no column, and no line where it is not across.
    assert _markdown(ratios)[2] == "| 4 | 0.5000 |"
    assert _markdown(replace(ratios, across=""))[2:] == [
        "| 4 | br-0 | 0.5000 |",
        "| 8 | br-0 |  |",
    ]


def test_parts_of_runs_are_named() -> None:
    """In every heading, unless the study has a name of its own for the value."""
    plan = Table(
        "t", ("policy",), ("avg_imbalance", "steady.avg_imbalance", "is_drained"),
        labels={"is_drained": "all done"},
    )  # fmt: skip
    csv = "table,argument.policy,value,estimate\n" + "".join(
        f"t,fcfs,{name},1\n" for name in plan.values
    )
    assert _markdown(plan, csv)[0] == (
        "| policy | avg_imbalance (whole run) [tokens] | avg_imbalance (steady part) [tokens] "
        "| all done |"
    )


def test_rows_to_be_taken_with_care_are_marked() -> None:
    """Cells of lines with unproven optima or solves that the clock cut, with their counts."""
    study = Study("small", "?", "made-up", (Grid({"policy": ("fcfs", "bf-io"), "seed": (0, 1)}),))
    told: list[dict[str, Any]] = [
        {},
        {},
        {"unproven": 2},
        {"unproven": 1, "stopped_by_clock": True},
    ]
    rows = [
        replace(synthetic.done(task, {"y": y}), **more)
        for task, y, more in zip(synthetic.tasks(study), (1, 2, 3, 4), told, strict=True)
    ]
    plan = Table("t", ("policy",), ("y",), baseline={"policy": "fcfs"})
    found = replace(
        synthetic.results(study, rows), study=replace(study, report=ReportPlan((plan,)))
    )
    (table,) = text_tables(found.study, parsed_records(records_csv(found))).values()
    fcfs, exact = table.lines
    assert "†" not in "".join(fcfs)
    assert [cell[-3:] for cell in exact[1:]] == [" †‡", " †‡"]
    assert table.notes == (
        "† Rows in which an optimum is unproven: 2 of 2.",
        "‡ Rows in which a time limit stopped a solve; numbers may differ between machines: "
        "1 of 2.",
    )
    assert table.markdown().endswith(f"|\n\n{table.notes[0]}\n\n{table.notes[1]}\n")
    assert r"\dag{} Rows in which" in table.latex()


def test_refusals_of_plans() -> None:
    """What is across must be among the rows; ratios need a baseline."""
    with pytest.raises(InputError, match="across argument seed"):
        Table("t", ("policy",), ("y",), across="seed").check_rows()
    with pytest.raises(
        InputError, match="report table 't': the table has no baseline for its ratios"
    ):
        Table("t", ("policy",), ("y",), show=Shown.RATIO)


def test_the_small_csv_says_all(tmp_path: Path) -> None:
    """Published lines and words included; the same rows give the same text."""
    study = synthetic.study()
    results = synthetic.results(study, synthetic.rows(study))
    text = records_csv(results)
    (tmp_path / "small.csv").write_text(text, encoding="utf-8")
    records = read_records(tmp_path / "small.csv")
    assert records == parsed_records(text)
    tables = markdown_tables(study, records)
    assert list(tables) == [table.title for table in synthetic.TABLES]
    assert "| burstgpt | bf-io (BF-IO, Table 1) | 1834.5 |" in tables[synthetic.TABLES[0].title]
    words = replace(study, report=ReportPlan((Table("t", ("policy",), ("y",)),)))
    found = replace(small([{"y": "optimal"}, {"y": "optimal"}, {"y": "no"}]), study=words)
    assert (
        "| fcfs | optimal 2 |" in markdown_tables(words, parsed_records(records_csv(found)))["t"]
    )


def test_blocks_of_a_readme(tmp_path: Path) -> None:
    """What stands between marks is written anew, everything else stays."""
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- table t -->\nold\n<!-- end -->\n<!-- table u -->\n<!-- end -->\n")
    write_markdown({"t": "| new |\n"}, readme)
    text = "a\n<!-- table t -->\n| new |\n<!-- end -->\n<!-- table u -->\n<!-- end -->\n"
    assert readme.read_text() == text
    with pytest.raises(InputError, match="table u: unknown"):
        filled(text, {"t": ""}, "README.md")
    with pytest.raises(InputError, match="has a known name; use one of v"):
        write_markdown({"v": ""}, readme)
    write_markdown({"t": "| new |\n"}, tmp_path / "fresh.md")
    assert (tmp_path / "fresh.md").read_text() == "### t\n\n| new |\n"


def test_a_file_that_is_no_table_of_results(tmp_path: Path) -> None:
    """One line says what to do."""
    (tmp_path / "no.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="column 'table' is missing; name an output file"):
        read_records(tmp_path / "no.csv")
    (tmp_path / "heading.csv").write_text("table,value\n")
    with pytest.raises(InputError, match="has no rows; name an output file"):
        read_records(tmp_path / "heading.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read_records(tmp_path / "absent.csv")
