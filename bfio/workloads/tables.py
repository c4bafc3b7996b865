"""Read row files: errors name file and line."""

import csv
import gzip
import io
import itertools
import re
import shlex
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from bfio.workloads.trace_format import Layout, Row, shown
from formulations.errors import InputError
from formulations.problem_data import parse_json

#: Maximum characters of a line; the block hashes of a Mooncake row take thousands.
MAX_LINE = 4_000_000

_GZIP_MAGIC = b"\x1f\x8b"
_SNIFFED_BYTES = 4096
_NOT_TEXT = "give a CSV or JSON Lines file in UTF-8, plain or gzip"


@contextmanager
def open_content(path: Path) -> Iterator[BinaryIO]:
    """Open a text file and yield its bytes, decompressed.

    Gzip is recognised by the first two bytes, not by the name. Errors while reading inside the
    ``with`` block are converted too.

    Raises
    ------
    InputError
        If the file is missing, a directory, unreadable, not text, or damaged gzip.
    """
    if path.is_fifo():
        raise InputError(str(path), "is a pipe, which may never end", "save it to a file first")
    try:
        with path.open("rb") as raw, _decompressed(raw) as content:
            if b"\0" in content.peek(_SNIFFED_BYTES)[:_SNIFFED_BYTES]:
                raise InputError(str(path), "binary data", _NOT_TEXT)
            yield cast("BinaryIO", content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        what = f"damaged gzip data ({error})"
        raise InputError(str(path), what, "fetch or compress the file again") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(str(path), reason, "give a readable file") from None


@contextmanager
def open_lines(path: Path) -> Iterator[Iterator[str]]:
    """Open a text file and yield an iterator over its lines, line ends kept.

    A UTF-8 byte-order mark is dropped.

    Raises
    ------
    InputError
        See `open_content`; also if the text is not UTF-8 or has a line longer than `MAX_LINE`.
    """
    with open_content(path) as content:
        try:
            # newline="" preserves line ends, as the csv module requires.
            text = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
            yield _lines(text, path)
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            what = f"byte 0x{byte:02x} is not UTF-8 text"
            raise InputError(str(path), what, _NOT_TEXT) from None


@contextmanager
def _decompressed(raw: io.BufferedReader) -> Iterator["io.BufferedReader[Any]"]:
    if raw.peek(2)[:2] != _GZIP_MAGIC:
        yield raw
        return
    with gzip.GzipFile(fileobj=raw) as unzipped, io.BufferedReader(unzipped) as content:
        yield content


def _lines(text: io.TextIOWrapper, path: Path) -> Iterator[str]:
    number = 0
    while line := text.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            what = f"is longer than {MAX_LINE} characters"
            remedy = "check that the file is a trace with one request per line"
            raise InputError(f"{path} line {number}", what, remedy)
        yield line


#: Line number, and the row or the error for an unreadable row. Errors are returned, not raised, so
#: that the reader can skip the row.
Record: TypeAlias = tuple[int, Row | InputError]

#: The one that occurs most often in the header is taken; of several such ones, the first.
_DELIMITERS = (",", ";", "\t", "|")
_JSON_ARRAY = re.compile(r"\s*\[\s*(\{|\]|$)")
_REPAIR = "correct the row or add skip_bad_rows=True"


@dataclass(frozen=True)
class Table:
    """An open file: its layout, its header, its first row, and an iterator over all rows.

    Parameters
    ----------
    layout : Layout
        CSV or JSON Lines.
    delimiter : str
        Separator of the cells of a CSV row.
    header : tuple of str
        Column names, or the keys of the first object.
    first_row : Row
        The first row; empty if there is none or it is damaged.
    records : iterator of Record
        All rows including the first; can be iterated once.
    """

    layout: Layout
    delimiter: str
    header: tuple[str, ...]
    first_row: Row
    records: Iterator[Record]


@contextmanager
def open_table(path: Path) -> Iterator[Table]:
    """Open a trace file as a `Table`; see `open_lines` for further errors.

    Raises
    ------
    InputError
        If the file is empty or its header repeats a column.
    """
    with open_lines(path) as lines:
        first, rest = _first_line(lines, path)
        if _JSON_ARRAY.match(first):
            remedy = f"write one object a line: jq -c '.[]' {shlex.quote(str(path))}"
            raise InputError(f"{path} line 1", "is a JSON array, not JSON Lines", remedy)
        if first.lstrip().startswith("{"):
            yield _json_table(rest, path, is_open=not first.rstrip().endswith("}"))
        else:
            yield _csv_table(rest, path, max(_DELIMITERS, key=first.count))


def _first_line(lines: Iterator[str], path: Path) -> tuple[str, Iterator[str]]:
    skipped: list[str] = []
    for line in lines:
        if line.strip():
            return line, itertools.chain(skipped, (line,), lines)
        # Blank lines are kept, so that line numbers stay correct.
        skipped.append(line)
    raise InputError(str(path), "is empty", "give a trace with a header and rows")


def _csv_table(lines: Iterator[str], path: Path, delimiter: str) -> Table:
    rows = _csv_rows(lines, path, delimiter)
    line, cells = next(rows, (1, [""]))
    header = tuple(name.strip() for name in cells)
    name, count = Counter(header).most_common(1)[0]
    if count > 1:
        what = f"column {shown(name)} occurs twice"
        raise InputError(f"{path} line {line}", what, "rename one column")
    records = ((number, _csv_row(header, row)) for number, row in rows)
    seen = list(itertools.islice(records, 1))
    first = next((row for _, row in seen if not isinstance(row, InputError)), {})
    return Table(Layout.CSV, delimiter, header, first, itertools.chain(seen, records))


def _csv_rows(lines: Iterator[str], path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            what = f"is not valid CSV ({error})"
            raise InputError(f"{path} line {reader.line_num}", what, "check the quotes") from None
        if cells is None:
            return
        if any(cell.strip() for cell in cells[:1]) or len(cells) > 1:
            yield reader.line_num, cells


def _csv_row(header: tuple[str, ...], cells: list[str]) -> Row | InputError:
    if len(cells) != len(header):
        return InputError("", f"has {len(cells)} cells for {len(header)} columns", _REPAIR)
    return dict(zip(header, cells, strict=True))


def _json_table(lines: Iterator[str], path: Path, *, is_open: bool) -> Table:
    records = (
        (number, _json_row(line)) for number, line in enumerate(lines, start=1) if line.strip()
    )
    number, first = next(records)
    where, seen = f"{path} line {number}", [(number, first)]
    if isinstance(first, InputError) and is_open:
        what = "not valid JSON Lines: its first object does not end on the line"
        remedy = f"write one object a line: jq -c . {shlex.quote(str(path))}"
        raise InputError(where, what, remedy)
    # The first valid object tells the format.
    while isinstance(row := seen[-1][1], InputError):
        if (following := next(records, None)) is None:
            assert isinstance(first, InputError)
            raise InputError(f"{where} {first.where}".rstrip(), first.what, "correct the row")
        seen.append(following)
    rows = itertools.chain(seen, records)
    return Table(Layout.JSON_LINES, "", tuple(row), row, rows)


def _json_row(line: str) -> Row | InputError:
    try:
        # Strip the line end, so that an error at the end is reported in column n and not in line
        # 2.
        value = parse_json(line.rstrip())
    except InputError as error:
        # The error quotes a repeated key literally, including line breaks.
        place = " ".join(error.where.split())[:60]
        place = place.removeprefix("line 1 ").removeprefix("document")
        return InputError(place, error.what, _REPAIR)
    if not isinstance(value, dict):
        return InputError("", f"expected a JSON object, found {shown(value)}", _REPAIR)
    return value
