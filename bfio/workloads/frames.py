"""Requests of data frames: tables of texts, which both readers of traces take."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bfio.workloads.columnar import Irregular, from_texts
from bfio.workloads.detection import detected_format
from bfio.workloads.read_requests import RowReader, with_output, workload_fields
from bfio.workloads.request_columns import RequestColumns
from bfio.workloads.tables import Record, Table
from bfio.workloads.trace_format import Layout, Row
from formulations.errors import InputError

_FRAME = "give a frame of pandas or polars, a pyarrow table, a mapping of columns or rows as dicts"


def frame_fields(
    frame: object,
    columns: Mapping[str, str] | str | None,
    name: str,
    skip_bad_rows: bool,
) -> dict[str, Any]:
    """Return what the workload of a frame is made of; see `Workload.from_frame`."""
    texts = _frame_texts(frame, name)
    table = _frame_table(texts)
    trace_format = detected_format(table, name, columns, is_file=False)
    try:
        if not isinstance(trace_format.parse, RequestColumns):
            raise Irregular
        found = with_output(from_texts(texts, trace_format.parse))
    except Irregular:
        rows = RowReader(name, trace_format, skip_bad_rows, unit="row")
        rows.collect(table.records, None)
        found = rows.found()
    return workload_fields(name, name, trace_format, found, table.header)


def _frame_texts(frame: Any, name: str) -> pa.Table:
    """Return the cells of a frame as texts; missing ones are empty.

    Raises
    ------
    InputError
        If it cannot be understood as a table.
    """
    if isinstance(frame, list) and frame and all(isinstance(row, Mapping) for row in frame):
        frame = pa.Table.from_pylist(frame)
    if isinstance(frame, Mapping):
        for column, cells in frame.items():
            _check_one_convention(cells, f"{name} column {column!r}")
    try:
        table = pa.table(dict(frame) if isinstance(frame, Mapping) else frame)
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        what = " ".join(str(error).split())[:100]
        raise InputError(name, f"no table: {what}", _FRAME) from None
    repeated = [column for column, count in Counter(table.column_names).items() if count > 1]
    if repeated:
        raise InputError(name, f"column {repeated[0]!r} occurs twice", "rename one of them")
    names = table.column_names
    return pa.table(
        {column: _texts(table[column], f"{name} column {column!r}") for column in names}
    )


def _check_one_convention(cells: object, where: str) -> None:
    """Refuse dates of which some have a UTC offset and some have none: they cannot be compared."""
    if isinstance(cells, list | tuple):
        aware = {cell.tzinfo is not None for cell in cells if isinstance(cell, datetime)}
        if len(aware) > 1:
            what = "some dates have a UTC offset and some have none"
            raise InputError(where, what, "give every date one, or none")


def _frame_table(texts: pa.Table) -> Table:
    """Return a table of texts as rows."""
    first: Row = texts.slice(0, 1).to_pylist()[0] if texts.num_rows else {}
    return Table(Layout.CSV, ",", tuple(texts.column_names), first, _rows(texts))


def _rows(texts: pa.Table) -> Iterator[Record]:
    """Yield the rows, numbered from 1."""
    yield from enumerate(texts.to_pylist(), start=1)


def _texts(column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_duration(kind):
        # As texts they would be bare numbers of whatever unit they are kept in.
        raise InputError(where, f"durations ({kind})", "give numbers of seconds, or dates")
    if pa.types.is_timestamp(kind):
        # Written in universal time if it has a zone, and without one otherwise.
        column = pc.cast(column, pa.timestamp(kind.unit, "UTC" if kind.tz else None))
    try:
        texts = pc.cast(column, pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        texts = pa.chunked_array([pa.array([str(cell) for cell in column.to_pylist()])])
    if pa.types.is_decimal(kind):
        # They are numbers: 1.000 of three decimals is one.
        texts = pc.replace_substring_regex(texts, r"\.0+$", "")
    return pc.fill_null(texts, "")
