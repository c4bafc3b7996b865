"""What there is of a study: its planned rows, and those of them that the store holds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formulations.errors import InputError
from bfio.studies.row import Row, Status, Task
from bfio.studies.study import Study
from formulations.frames import data_frame

#: What is said of rows that repeat another one.
SEED_CHANGES_NOTHING = (
    "the seed changes nothing there: every seed gives the same requests, and nothing in the run "
    "draws; for replicates of a trace set resample = true, or windows"
)


@dataclass(frozen=True)
class Results:
    """Planned and computed rows of a study.

    Parameters
    ----------
    study : Study
        The study, at the size that was planned.
    tasks : sequence of Task
        Its rows as planned, in order.
    rows : mapping of str to Row
        Computed rows by key, in the order of the plan; what is missing has no entry.
    store : Path
        Where they come from.
    command : str
        The command that computes them again.
    stored : int
        Rows in the store, those of other code, data or arguments included.
    """

    study: Study
    tasks: Sequence[Task]
    rows: Mapping[str, Row]
    store: Path
    command: str = ""
    stored: int = 0

    @property
    def done(self) -> list[Row]:
        """Rows whose values may be used, in the order of the plan."""
        return [row for row in self.rows.values() if row.is_done]

    def to_frame(self) -> Any:
        """Return the rows there are as a data frame of pandas: status, arguments, values, timings.

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
        """Rows of the store that are not part of this study as it is now."""
        return max(0, self.stored - len(self.rows))

    @property
    def missing(self) -> int:
        """Planned rows that the store does not hold."""
        return len(self.tasks) - len(self.rows)

    @property
    def repeated(self) -> int:
        """Planned rows that repeat another one: only their seed differs, and nothing draws."""
        return len(self.tasks) - len({task.identity for task in self.tasks})

    def counts(self) -> dict[Status, int]:
        """Return how many rows ended in each way, zeros included."""
        counter = Counter(row.status for row in self.rows.values())
        return {status: counter[status] for status in Status}

    @property
    def unproven_rows(self) -> int:
        """Done rows with at least one optimum unproven."""
        return sum(row.unproven > 0 for row in self.done)

    @property
    def stopped_by_clock(self) -> int:
        """Rows in whose result a time limit had a say."""
        return sum(row.stopped_by_clock for row in self.rows.values())


#: How a row may end badly, in words.
ENDS = {
    Status.VIOLATED: "refused by the checker",
    Status.FAILED: "failed",
    Status.TIMED_OUT: "timed out",
    Status.OUT_OF_MEMORY: "out of memory",
    Status.CRASHED: "crashed",
}


def check_some_done(results: Results) -> None:
    """Refuse to report a study without a result.

    Raises
    ------
    InputError
        If no row is computed yet, or all failed.
    """
    if results.done:
        return
    place, name, planned = str(results.store), results.study.name, len(results.tasks)
    if not results.rows:
        what = f"none of the {planned} rows of study {name} is computed yet"
        if results.other_rows:
            what += f", though {results.other_rows} of other code, data or arguments are"
        raise InputError(place, what, "run the study first")
    ends = [f"{number} {ENDS[status]}" for status, number in results.counts().items() if number]
    ends += [f"{results.missing} not computed yet"] if results.missing else []
    raise InputError(
        place,
        f"none of the {planned} rows of study {name} is done: {', '.join(ends)}",
        "see `bfio study status` for why, then run it again with --retry",
    )
