"""From a trace file to a workload: detection, cleaning, ordering, and an account of all of it."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from bfio.workloads.decimals import format_decimal
from bfio.workloads.tables import Record, Table, open_table
from bfio.workloads.trace_format import RequestRow, TraceFormat
from bfio.workloads.trace_formats import formats
from bfio.workloads.workload import Workload
from formulations.arrays import integer
from formulations.errors import InputError

_SUFFIXES = (".gz", ".csv", ".jsonl", ".json", ".txt")


def read_trace(
    path: str | Path, *, skip_bad_rows: bool = False, limit: int | None = None
) -> Workload:
    """Read a trace in any known format (see `formats`), plain or gzip.

    Requests without output are dropped and counted. Times count from the earliest row, dropped
    ones included, except in formats that state their own origin. Requests out of order are sorted
    by time, equal times keeping the order of the file.

    Parameters
    ----------
    path : str or Path
        CSV or JSON Lines; the format is detected from the header and the first row.
    skip_bad_rows : bool
        Count damaged rows and go on, instead of stopping at the first one.
    limit : int, optional
        Stop after this many requests.

    Returns
    -------
    Workload
        ``provenance`` holds file, format, rows, dropped_zero_output, skipped_bad_rows,
        first_bad_row (its message, or None), out_of_order_rows (requests earlier than one before
        them in the file) and time_origin_s (what was subtracted from every time, as text).

    Raises
    ------
    InputError
        Naming file, line and column.
    """
    path = Path(path)
    if limit is not None:
        integer(limit, "limit", minimum=1)
    with open_table(path) as table:
        trace_format = _detected(table, path)
        records = _Rows(path, trace_format, skip_bad_rows)
        records.collect(table.records, limit)
    return records.workload()


def detect_format(path: str | Path) -> TraceFormat:
    """Return the format of a trace file, from its header and first row.

    Raises
    ------
    InputError
        If the file cannot be read or no known format has its columns.
    """
    path = Path(path)
    with open_table(path) as table:
        return _detected(table, path)


@dataclass
class _Rows:
    """Requests read so far, and what was left out."""

    path: Path
    format: TraceFormat
    skip_bad_rows: bool
    requests: list[RequestRow] = field(default_factory=list)
    timed: bool | None = None
    origin: Fraction | None = None
    num_rows: int = 0
    num_dropped: int = 0
    num_skipped: int = 0
    first_bad_row: str | None = None

    def collect(self, records: Iterator[Record], limit: int | None) -> None:
        """Read rows until they end or ``limit`` requests are kept."""
        for line, row in records:
            self.num_rows += 1
            try:
                if isinstance(row, InputError):
                    raise row
                request = self.format.parse(row)
            except InputError as error:
                self._reject(line, error)
                continue
            self._accept(line, request)
            if len(self.requests) == limit:
                return

    def workload(self) -> Workload:
        """Return the requests in order of arrival."""
        if not self.requests:
            raise InputError(
                str(self.path),
                f"no requests ({self.num_rows} rows, {self.num_dropped} without output, "
                f"{self.num_skipped} bad)",
                "give a trace with at least one request",
            )
        origin = Fraction(0) if self.format.keeps_times or not self.timed else self.origin
        times, order = self._ordered(origin or Fraction(0))
        lengths = np.array([request[1:] for request in self.requests], dtype=np.int64)[order]
        return Workload(
            lengths[:, 0],
            lengths[:, 1],
            times,
            name=_stem(self.path),
            provenance=self._provenance(origin),
        )

    def _accept(self, line: int, request: RequestRow) -> None:
        timed = request.arrival is not None
        if self.timed is None:
            self.timed = timed
        if timed != self.timed:
            # Not a bad row to skip: there is no telling which rows of such a file are right.
            raise InputError(
                f"{self.path} line {line}",
                "some rows have an arrival time and some have none",
                "give every row a time, or none",
            )
        if request.arrival is not None and (self.origin is None or request.arrival < self.origin):
            self.origin = request.arrival
        if request.output_tokens == 0:
            self.num_dropped += 1
        else:
            self.requests.append(request)

    def _reject(self, line: int, error: InputError) -> None:
        where = f"{self.path} line {line} {error.where}".rstrip()
        located = InputError(where, error.what, error.remedy)
        if not self.skip_bad_rows:
            raise located from None
        self.num_skipped += 1
        self.first_bad_row = self.first_bad_row or f"{where}: {error.what}"

    def _ordered(self, origin: Fraction) -> tuple[tuple[Fraction, ...] | None, list[int]]:
        arrivals = [request.arrival for request in self.requests if request.arrival is not None]
        if not arrivals:
            return None, list(range(len(self.requests)))
        order = sorted(range(len(arrivals)), key=arrivals.__getitem__)
        if not origin:
            return tuple(arrivals[i] for i in order), order
        return tuple(arrivals[i] - origin for i in order), order

    def _num_late(self) -> int:
        arrivals = [request.arrival for request in self.requests if request.arrival is not None]
        latest = itertools.accumulate(arrivals, max)
        return sum(time < late for time, late in zip(arrivals, latest, strict=True))

    def _provenance(self, origin: Fraction | None) -> dict[str, object]:
        return {
            "file": str(self.path),
            "format": self.format.name,
            "rows": self.num_rows,
            "dropped_zero_output": self.num_dropped,
            "skipped_bad_rows": self.num_skipped,
            "first_bad_row": self.first_bad_row,
            "out_of_order_rows": self._num_late(),
            "time_origin_s": None
            if origin is None or not self.timed
            else format_decimal(origin, "time"),
        }


def _detected(table: Table, path: Path) -> TraceFormat:
    known = formats()
    matching = [f for f in known if f.matches(table.layout, table.header, table.first_row)]
    if not matching:
        raise _unknown(table, path, known)
    # The format that accounts for most columns: BurstGPT 3 has all those of BurstGPT 1.
    return max(matching, key=lambda f: len(f.columns))


def _unknown(table: Table, path: Path, known: tuple[TraceFormat, ...]) -> InputError:
    closest = max(known, key=lambda f: len(set(f.columns) & set(table.header)))
    missing = [name for name in closest.columns if name not in table.header]
    names = ", ".join(f.name for f in known)
    found = ", ".join(name[:30] for name in table.header[:8])
    return InputError(
        f"{path} line 1",
        f"no known trace format has the columns {found!r}",
        f"use one of the formats {names}; the closest, {closest.name} ({closest.layout}), "
        f"also needs {', '.join(missing) or 'another layout'}",
    )


def _stem(path: Path) -> str:
    name = path.name
    while name.endswith(_SUFFIXES) and name not in _SUFFIXES:
        name = name.removesuffix(next(s for s in _SUFFIXES if name.endswith(s)))
    return name
