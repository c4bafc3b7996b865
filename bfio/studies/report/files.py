"""Write the files of a report whole or not at all, and complain in one line."""

import csv
import io
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bfio.studies.report.text import encodable, encodable_value
from bfio.workloads.tables import atomic_file
from formulations.errors import InputError

#: Names under which earlier reports left tables and figures.
_OURS = re.compile(r"\d\d-[a-z0-9-]*\.(csv|svg|png)")
_SLUG_LENGTH = 48


def write_all(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write files by their names relative to a folder, the last one named last.

    All are written beside their places first, then renamed: whoever reads meanwhile finds each
    file old or new, and if there is no space left, all old ones stay. Numbered tables and
    figures of an earlier report that have no successor are removed.

    Raises
    ------
    InputError
        If the folder cannot be made or written.
    """
    with _translated(folder):
        folder.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".report-", dir=folder))
    try:
        with _translated(folder):
            for name, content in files.items():
                _place(beside, name).write_bytes(content)
            paths = [(beside / name).replace(_place(folder, name)) for name in files]
            _remove_stale(folder, set(paths))
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return paths


def _place(folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    return path


def _remove_stale(folder: Path, fresh: set[Path]) -> None:
    """Remove tables and figures of an earlier report from the folders this one wrote to."""
    for place in {path.parent for path in fresh} - {folder}:
        for path in place.iterdir():
            if path not in fresh and _OURS.fullmatch(path.name):
                path.unlink()


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            str(folder),
            f"cannot be written ({error.strerror})",
            "choose another place with --output, or make room in this one",
        ) from None


def write_text(path: Path, text: str) -> None:
    """Write a text whole or not at all.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    with _translated(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path, overwrite=True) as (stream, _):
        stream.write(text.encode())


def slug(number: int, title: str) -> str:
    """Return a file name for a numbered table or figure."""
    words = "-".join(re.findall(r"[a-z0-9]+", title.lower()))[:_SLUG_LENGTH].strip("-")
    return f"{number:02d}-{words}"


def csv_text(columns: Sequence[str], lines: Iterable[Sequence[Any]]) -> bytes:
    """Return lines as CSV: numbers with all digits, nothing for None."""
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
