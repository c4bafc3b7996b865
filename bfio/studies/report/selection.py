"""Choose rows by their arguments, and look their values up."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from bfio.common.metrics import Domain
from bfio.studies import kinds, row_kind
from bfio.studies.matching import DASH, fulfils, identity, label
from bfio.studies.report.statistics import Estimate, Number, as_number, summarize
from bfio.studies.report_plan import Statistic
from bfio.studies.row import Row, Task, Value

#: What every row has besides the values that its kind computes.
MEASURED = tuple(entry.name for entry in row_kind.MEASURED)
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


def domain_of(rows: Sequence[Row], name: str, *, log: bool = False) -> Domain:
    """Return what a value of rows can be, as its kind says; truth values average to a share.

    Parameters
    ----------
    rows : sequence of Row
        Rows of one kind.
    name : str
        The value, timing or series.
    log : bool
        Whether it is shown on a logarithmic axis, which takes it as positive if its kind says
        nothing.
    """
    known = [value for row in rows if (value := value_of(row, name)) is not None]
    if known and all(isinstance(value, bool) for value in known):
        return Domain.SHARE
    domain = kinds.describe(rows[0].task.computes, name).domain if rows else Domain.REAL
    return Domain.NON_NEGATIVE if log and domain is Domain.REAL else domain


def estimate_of(
    rows: Sequence[Row], name: str, statistic: Statistic, *, log: bool = False
) -> Estimate:
    """Return a statistic of a value over distinct rows, its interval within what it can be."""
    own = distinct(rows, name)
    values = [number_of(row, name) for row in own]
    found = summarize(values, statistic, domain_of(own, name, log=log))
    if found.count == 1 and len(own) < len(rows):
        return replace(found, why_none="the seed changes nothing")
    return found


def distinct(rows: Sequence[Row], name: str) -> list[Row]:
    """Return the rows without those that repeat another one: nothing draws by their seed.

    Counted as replicates they would make intervals too narrow. What a clock measured is left as it
    is.
    """
    first: dict[Hashable, Row] = {}
    for row in rows:
        is_measured = name in row.timings or name in MEASURED
        first.setdefault(row.task.key if is_measured else row.task.identity, row)
    return list(first.values())


def num_repeated(rows: Sequence[Row]) -> int:
    """Return how many of the rows repeat another one."""
    return len(rows) - len({row.task.identity for row in rows})


def keys_of(items: Iterable[Task | Row]) -> str:
    """Return the keys of rows as one text, with spaces between."""
    return " ".join(task_of(item).key for item in items)


def conditions(wanted: Mapping[str, Any]) -> str:
    """Return conditions as a reader says them: ``policy = fcfs, seed = 0 or 1``."""
    told = []
    for name, choice in wanted.items():
        choices = choice if isinstance(choice, list | tuple) else [choice]
        told.append(f"{name} = {' or '.join(map(label, choices))}")
    return ", ".join(told)


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


__all__ = [
    "DASH", "MEASURED", "Group", "conditions", "distinct", "domain_of", "estimate_of", "grouped",
    "keys_of", "label", "matches", "num_repeated", "number_of", "task_of", "value_of", "varying",
]  # fmt: skip
