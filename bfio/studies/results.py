"""The rows of a study computed so far, with the settings and remarks of a report."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bfio.common.provenance import version_and_commit
from bfio.studies.row import Row, Status, Task, label
from bfio.studies.study import Study
from formulations.errors import InputError
from formulations.results import data_frame
from formulations.words import counted

#: Remark on rows that repeat another one.
SEED_CHANGES_NOTHING = (
    "neither requests nor run of these rows depend on the seed; for replicates of a trace set "
    "resample = true, or windows"
)


@dataclass(frozen=True)
class Results:
    """Planned and computed rows of a study.

    Parameters
    ----------
    study : Study
        The study, at the planned size.
    tasks : sequence of Task
        Its planned rows, in order.
    rows : mapping of str to Row
        Computed rows by key, in planned order. Missing rows have no entry.
    store : Path
        The store of the rows.
    command : str
        The command that computes the rows again.
    stored : int
        Number of rows in the store, including those of other code, data or arguments.
    """

    study: Study
    tasks: Sequence[Task]
    rows: Mapping[str, Row]
    store: Path
    command: str = ""
    stored: int = 0

    @property
    def done(self) -> list[Row]:
        """Successful rows, in planned order."""
        return [row for row in self.rows.values() if row.is_done]

    def to_frame(self) -> Any:
        """Return the computed rows as a pandas data frame: status, arguments, values, timings.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        return data_frame(
            [
                {"status": row.status.value, **row.task.arguments, **row.values, **row.timings}
                for row in self.rows.values()
            ]
        )

    @property
    def other_rows(self) -> int:
        """Number of rows in the store of other code versions, data or arguments."""
        return max(0, self.stored - len(self.rows))

    @property
    def missing(self) -> int:
        """Number of planned rows that are not in the store."""
        return len(self.tasks) - len(self.rows)

    @property
    def repeated(self) -> int:
        """Number of planned rows that differ from another one only in an unused seed."""
        return len(self.tasks) - len({task.identity for task in self.tasks})

    def counts(self) -> dict[Status, int]:
        """Return the number of rows per status, including zeros."""
        counter = Counter(row.status for row in self.rows.values())
        return {status: counter[status] for status in Status}

    @property
    def unproven_rows(self) -> int:
        """Number of successful rows with at least one unproven optimum."""
        return sum(row.unproven > 0 for row in self.done)

    @property
    def stopped_by_clock(self) -> int:
        """Number of rows whose result was affected by a time limit."""
        return sum(row.stopped_by_clock for row in self.rows.values())


#: Phrases for the statuses other than done.
ENDS = {
    Status.VIOLATED: "rejected by the checker",
    Status.FAILED: "failed",
    Status.TIMED_OUT: "timed out",
    Status.OUT_OF_MEMORY: "out of memory",
    Status.CRASHED: "crashed",
}


def check_some_done(results: Results) -> None:
    """Reject a report if no row has a result.

    Raises
    ------
    InputError
        If no row is computed yet, or none is done.
    """
    if results.done:
        return
    place, name, planned = str(results.store), results.study.name, len(results.tasks)
    if not results.rows:
        what = f"none of the {counted(planned, 'row')} of study {name} has been computed"
        if results.other_rows:
            others = counted(results.other_rows, "row")
            what += f"; the store has {others} of other code, data or arguments"
        raise InputError(place, what, "run the study first")
    ends = [f"{number} {ENDS[status]}" for status, number in results.counts().items() if number]
    ends += [f"{results.missing} not computed yet"] if results.missing else []
    what = f"none of the {counted(planned, 'row')} of study {name} has a result: {', '.join(ends)}"
    remedy = "see the errors in `bfio study status`, then run the study again with retry=True"
    raise InputError(place, what, remedy)


#: Largest number of values listed per varying setting. Of more, the first and last are named.
_MAX_LISTED = 6


def study_settings(results: Results, tasks: Sequence[Task] | None = None) -> str:
    """Return one line with the settings of rows and the version that computed them.

    Parameters
    ----------
    results : Results
        Planned and computed rows.
    tasks : sequence of Task, optional
        The rows to describe; all by default.
    """
    chosen = results.tasks if tasks is None else tasks
    rows = [results.rows[task.key] for task in chosen if task.key in results.rows]
    parts, varied = shared_and_varied(chosen)
    line = ", ".join([*parts, computed_by(rows)])
    return f"{line}; varies: {', '.join(varied)}" if varied else line


def study_remarks(tasks: Sequence[Task]) -> list[str]:
    """Return the remarks needed to read these rows, one sentence each."""
    refuted = {remark for task in tasks for remark in task.refuted}
    found = dict.fromkeys(remark for task in tasks for remark in task.remarks)
    remarks = dict.fromkeys(remark for remark in found if remark not in refuted)
    first: dict[Hashable, Task] = {}
    for task in tasks:
        other = task if task.meaning is None else first.setdefault(task.meaning, task)
        if other.key != task.key:
            one, two = _beside(other, task), _beside(task, other)
            told = f"Rows with {one} and with {two} are the same under two names."
            remarks.setdefault(told)
    return list(remarks)


def _beside(task: Task, other: Task) -> str:
    """Return the arguments in which a row differs from another one, as text."""
    own, others = task.arguments, other.arguments
    different = {n: value for n, value in own.items() if n not in others or others[n] != value}
    return ", ".join(f"{n} {label(value)}" for n, value in different.items()) or "nothing of that"


def shared_and_varied(tasks: Sequence[Task]) -> tuple[list[str], list[str]]:
    """Return the arguments that all rows share, and the varying ones with values, as text."""
    shared, varied = [], []
    for name in dict.fromkeys(name for task in tasks for name in task.setting):
        found = list(dict.fromkeys(task.setting.get(name, "–") for task in tasks))
        values = [text.removeprefix(f"{name} ") for text in found]
        if len(found) == 1:
            shared += found
        elif len(found) <= _MAX_LISTED:
            varied.append(f"{name} ({', '.join(values)})")
        else:
            varied.append(f"{name} ({values[0]} to {values[-1]}, {len(values)} values)")
    return shared, varied


def computed_by(rows: Sequence[Row]) -> str:
    """Return the versions and commits that computed rows; without rows, the current ones."""
    found = set()
    for environment in (row.environment for row in rows if row.environment):
        text = f"bfio {environment.get('versions', {}).get('bfio', 'of unknown version')}"
        if commit := environment.get("commit"):
            changed = ", changed" if environment.get("dirty") else ""
            text += f" (commit {str(commit)[:9]}{changed})"
        found.add(text)
    return " and ".join(sorted(found)) if found else version_and_commit()
