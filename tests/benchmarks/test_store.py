from pathlib import Path

import pytest

from benchmarks.case import Row
from benchmarks.store import FILE_NAME, open_store, read_rows, row_key
from formulations.errors import InputError
from tests.benchmarks.examples import step_row


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    """What is appended is read back equal, in the order of appending."""
    rows = [step_row(instance=f"i{k}", objective=k) for k in range(3)]
    with open_store(tmp_path) as store:
        for row in rows:
            store.append(row)
    assert read_rows(tmp_path) == rows


def test_a_row_counts_as_soon_as_it_is_appended(tmp_path: Path) -> None:
    """It is on disk, complete, before the store is closed."""
    with open_store(tmp_path) as store:
        store.append(step_row())
        assert read_rows(tmp_path) == [step_row()]


@pytest.mark.parametrize("torn", [b"{", b'{"case": "steps"', b"\xff\xfe", b"{}"])
def test_a_torn_last_line_is_dropped_and_no_other(tmp_path: Path, torn: bytes) -> None:
    """A kill in the middle of a write costs that row; the next one starts on a line of its own.

    Even a torn line that happens to be JSON is dropped: only the line break completes a row.
    """
    with open_store(tmp_path) as store:
        store.append(step_row(instance="before"))
    with (tmp_path / FILE_NAME).open("ab") as stream:
        stream.write(torn)
    assert read_rows(tmp_path) == [step_row(instance="before")]
    with open_store(tmp_path) as store:
        store.append(step_row(instance="after"))
    assert [row["instance"] for row in read_rows(tmp_path)] == ["before", "after"]


def test_a_damaged_complete_line_is_named(tmp_path: Path) -> None:
    """A complete line that is no row stops the reader, with its number."""
    (tmp_path / FILE_NAME).write_text('{"a": 1}\n[]\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 2: not a row"):
        read_rows(tmp_path)


def test_an_empty_folder_has_no_rows(tmp_path: Path) -> None:
    """Reporting a folder that no run wrote names the missing file."""
    with pytest.raises(InputError, match=FILE_NAME):
        read_rows(tmp_path)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    """Two runs in one folder would cut each other's lines."""
    with open_store(tmp_path), pytest.raises(InputError, match="another run"):
        open_store(tmp_path).__enter__()


@pytest.mark.parametrize(
    "changes",
    [
        {"case": "x"},
        {"instance": "x"},
        {"method": "x"},
        {"parameters": {"time_limit": 1.0}},
        {"environment": {"sources": "x", "versions": {"python": "3"}}},
        {"environment": {"sources": "s", "versions": {"python": "4"}}},
    ],
)
def test_everything_a_result_depends_on_is_in_the_key(changes: Row) -> None:
    """Another case, instance, method, parameter, source or version is another question."""
    assert row_key(step_row(**changes)) != row_key(step_row())


def test_what_a_result_does_not_depend_on_is_not_in_the_key() -> None:
    """The run and the outcome do not make a new question."""
    assert row_key(step_row(run="x", objective=3)) == row_key(step_row())


def test_failed_rows_are_measured_again(tmp_path: Path) -> None:
    """Only a row that did not fail counts as done, also after reopening."""
    failed, good = step_row(instance="bad", status="failed"), step_row(instance="good")
    with open_store(tmp_path) as store:
        store.append(failed)
        store.append(good)
    with open_store(tmp_path) as store:
        assert not store.has(failed)
        assert store.has(good)
        assert store.of_instance("steps-8x24-r64", "bad") == [failed]
