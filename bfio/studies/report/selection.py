"""Select, group, count, fit and pair the rows of a report."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any, Generic, TypeVar

from bfio.common.metrics import Domain
from bfio.studies import kinds, row_kind
from bfio.studies.report.statistics import (
    Estimate,
    Number,
    PowerLaw,
    as_number,
    geometric_mean,
    power_law,
    summarize,
)
from bfio.studies.report_plan import LOGARITHM, Statistic
from bfio.studies.row import Row, Task, Value, fulfils, identity, label
from formulations.errors import InputError

#: Values that every row has in addition to those that its kind computes.
MEASURED = tuple(entry.name for entry in row_kind.MEASURED)
_Item = TypeVar("_Item", Task, Row)


@dataclass(frozen=True)
class Group(Generic[_Item]):
    """Rows or tasks that have the same values of some arguments.

    Parameters
    ----------
    values : tuple of values
        The common values, one entry per argument; None where an argument is absent.
    items : list
        The rows, in the order of the plan.
    """

    values: tuple[Value, ...]
    items: list[_Item]

    @property
    def label(self) -> str:
        """The common values as one text."""
        return ", ".join(label(value) for value in self.values)


def task_of(item: Task | Row) -> Task:
    """Return the task of a row; a task is returned unchanged."""
    return item.task if isinstance(item, Row) else item


def grouped(items: Iterable[_Item], names: Sequence[str]) -> list[Group[_Item]]:
    """Group rows or tasks by their values of the named arguments, in order of first appearance."""
    groups: dict[tuple[Hashable, ...], Group[_Item]] = {}
    for item in items:
        values = tuple(task_of(item).arguments.get(name) for name in names)
        key = tuple(identity(value) for value in values)
        groups.setdefault(key, Group(values, [])).items.append(item)
    return list(groups.values())


def value_of(row: Row, name: str) -> Value:
    """Return the named value, timing or measured quantity of a row; None if absent."""
    if name in row.values:
        return row.values[name]
    if name in row.timings:
        return row.timings[name]
    return getattr(row, name) if name in MEASURED else None


def number_of(row: Row, name: str) -> Number | None:
    """Return the named value of a row if it is a number; otherwise None."""
    return as_number(value_of(row, name))


def domain_of(rows: Sequence[Row], name: str, *, log: bool = False) -> Domain:
    """Return the domain of a value as its row kind declares it. Booleans average to a share.

    Parameters
    ----------
    rows : sequence of Row
        Rows of one kind.
    name : str
        The value, timing or series.
    log : bool
        Whether the axis is logarithmic. Then a value without a declared domain counts as
        non-negative.
    """
    known = [value for row in rows if (value := value_of(row, name)) is not None]
    if known and all(isinstance(value, bool) for value in known):
        return Domain.SHARE
    domain = kinds.describe(rows[0].task.computes, name).domain if rows else Domain.REAL
    return Domain.NON_NEGATIVE if log and domain is Domain.REAL else domain


def estimate_of(
    rows: Sequence[Row], name: str, statistic: Statistic, *, log: bool = False
) -> Estimate:
    """Return a statistic of a value over distinct rows, with an interval in the value's domain."""
    own = distinct(rows, name)
    values = [number_of(row, name) for row in own]
    found = summarize(values, statistic, domain_of(own, name, log=log))
    if found.count == 1 and len(own) < len(rows):
        return replace(found, why_none="the seed changes nothing")
    return found


def distinct(rows: Sequence[Row], name: str) -> list[Row]:
    """Return the rows without those that differ from an earlier row only in an unused seed.

    As replicates, they would make intervals too narrow. Measured times are always distinct.
    """
    first: dict[Hashable, Row] = {}
    for row in rows:
        is_measured = name in row.timings or name in MEASURED
        first.setdefault(row.task.key if is_measured else row.task.identity, row)
    return list(first.values())


def num_repeated(rows: Sequence[Row]) -> int:
    """Return the number of rows that differ from another row only in an unused seed."""
    return len(rows) - len({row.task.identity for row in rows})


def keys_of(items: Iterable[Task | Row]) -> str:
    """Return the keys of rows, separated by spaces."""
    return " ".join(task_of(item).key for item in items)


def conditions(wanted: Mapping[str, Any]) -> str:
    """Return conditions as text: ``policy = fcfs, seed = 0 or 1``."""
    told = []
    for name, choice in wanted.items():
        choices = choice if isinstance(choice, list | tuple) else [choice]
        told.append(f"{name} = {' or '.join(map(label, choices))}")
    return ", ".join(told)


def varying(items: Sequence[Task | Row], but: Iterable[str]) -> list[str]:
    """Return the arguments that differ between rows or tasks, except ``but``, in plan order."""
    left_out = set(but)
    names = dict.fromkeys(name for item in items for name in task_of(item).arguments)
    return [
        name
        for name in names
        if name not in left_out
        and len({identity(task_of(item).arguments.get(name)) for item in items}) > 1
    ]


@dataclass(frozen=True)
class Fit:
    """A fitted power law or None, the rows fitted, and the rows left out.

    A row is left out if one of its values is missing or not positive: it has no logarithm.
    """

    law: PowerLaw | None
    used: Sequence[Row]
    refused: Sequence[Row]

    def exponent(self) -> Estimate:
        """Return the exponent with its interval and the number of fitted rows."""
        undefined = len(self.refused)
        if self.law is None:
            return Estimate(None, None, 0, undefined)
        return Estimate(self.law.exponent, self.law.interval, self.law.count, undefined)


def fitted(rows: Sequence[Row], x: str, y: str, beside: Sequence[str] = ()) -> Fit:
    """Fit a power law of the value ``y`` in the argument ``x``, jointly with powers of ``beside``.

    An argument with the prefix ``ln`` is replaced by its logarithm.
    """
    used: list[Row] = []
    refused: list[Row] = []
    points = []
    for row in rows:
        point = [_factor(row, x), number_of(row, y), *(_factor(row, name) for name in beside)]
        numbers = [number for number in point if number is not None and number > 0]
        if len(numbers) < len(point):
            refused.append(row)
        else:
            used.append(row)
            points.append(numbers)
    return Fit(power_law(*zip(*points, strict=True)) if points else None, used, refused)


def _factor(row: Row, name: str) -> Number | None:
    value = as_number(row.task.arguments.get(name.removeprefix(LOGARITHM)))
    if value is None or not name.startswith(LOGARITHM):
        return value
    return log(value) if value > 0 else None


@dataclass(frozen=True)
class Pairing:
    """The rows of a table line, each paired with the matching row of the baseline.

    Parameters
    ----------
    pairs : sequence of (Row, Row)
        A row and its partner; both are done.
    incomplete : sequence of Task
        Planned rows of the line that are not done, or whose partner is missing or not done.
    """

    pairs: Sequence[tuple[Row, Row]]
    incomplete: Sequence[Task]


@dataclass(frozen=True)
class Ratio:
    """Geometric mean of the ratios of row pairs.

    Parameters
    ----------
    estimate : Estimate
        The mean, with a t interval on logarithms.
    pairs : sequence of (Row, Row)
        The pairs used.
    unusable : sequence of (Row, Row)
        Pairs left out because a value is undefined or not positive.
    """

    estimate: Estimate
    pairs: Sequence[tuple[Row, Row]]
    unusable: Sequence[tuple[Row, Row]]


class Baseline:
    """The planned baseline rows, searchable for the partner of a row.

    Partners are equal in every argument that both have, except the baseline arguments. An argument
    that only one of them has (a look-ahead, a threshold) does not apply to the other.

    Parameters
    ----------
    tasks : sequence of Task
        Planned rows, including those of the baseline.
    arguments : mapping
        Arguments that a row of the baseline has.
    title : str
        Title of the table, for error messages.
    """

    def __init__(self, tasks: Sequence[Task], arguments: Mapping[str, Any], title: str) -> None:
        self._arguments = arguments
        self._title = title
        self._by_names: dict[frozenset[str], list[Task]] = {}
        for task in tasks:
            if fulfils(task.arguments, arguments):
                names = frozenset(task.arguments) - frozenset(arguments)
                self._by_names.setdefault(names, []).append(task)
        self._partners: dict[tuple[frozenset[str], tuple[str, ...]], _Partners] = {}

    def partner(self, task: Task) -> Task | None:
        """Return the baseline row by which a row is divided; None if none is planned.

        Raises
        ------
        InputError
            If there are several.
        """
        # Rows of the baseline may have different argument names, e.g. in several grids.
        own = frozenset(task.arguments) - frozenset(self._arguments)
        found = [
            partner
            for names in self._by_names
            for partner in self._within(names, tuple(sorted(own & names))).get(
                _projected(task, sorted(own & names)), []
            )
        ]
        if len(found) > 1:
            what = f"several rows of the baseline match row {task.key}"
            remedy = "name more arguments in baseline, or fewer rows in where"
            raise InputError(f"report table {self._title!r}", what, remedy)
        return found[0] if found else None

    def _within(self, names: frozenset[str], shared: tuple[str, ...]) -> "_Partners":
        """Return the baseline rows with these arguments, grouped by the shared arguments."""
        key = names, shared
        if key not in self._partners:
            partners: _Partners = {}
            for task in self._by_names[names]:
                partners.setdefault(_projected(task, shared), []).append(task)
            self._partners[key] = partners
        return self._partners[key]


_Partners = dict[tuple[Hashable, ...], list[Task]]


def _projected(task: Task, names: Sequence[str]) -> tuple[Hashable, ...]:
    return tuple(identity(task.arguments[name]) for name in names)


def pair(tasks: Sequence[Task], rows: Mapping[str, Row], baseline: Baseline) -> Pairing:
    """Pair the planned rows of a table line with their baseline partners.

    Parameters
    ----------
    tasks : sequence of Task
        Planned rows of the line.
    rows : mapping of str to Row
        Computed rows by key.
    baseline : Baseline
        The baseline with the partners.
    """
    pairs, incomplete = [], []
    for task in tasks:
        partner = baseline.partner(task)
        ours = rows.get(task.key)
        theirs = rows.get(partner.key) if partner is not None else None
        if ours is not None and theirs is not None and ours.is_done and theirs.is_done:
            pairs.append((ours, theirs))
        else:
            incomplete.append(task)
    return Pairing(pairs, incomplete)


def ratio(pairing: Pairing, name: str) -> Ratio:
    """Return the mean ratio of a value over the pairs with two positive values."""
    usable, unusable, numerators, denominators = [], [], [], []
    for ours, theirs in _distinct(pairing.pairs, name):
        top, bottom = number_of(ours, name), number_of(theirs, name)
        if top is None or bottom is None or top <= 0 or bottom <= 0:
            unusable.append((ours, theirs))
        else:
            usable.append((ours, theirs))
            numerators.append(top)
            denominators.append(bottom)
    return Ratio(geometric_mean(numerators, denominators), usable, unusable)


def _distinct(pairs: Sequence[tuple[Row, Row]], name: str) -> list[tuple[Row, Row]]:
    """Leave out pairs whose rows both differ from an earlier pair only in an unused seed."""
    ours = {row.task.key for row in distinct([pair[0] for pair in pairs], name)}
    theirs = {row.task.key for row in distinct([pair[1] for pair in pairs], name)}
    return [pair for pair in pairs if pair[0].task.key in ours or pair[1].task.key in theirs]
