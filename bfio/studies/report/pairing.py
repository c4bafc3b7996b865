"""Ratios between rows that differ in the arguments of a baseline only."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bfio.studies.matching import identity
from bfio.studies.report.selection import distinct, matches, number_of
from bfio.studies.report.statistics import Estimate, geometric_mean
from bfio.studies.row import Row, Task
from formulations.errors import InputError


@dataclass(frozen=True)
class Pairing:
    """The rows of a line, paired with those of the baseline.

    Parameters
    ----------
    pairs : sequence of (Row, Row)
        A row and its partner, both done.
    incomplete : sequence of Task
        Planned rows of the line that are not done, or whose partner is not, or that have none.
    """

    pairs: Sequence[tuple[Row, Row]]
    incomplete: Sequence[Task]


@dataclass(frozen=True)
class Ratio:
    """Geometric mean of the ratios of pairs.

    Parameters
    ----------
    estimate : Estimate
        The mean, with a t interval on logarithms.
    pairs : sequence of (Row, Row)
        The pairs it was made of.
    unusable : sequence of (Row, Row)
        Pairs left out because a value is undefined or not positive.
    """

    estimate: Estimate
    pairs: Sequence[tuple[Row, Row]]
    unusable: Sequence[tuple[Row, Row]]


class Baseline:
    """Planned rows that others are divided by, found by what they share with them.

    Partners are equal in every argument both have, the baseline's own left out: an argument that
    only one of them has (a look-ahead, a threshold) means nothing to the other.

    Parameters
    ----------
    tasks : sequence of Task
        Planned rows, among them the baseline's.
    arguments : mapping
        Arguments that make a row part of the baseline.
    title : str
        Of the table, for errors.
    """

    def __init__(self, tasks: Sequence[Task], arguments: Mapping[str, Any], title: str) -> None:
        self._arguments = arguments
        self._title = title
        self._by_names: dict[frozenset[str], list[Task]] = {}
        for task in tasks:
            if matches(task, arguments):
                names = frozenset(task.arguments) - frozenset(arguments)
                self._by_names.setdefault(names, []).append(task)
        self._partners: dict[tuple[frozenset[str], tuple[str, ...]], _Partners] = {}

    def partner(self, task: Task) -> Task | None:
        """Return the row of the baseline to divide by, or None if none is planned.

        Raises
        ------
        InputError
            If there are several.
        """
        own = frozenset(task.arguments) - frozenset(self._arguments)
        found = [
            partner
            for names in self._by_names
            for partner in self._within(names, tuple(sorted(own & names))).get(
                _projected(task, sorted(own & names)), []
            )
        ]
        if len(found) > 1:
            raise InputError(
                f"report table {self._title!r}",
                f"several rows of the baseline match row {task.key}",
                "name more arguments in baseline, or fewer rows in where",
            )
        return found[0] if found else None

    def _within(self, names: frozenset[str], shared: tuple[str, ...]) -> "_Partners":
        """Return the rows with these argument names by their values of the shared ones."""
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
    """Pair the planned rows of a line with their partners.

    Parameters
    ----------
    tasks : sequence of Task
        Planned rows of the line.
    rows : mapping of str to Row
        Computed rows by key.
    baseline : Baseline
        Where partners come from.
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
    """Return the mean ratio of a value over the pairs in which both are positive."""
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
    """Leave out pairs of which neither row is other than in a pair before."""
    ours = {row.task.key for row in distinct([pair[0] for pair in pairs], name)}
    theirs = {row.task.key for row in distinct([pair[1] for pair in pairs], name)}
    return [pair for pair in pairs if pair[0].task.key in ours or pair[1].task.key in theirs]
