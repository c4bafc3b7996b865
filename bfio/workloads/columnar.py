"""Read regular CSV traces by whole columns, and read data frames.

The result equals that of the reader of rows. For other files, for example with quoted cells,
exponents or damaged rows, `Irregular` is raised. The reader of rows then reads the file, or
locates the error.

Data frames are converted to tables of texts, which both readers accept.
"""

import codecs
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from bfio.workloads.column_choice import detected_format
from bfio.workloads.read_requests import Columns, RowReader, with_output, workload_fields
from bfio.workloads.request_data import ArrivalTimes
from bfio.workloads.tables import Record, Table
from bfio.workloads.trace_format import (
    MAX_SECONDS,
    WHITE_SPACE,
    Layout,
    RequestColumns,
    Row,
    TimeColumn,
    TimeText,
)
from formulations.arrays import MAX_TOKENS, IntArray
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Bytes read at a time; half of the longest line that the reader of rows accepts.
_BLOCK = 2_000_000
_WHOLE = r"^[0-9]{1,18}$"
# Exactly three zeros are excluded, because the reader of rows takes them for thousands.
_WHOLE_FLOAT = r"^[0-9]{1,15}(\.(0{0,2}|0{4,}))?$"
_NUMBER = r"^[0-9]{1,18}(\.[0-9]{1,15})?$"
_TIMESTAMP = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?$"
)
_ZONE = r"(Z|[+-][0-9]{2}:[0-9]{2})$"
#: Seconds from the start of year 1 to the start of 1970, the epoch of computer clocks.
_EPOCH_S = 719_163 * 86_400
#: Whole numbers below it are exact as floats.
_EXACT_BELOW = 2.0**53


class Irregular(Exception):  # noqa: N818 — not an error: another reader goes on
    """Raised for data that must be read row by row."""


def read_columns(
    content: BinaryIO,
    delimiter: str,
    header: "Sequence[str]",
    columns: RequestColumns,
    limit: int | None,
) -> Columns:
    """Read the rows of a CSV file by columns.

    Parameters
    ----------
    content : BinaryIO
        The file, positioned after its header.
    delimiter : str
        Separator of cells.
    header : sequence of str
        Names of all columns.
    columns : RequestColumns
        Columns to read.
    limit : int, optional
        Stop after this many requests with output.

    Raises
    ------
    Irregular
        If the file must be read row by row.
    """
    _check_no_hashes(columns, header)
    read = csv.ReadOptions(use_threads=False, column_names=list(header), block_size=2 * _BLOCK)
    cells = csv.ParseOptions(delimiter=delimiter, quote_char=False)
    key = columns.key_name(header)
    names = [*columns.names] if key is None else [*columns.names, key]
    texts = csv.ConvertOptions(
        include_columns=names, column_types=dict.fromkeys(header, pa.string())
    )
    keys: list[pa.Array] = []
    parts, kept = [], 0
    for block in _blocks(content):
        try:
            table = csv.read_csv(pa.BufferReader(block), read, cells, texts)
        except pa.ArrowInvalid:
            raise Irregular from None
        part = _without_keys(table, columns)
        parts.append(part)
        keys += [] if key is None else table[key].chunks
        kept += int(np.count_nonzero(part.output))
        if limit is not None and kept >= limit:
            break
    return replace(_joined(parts), keys=_keys(keys))


def release_memory() -> None:
    """Return the memory of tables that are no longer needed, which pyarrow keeps for others."""
    pa.default_memory_pool().release_unused()


def from_texts(table: pa.Table, columns: RequestColumns) -> Columns:
    """Return the requests in a table of texts.

    Raises
    ------
    Irregular
        If a cell is not in the plainest form.
    """
    _check_no_hashes(columns, table.column_names)
    key = columns.key_name(table.column_names)
    keys = None if key is None else _keys(table[key].chunks)
    return replace(_without_keys(table, columns), keys=keys)


def _check_no_hashes(columns: RequestColumns, header: "Sequence[str]") -> None:
    """Raise `Irregular` for tables with block hashes, whose number the reader of rows checks."""
    if columns.has_hashes(header):
        raise Irregular


def _without_keys(table: pa.Table, columns: RequestColumns) -> Columns:
    prompt = _lengths(table[columns.prompt])
    if columns.prefix is not None:
        prompt = prompt + _lengths(table[columns.prefix])
        if prompt.max(initial=0) > MAX_TOKENS:
            raise Irregular
    output = _lengths(table[columns.output])
    if np.any((prompt == 0) & (output > 0)):
        raise Irregular
    times = None if columns.arrival is None else _times(table, columns.arrival)
    return Columns(prompt, output, times)


def _blocks(content: BinaryIO) -> Iterator[bytes]:
    """Yield blocks of whole lines whose cells both readers interpret in the same way."""
    while block := content.read(_BLOCK):
        if len(block) == _BLOCK and b"\n" not in block:
            raise Irregular
        lines = block + content.readline(2 * _BLOCK)
        if b'"' in lines or b"\0" in lines or lines.count(b"\r") != lines.count(b"\r\n"):
            raise Irregular
        # pyarrow would take the mark for the start of a file.
        if lines.startswith(codecs.BOM_UTF8):
            raise Irregular
        try:
            lines.decode()
        except UnicodeDecodeError:
            raise Irregular from None
        if lines.strip():
            yield lines


def _matching(texts: pa.ChunkedArray, *patterns: str) -> tuple[pa.ChunkedArray, int]:
    """Return stripped texts, and the index of the first pattern that all texts match."""
    for cells in (texts, None):
        found = pc.ascii_trim_whitespace(texts) if cells is None else cells
        for which, pattern in enumerate(patterns):
            # Missing cells and non-matching cells both fail the test.
            if pc.all(pc.match_substring_regex(found, pattern), skip_nulls=False).as_py():
                return found, which
    raise Irregular


def _lengths(texts: pa.ChunkedArray) -> IntArray:
    found, which = _matching(texts, _WHOLE, _WHOLE_FLOAT)
    if which == 1:
        found = pc.cast(found, pa.float64())
    lengths = pc.cast(found, pa.int64()).to_numpy()
    if lengths.max(initial=0) > MAX_TOKENS:
        raise Irregular
    return np.asarray(lengths)


def _keys(parts: "Sequence[pa.Array]") -> IntArray | None:
    """Return prompt keys as integers, equal for equal keys; see `numbered`."""
    if not parts:
        return None
    cells = pc.ascii_trim(pa.chunked_array(parts), WHITE_SPACE).combine_chunks()
    missing = pc.equal(cells, "").to_numpy(zero_copy_only=False)
    if missing.all():
        return None
    numbers = np.array(cells.dictionary_encode().indices.to_numpy(), dtype=np.int64)
    # Missing keys get distinct numbers above all others.
    numbers[missing] = len(numbers) + np.arange(np.count_nonzero(missing))
    return numbers


def _times(table: pa.Table, column: TimeColumn) -> ArrivalTimes | None:
    texts = table[column.name]
    if column.may_be_blank and pc.all(pc.equal(texts, "")).as_py():
        return None
    if column.text in (TimeText.LOCAL, TimeText.OFFSET):
        return _timestamps(texts, has_zone=column.text is TimeText.OFFSET)
    times = _numbers(texts)
    if column.text is TimeText.WHOLE and times.per_second != 1:
        raise Irregular
    if int(times.ticks.max(initial=0)) > MAX_SECONDS * column.per_second * times.per_second:
        raise Irregular
    return ArrivalTimes(times.ticks, times.per_second * column.per_second)


def _numbers(texts: pa.ChunkedArray) -> ArrivalTimes:
    found, _ = _matching(texts, _NUMBER)
    point = pc.find_substring(found, ".")
    decimals = pc.if_else(
        pc.less(point, 0), 0, pc.subtract(pc.subtract(pc.utf8_length(found), point), 1)
    )
    most = pc.max(decimals).as_py() or 0
    exact = pc.cast(found, pa.decimal128(38, most)).combine_chunks()
    words = np.frombuffer(exact.buffers()[1], dtype="<i8").reshape(-1, 2)
    words = words[exact.offset : exact.offset + len(exact)]
    # The upper 64 bits and the highest bit of the lower ones must be 0.
    if np.any(words[:, 1] != 0) or np.any(words[:, 0] < 0):
        raise Irregular
    return ArrivalTimes(words[:, 0].copy(), 10**most)


def _timestamps(texts: pa.ChunkedArray, *, has_zone: bool) -> ArrivalTimes:
    found, _ = _matching(texts, _TIMESTAMP)
    zones = pc.match_substring_regex(found, _ZONE)
    if not pc.all(zones if has_zone else pc.invert(zones)).as_py():
        raise Irregular
    try:
        stamps = pc.cast(found, pa.timestamp("ns", "UTC" if has_zone else None))
    except pa.ArrowInvalid:
        raise Irregular from None
    return ArrivalTimes(pc.cast(stamps, pa.int64()).to_numpy().copy(), 10**9).plus(
        Fraction(_EPOCH_S)
    )


def _joined(parts: "Sequence[Columns]") -> Columns:
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        return Columns(nothing, nothing, None)
    times = [part.times for part in parts if part.times is not None]
    if times and len(times) < len(parts):
        raise Irregular
    return Columns(
        np.concatenate([part.prompt for part in parts]),
        np.concatenate([part.output for part in parts]),
        ArrivalTimes.joined(times) if times else None,
    )


_FRAME = "give a frame of pandas or polars, a pyarrow table, a mapping of columns or rows as dicts"


def frame_fields(
    frame: object,
    columns: Mapping[str, str] | str | None,
    name: str,
    skip_bad_rows: bool,
) -> dict[str, Any]:
    """Return the fields of the workload of a data frame; see `Workload.from_frame`."""
    texts = _frame_texts(frame, name)
    first: Row = texts.slice(0, 1).to_pylist()[0] if texts.num_rows else {}
    table = Table(Layout.CSV, ",", tuple(texts.column_names), first, _rows(texts))
    trace_format = detected_format(table, name, columns, is_file=False)
    try:
        if not isinstance(trace_format.parse, RequestColumns):
            raise Irregular
        found = from_texts(texts, trace_format.parse)
    except Irregular:
        rows = RowReader(name, trace_format, skip_bad_rows, unit="row")
        found = rows.read(table.records, None)
    return workload_fields(name, name, trace_format, with_output(found), table.header)


def _frame_texts(frame: Any, name: str) -> pa.Table:
    """Return the cells of a frame as texts; missing cells become empty.

    Raises
    ------
    InputError
        If the frame cannot be interpreted as a table.
    """
    if isinstance(frame, list) and frame and all(isinstance(row, Mapping) for row in frame):
        # Of dicts, pyarrow reads only the keys of the first row.
        frame = {name: [row.get(name) for row in frame] for name in dict.fromkeys(chain(*frame))}
    if isinstance(frame, Mapping):
        for column, cells in frame.items():
            _check_one_convention(cells, f"{name} column {column!r}")
    try:
        table = pa.table(dict(frame) if isinstance(frame, Mapping) else frame)
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        what = " ".join(str(error).split())[:100]
        raise InputError(name, f"is not a table: {what}", _FRAME) from None
    repeated = [column for column, count in Counter(table.column_names).items() if count > 1]
    if repeated:
        raise InputError(name, f"column {repeated[0]!r} occurs twice", "rename one column")
    names = table.column_names
    return pa.table(
        {column: _texts(table[column], f"{name} column {column!r}") for column in names}
    )


def _check_one_convention(cells: object, where: str) -> None:
    """Raise an error if only some dates have a UTC offset: they cannot be compared."""
    if isinstance(cells, list | tuple):
        aware = {cell.tzinfo is not None for cell in cells if isinstance(cell, datetime)}
        if len(aware) > 1:
            what = "some dates have a UTC offset and some have none"
            raise InputError(where, what, "give all dates a UTC offset, or none")


def _rows(texts: pa.Table) -> Iterator[Record]:
    """Yield numbered rows, from 1."""
    yield from enumerate(texts.to_pylist(), start=1)


def _texts(column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_duration(kind):
        # As texts, durations would be bare numbers in an unknown unit.
        what = f"holds durations ({kind}), not times"
        raise InputError(where, what, "give numbers of seconds, or dates")
    if pa.types.is_timestamp(kind):
        # Written in universal time if the column has a time zone, else as local time.
        column = pc.cast(column, pa.timestamp(kind.unit, "UTC" if kind.tz else None))
    try:
        texts = pc.cast(column, pa.string())
        if pa.types.is_floating(kind):
            # As the text of a float, a large whole number has an exponent.
            exact = pc.less(pc.abs(column), _EXACT_BELOW)
            is_whole = pc.and_(exact, pc.equal(column, pc.floor(column)))
            whole = pc.cast(pc.if_else(is_whole, column, None), pa.int64())
            texts = pc.coalesce(pc.cast(whole, pa.string()), texts)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        cells = [None if cell is None else str(cell) for cell in column.to_pylist()]
        texts = pa.chunked_array([pa.array(cells, pa.string())])
    if pa.types.is_decimal(kind):
        # Decimals are numbers: 1.000 with three decimals is one.
        texts = pc.replace_substring_regex(texts, r"\.0+$", "")
    return pc.fill_null(texts, "")
