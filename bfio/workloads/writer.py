"""Write a workload in this project's own CSV format."""

import gzip
from collections.abc import Iterator
from pathlib import Path

from bfio.workloads.tables import atomic_file
from bfio.workloads.trace_format import MAX_SECONDS, format_decimal
from bfio.workloads.trace_formats.built_in import HASHES, KEYS, OWN
from bfio.workloads.workload import Workload
from formulations.errors import InputError

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
        If the workload is empty, a time has no finite decimal expansion (1/3 s), the file exists
        and ``overwrite`` is False, or the file cannot be written.
    """
    path = Path(path)
    if len(workload) == 0:
        raise InputError(
            workload.name, "the workload has no requests", "give at least one request"
        )
    rows = _rows(workload)
    with atomic_file(path, overwrite=overwrite) as (stream, _):
        if path.suffix != ".gz":
            for chunk in _chunks(rows):
                stream.write(chunk)
            return
        # The gzip header has no name and no time, so equal workloads give equal bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as compressed:
            for chunk in _chunks(rows):
                compressed.write(chunk)


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
        for _ in range(len(workload)):
            yield ""
        return
    for i, time in enumerate(workload.arrival_times):
        if time > MAX_SECONDS:
            raise InputError(
                f"arrival_times[{i}]", f"is more than {MAX_SECONDS} s", "check the unit"
            )
        yield format_decimal(time, f"arrival_times[{i}]")


def _chunks(rows: Iterator[str]) -> Iterator[bytes]:
    buffer: list[str] = []
    for row in rows:
        buffer.append(row)
        if len(buffer) == _ROWS_PER_CHUNK:
            yield "".join(buffer).encode()
            buffer.clear()
    yield "".join(buffer).encode()
