"""What passes between the runner and the processes that compute rows: JSON, never code."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from bfio.studies.canonical import canonical
from bfio.studies.row import Row, RowResult, RowVerdict, Status, Task


@dataclass(frozen=True)
class Order:
    """A row to compute.

    Parameters
    ----------
    task : Task
        The row.
    folder : str
        Where relative file names start.
    want_log : bool
        Whether a log is wanted.
    home : str
        Folder of the study, where modules of its own are; empty: the working directory alone.
    """

    task: Task
    folder: str
    want_log: bool = False
    home: str = ""

    def to_bytes(self) -> bytes:
        """Write it as JSON."""
        # What only reports need stays here.
        bare = replace(self.task, setting={}, remarks=(), refuted=(), meaning=None)
        own = replace(self, task=bare)
        return canonical(asdict(own)).encode()

    @staticmethod
    def from_bytes(text: bytes) -> "Order":
        """Read what `to_bytes` wrote."""
        document = json.loads(text)
        return Order(**document | {"task": Task(**document["task"])})


@dataclass(frozen=True)
class Report:
    """What a process reports of a row: the result, or why there is none; and what it took.

    It names the row and the process, so that a stray copy of a process cannot answer for another.
    """

    status: Status
    error: str = ""
    result: RowResult = field(default_factory=lambda: RowResult({}))
    log: str = ""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0
    environment: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    process: int = 0

    def to_bytes(self) -> bytes:
        """Write it as JSON."""
        return canonical(asdict(self)).encode()

    @staticmethod
    def from_bytes(text: bytes) -> "Report":
        """Read what `to_bytes` wrote."""
        document = json.loads(text)
        document["status"] = Status(document["status"])
        document["result"] = RowResult(**document["result"])
        return Report(**document)

    def to_row(self, task: Task, attempts: int) -> Row:
        """Return the row to keep."""
        result = vars(self.result)
        row = Row(
            task=task,
            **{name: result[name] for name in _OF_RESULT},
            **{name: getattr(self, name) for name in _OF_REPORT},
            verdict=self.result.verdict if self.status in _COMPUTED else RowVerdict.NONE,
            error=_storable(self.error),
            log=_storable(self.log or self.result.log),
            attempts=attempts,
            finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        return replace(row, stopped_by_clock=True) if self.status is Status.TIMED_OUT else row


def _storable(text: str) -> str:
    """Return the text without what no database takes (half characters of broken file names)."""
    return text.encode(errors="replace").decode()


_COMPUTED = (Status.DONE, Status.VIOLATED)
_OF_RESULT = ("values", "series", "timings", "solves", "unproven", "stopped_by_clock")
_OF_REPORT = ("status", "wall_s", "cpu_s", "peak_memory_bytes", "environment")
