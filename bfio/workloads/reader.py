"""From a trace file to a workload: detection, cleaning, ordering, and an account of all of it."""

import codecs
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from bfio.workloads.column_choice import detected_format
from bfio.workloads.read_requests import (
    ReadRequests,
    RowReader,
    with_output,
    workload_fields,
)
from bfio.workloads.tables import Table, open_content, open_table
from bfio.workloads.trace_format import RequestColumns, TraceFormat
from bfio.workloads.workload import Workload
from formulations.arrays import integer
from formulations.errors import InputError
from formulations.keywords import known_keywords

_SUFFIXES = (".gz", ".csv", ".jsonl", ".json", ".txt")
#: Bytes from which on loading the reader of columns takes less time than it saves.
COLUMNAR_FROM_BYTES = 300_000


@known_keywords
def read_trace(
    path: str | Path,
    *,
    columns: Mapping[str, str] | str | None = None,
    skip_bad_rows: bool = False,
    limit: int | None = None,
) -> Workload:
    """Read a trace, plain or gzip: in any known format (see `formats`), or by its columns.

    Requests without output are dropped and counted. Times count from the earliest row, dropped
    ones included, except in formats that state their own origin. Requests out of order are sorted
    by time, equal times keeping the order of the file.

    Parameters
    ----------
    path : str or Path
        CSV (cells separated by comma, semicolon, tab or bar) or JSON Lines; the format is
        detected from the header and the first row.
    columns : mapping or str, optional
        Columns of a table in no known format, such as ``{"arrival": "ts", "prompt": "in",
        "output": "out"}`` or ``"arrival_ms=ts,prompt=in,output=out"``; without arrival times
        leave those out.
    skip_bad_rows : bool
        Count damaged rows and go on, instead of stopping at the first one.
    limit : int, optional
        Stop after this many requests.

    Returns
    -------
    Workload
        ``provenance`` holds file, format, rows, dropped_zero_output, skipped_bad_rows,
        first_bad_row (its message, or None), out_of_order_rows (requests earlier than one before
        them in the file), time_origin_s (what was subtracted from every time, as text) and
        unused_columns (not read, but named like a time, a part of a prompt or a session).

    Raises
    ------
    InputError
        Naming file, line and column.
    """
    if not isinstance(path, str | PathLike):
        what = f"a {type(path).__name__} is no name of a file"
        raise InputError("path", what, "name one; Workload.from_frame takes frames")
    path = Path(path)
    if limit is not None:
        integer(limit, "limit", minimum=1)
    with open_table(path) as table:
        trace_format = detected_format(table, str(path), columns)
        found = _by_columns(path, table, trace_format, limit)
        if found is None:
            rows = RowReader(str(path), trace_format, skip_bad_rows)
            found = with_output(rows.read(table.records, limit))
    return Workload(**workload_fields(str(path), _stem(path), trace_format, found, table.header))


def detect_format(path: str | Path) -> TraceFormat:
    """Return the format of a trace file, from its header and first row.

    Raises
    ------
    InputError
        If the file cannot be read or no known format has its columns.
    """
    path = Path(path)
    with open_table(path) as table:
        return detected_format(table, str(path))


def _by_columns(
    path: Path, table: Table, trace_format: TraceFormat, limit: int | None
) -> ReadRequests | None:
    """Read a regular file column by column; None if it is to be read row by row."""
    parse = trace_format.parse
    if not table.delimiter or not isinstance(parse, RequestColumns) or not _is_large(path):
        return None
    # Loading it takes longer than a short trace.
    from bfio.workloads.columnar import Irregular, read_columns

    with open_content(path) as content:
        while not content.readline().removeprefix(codecs.BOM_UTF8).strip():
            pass
        try:
            found = read_columns(content, table.delimiter, table.header, parse, limit)
        except Irregular:
            return None
    return with_output(found, limit)


def _is_large(path: Path) -> bool:
    return path.stat().st_size >= COLUMNAR_FROM_BYTES


def _stem(path: Path) -> str:
    name = path.name
    while name.endswith(_SUFFIXES) and name not in _SUFFIXES:
        name = name.removesuffix(next(s for s in _SUFFIXES if name.endswith(s)))
    return name
