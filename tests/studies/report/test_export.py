"""Rows as CSV and Parquet: complete and with lossless types."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from bfio.studies.report.files import export_files, write_export
from bfio.studies.results import Results
from bfio.studies.row import Row, Status, Value
from bfio.studies.study import Grid, Study
from formulations.errors import InputError
from tests.studies.report import synthetic


def results(values: list[Value]) -> Results:
    """Return results whose rows have these values of y, and after them a failed and a missing."""
    study = Study("small", "?", "made-up", (Grid({"i": tuple(range(len(values) + 2))}),))
    tasks = synthetic.tasks(study)
    rows = [synthetic.done(task, {"y": y}) for task, y in zip(tasks, values, strict=False)]
    rows.append(Row(tasks[len(values)], Status.FAILED, error='no "y", none'))
    return synthetic.results(study, rows)


def column(found: Results, folder: Path, name: str) -> list[Value]:
    """Write the rows, and return a column as Parquet has it."""
    write_export(found, folder)
    values: list[Value] = parquet.read_table(folder / "rows.parquet")[name].to_pylist()
    return values


def test_every_planned_row_has_a_line(tmp_path: Path) -> None:
    """Done, failed and missing ones, in the order of the plan."""
    found = results([1, 2.5])
    paths = write_export(found, tmp_path)
    assert [path.name for path in paths] == ["rows.csv", "rows.parquet"]
    with paths[0].open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert [line["status"] for line in lines] == ["done", "done", "failed", "missing"]
    assert [line["argument.i"] for line in lines] == ["0", "1", "2", "3"]
    assert [line["value.y"] for line in lines] == ["1", "2.5", "", ""]
    assert lines[2]["error"] == 'no "y", none'
    assert [line["key"] for line in lines] == [task.key for task in found.tasks]
    table = parquet.read_table(paths[1])
    assert table.column_names == list(lines[0])
    assert table["wall_s"].to_pylist() == [1.5, 1.5, 0.0, None]


@pytest.mark.parametrize(
    ("values", "back"),
    [
        ([1, 2**62], [1, 2**62]),
        ([True, False], [True, False]),
        ([1, 0.5], [1.0, 0.5]),
        ([1, True], ["1", "true"]),
        ([1, "x"], ["1", "x"]),
        ([2**53 + 1, 0.5], [str(2**53 + 1), "0.5"]),
        ([2**70, 1], [str(2**70), "1"]),
        ([None, None], [None, None]),
        ([None, 3], [None, 3]),
    ],
)
def test_columns_have_one_type(values: list[Value], back: list[Value], tmp_path: Path) -> None:
    """Text where numbers of one type would lose digits or mix with truth values."""
    assert column(results(values), tmp_path, "value.y") == [*back, None, None]


plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20)
)


@given(st.lists(plain, max_size=8))
def test_any_values_can_be_exported(values: list[Value]) -> None:
    """CSV and Parquet agree, whatever the values are."""
    text = export_files(results(values))["rows.csv"].decode()
    assert text.startswith("key,argument.i,status")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """Below a file there is no folder."""
    (tmp_path / "file").write_text("x", encoding="ascii")
    with pytest.raises(InputError, match="cannot be written"):
        write_export(results([1]), tmp_path / "file" / "below")
