"""Rows on disk: appended as they are made, so that an interruption loses nothing."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

from benchmarks.case import Row
from formulations.errors import InputError

FILE_NAME = "rows.jsonl"

#: What makes two rows answers to the same question.
Key: TypeAlias = tuple[str, str, str, str, str, str]


def row_key(row: Row) -> Key:
    """Return case, instance, method, parameters, sources and versions of a row."""
    environment = row["environment"]
    return (
        row["case"],
        row["instance"],
        row["method"],
        _canonical(row["parameters"]),
        environment["sources"],
        _canonical(environment["versions"]),
    )


def read_rows(folder: Path) -> list[Row]:
    """Return the rows of a folder, oldest first; a line cut off by a kill is no row.

    Raises
    ------
    InputError
        If the folder has no rows, or a complete line is unreadable.
    """
    path = folder / FILE_NAME
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(
            str(path), f"cannot be read ({error.strerror})", "name a folder that `run` wrote"
        ) from None
    # After the last line break there is nothing, or what a killed run could not finish.
    return [_parsed(line, path, number) for number, line in enumerate(lines[:-1], 1) if line]


class RowStore:
    """The rows of one folder, open for appending."""

    def __init__(self, stream: BinaryIO, rows: list[Row]) -> None:
        self._stream = stream
        self._by_instance: dict[tuple[str, str], list[Row]] = {}
        self._done: set[Key] = set()
        for row in rows:
            self._remember(row)

    def has(self, row: Row) -> bool:
        """Whether a row with this key was measured without failing."""
        return row_key(row) in self._done

    def of_instance(self, case: str, instance: str) -> list[Row]:
        """Return the rows of one instance so far."""
        return self._by_instance.get((case, instance), [])

    def append(self, row: Row) -> None:
        """Write one row through to the disk."""
        line = json.dumps(row, allow_nan=False, separators=(",", ":"))
        self._stream.write(line.encode() + b"\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._remember(row)

    def _remember(self, row: Row) -> None:
        self._by_instance.setdefault((row["case"], row["instance"]), []).append(row)
        # A failed row is tried again when the run is repeated.
        if row["status"] == "ok":
            self._done.add(row_key(row))


@contextmanager
def open_store(folder: Path) -> Iterator[RowStore]:
    """Open the rows of ``folder`` for appending, alone.

    Raises
    ------
    InputError
        If the folder cannot be made, or another run writes to it.
    """
    path = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stream = path.open("ab")
    except OSError as error:
        raise InputError(
            str(folder), f"cannot be written ({error.strerror})", "choose another --out"
        ) from None
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                str(folder), "another run writes here", "wait for it, or choose another --out"
            ) from None
        _cut_torn_line(path)
        yield RowStore(stream, read_rows(folder))


def _cut_torn_line(path: Path) -> None:
    """Remove what a kill left of a last line, so that the next row starts on its own."""
    content = path.read_bytes()
    complete = content.rfind(b"\n") + 1
    if complete < len(content):
        os.truncate(path, complete)


def _parsed(line: bytes, path: Path, number: int) -> Row:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise InputError(f"{path} line {number}", "not a row", "remove the line")
    return row


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)
