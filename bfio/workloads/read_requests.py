"""Requests as they are read, and how they become a workload: cleaned, ordered, counted."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from bfio.workloads.column_choice import unused_columns
from bfio.workloads.request_data import ArrivalTimes, BlockHashes
from bfio.workloads.tables import Record
from bfio.workloads.trace_format import RequestColumns, RequestRow, TraceFormat, format_decimal
from formulations.arrays import IntArray
from formulations.errors import InputError


@dataclass(frozen=True)
class Columns:
    """Requests as columns, in the order of the file, those without output included.

    Parameters
    ----------
    prompt, output : IntArray
        Shape (n,), lengths [tokens].
    times : ArrivalTimes or None
        Arrival times.
    keys : IntArray or None
        Shape (n,): equal for equal prompts.
    """

    prompt: IntArray
    output: IntArray
    times: ArrivalTimes | None
    keys: IntArray | None = None


@dataclass(frozen=True)
class ReadRequests:
    """What was read of a file: requests with output in its order, and an account of the rest."""

    prompt: IntArray
    output: IntArray
    times: ArrivalTimes | None
    earliest: Fraction | None
    num_rows: int
    num_dropped: int
    num_skipped: int = 0
    first_bad_row: str | None = None
    keys: IntArray | None = None
    hashes: BlockHashes | None = None


def with_output(found: Columns, limit: int | None = None) -> ReadRequests:
    """Leave out requests without output, and what comes after the last that is wanted."""
    kept = np.flatnonzero(found.output)
    num_rows = len(found.output)
    if limit is not None and len(kept) >= limit:
        kept = kept[:limit]
        num_rows = int(kept[-1]) + 1
    times, earliest = found.times, None
    if times is not None and num_rows:
        earliest = times[int(np.argmin(times.ticks[:num_rows]))]
        times = times.at(kept)
    lengths = found.prompt[kept], found.output[kept]
    keys = None if found.keys is None else found.keys[kept]
    return ReadRequests(*lengths, times, earliest, num_rows, num_rows - len(kept), keys=keys)


def numbered(keys: Sequence[Hashable]) -> IntArray | None:
    """Return integers, shape (n,), equal for equal keys and for nothing else.

    A prompt without a key, None, is not known to equal any. None if no prompt has a key.
    """
    if all(key is None for key in keys):
        return None
    numbers: dict[Hashable, int] = {}
    # An object of its own stands for a missing key.
    found = [numbers.setdefault(object() if k is None else k, len(numbers)) for k in keys]
    return np.array(found, dtype=np.int64)


def _renumbered(keys: IntArray) -> IntArray:
    """Return keys as numbers 0, 1, ... in the order in which they first occur."""
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[place]


def _read_columns(trace_format: TraceFormat) -> Sequence[str]:
    parse = trace_format.parse
    return parse.known if isinstance(parse, RequestColumns) else trace_format.columns


@dataclass
class RowReader:
    """Requests read so far row by row, and what was left out."""

    source: str
    format: TraceFormat
    skip_bad_rows: bool
    unit: str = "line"
    requests: list[RequestRow] = field(default_factory=list)
    timed: bool | None = None
    earliest: Fraction | None = None
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

    def found(self) -> ReadRequests:
        """Return them as arrays."""
        lengths = [(request.prompt_tokens, request.output_tokens) for request in self.requests]
        prompt, output = np.array(lengths, dtype=np.int64).reshape(-1, 2).T.copy()
        arrivals = [request.arrival for request in self.requests if request.arrival is not None]
        return ReadRequests(
            prompt,
            output,
            ArrivalTimes.of(arrivals) if self.timed else None,
            self.earliest,
            self.num_rows,
            self.num_dropped,
            self.num_skipped,
            self.first_bad_row,
            numbered([request.prompt_key for request in self.requests]),
            self._hashes(),
        )

    def _hashes(self) -> BlockHashes | None:
        """Return the hashes of all prompts' blocks; None if no row has any."""
        rows = [request.block_hashes for request in self.requests]
        if all(row is None for row in rows):
            return None
        nothing = np.zeros(0, dtype=np.int64)
        return BlockHashes.joined([nothing if row is None else row for row in rows])

    def _accept(self, line: int, request: RequestRow) -> None:
        timed = request.arrival is not None
        if self.timed is None:
            self.timed = timed
        if timed != self.timed:
            # Not a bad row to skip: there is no telling which rows of such a file are right.
            raise InputError(
                f"{self.source} {self.unit} {line}",
                "some rows have an arrival time and some have none",
                "give every row a time, or none",
            )
        if request.arrival is not None and (
            self.earliest is None or request.arrival < self.earliest
        ):
            self.earliest = request.arrival
        if request.output_tokens == 0:
            self.num_dropped += 1
        else:
            self.requests.append(request)

    def _reject(self, line: int, error: InputError) -> None:
        where = f"{self.source} {self.unit} {line} {error.where}".rstrip()
        # Rows of frames are read from Python only, which has keywords and no flags.
        is_frame = self.unit == "row"
        remedy = error.remedy.replace("--skip-bad-rows", "skip_bad_rows=True")
        located = InputError(where, error.what, remedy if is_frame else error.remedy)
        if not self.skip_bad_rows:
            raise located from None
        self.num_skipped += 1
        self.first_bad_row = self.first_bad_row or f"{where}: {error.what}"


def workload_fields(
    source: str,
    name: str,
    trace_format: TraceFormat,
    found: ReadRequests,
    header: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what a `bfio.workloads.workload.Workload` is made of, in order of arrival.

    Of ``header`` the columns that are not read but look as if they told of requests are named.

    Raises
    ------
    InputError
        If there is no request.
    """
    if not len(found.output):
        raise InputError(
            source,
            f"no requests ({found.num_rows} rows, {found.num_dropped} without output, "
            f"{found.num_skipped} bad)",
            "give a trace with at least one request",
        )
    provenance: dict[str, object] = {
        "file": source,
        "format": trace_format.name,
        "rows": found.num_rows,
        "dropped_zero_output": found.num_dropped,
        "skipped_bad_rows": found.num_skipped,
        "first_bad_row": found.first_bad_row,
        "out_of_order_rows": 0,
        "time_origin_s": None,
        "unused_columns": unused_columns(header, _read_columns(trace_format)),
    }
    prompt, output, times, keys = found.prompt, found.output, found.times, found.keys
    hashes = found.hashes
    if times is not None and found.earliest is not None:
        origin = Fraction(0) if trace_format.keeps_times else found.earliest
        provenance["time_origin_s"] = format_decimal(origin, "time")
        num_late = int(np.count_nonzero(times.ticks < np.maximum.accumulate(times.ticks)))
        provenance["out_of_order_rows"] = num_late
        if num_late:
            order = np.argsort(times.ticks, kind="stable")
            prompt, output, times = prompt[order], output[order], times.at(order)
            keys = None if keys is None else keys[order]
            hashes = None if hashes is None else hashes.part(order)
        times = times.plus(-origin)
    return {
        "prompt_tokens": prompt,
        "output_tokens": output,
        "arrival_times": times,
        "name": name,
        "provenance": provenance,
        "prompt_keys": None if keys is None else _renumbered(keys),
        "block_hashes": hashes,
    }
