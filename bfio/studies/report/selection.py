"""Choose rows by their arguments, and look their values up."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bfio.studies.matching import fulfils, identity
from bfio.studies.report.statistics import Number, as_number
from bfio.studies.results import but_for_the_seed
from bfio.studies.row import Row, Task, Value

#: What every row has besides the values that its kind computes.
MEASURED = ("wall_s", "cpu_s", "peak_memory_bytes", "solves", "unproven", "attempts")
#: What stands for an argument or a number that is not there.
DASH = "–"

_Item = TypeVar("_Item", Task, Row)


@dataclass(frozen=True)
class Group(Generic[_Item]):
    """Rows, or tasks, that agree in some arguments.

    Parameters
    ----------
    values : tuple of values
        What they agree in, one entry per argument asked for; None where an argument is absent.
    items : list
        The rows, in the order of the plan.
    """

    values: tuple[Value, ...]
    items: list[_Item]

    @property
    def label(self) -> str:
        """The values as one text."""
        return ", ".join(label(value) for value in self.values)


def task_of(item: Task | Row) -> Task:
    """Return the task of a row, or the task itself."""
    return item.task if isinstance(item, Row) else item


def matches(task: Task, wanted: Mapping[str, Any]) -> bool:
    """Return whether a task has these arguments; an absent one equals None."""
    return fulfils(task.arguments, wanted)


def grouped(items: Iterable[_Item], names: Sequence[str]) -> list[Group[_Item]]:
    """Return the items by their values of these arguments, in order of first appearance."""
    groups: dict[tuple[Hashable, ...], Group[_Item]] = {}
    for item in items:
        values = tuple(task_of(item).arguments.get(name) for name in names)
        key = tuple(identity(value) for value in values)
        groups.setdefault(key, Group(values, [])).items.append(item)
    return list(groups.values())


def value_of(row: Row, name: str) -> Value:
    """Return a value, a timing, or what is measured of every row; None if it has none such."""
    if name in row.values:
        return row.values[name]
    if name in row.timings:
        return row.timings[name]
    return getattr(row, name) if name in MEASURED else None


def number_of(row: Row, name: str) -> Number | None:
    """Return that value if it is a number."""
    return as_number(value_of(row, name))


def distinct(rows: Sequence[Row], name: str) -> list[Row]:
    """Return the rows without those that repeat another one: nothing draws by their seed.

    Counted as replicates they would give an interval of width 0. What a clock measured is left
    as it is.
    """
    first: dict[Hashable, Row] = {}
    for row in rows:
        first.setdefault(_told_apart_by(row) if name in row.values else row.task.key, row)
    return list(first.values())


def num_repeated(rows: Sequence[Row]) -> int:
    """Return how many of the rows repeat another one."""
    return len(rows) - len(set(map(_told_apart_by, rows)))


def _told_apart_by(row: Row) -> Hashable:
    return row.task.key if row.is_seeded else but_for_the_seed(row.task)


def keys_of(items: Iterable[Task | Row]) -> str:
    """Return the keys of rows as one text, with spaces between."""
    return " ".join(task_of(item).key for item in items)


def label(value: Value) -> str:
    """Return how an argument is written: true, false, a dash for None, all else as it is."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def conditions(wanted: Mapping[str, Any]) -> str:
    """Return conditions as a reader says them: ``policy = fcfs, seed = 0 or 1``."""
    return ", ".join(f"{name} = {_choices(choice)}" for name, choice in wanted.items())


def _choices(wanted: Any) -> str:
    choices = wanted if isinstance(wanted, list | tuple) else [wanted]
    return " or ".join(label(choice) for choice in choices)


def varying(items: Sequence[Task | Row], but: Iterable[str]) -> list[str]:
    """Return the arguments, other than some, that differ between the items, in plan order."""
    left_out = set(but)
    names = dict.fromkeys(name for item in items for name in task_of(item).arguments)
    return [
        name
        for name in names
        if name not in left_out
        and len({identity(task_of(item).arguments.get(name)) for item in items}) > 1
    ]
