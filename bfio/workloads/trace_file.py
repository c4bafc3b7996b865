"""Read trace files: detect the format, clean and sort the requests, count all changes; write."""

import codecs
import gzip
from collections.abc import Iterator, Mapping
from itertools import islice, repeat
from pathlib import Path

from bfio.common.files import atomic_file, file_path
from bfio.workloads.column_choice import detected_format
from bfio.workloads.read_requests import ReadRequests, RowReader, with_output, workload_fields
from bfio.workloads.tables import Table, open_content, open_table
from bfio.workloads.trace_format import MAX_SECONDS, RequestColumns, TraceFormat, format_decimal
from bfio.workloads.trace_formats.built_in import HASHES, KEYS, OWN
from bfio.workloads.workload import Workload
from formulations.arrays import integer
from formulations.errors import InputError, check_kind, known_keywords
from formulations.scalars import truth

_SUFFIXES = (".gz", ".csv", ".jsonl", ".json", ".txt")
#: File size from which the reader of columns saves more time than it takes to load.
COLUMNAR_FROM_BYTES = 300_000


@known_keywords
def read_trace(
    path: str | Path,
    *,
    columns: Mapping[str, str] | str | None = None,
    skip_bad_rows: bool = False,
    limit: int | None = None,
) -> Workload:
    """Read a trace, plain or gzip, in any known format (see `formats`) or by named columns.

    Requests without output are dropped and counted. Times are relative to the earliest row,
    including dropped ones, except in formats with a defined origin. Requests are sorted by time;
    ties keep the order of the file.

    Parameters
    ----------
    path : str or Path
        CSV (cells separated by comma, semicolon, tab or bar) or JSON Lines. The format is detected
        from the header and the first row.
    columns : mapping or str, optional
        Columns of a table in no known format, for example
        ``{"arrival": "ts", "prompt": "in", "output": "out"}`` or
        ``"arrival_ms=ts,prompt=in,output=out"``; omit the arrival if there are no times.
    skip_bad_rows : bool
        Whether damaged rows are skipped and counted, instead of raising an error.
    limit : int, optional
        Stop after this many requests with output.

    Returns
    -------
    Workload
        ``provenance`` holds file, format, rows, dropped_zero_output, skipped_bad_rows,
        first_bad_row (its message, or None), out_of_order_rows (requests earlier than a preceding
        one in the file), time_origin_s (the offset subtracted from all times, as text) and
        unused_columns (unread columns whose names suggest a time, a part of a prompt or a
        session).

    Raises
    ------
    InputError
        If the file cannot be read; the message names file, line and column.
    """
    path = file_path(path, remedy="give a file name; use Workload.from_frame for data frames")
    if limit is not None:
        integer(limit, "limit", minimum=1)
    truth(skip_bad_rows, "skip_bad_rows")
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
    path = file_path(path)
    with open_table(path) as table:
        return detected_format(table, str(path))


def _by_columns(
    path: Path, table: Table, trace_format: TraceFormat, limit: int | None
) -> ReadRequests | None:
    """Read a regular file by columns; return None if the file must be read row by row."""
    parse = trace_format.parse
    # Loading pyarrow takes longer than reading a short trace.
    is_large = path.stat().st_size >= COLUMNAR_FROM_BYTES
    if not table.delimiter or not isinstance(parse, RequestColumns) or not is_large:
        return None
    from bfio.workloads.columnar import Irregular, read_columns, release_memory

    with open_content(path) as content:
        while not content.readline().removeprefix(codecs.BOM_UTF8).strip():
            pass
        try:
            found = read_columns(content, table.delimiter, table.header, parse, limit)
        except Irregular:
            return None
    release_memory()
    return with_output(found, limit)


def _stem(path: Path) -> str:
    name = path.name
    while name.endswith(_SUFFIXES) and name not in _SUFFIXES:
        name = name.removesuffix(next(s for s in _SUFFIXES if name.endswith(s)))
    return name


_ROWS_PER_CHUNK = 10_000


def write_trace(workload: Workload, path: str | Path, *, overwrite: bool = False) -> None:
    """Write ``arrival_time_s,prompt_tokens,output_tokens``; `read_trace` restores it exactly.

    The optional columns ``prompt_key`` and ``block_hashes`` are written if the workload has them.
    When read back, keys are renumbered by first occurrence; equal keys stay equal. Times are exact
    decimals; the column is blank if there are none. A path that ends in ``.gz`` is compressed
    reproducibly. The file only appears when it is complete.

    Raises
    ------
    InputError
        If the workload is empty, a time has no finite decimal expansion (1/3 s), the file is
        not named .csv or .csv.gz, exists and ``overwrite`` is False, or cannot be written.
    """
    check_kind(workload, Workload, "workload", "write_trace(workload, path)")
    path = file_path(path)
    if not path.name.lower().endswith((".csv", ".csv.gz")):
        raise InputError(str(path), "traces are written as CSV", "use .csv or .csv.gz")
    if len(workload) == 0:
        what = "the workload has no requests"
        raise InputError(workload.name, what, "give at least one request")
    rows = _rows(workload)
    chunks = iter(lambda: "".join(islice(rows, _ROWS_PER_CHUNK)).encode(), b"")
    with atomic_file(path, overwrite=overwrite) as (stream, _):
        if path.suffix != ".gz":
            stream.writelines(chunks)
            return
        # The gzip header has no name and no time, so equal workloads give equal bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as compressed:
            compressed.writelines(chunks)


def _rows(workload: Workload) -> Iterator[str]:
    columns = [workload.prompt_tokens, workload.output_tokens]
    names = [*OWN.columns]
    if workload.prompt_keys is not None:
        columns.append(workload.prompt_keys)
        names.append(KEYS.name)
    cells = [column.tolist() for column in columns]
    if (hashes := workload.prompt_blocks) is not None:
        names.append(HASHES.name)
        cells.append([" ".join(map(str, hashes[i].tolist())) for i in range(len(hashes))])
    yield ",".join(names) + "\n"
    for line in zip(_times(workload), *cells, strict=True):
        yield ",".join(map(str, line)) + "\n"


def _times(workload: Workload) -> Iterator[str]:
    if workload.arrival_times is None:
        yield from repeat("", len(workload))
        return
    for i, time in enumerate(workload.arrival_times):
        if time > MAX_SECONDS:
            what = f"is more than {MAX_SECONDS} s"
            raise InputError(f"arrival_times[{i}]", what, "check the unit")
        yield format_decimal(time, f"arrival_times[{i}]")
