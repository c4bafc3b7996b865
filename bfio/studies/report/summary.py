"""What was run: counts of rows by their end, fixed arguments, the grid, and rows that failed."""

from collections.abc import Sequence
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
    missing = keys_of(task for task in results.tasks if task.key not in results.rows)
    rows = list(results.rows.values())
    return [
        Count(counted(keys_of(results.tasks), "planned"), "planned"),
        _count("done", "done", results.done),
        *(
            _count(status.value, text, [row for row in rows if row.status is status], is_bad=True)
            for status, text in ENDS.items()
        ),
        Count(counted(missing, "missing"), "not computed yet", is_bad=bool(missing)),
    ]


def reservations(results: Results) -> list[Count]:
    """Return the counts of what is to be known of rows that count."""
    done = results.done
    clocked = [row for row in results.rows.values() if row.stopped_by_clock]
    passed = [row for row in done if row.verdict is RowVerdict.PASSED]
    unchecked = [row for row in done if row.verdict is RowVerdict.NONE]
    unproven = [row for row in done if row.unproven > 0]
    return [
        _count("unproven", "with an optimum unproven", unproven, is_bad=True),
        _count("stopped-by-clock", "stopped by a time limit", clocked, is_bad=True),
        _count("passed", "passed by an independent checker", passed),
        _count("unchecked", "with nothing to check", unchecked),
    ]


def _count(name: str, text: str, rows: Sequence[Row], is_bad: bool = False) -> Count:
    return Count(counted(keys_of(rows), name), text, is_bad and bool(rows))


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
    varying, found = set(results.study.axes()), []
    for row in results.rows.values():
        own = [(name, value) for name, value in row.task.arguments.items() if name in varying]
        told = ", ".join(f"{name} = {label(value)}" for name, value in own)
        if not row.is_done:
            error = shortened(row.error)
            found.append(FailedRow(row.task.key, row.status.value, told, error))
    return found
