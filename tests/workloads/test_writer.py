"""Writing and reading back: the identity, and never half a file."""

import errno
import os
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.common.files import atomic_file
from bfio.workloads import Workload, read_trace, synthetic, write_trace
from formulations.arrays import MAX_TOKENS
from formulations.errors import InputError

TOKENS = st.one_of(st.integers(1, 50), st.integers(1, MAX_TOKENS))
DECIMAL_TIMES = st.builds(Fraction, st.integers(0, 10**24), st.sampled_from([1, 8, 1000, 10**12]))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Draw any workload whose times are decimals: with ties, huge values, or without times."""
    lengths = draw(st.lists(st.tuples(TOKENS, TOKENS), min_size=1, max_size=30))
    times = draw(
        st.none()
        | st.lists(DECIMAL_TIMES, min_size=len(lengths), max_size=len(lengths)).map(sorted)
    )
    array = np.array(lengths, dtype=np.int64)
    if times is None:
        return Workload(array[:, 0], array[:, 1])
    latest = Fraction(10**12)
    return Workload(array[:, 0], array[:, 1], tuple(min(time, latest) for time in times))


@given(workloads(), st.sampled_from(["t.csv", "t.csv.gz"]))
def test_round_trip(workload: Workload, name: str) -> None:
    """What is written is read back exactly."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_trace(workload, path)
        again = read_trace(path)
        assert [entry.name for entry in Path(folder).iterdir()] == [name]
    assert again.prompt_tokens.tolist() == workload.prompt_tokens.tolist()
    assert again.output_tokens.tolist() == workload.output_tokens.tolist()
    assert again.arrival_times == workload.arrival_times


def test_text(tmp_path: Path) -> None:
    """The file is what the format says, with LF line ends."""
    workload = Workload(np.array([3, 5]), np.array([4, 6]), (Fraction(1, 8), Fraction(10)))
    write_trace(workload, tmp_path / "t.csv")
    expected = b"arrival_time_s,prompt_tokens,output_tokens\n0.125,3,4\n10,5,6\n"
    assert (tmp_path / "t.csv").read_bytes() == expected


def test_long_workload_and_equal_bytes(tmp_path: Path) -> None:
    """More rows than one write takes come back, and compressed bytes are reproducible."""
    workload = synthetic("demo", 25_000, seed=3)
    write_trace(workload, tmp_path / "a.csv.gz")
    write_trace(workload, tmp_path / "b.csv.gz")
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    again = read_trace(tmp_path / "a.csv.gz")
    assert again.arrival_times == workload.arrival_times
    assert np.array_equal(again.prompt_tokens, workload.prompt_tokens)


def test_existing_file_is_kept(tmp_path: Path) -> None:
    """Nothing is overwritten unless asked for."""
    path = tmp_path / "t.csv"
    path.write_text("precious")
    workload = synthetic("demo", 3, seed=0)
    with pytest.raises(InputError, match="the file exists"):
        write_trace(workload, path)
    assert path.read_text() == "precious"
    write_trace(workload, path, overwrite=True)
    assert len(read_trace(path)) == 3
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="is a directory"):
        write_trace(workload, tmp_path / "folder.csv", overwrite=True)
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="is a device or a pipe"):
        write_trace(workload, tmp_path / "pipe.csv", overwrite=True)
    assert (tmp_path / "pipe.csv").is_fifo()
    (tmp_path / "link.csv").symlink_to(path)
    write_trace(synthetic("demo", 2, seed=0), tmp_path / "link.csv", overwrite=True)
    assert (tmp_path / "link.csv").is_symlink()
    assert len(read_trace(path)) == 2
    for name in ("t.parquet", "t.jsonl.gz", "t.txt", "-"):
        with pytest.raises(InputError, match=r"traces are written as CSV; use \.csv"):
            write_trace(workload, tmp_path / name)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ((Fraction(0), Fraction(1, 3)), r"arrival_times\[1\]: 1/3 has no decimal expansion"),
        ((Fraction(0), Fraction(10**12 + 1)), r"arrival_times\[1\]: is more than"),
    ],
)
def test_failure_leaves_nothing_behind(
    tmp_path: Path, times: tuple[Fraction, ...], message: str
) -> None:
    """An error half-way leaves the old file and no other."""
    path = tmp_path / "t.csv"
    path.write_text("old")
    with pytest.raises(InputError, match=message):
        write_trace(Workload(np.array([1, 1]), np.array([1, 1]), times), path, overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.csv"]
    assert path.read_text() == "old"


def test_empty_workload_and_bad_place(tmp_path: Path) -> None:
    """No requests cannot be written, nor can anything in a folder that is not there."""
    empty = Workload(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    with pytest.raises(InputError, match="the workload has no requests"):
        write_trace(empty, tmp_path / "t.csv")
    with pytest.raises(InputError, match="No such file"):
        write_trace(synthetic("demo", 1, seed=0), tmp_path / "nowhere" / "t.csv")


def test_a_read_only_file_system_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses to remove the partial file, too, which was never written."""

    def refuses(*args: object, **keywords: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "open", refuses)
    monkeypatch.setattr(Path, "unlink", refuses)
    with pytest.raises(InputError, match=r"/t\.csv: Read-only file system; choose a writable"):
        write_trace(synthetic("demo", 1, seed=0), tmp_path / "t.csv")


def _interrupted_write(path: Path) -> None:
    with atomic_file(path, overwrite=False) as (stream, _):
        stream.write(b"half")
        raise KeyboardInterrupt


def test_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    """Ctrl-C while writing removes the partial file too."""
    path = tmp_path / "t.csv"
    with pytest.raises(KeyboardInterrupt):
        _interrupted_write(path)
    assert list(tmp_path.iterdir()) == []
