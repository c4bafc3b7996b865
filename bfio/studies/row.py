"""A row of a study: its task, what it may take, what came of it, and how rows are told apart."""

import hashlib
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from formulations.errors import InputError


def canonical(value: Any) -> str:
    """Return the JSON text of a value with sorted names and no spare space.

    Raises
    ------
    ValueError, TypeError
        If the value is not plain JSON (NaN and infinities included).
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def row_key(computes: str, arguments: Mapping[str, Any], instance: str, code: str) -> str:
    """Return the key of a row: 24 hexadecimal digits.

    Parameters
    ----------
    computes : str
        What is computed.
    arguments : mapping
        Its arguments; their order does not count.
    instance : str
        Digest of the data the arguments stand for.
    code : str
        Version of the code that computes.
    """
    text = canonical(
        {"computes": computes, "arguments": arguments, "instance": instance, "code": code}
    )
    return hashlib.sha256(text.encode()).hexdigest()[:24]


#: Points of a series at most, as a figure can show them.
MAX_POINTS = 400
#: What an argument or a value of a row may be.
Value: TypeAlias = str | int | float | bool | None


class Status(StrEnum):
    """How the computation of a row ended."""

    DONE = "done"
    VIOLATED = "violated"  # computed, and refused by its checker
    FAILED = "failed"  # raised an error
    TIMED_OUT = "timed-out"
    OUT_OF_MEMORY = "out-of-memory"
    CRASHED = "crashed"  # its process died


class RowVerdict(StrEnum):
    """What an independent checker says of a row."""

    PASSED = "passed"
    VIOLATED = "violated"
    NONE = "none"  # nothing to check


@dataclass(frozen=True)
class RowContext:
    """What a row may use besides its arguments.

    Parameters
    ----------
    folder : Path
        Where relative file names start.
    want_log : bool
        Whether a log of the solver is wanted.
    """

    folder: Path
    want_log: bool = False


@dataclass(frozen=True)
class RowResult:
    """What computing a row returns.

    Parameters
    ----------
    values : mapping
        The numbers and words of the row; equal on every machine.
    series : mapping of str to sequence of float
        Longer data for figures (trajectories, distributions).
    timings : mapping of str to float
        What a clock has measured [s]; differs from run to run.
    solves, unproven : int
        Optima asked for, and those of them that stayed unproven.
    violations : mapping of str to int, optional
        What an independent checker found, empty if nothing; None if nothing was checked.
    stopped_by_clock : bool
        Whether a time limit decided the result, which may then differ from run to run.
    log : str
        Log of the solver, if one was wanted.
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
        """What the checker says."""
        if self.violations is None:
            return RowVerdict.NONE
        return RowVerdict.VIOLATED if self.violations else RowVerdict.PASSED


#: Computes one row.
Compute: TypeAlias = Callable[[Mapping[str, Any], RowContext], RowResult | Mapping[str, Value]]
#: Returns the digest of the data that arguments stand for.
Instance: TypeAlias = Callable[[Mapping[str, Any], RowContext], str]


@dataclass(frozen=True)
class Task:
    """One planned row.

    Parameters
    ----------
    key : str
        See `bfio.studies.row.row_key`.
    computes : str
        Kind of row, or ``module:function``.
    arguments : mapping
        Arguments.
    instance : str
        Digest of the data they stand for.
    code : str
        Version of the code.
    draws : bool
        Whether computing it draws anything from the argument ``seed`` besides that data.
    setting : mapping of str to str
        What it is made of, phrases by what they are about: arguments, and what defaults and data
        say.
    remarks : sequence of str
        What its reader might not expect, a sentence each.
    refuted : sequence of str
        Remarks that other rows may have, and that do not hold of a study with this one.
    meaning : hashable
        What it comes to, however that is spelt: rows of which this is equal are one. None: no
        more is known than the key.

    The last five are known to the plan, and not kept by the store.
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
        """What tells it from tasks of another result: without draws the seed does not."""
        if self.draws:
            return self.key
        told = {name: value for name, value in self.arguments.items() if name != "seed"}
        return canonical(told), self.instance


@dataclass(frozen=True)
class Row:
    """One computed row, as the store keeps it; `RowResult` says what most fields hold.

    Parameters
    ----------
    task : Task
        What was computed.
    status : Status
        How it ended.
    error : str
        One line that says why, empty for a row that is done.
    wall_s, cpu_s : float
        Time it took [s].
    peak_memory_bytes : int
        Largest resident memory of its process meanwhile; 0 where it cannot be read.
    attempts : int
        How often it was begun.
    environment : mapping
        Machine, package versions, commit.
    finished_at : str
        Date and time, UTC.
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
        """Whether its values may be used."""
        return self.status is Status.DONE

    def content(self) -> dict[str, Any]:
        """Return the columns that two runs of a study share: all but time, machine and log.

        Rows that a time limit decided (`stopped_by_clock`) may differ all the same.
        """
        own = {name: value for name, value in vars(self).items() if name not in _OF_THE_RUN}
        return own | {n: value for n, value in vars(self.task).items() if n not in _OF_THE_RUN}


#: What a row holds besides what two runs of a study share.
_OF_THE_RUN = (
    "task", "timings", "log", "wall_s", "cpu_s", "peak_memory_bytes", "attempts", "environment",
    "finished_at", "draws", "setting", "remarks", "refuted", "meaning",
)  # fmt: skip


#: What stands for an argument or a number that is not there.
DASH = "–"


def identity(value: Any) -> Hashable:
    """Return what tells values apart: 1 and 1.0 are one value, True is another."""
    return isinstance(value, bool), value


def admits(wanted: Any, value: Any) -> bool:
    """Return whether a value is the one wanted, or among them if several are."""
    choices = wanted if isinstance(wanted, list | tuple) else (wanted,)
    return any(identity(choice) == identity(value) for choice in choices)


def fulfils(arguments: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Return whether arguments have the values wanted; an absent one equals None."""
    return all(admits(wanted, arguments.get(name)) for name, wanted in conditions.items())


def label(value: Value) -> str:
    """Return how an argument is written: true, false, a dash for None, all else as it is."""
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
        Wall-clock time; a row that takes longer is killed and recorded as timed out.
    memory_gib : float
        Memory of the process that computes it [GiB]; a row that wants more is recorded as out of
        memory.
    attempts : int
        How often a row is begun whose process is killed from outside, before it counts as
        crashed.
    fresh_process : bool
        Whether each row gets a process of its own, so that no earlier row leaves memory or caches.
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
