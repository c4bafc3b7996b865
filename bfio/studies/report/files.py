"""Write the files of a report: valid text, atomic replacement, CSV and Parquet."""

import csv
import hashlib
import io
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfio.common.files import write_file
from bfio.studies.results import Results
from bfio.studies.row import Row, Task, Value, canonical, label
from formulations.errors import InputError

if TYPE_CHECKING:
    import pyarrow

#: Replacement for a character that cannot be shown.
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
#: Lone surrogates, which no text encoding can represent.
_SURROGATES = re.compile("[\ud800-\udfff]")
#: Characters that HTML forbids: control characters other than tabs and line ends.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_MAX_ERROR = 300


def encodable(text: str) -> str:
    """Return text with lone surrogates replaced, because files cannot store them."""
    return _SURROGATES.sub(REPLACEMENT, text)


def printable(text: str) -> str:
    """Return text with the characters replaced that HTML forbids."""
    return _FORBIDDEN.sub(REPLACEMENT, text)


def encodable_value(value: Value) -> Value:
    """Return a value; in a text, lone surrogates are replaced."""
    return encodable(value) if isinstance(value, str) else value


def shortened(error: str) -> str:
    """Return an error text, cut after `_MAX_ERROR` characters with a note."""
    if len(error) <= _MAX_ERROR:
        return error
    return f"{error[:_MAX_ERROR]} … (cut: {len(error):,} characters; the store has them all)"


#: File names of tables and figures of earlier reports.
_OURS = re.compile(r"\d\d-[a-z0-9-]*\.(csv|svg|png)")
_SLUG_LENGTH = 48


def write_all(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write files by names relative to a folder, in the given order.

    All files are first written to a temporary folder beside the target, then renamed. So readers
    see each file either old or new, and if the disk is full, all old files stay. Numbered tables
    and figures of an earlier report that have no successor are removed.

    Raises
    ------
    InputError
        If the folder cannot be created or written.
    """
    with _translated(folder):
        folder.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".report-", dir=folder))
    try:
        with _translated(folder):
            for name, content in files.items():
                _place(beside, name).write_bytes(content)
            paths = [(beside / name).replace(_place(folder, name)) for name in files]
            # Remove tables and figures of an earlier report from the written folders.
            for place in {path.parent for path in paths} - {folder}:
                for path in place.iterdir():
                    if path not in paths and _OURS.fullmatch(path.name):
                        path.unlink()
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return paths


def _place(folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    return path


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = "choose another folder, or make room in this one"
        raise InputError(str(folder), f"cannot be written ({error.strerror})", remedy) from None


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    with _translated(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text.encode())


def slug(number: int, title: str) -> str:
    """Return the file name of a numbered table or figure."""
    words = "-".join(re.findall(r"[a-z0-9]+", title.lower()))[:_SLUG_LENGTH].strip("-")
    return f"{number:02d}-{words}"


def csv_text(columns: Sequence[str], lines: Iterable[Sequence[Any]]) -> bytes:
    """Return table lines as CSV: numbers with all digits, empty fields for None."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([encodable(name) for name in columns])
    for line in lines:
        writer.writerow([_field(value) for value in line])
    return stream.getvalue().encode()


def _field(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else encodable_value(value)


#: Status of a planned row that was not computed.
MISSING = "missing"


def write_export(results: Results, folder: Path) -> list[Path]:
    """Write ``rows.csv`` and ``rows.parquet`` and return their paths.

    Columns are the key, ``argument.NAME``, status, ``value.NAME``, ``timing.NAME`` and the
    measured quantities. Series and logs stay in the store.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    return write_all(folder, export_files(results))


def export_files(results: Results) -> dict[str, bytes]:
    """Return the contents of ``rows.csv`` and ``rows.parquet`` by name."""
    records = [_record(task, results.rows.get(task.key)) for task in results.tasks]
    columns = _columns(records)
    return {
        "rows.csv": csv_text(columns, [[r.get(name) for name in columns] for r in records]),
        "rows.parquet": _parquet(columns, records),
    }


def _record(task: Task, row: Row | None) -> dict[str, Value]:
    record: dict[str, Value] = {"key": task.key, "computes": task.computes}
    record |= {f"argument.{name}": value for name, value in task.arguments.items()}
    record |= {"instance": task.instance, "code": task.code}
    if row is None:
        return record | {"status": MISSING}
    record |= {"status": row.status.value, "verdict": row.verdict.value, "error": row.error}
    record |= {f"value.{name}": value for name, value in row.values.items()}
    record |= {f"timing.{name}": value for name, value in row.timings.items()}
    record |= {name: getattr(row, name) for name in _OF_ROWS}
    return record | {"environment": environment_id(row.environment)}


#: Fields of every row that are exported in addition to its values.
_OF_ROWS = (
    "solves", "unproven", "stopped_by_clock", "wall_s", "cpu_s", "peak_memory_bytes", "attempts",
    "finished_at",
)  # fmt: skip
#: Order of the columns. An entry that ends in a point stands for all names with this prefix.
_ORDER = (
    "key", "argument.", "status", "verdict", "error", "value.", "timing.", "solves", "unproven",
    "stopped_by_clock", "wall_s", "cpu_s", "peak_memory_bytes", "attempts", "environment",
    "finished_at", "computes", "instance", "code",
)  # fmt: skip


def _columns(records: Sequence[dict[str, Value]]) -> list[str]:
    names = dict.fromkeys(name for record in records for name in record)
    return [
        name
        for place in _ORDER
        for name in names
        if name == place or (place.endswith(".") and name.startswith(place))
    ]


def _parquet(columns: Sequence[str], records: Sequence[dict[str, Value]]) -> bytes:
    import pyarrow as arrow
    from pyarrow import parquet

    arrays = [_array([encodable_value(r.get(name)) for r in records]) for name in columns]
    names = [encodable(name) for name in columns]
    sink = io.BytesIO()
    parquet.write_table(arrow.table(dict(zip(names, arrays, strict=True))), sink)
    return sink.getvalue()


def _array(values: Sequence[Value]) -> "pyarrow.Array[Any]":
    """Return values as an Arrow column of one type; as text if no other type is lossless."""
    import pyarrow as arrow

    try:
        return arrow.array(values)
    except (OverflowError, arrow.ArrowInvalid, arrow.ArrowTypeError):
        return arrow.array([None if value is None else label(value) for value in values])


def environment_id(environment: Mapping[str, Any]) -> str:
    """Return an eight-digit hexadecimal identifier of an environment; empty if unknown."""
    if not environment:
        return ""
    return hashlib.sha256(canonical(environment).encode()).hexdigest()[:8]
