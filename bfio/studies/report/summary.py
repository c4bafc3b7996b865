"""What was run: counts of rows by their end, fixed arguments, the grid, and rows that failed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bfio.studies.report.selection import grouped, keys_of, label
from bfio.studies.report.statistics import total
from bfio.studies.report.text import shortened
from bfio.studies.report.traced import Phrase, Traced, counted, origin, traced
from bfio.studies.results import Results
from bfio.studies.row import Row, RowVerdict, Status, Value
from bfio.studies.study import Study
from formulations.errors import InputError

#: Failed rows and values of an axis that the page lists; it counts the others.
MAX_FAILED, _MAX_VALUES = 200, 16
_HEAD_VALUES = 12


@dataclass(frozen=True)
class Count:
    """A count with what it counts; one that is no good news is marked."""

    number: Traced
    text: str
    is_bad: bool = False


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


def counts(results: Results) -> list[Count]:
    """Return the counts of planned rows by how they ended; they add up to the planned ones."""
    found = [
        Count(counted(keys_of(results.tasks), "planned"), "planned"),
        _count(results, "done", "done", lambda row: row.is_done),
    ]
    for status, text in ENDS.items():
        found.append(_count(results, status.value, text, _ended(status), is_bad=True))
    missing = [task for task in results.tasks if task.key not in results.rows]
    number = counted(keys_of(missing), "missing")
    return [*found, Count(number, "not computed yet", is_bad=bool(missing))]


def reservations(results: Results) -> list[Count]:
    """Return the counts of what is to be known of rows that count."""
    return [
        _count(results, "unproven", "with an optimum unproven", _is_unproven, is_bad=True),
        _count(
            results,
            "stopped-by-clock",
            "stopped by a time limit",
            lambda row: row.stopped_by_clock,
            is_bad=True,
        ),
        _count(results, "passed", "passed by an independent checker", _passed),
        _count(results, "unchecked", "with nothing to check", _is_unchecked),
    ]


def _is_unproven(row: Row) -> bool:
    return row.is_done and row.unproven > 0


def _passed(row: Row) -> bool:
    return row.is_done and row.verdict is RowVerdict.PASSED


def _is_unchecked(row: Row) -> bool:
    return row.is_done and row.verdict is RowVerdict.NONE


def _ended(status: Status) -> Callable[[Row], bool]:
    return lambda row: row.status is status


def _count(
    results: Results, name: str, text: str, condition: Callable[[Row], bool], is_bad: bool = False
) -> Count:
    keys = keys_of(row for row in results.rows.values() if condition(row))
    return Count(counted(keys, name), text, is_bad and bool(keys))


def effort(results: Results) -> Phrase:
    """Return what computing the rows took."""
    rows = list(results.rows.values())
    keys = keys_of(rows)
    seconds = traced(total([row.cpu_s for row in rows]), "sum", origin(keys, "cpu_s"))
    most = max(row.peak_memory_bytes for row in rows) / 2**20
    memory = traced(round(most), "max-mebibytes", origin(keys, "peak_memory_bytes"))
    return (
        "Computing them took ",
        seconds,
        " s of processor time and at most ",
        memory,
        " MiB of memory in one row.",
    )


@dataclass(frozen=True)
class Axis:
    """An argument that varies, and the values it takes, as the page lists them."""

    name: str
    values: str
    count: int


def axes(study: Study) -> list[list[Axis]]:
    """Return the axes of each grid of the study."""
    return [
        [Axis(name, _listed(values), len(values)) for name, values in grid.axes.items()]
        for grid in study.grids
    ]


def varied(results: Results) -> str:
    """Return the arguments that vary, each with the number of its values."""
    names = results.study.axes()
    counts = {name: len(grouped(results.tasks, [name])) for name in names}
    return ", ".join(f"{name} ({count})" for name, count in counts.items() if count > 1)


def _listed(values: Sequence[Value]) -> str:
    if len(values) <= _MAX_VALUES:
        return ", ".join(label(value) for value in values)
    head = ", ".join(label(value) for value in values[:_HEAD_VALUES])
    return f"{head}, … {label(values[-1])}"


@dataclass(frozen=True)
class FailedRow:
    """A row that has no result, and why."""

    key: str
    status: str
    arguments: str
    error: str


def failed(results: Results) -> list[FailedRow]:
    """Return all rows that were computed and are not done, in the order of the plan."""
    varying = set(results.study.axes())
    return [
        FailedRow(
            row.task.key,
            row.status.value,
            ", ".join(
                f"{name} = {label(value)}"
                for name, value in row.task.arguments.items()
                if name in varying
            ),
            shortened(row.error),
        )
        for row in results.rows.values()
        if not row.is_done
    ]
