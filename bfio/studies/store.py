"""Store rows in one SQLite file: one transaction per row, one writer.

The file uses write-ahead logging with full synchronisation. A committed row survives a kill, a
crash and a power loss, and other processes may read during a run. A lock file next to the store
prevents a second writer; the system releases the lock when its holder ends.
"""

import fcntl
import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from bfio.studies.row import Row, RowVerdict, Status, Task, canonical
from formulations.errors import InputError
from formulations.problem_data import json_word

#: Marks the file as a store of studies ("bfio" in ASCII).
APPLICATION_ID = 0x6266696F
#: Version of the layout below.
LAYOUT = 1

#: Columns of a row, apart from its environment, with their types.
_COLUMNS = {
    "key": "TEXT PRIMARY KEY",
    **dict.fromkeys(("computes", "arguments", "instance", "code", "status", "verdict"), "TEXT"),
    **dict.fromkeys(("error", "values", "series", "timings"), "TEXT"),
    **dict.fromkeys(("solves", "unproven", "stopped_by_clock"), "INTEGER"),
    "log": "TEXT",
    **dict.fromkeys(("wall_s", "cpu_s"), "REAL"),
    **dict.fromkeys(("peak_memory_bytes", "attempts"), "INTEGER"),
    "finished_at": "TEXT",
}
#: The columns that contain JSON.
_JSON = ("arguments", "values", "series", "timings")
#: An exponent that may be too large for a float.
_HUGE = re.compile(r"[eE]\+?\d{3}")
_NAMES = ", ".join(f'"{name}"' for name in _COLUMNS)
_CREATE = f"""
BEGIN;
CREATE TABLE environment (
    id INTEGER PRIMARY KEY,
    document TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE row (
    {" ".join(f'"{name}" {kind} NOT NULL,' for name, kind in _COLUMNS.items())}
    environment INTEGER NOT NULL REFERENCES environment (id)
) STRICT, WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {LAYOUT};
COMMIT;
"""
_INSERT = (
    f"INSERT OR REPLACE INTO row ({_NAMES}, environment)"
    f" VALUES ({', '.join('?' for _ in (*_COLUMNS, 'environment'))})"
)
#: Largest number of variables per SQL statement. Old versions of SQLite allow 999.
_CHUNK = 500


#: Remedies for SQLite errors whose message contains one of these words.
_REMEDIES = {
    ("full", "I/O"): "free disk space and run again; stored rows are kept",
    ("readonly", "unable to open"): (
        "make the file and its folder writable, or give another store=PATH"
    ),
    ("locked",): "close the program that holds it, or give another store=PATH",
}


class Store:
    """An open store of rows; see `open_for_reading` and `open_for_writing`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._environments: dict[str, int] = {}
        self._identity = _identity(path)

    def statuses(self, keys: Iterable[str]) -> dict[str, Status]:
        """Return the status of each stored row among these keys."""
        known = tuple(Status)
        return {
            key: Status(status) if status in known else Status.FAILED
            for key, status in self._select(keys, 'key, "status"')
        }

    def rows(self, keys: Iterable[str]) -> dict[str, Row]:
        """Return the stored rows among these keys, in the order of the keys."""
        wanted = list(keys)
        found = {
            record[0]: _parsed(record, self.path)
            for record in self._select(wanted, f"{_NAMES}, document", _JOIN)
        }
        return {key: found[key] for key in wanted if key in found}

    def count(self) -> int:
        """Return the number of stored rows, of all studies and code versions."""
        with _translated(self.path):
            (number,) = self._connection.execute("SELECT COUNT(*) FROM row").fetchone()
        return int(number)

    def add(self, row: Row) -> None:
        """Write one row in its own transaction, replacing a row with the same key.

        Raises
        ------
        InputError
            If it cannot be written (disk full, no permission, damaged file). Earlier rows stay.
        """
        document = canonical(row.environment)
        cells = {**vars(row.task), **vars(row)}
        cells |= {name: canonical(cells[name]) for name in _JSON}
        with _translated(self.path), self._connection:
            environment = self._environment_id(document)
            self._connection.execute(_INSERT, (*(cells[name] for name in _COLUMNS), environment))
        # Only after the commit: a rollback would remove the environment again.
        self._environments[document] = environment
        if _identity(self.path) != self._identity:
            remedy = "do not move the store during a run; earlier rows are in the moved file"
            raise InputError(str(self.path), "removed or replaced while a study runs", remedy)

    def _environment_id(self, document: str) -> int:
        known = self._environments.get(document)
        if known is not None:
            return known
        execute = self._connection.execute
        execute("INSERT OR IGNORE INTO environment (document) VALUES (?)", (document,))
        query = "SELECT id FROM environment WHERE document = ?"
        (number,) = execute(query, (document,)).fetchone()
        return int(number)

    def _select(
        self, keys: Iterable[str], columns: str, source: str = "row"
    ) -> Iterator[tuple[Any, ...]]:
        wanted = list(keys)
        for start in range(0, len(wanted), _CHUNK):
            chunk = wanted[start : start + _CHUNK]
            marks = ", ".join("?" for _ in chunk)
            query = f"SELECT {columns} FROM {source} WHERE row.key IN ({marks})"
            with _translated(self.path):
                records = self._connection.execute(query, chunk).fetchall()
            yield from records


_JOIN = "row JOIN environment ON environment.id = row.environment"


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the store file, to detect a replacement; None if missing."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def open_for_reading(path: Path) -> Iterator[Store]:
    """Open an existing store for reading; a run may write to it meanwhile.

    Raises
    ------
    InputError
        If it does not exist or has another layout version.
    """
    if not path.is_file():
        raise InputError(str(path), "no such store", "run the study first, or give its store=PATH")
    path = path.resolve()
    with _connected(_read_only_address(path), path) as connection:
        _check_layout(path, connection)
        yield Store(path, connection)


def _read_only_address(path: Path) -> str:
    """Return the SQLite address for reading a store.

    Readers and the writer share two small files next to the store, which only a connection that
    may write deletes in the end. In a folder without write permission there is no writer, and the
    store can be read as immutable.
    """
    log = path.with_name(f"{path.name}-wal")
    settled = not os.access(path.parent, os.W_OK) and not log.exists()
    return f"{path.as_uri()}?{'immutable=1' if settled else 'mode=rw'}"


@contextmanager
def open_for_writing(path: Path) -> Iterator[Store]:
    """Open a store for the only process that may write; create a missing store.

    Raises
    ------
    InputError
        If another run writes to it, its folder cannot be written, or it has another layout
        version.
    """
    # Use the real path, because a second run may use a link to the store.
    path = path.resolve()
    with _lock(path):
        fresh = not path.exists() or path.stat().st_size == 0
        with _connected(path.as_uri(), path) as connection:
            if fresh:
                # In one transaction: a kill leaves an empty file or a valid store.
                with _translated(path):
                    connection.executescript(_CREATE)
            _check_layout(path, connection)
            with _translated(path):
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
            yield Store(path, connection)


@contextmanager
def _connected(address: str, path: Path) -> Iterator[sqlite3.Connection]:
    with _translated(path):
        connection = sqlite3.connect(address, timeout=30.0, uri=True)
    try:
        yield connection
    finally:
        connection.close()


def _check_layout(path: Path, connection: sqlite3.Connection) -> None:
    with _translated(path):
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (layout,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        what = "is a database, but not a store of rows"
        raise InputError(str(path), what, "give another store=PATH")
    if layout != LAYOUT:
        age = "an older" if layout < LAYOUT else "a newer"
        what = f"made by {age} version of bfio (layout {layout}; this version reads {LAYOUT})"
        remedy = "use that version, or start a new store=PATH; nothing was changed"
        raise InputError(str(path), what, remedy)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the writer lock of a store; the system releases it when the process ends."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = lock.open("a+", encoding="utf-8")
    except OSError as error:
        what = f"cannot be written ({error.strerror})"
        raise InputError(str(path.parent), what, "give another store=PATH") from None
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.seek(0)
            raise InputError(
                str(path),
                f"another run writes to it (process {stream.read().strip() or 'unknown'})",
                "wait for it, or give another store=PATH; `bfio study status` shows its progress",
            ) from None
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Convert an SQLite error into an `InputError` with a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        remedy = "give another store=PATH, or restore this file from a copy"
        for words, other in _REMEDIES.items():
            if any(word in str(error) for word in words):
                remedy = other
                break
        raise InputError(str(path), str(error), remedy) from error


def _parsed(record: tuple[Any, ...], path: Path) -> Row:
    """Build a row from a database record."""
    *cells, environment = record
    cell: dict[str, Any] = dict(zip(_COLUMNS, cells, strict=True))
    try:
        cell |= {name: _mapping(cell[name]) for name in _JSON}
        cell["status"], cell["verdict"] = Status(cell["status"]), RowVerdict(cell["verdict"])
        cell["stopped_by_clock"] = bool(cell["stopped_by_clock"])
        task = Task(**{f.name: cell.pop(f.name) for f in fields(Task) if f.name in cell})
        return Row(task, **cell, environment=_mapping(environment))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        remedy = "restore the store from a copy, or delete that row and run again"
        raise InputError(f"{path}: row {record[0]}", f"damaged ({error})", remedy) from None


def _mapping(text: str) -> dict[str, Any]:
    """Parse a JSON object written by `canonical`.

    Raises
    ------
    ValueError, TypeError, RecursionError
        If the text is not a JSON object that `canonical` could have written.
    """
    value = json.loads(text, parse_constant=_refuse)
    if not isinstance(value, dict):
        raise TypeError(f"{json_word(value)} is not a JSON object")
    if _HUGE.search(text):
        canonical(value)
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")
