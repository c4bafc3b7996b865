"""Rows as CSV and Parquet, one line per planned row."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfio.studies.matching import label
from bfio.studies.report.files import csv_text, write_all
from bfio.studies.report.provenance import environment_id
from bfio.studies.report.text import encodable, encodable_value
from bfio.studies.results import Results
from bfio.studies.row import Row, Task, Value

if TYPE_CHECKING:
    import pyarrow

#: Status of a planned row that was not computed.
MISSING = "missing"


def write_export(results: Results, folder: Path) -> list[Path]:
    """Write ``rows.csv`` and ``rows.parquet`` and return their paths.

    Columns are the key, ``argument.NAME``, status, ``value.NAME``, ``timing.NAME`` and what was
    measured; series and logs stay in the store.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    return write_all(folder, export_files(results))


def export_files(results: Results) -> dict[str, bytes]:
    """Return the contents of those files by name."""
    records = [_record(task, results.rows.get(task.key)) for task in results.tasks]
    columns = _columns(records)
    return {
        "rows.csv": csv_text(columns, [[r.get(name) for name in columns] for r in records]),
        "rows.parquet": _parquet(columns, records),
    }


def _record(task: Task, row: Row | None) -> dict[str, Value]:
    record: dict[str, Value] = {"key": task.key, "computes": task.computes}
    record |= {f"argument.{name}": value for name, value in task.arguments.items()}
    record |= {"instance": task.instance, "code": task.code}
    if row is None:
        return record | {"status": MISSING}
    record |= {"status": row.status.value, "verdict": row.verdict.value, "error": row.error}
    record |= {f"value.{name}": value for name, value in row.values.items()}
    record |= {f"timing.{name}": value for name, value in row.timings.items()}
    record |= {name: getattr(row, name) for name in _OF_ROWS}
    return record | {"environment": environment_id(row.environment)}


#: What is kept of every row besides its values.
_OF_ROWS = (
    "solves", "unproven", "stopped_by_clock", "wall_s", "cpu_s", "peak_memory_bytes", "attempts",
    "finished_at",
)  # fmt: skip
#: Order of the columns; a group of names, which ends in a point, stays together.
_ORDER = (
    "key", "argument.", "status", "verdict", "error", "value.", "timing.", "solves", "unproven",
    "stopped_by_clock", "wall_s", "cpu_s", "peak_memory_bytes", "attempts", "environment",
    "finished_at", "computes", "instance", "code",
)  # fmt: skip


def _columns(records: Sequence[dict[str, Value]]) -> list[str]:
    names = dict.fromkeys(name for record in records for name in record)
    return [
        name
        for place in _ORDER
        for name in names
        if name == place or (place.endswith(".") and name.startswith(place))
    ]


def _parquet(columns: Sequence[str], records: Sequence[dict[str, Value]]) -> bytes:
    import pyarrow as arrow
    from pyarrow import parquet

    arrays = [_array([encodable_value(r.get(name)) for r in records]) for name in columns]
    names = [encodable(name) for name in columns]
    sink = io.BytesIO()
    parquet.write_table(arrow.table(dict(zip(names, arrays, strict=True))), sink)
    return sink.getvalue()


def _array(values: Sequence[Value]) -> "pyarrow.Array[Any]":
    """Return a column of one type: truth, integers, doubles, or text where these would lose."""
    import pyarrow as arrow

    kinds = {type(value) for value in values if value is not None}
    try:
        if kinds == {bool}:
            return arrow.array(values, arrow.bool_())
        if kinds == {int}:
            return arrow.array(values, arrow.int64())
        if kinds and kinds <= {int, float}:
            # Refused where an integer is no double.
            return arrow.array(values, arrow.float64())
    except (OverflowError, arrow.ArrowInvalid):
        pass
    return arrow.array([None if value is None else label(value) for value in values])
