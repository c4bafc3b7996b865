"""Define a row of a study: task, limits, result, and identity."""

import hashlib
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from formulations.errors import InputError

#: Made once: studies write every argument of thousands of rows.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> str:
    """Return the JSON text of a value with sorted keys and without spaces.

    Raises
    ------
    ValueError, TypeError
        If the value has no JSON form (NaN and infinities included).
    """
    return _ENCODER.encode(value)


def row_key(computes: str, arguments: Mapping[str, Any], instance: str, code: str) -> str:
    """Return the key of a row: 24 hexadecimal digits.

    Parameters
    ----------
    computes : str
        Kind of row.
    arguments : mapping
        Arguments of the row; their order does not matter.
    instance : str
        Digest of the data that the arguments select.
    code : str
        Version of the computing code.
    """
    text = canonical(
        {"computes": computes, "arguments": arguments, "instance": instance, "code": code}
    )
    return hashlib.sha256(text.encode()).hexdigest()[:24]


#: Largest number of points of a series.
MAX_POINTS = 400
#: Types of an argument or a value of a row.
Value: TypeAlias = str | int | float | bool | None


class Status(StrEnum):
    """Outcome of computing a row."""

    DONE = "done"
    VIOLATED = "violated"  # computed, but its checker found violations
    FAILED = "failed"  # raised an error
    TIMED_OUT = "timed-out"
    OUT_OF_MEMORY = "out-of-memory"
    CRASHED = "crashed"  # its process died


class RowVerdict(StrEnum):
    """Result of the independent check of a row."""

    PASSED = "passed"
    VIOLATED = "violated"
    NONE = "none"  # nothing to check


@dataclass(frozen=True)
class RowContext:
    """Context of a row function, given in addition to its arguments.

    Parameters
    ----------
    folder : Path
        Base folder of relative file names.
    want_log : bool
        Whether to record a log of the solver.
    """

    folder: Path
    want_log: bool = False


@dataclass(frozen=True)
class RowResult:
    """The result of computing a row.

    Parameters
    ----------
    values : mapping
        The numbers and texts of the row. They are equal on every machine.
    series : mapping of str to sequence of float
        Longer data for figures (trajectories, distributions).
    timings : mapping of str to float
        Measured times [s]. They differ from run to run.
    solves, unproven : int
        Number of requested optima, and how many of them were not proven.
    violations : mapping of str to int, optional
        Violations found by an independent checker; None if there was nothing to check.
    stopped_by_clock : bool
        Whether a time limit affected the result, which may then differ from run to run.
    log : str
        Log of the solver, if wanted.
    """

    values: Mapping[str, Value]
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    solves: int = 0
    unproven: int = 0
    violations: Mapping[str, int] | None = None
    stopped_by_clock: bool = False
    log: str = ""

    @property
    def verdict(self) -> RowVerdict:
        """Verdict of the independent checker."""
        if self.violations is None:
            return RowVerdict.NONE
        return RowVerdict.VIOLATED if self.violations else RowVerdict.PASSED


#: Function that computes one row.
Compute: TypeAlias = Callable[[Mapping[str, Any], RowContext], RowResult | Mapping[str, Value]]
#: Function that returns the digest of the data that the arguments select.
Instance: TypeAlias = Callable[[Mapping[str, Any], RowContext], str]


@dataclass(frozen=True)
class Task:
    """One planned row. The store does not keep the last five fields.

    Parameters
    ----------
    key : str
        See `bfio.studies.row.row_key`.
    computes : str
        Kind of row, or ``module:function``.
    arguments : mapping
        Arguments.
    instance : str
        Digest of the data that the arguments select.
    code : str
        Version of the code.
    draws : bool
        Whether the row draws from the argument ``seed``, apart from its data.
    setting : mapping of str to str
        Settings of the row for reports: a phrase per name, from arguments, defaults and data.
    remarks : sequence of str
        Remarks for the reader of a report, one sentence each.
    refuted : sequence of str
        Remarks that reports omit, even if other rows have them, because this row contradicts them.
    meaning : hashable
        Value that is equal for rows that differ only in the spelling of arguments. With None, only
        rows with the same key are equal.
    """

    key: str
    computes: str
    arguments: Mapping[str, Value]
    instance: str
    code: str
    draws: bool = True
    setting: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    refuted: Sequence[str] = ()
    meaning: Hashable = None

    @property
    def identity(self) -> Hashable:
        """Hashable value, equal for tasks that differ only in an unused seed or in spelling."""
        if self.draws:
            return self.key
        told = {name: value for name, value in self.arguments.items() if name != "seed"}
        return canonical(told), self.instance


@dataclass(frozen=True)
class Row:
    """One computed row as stored. Most fields are those of `RowResult`.

    Parameters
    ----------
    task : Task
        The computed task.
    status : Status
        Outcome of the computation.
    error : str
        The reason for the outcome in one line; empty for a row that is done.
    wall_s, cpu_s : float
        Wall-clock and processor time [s].
    peak_memory_bytes : int
        Peak resident memory of the process during the row; 0 where it cannot be read.
    attempts : int
        Number of attempts.
    environment : mapping
        Machine, package versions, commit.
    finished_at : str
        Date and time of the end, in UTC.
    """

    task: Task
    status: Status
    verdict: RowVerdict = RowVerdict.NONE
    error: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    solves: int = 0
    unproven: int = 0
    stopped_by_clock: bool = False
    log: str = ""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0
    attempts: int = 1
    environment: Mapping[str, Any] = field(default_factory=dict)
    finished_at: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the row has valid values."""
        return self.status is Status.DONE

    def content(self) -> dict[str, Any]:
        """Return the columns that two runs must reproduce: all but time, machine and log.

        Rows affected by a time limit (`stopped_by_clock`) may differ nevertheless.
        """
        own = {name: value for name, value in vars(self).items() if name not in _OF_THE_RUN}
        return own | {n: value for n, value in vars(self.task).items() if n not in _OF_THE_RUN}


#: Fields that may differ between two runs of a study.
_OF_THE_RUN = (
    "task", "timings", "log", "wall_s", "cpu_s", "peak_memory_bytes", "attempts", "environment",
    "finished_at", "draws", "setting", "remarks", "refuted", "meaning",
)  # fmt: skip


#: Text for an argument or a number that is absent.
DASH = "–"


def identity(value: Any) -> Hashable:
    """Return a key that compares values: 1 and 1.0 are equal, 1 and True differ."""
    return isinstance(value, bool), value


def admits(wanted: Any, value: Any) -> bool:
    """Return whether a value equals the wanted value, or one of several wanted values."""
    choices = wanted if isinstance(wanted, list | tuple) else (wanted,)
    return any(identity(choice) == identity(value) for choice in choices)


def fulfils(arguments: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Return whether arguments meet all conditions. An absent argument equals None."""
    return all(admits(wanted, arguments.get(name)) for name, wanted in conditions.items())


def label(value: Value) -> str:
    """Return the text of an argument: true, false, a dash for None, otherwise ``str``."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


_GIBIBYTE = 2**30


@dataclass(frozen=True)
class Limits:
    """Limits of one row.

    Parameters
    ----------
    seconds : float
        Wall-clock time. A row that takes longer is killed and recorded as timed out.
    memory_gib : float
        Memory of the computing process [GiB]. A row that needs more is recorded as out of memory.
    attempts : int
        Number of attempts at a row whose process is killed from outside, before it counts as
        crashed.
    fresh_process : bool
        Whether each row gets a new process, without memory or caches of earlier rows.
    """

    seconds: float = 3600.0
    memory_gib: float = 4.0
    attempts: int = 5
    fresh_process: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 1e7:
            raise InputError("limits.seconds", f"{self.seconds}", "use 0 < seconds <= 10^7")
        if not 0.25 <= self.memory_gib <= 65_536:
            raise InputError("limits.memory_gib", f"{self.memory_gib}", "use 0.25 to 65,536")
        if not 1 <= self.attempts <= 1000:
            raise InputError("limits.attempts", f"{self.attempts}", "use 1 to 1000")

    @property
    def memory_bytes(self) -> int:
        """Memory of one row [bytes]."""
        return round(self.memory_gib * _GIBIBYTE)
