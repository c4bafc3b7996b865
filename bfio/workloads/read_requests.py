"""Hold requests as read from a source, and convert them to a workload."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from bfio.workloads.column_choice import unused_columns
from bfio.workloads.request_data import ArrivalTimes, BlockHashes
from bfio.workloads.tables import Record
from bfio.workloads.trace_format import RequestColumns, RequestRow, TraceFormat, format_decimal
from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.words import counted


@dataclass(frozen=True)
class Columns:
    """Requests as columns of arrays, in the order of the source.

    Parameters
    ----------
    prompt, output : IntArray
        Shape (n,), lengths [tokens].
    times : ArrivalTimes or None
        Arrival times.
    keys : IntArray or None
        Shape (n,): equal keys for equal prompts.
    hashes : BlockHashes or None
        Hashes of the prompts' blocks.
    num_skipped : int
        Number of unreadable rows.
    first_bad_row : str or None
        Error message of the first unreadable row.
    """

    prompt: IntArray
    output: IntArray
    times: ArrivalTimes | None
    keys: IntArray | None = None
    hashes: BlockHashes | None = None
    num_skipped: int = 0
    first_bad_row: str | None = None

    def rows(self, which: IntArray) -> "Columns":
        """Return the requests with the given indices, in the order of the indices."""
        return replace(
            self,
            prompt=self.prompt[which],
            output=self.output[which],
            times=None if self.times is None else self.times.at(which),
            keys=None if self.keys is None else self.keys[which],
            hashes=None if self.hashes is None else self.hashes.part(which),
        )


@dataclass(frozen=True)
class ReadRequests:
    """Requests with output > 0 in source order, and counts of the other rows."""

    requests: Columns
    earliest: Fraction | None
    num_rows: int
    num_dropped: int


def with_output(found: Columns, limit: int | None = None) -> ReadRequests:
    """Drop requests with zero output, and those after the first ``limit`` with output."""
    kept = np.flatnonzero(found.output)
    num_read = len(found.output)
    if limit is not None and len(kept) >= limit:
        kept = kept[:limit]
        num_read = int(kept[-1]) + 1
    earliest = None
    if found.times is not None and num_read:
        earliest = found.times[int(np.argmin(found.times.ticks[:num_read]))]
    num_rows = num_read + found.num_skipped
    return ReadRequests(found.rows(kept), earliest, num_rows, num_read - len(kept))


def numbered(keys: Sequence[Hashable]) -> IntArray | None:
    """Return integers, shape (n,), that are equal exactly for equal keys.

    None is a missing key, which is unequal to every other one. Returns None if all keys are
    missing.
    """
    if all(key is None for key in keys):
        return None
    numbers: dict[Hashable, int] = {}
    # A new object represents a missing key.
    found = [numbers.setdefault(object() if k is None else k, len(numbers)) for k in keys]
    return np.array(found, dtype=np.int64)


def _renumbered(keys: IntArray) -> IntArray:
    """Renumber keys as 0, 1, ... by first occurrence."""
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[place]


def _read_columns(trace_format: TraceFormat) -> Sequence[str]:
    parse = trace_format.parse
    return parse.known if isinstance(parse, RequestColumns) else trace_format.columns


@dataclass
class RowReader:
    """Reads requests row by row, including those without output, and locates errors."""

    source: str
    format: TraceFormat
    skip_bad_rows: bool
    unit: str = "line"
    num_skipped: int = 0
    first_bad_row: str | None = None

    def read(self, records: Iterator[Record], limit: int | None) -> Columns:
        """Read rows until the end, or until ``limit`` of them have output."""
        found: list[RequestRow] = []
        left = limit
        for line, row in records:
            try:
                if isinstance(row, InputError):
                    raise row
                found.append(self.format.parse(row))
            except InputError as error:
                where = f"{self.source} {self.unit} {line} {error.where}".rstrip()
                if not self.skip_bad_rows:
                    raise InputError(where, error.what, error.remedy) from None
                self.num_skipped += 1
                self.first_bad_row = self.first_bad_row or f"{where}: {error.what}"
                continue
            if (found[-1].arrival is None) != (found[0].arrival is None):
                # This error cannot be skipped: it is unknown which rows of the file are correct.
                what = "only some rows have an arrival time"
                remedy = "give all rows a time, or none"
                raise InputError(f"{self.source} {self.unit} {line}", what, remedy)
            if left is not None and found[-1].output_tokens:
                left -= 1
            if left == 0:
                break
        lengths = [(request.prompt_tokens, request.output_tokens) for request in found]
        prompt, output = np.array(lengths, dtype=np.int64).reshape(-1, 2).T.copy()
        arrivals = [request.arrival for request in found if request.arrival is not None]
        return Columns(
            prompt,
            output,
            ArrivalTimes.of(arrivals) if arrivals else None,
            numbered([request.prompt_key for request in found]),
            _joined_hashes([request.block_hashes for request in found]),
            self.num_skipped,
            self.first_bad_row,
        )


def _joined_hashes(rows: Sequence[IntArray | None]) -> BlockHashes | None:
    """Return the hashes of the blocks of all prompts; None if no row has any."""
    if all(row is None for row in rows):
        return None
    nothing = np.zeros(0, dtype=np.int64)
    return BlockHashes.joined([nothing if row is None else row for row in rows])


def workload_fields(
    source: str,
    name: str,
    trace_format: TraceFormat,
    found: ReadRequests,
    header: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the fields of a `bfio.workloads.workload.Workload`, in order of arrival.

    ``provenance`` lists the columns of ``header`` that are not read but look relevant.

    Raises
    ------
    InputError
        If there are no requests.
    """
    requests = found.requests
    if not len(requests.output):
        raise InputError(
            source,
            f"no requests ({counted(found.num_rows, 'row')}, {found.num_dropped} without output, "
            f"{requests.num_skipped} bad)",
            "give a trace with at least one request",
        )
    provenance: dict[str, object] = {
        "file": source,
        "format": trace_format.name,
        "rows": found.num_rows,
        "dropped_zero_output": found.num_dropped,
        "skipped_bad_rows": requests.num_skipped,
        "first_bad_row": requests.first_bad_row,
        "out_of_order_rows": 0,
        "time_origin_s": None,
        "unused_columns": unused_columns(header, _read_columns(trace_format)),
    }
    times = requests.times
    if times is not None and found.earliest is not None:
        origin = Fraction(0) if trace_format.keeps_times else found.earliest
        provenance["time_origin_s"] = format_decimal(origin, "time")
        num_late = int(np.count_nonzero(times.ticks < np.maximum.accumulate(times.ticks)))
        provenance["out_of_order_rows"] = num_late
        if num_late:
            order = np.argsort(times.ticks, kind="stable")
            requests, times = requests.rows(order), times.at(order)
        times = times.plus(-origin)
    return {
        "prompt_tokens": requests.prompt,
        "output_tokens": requests.output,
        "arrival_times": times,
        "name": name,
        "provenance": provenance,
        "prompt_keys": None if requests.keys is None else _renumbered(requests.keys),
        "block_hashes": requests.hashes,
    }
