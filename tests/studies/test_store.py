"""The store: rows are read back as written, and the store cannot be corrupted."""

import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.studies.row import Row, RowVerdict, Status, Task, canonical, row_key
from bfio.studies.store import LAYOUT, Store, open_for_reading, open_for_writing
from formulations.errors import InputError

_numbers = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False)
)
_scalars = st.one_of(st.none(), st.booleans(), _numbers, st.text(max_size=20))
_names = st.text(min_size=1, max_size=10)
_mappings = st.dictionaries(_names, _scalars, max_size=4)


def _row(key: str = "a", **changes: object) -> Row:
    row = Row(Task(key, "k", {"x": 1}, "i", "c"), Status.DONE, environment={"machine": "m"})
    return replace(row, **changes)  # type: ignore[arg-type]


@given(
    arguments=_mappings,
    values=_mappings,
    series=st.dictionaries(_names, st.lists(_numbers, max_size=4), max_size=3),
    status=st.sampled_from(Status),
    verdict=st.sampled_from(RowVerdict),
    text=st.text(max_size=40),
)
def test_rows_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory,
    arguments: dict[str, object],
    values: dict[str, object],
    series: dict[str, list[float]],
    status: Status,
    verdict: RowVerdict,
    text: str,
) -> None:
    """Every column, whatever it holds; NUL characters and huge integers included."""
    path = tmp_path_factory.mktemp("store") / "s.sqlite"
    row = _row(
        task=Task("a", "k", arguments, text, text),  # type: ignore[arg-type]
        values=values,
        series=series,
        status=status,
        verdict=verdict,
        error=text,
        log=text,
        wall_s=0.1,
        attempts=3,
        stopped_by_clock=True,
    )
    with open_for_writing(path) as store:
        store.add(row)
    with open_for_reading(path) as store:
        assert store.rows(["a"]) == {"a": row}


def test_rows_come_in_the_order_asked_for_and_missing_ones_are_left_out(tmp_path: Path) -> None:
    """Also when there are more than fit into one question to the database."""
    keys = [f"{number:05d}" for number in range(1200)]
    with open_for_writing(tmp_path / "s") as store:
        for key in keys[:-1]:
            store.add(_row(key))
        asked = keys[::-1]
        assert list(store.rows(asked)) == asked[1:]
        assert store.statuses(asked) == dict.fromkeys(keys[:-1], Status.DONE)
        assert store.count() == 1199


def test_a_row_computed_again_takes_the_place_of_the_first(tmp_path: Path) -> None:
    """One row per key, ever."""
    with open_for_writing(tmp_path / "s") as store:
        store.add(_row(status=Status.FAILED))
        store.add(_row(status=Status.DONE))
        assert store.count() == 1
        assert store.rows(["a"])["a"].is_done


def test_a_second_run_is_kept_out_and_readers_are_not(tmp_path: Path) -> None:
    """The message says who holds the store."""
    path = tmp_path / "s"
    with open_for_writing(path) as store:
        store.add(_row())
        with (
            pytest.raises(
                InputError, match=rf"another run writes to it \(process {os.getpid()}\)"
            ),
            open_for_writing(path),
        ):
            pass
        with open_for_reading(path) as reader:
            assert reader.count() == 1
    with open_for_writing(path) as store:
        assert store.count() == 1


def test_a_reader_leaves_nothing_behind(tmp_path: Path) -> None:
    """The files that SQLite keeps beside a store go with the last connection."""
    with open_for_writing(tmp_path / "s"):
        pass
    before = sorted(tmp_path.iterdir())
    with open_for_reading(tmp_path / "s") as store:
        store.count()
    assert sorted(tmp_path.iterdir()) == before


def test_a_link_is_no_second_store(tmp_path: Path) -> None:
    """The lock belongs to the file, whatever name it is called by."""
    (tmp_path / "link").symlink_to(tmp_path / "s")
    with (
        open_for_writing(tmp_path / "s"),
        pytest.raises(InputError, match="another run writes to it"),
        open_for_writing(tmp_path / "link"),
    ):
        pass


def test_a_store_that_disappears_is_noticed_at_the_next_row(tmp_path: Path) -> None:
    """Rows must not go to a file that nobody can find."""
    with open_for_writing(tmp_path / "s") as store:
        store.add(_row("a"))
        (tmp_path / "s").unlink()
        with pytest.raises(InputError, match="removed or replaced while a study runs"):
            store.add(_row("b"))


@pytest.mark.parametrize(
    "change",
    [
        *("\"values\" = '{'", "\"values\" = '[]'", '"values" = \'{"x": NaN}\''),
        *("timings = '{\"x\": 1e400}'", f"series = '{'[' * 9999}'"),
        *("status = 'well'", "environment = 99"),
    ],
)
def test_a_damaged_row_is_named(tmp_path: Path, change: str) -> None:
    """Where it is and what to do; a row without its environment is as good as missing."""
    with open_for_writing(tmp_path / "s") as store:
        store.add(_row("a"))
    _change(tmp_path / "s", f"UPDATE row SET {change}")
    with open_for_reading(tmp_path / "s") as store:
        if "environment" in change:
            assert store.rows(["a"]) == {}
        else:
            with pytest.raises(InputError, match=r"row a: damaged"):
                store.rows(["a"])


def test_a_store_in_a_folder_that_nobody_may_write_can_be_read(tmp_path: Path) -> None:
    """An archive; on a file system mounted for reading only where that can be done."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", str(disk)], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with open_for_writing(disk / "s") as store:
            store.add(_row("a"))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with open_for_reading(disk / "s") as store:
            assert store.count() == 1
        with pytest.raises(InputError, match="cannot be written"), open_for_writing(disk / "s"):
            pass
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_the_lock_dies_with_its_holder(tmp_path: Path) -> None:
    """A killed run does not keep the next one out."""
    script = (
        "import sys, os, pathlib; from bfio.studies.store import open_for_writing\n"
        "with open_for_writing(pathlib.Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "s")], check=False)
    assert done.returncode == -9
    with open_for_writing(tmp_path / "s") as store:
        assert store.count() == 0


def _change(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(("layout", "age"), [(LAYOUT - 1, "an older"), (LAYOUT + 1, "a newer")])
def test_another_version_is_named_and_left_alone(tmp_path: Path, layout: int, age: str) -> None:
    """Neither reading nor writing touches it."""
    path = tmp_path / "s"
    with open_for_writing(path) as store:
        store.add(_row())
    _change(path, f"PRAGMA user_version = {layout}")
    before = path.read_bytes()
    for opened in (open_for_reading, open_for_writing):
        with pytest.raises(InputError, match=f"made by {age} version of bfio"), opened(path):
            pass
    assert path.read_bytes() == before


def test_other_files_are_named_and_left_alone(tmp_path: Path) -> None:
    """Another program's database, text, and a folder."""
    other, text, folder = tmp_path / "db", tmp_path / "text", tmp_path / "folder"
    _change(other, "CREATE TABLE t (x)")
    text.write_text("not a database, and long enough to be read as a header " * 20)
    folder.mkdir()
    for path, what in (
        (other, "not a store of rows"),
        (text, "not a database"),
        (folder, "unable to open|Is a directory"),
    ):
        with pytest.raises(InputError, match=what), open_for_writing(path):
            pass
    assert text.read_text().startswith("not a database")
    with pytest.raises(InputError, match="no such store"), open_for_reading(tmp_path / "none"):
        pass


def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    """The superuser may write anywhere, so a file stands in the way."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match="cannot be written"),
        open_for_writing(tmp_path / "file" / "s.sqlite"),
    ):
        pass


@pytest.mark.skipif(os.getuid() == 0, reason="the superuser may write to read-only folders")
def test_a_folder_without_the_right_to_write(tmp_path: Path) -> None:
    """As its owner."""
    tmp_path.chmod(0o500)
    with (
        pytest.raises(InputError, match="cannot be written"),
        open_for_writing(tmp_path / "s.sqlite"),
    ):
        pass
    tmp_path.chmod(0o700)


def test_a_full_disk_keeps_the_rows_before(tmp_path: Path) -> None:
    """A limit on the pages of the file, which SQLite reports as it reports a full disk."""
    path = tmp_path / "s"
    with open_for_writing(path) as store:
        store.add(_row("a"))
        store._connection.execute("PRAGMA max_page_count = 20")  # noqa: SLF001
        with pytest.raises(InputError, match="full; free disk space and run again"):
            store.add(_row("b", log="x" * 200_000))
        store.add(_row("c"))
    with open_for_reading(path) as store:
        assert list(store.rows("abc")) == ["a", "c"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """Return a folder on a real file system of 1 MiB, if one can be mounted here."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    return folder


def test_a_really_full_disk_keeps_the_rows_before(small_disk: Path) -> None:
    """Until nothing fits any more; then make room, and go on."""
    path = small_disk / "s.sqlite"
    written = 0

    def fill() -> None:
        nonlocal written
        with open_for_writing(path) as store:
            while True:
                store.add(_row(f"{written:04d}", log="x" * 20_000))
                written += 1

    try:
        with pytest.raises(InputError, match="free disk space"):
            fill()
        assert written > 5
        subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
        with open_for_writing(path) as store:
            assert store.count() == written
            store.add(_row("z"))
            assert store.count() == written + 1
    finally:
        subprocess.run(["umount", str(small_disk)], check=True)


@given(_mappings, _mappings)
def test_keys_differ_exactly_when_arguments_do(
    first: dict[str, object], second: dict[str, object]
) -> None:
    """The order of arguments does not count; 1, 1.0 and true are different values."""
    shuffled = dict(reversed(first.items()))
    key = row_key("k", first, "i", "c")
    assert row_key("k", shuffled, "i", "c") == key
    assert (row_key("k", second, "i", "c") == key) == (canonical(first) == canonical(second))
    assert row_key("k", first, "j", "c") != key
    assert row_key("k", first, "i", "d") != key
    assert row_key("l", first, "i", "c") != key


def test_a_store_is_whole_or_empty_from_its_first_moment(tmp_path: Path) -> None:
    """An empty file, which a kill at the very start may leave, is no store yet but becomes one."""
    path = tmp_path / "s"
    path.touch()
    with open_for_writing(path) as store:
        store.add(_row())
    with open_for_reading(path) as opened:
        assert isinstance(opened, Store)
        assert opened.count() == 1
