"""What a row is: the task, what computing it returns, and what is kept of it."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from bfio.studies.canonical import canonical

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
        See `bfio.studies.canonical.row_key`.
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
