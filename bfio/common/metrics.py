"""Metrics of runs: each one small function, in the table of its simulator.

A simulator makes one `MetricTable` for the records of its runs and registers functions in it.
Everything that shows or stores metrics reads the table: JSON, tables of commands, values of
studies, texts of reports, confidence intervals. A metric that is not defined on a record (no step,
no completed request, no trajectory kept) is None, never 0 or NaN.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from bfio.common.number_text import number, percent, percentage
from bfio.common.statistics import half_width
from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError, use_one_of

Value: TypeAlias = int | float | None
Record = TypeVar("Record")

#: Percentiles of a distribution and what they are called; the largest value is the last of them.
_PERCENTILES = {
    "p50": (50, "median"),
    "p95": (95, "95th percentile of the"),
    "p99": (99, "99th percentile of the"),
    "max": (100, "largest"),
}
_LOW_BITS = 0xFFFFFFFF


def exact_sum(values: IntArray) -> int:
    """Return the sum of an int64 array as a Python integer, exact whatever its size.

    The high and low halves are summed apart: each half is below 2^32 in magnitude, so neither sum
    can overflow for fewer than 2^31 entries.
    """
    return (int((values >> 32).sum()) << 32) + int((values & _LOW_BITS).sum())


@dataclass(frozen=True)
class Average:
    """``Σ numerator / Σ denominator`` over consecutive observations: steps, batches, requests.

    Such a metric has a confidence interval by batch means besides its value.

    Parameters
    ----------
    numerator : IntArray or FloatArray
        Shape (K,): one value per observation, in order; integers are summed exactly.
    denominator : FloatArray, optional
        Shape (K,), with a positive sum; by default 1 for each, which gives a mean.
    """

    numerator: IntArray | FloatArray
    denominator: FloatArray | None = None

    @property
    def value(self) -> float | None:
        """The ratio, rounded once for integers; None without observations."""
        if len(self.numerator) == 0:
            return None
        if self.numerator.dtype.kind == "i":
            total: float = exact_sum(self.numerator.astype(np.int64, copy=False))
        else:
            total = float(self.numerator.sum())
        if self.denominator is None:
            return total / len(self.numerator)
        return total / float(self.denominator.sum())


#: An average of nothing, where a record does not have what is averaged.
NOTHING = Average(np.zeros(0, dtype=np.int64))


class Domain(StrEnum):
    """The numbers that a quantity can be, as documents write them."""

    REAL = "any number"
    NON_NEGATIVE = "0 or more"
    SHARE = "0 to 1"

    def holds(self, value: float) -> bool:
        """Return whether a number is in it."""
        if self is Domain.REAL:
            return True
        return value >= 0 and (value <= 1 or self is Domain.NON_NEGATIVE)


@dataclass(frozen=True)
class Column:
    """How a metric is shown as a column of a table of runs.

    Parameters
    ----------
    heading : str
        Its heading; a line break where it may be broken.
    factor : float
        What values are multiplied by, such as 1e3 for milliseconds.
    is_share : bool
        Whether it is shown in percent.
    place : int
        Columns stand in the order of their places, within one in that of registration.
    by_default : bool
        Whether tables have it that say nothing of their metrics.
    """

    heading: str
    factor: float = 1.0
    is_share: bool = False
    place: int = 0
    by_default: bool = True

    def text(self, value: float | None, half_width: float | None = None) -> str:
        """Return a value as the column shows it, ± half the width of its interval if any."""
        if value is None or half_width is None:
            return self._plain(value)
        if self.is_share:
            return f"{percentage(value)} ± {percentage(half_width)} %"
        return f"{self._plain(value)} ± {number(half_width * self.factor, 2)}"

    def _plain(self, value: float | None) -> str:
        if self.is_share:
            return percent(value)
        return number(value if value is None or self.factor == 1 else value * self.factor)


@dataclass(frozen=True)
class Metric(Generic[Record]):
    """One registered metric.

    Parameters
    ----------
    name, unit, description : str
        Name in JSON documents; unit as it is printed; one line.
    compute : callable
        From a record to its value.
    column : Column, optional
        Its column in tables of runs; None to leave it out of them.
    average : callable, optional
        From a record to what is averaged; None if it is no average over observations.
    domain : Domain
        What values it can have; intervals over rows of a study stay within.
    """

    name: str
    unit: str
    description: str
    compute: Callable[[Record], Value]
    column: Column | None = None
    average: Callable[[Record], Average] | None = None
    domain: Domain = Domain.NON_NEGATIVE


class MetricTable(Generic[Record]):
    """The metrics of one simulator, in the order of their registration."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric[Record]] = {}

    def __iter__(self) -> Iterator[Metric[Record]]:
        return iter(self._metrics.values())

    def extended(self, added: Iterable[Metric[Record]]) -> "MetricTable[Record]":
        """Return a table with these metrics and more; this one stays as it is."""
        table: MetricTable[Record] = MetricTable()
        for metric in (*self, *added):
            table._add(metric)
        return table

    def __getitem__(self, name: str) -> Metric[Record]:
        return self._metrics[name]

    def metric(
        self,
        name: str,
        unit: str,
        description: str,
        column: Column | None = None,
        domain: Domain = Domain.NON_NEGATIVE,
    ) -> Callable[[Callable[[Record], Value]], Callable[[Record], Value]]:
        """Register the decorated function of a record as a metric; arguments as of `Metric`."""

        def register(compute: Callable[[Record], Value]) -> Callable[[Record], Value]:
            self._add(Metric(name, unit, description, compute, column, domain=domain))
            return compute

        return register

    def average(
        self,
        name: str,
        unit: str,
        description: str,
        column: Column | None = None,
        domain: Domain = Domain.NON_NEGATIVE,
    ) -> Callable[[Callable[[Record], Average]], Callable[[Record], Average]]:
        """Register a function that returns what is averaged: a metric with an interval."""

        def register(average: Callable[[Record], Average]) -> Callable[[Record], Average]:
            self._add(_averaging(name, unit, description, average, column, domain))
            return average

        return register

    def distribution(
        self,
        name: str,
        unit: str,
        description: str,
        *,
        ending: str = "",
        shown: Mapping[str, Column] | None = None,
    ) -> Callable[[Callable[[Record], FloatArray]], Callable[[Record], FloatArray]]:
        """Register mean, percentiles 50, 95 and 99, and maximum of what the function returns.

        Percentiles interpolate linearly between order statistics; the mean has an interval.

        Parameters
        ----------
        name, unit, description : str
            What is distributed, such as ``"latency"``; ``name_mean``, ``name_p50`` and so on are
            registered.
        ending : str
            What these names end with, such as ``"_s"``.
        shown : mapping, optional
            The columns of those that have one, by ``"mean"``, ``"p95"`` and so on.
        """
        columns = shown or {}

        def register(values: Callable[[Record], FloatArray]) -> Callable[[Record], FloatArray]:
            self._add(
                _averaging(
                    f"{name}_mean{ending}",
                    unit,
                    f"mean {description}",
                    lambda record: Average(values(record)),
                    columns.get("mean"),
                )
            )
            for label, (share, words) in _PERCENTILES.items():
                self._add(
                    Metric(
                        f"{name}_{label}{ending}",
                        unit,
                        f"{words} {description}",
                        partial(_percentile_of, values, share),
                        columns.get(label),
                    )
                )
            return values

        return register

    def measure(self, record: Record) -> dict[str, Value]:
        """Return every metric of a record, by name."""
        return {metric.name: metric.compute(record) for metric in self}

    def averages(self, record: Record) -> dict[str, Average]:
        """Return what the averages among the metrics are taken of, by name."""
        return {m.name: m.average(record) for m in self if m.average is not None}

    def half_widths(self, record: Record) -> dict[str, float | None]:
        """Return half the widths of the 95 % intervals of the averages, by name, in their units.

        None where there are too few observations; see `bfio.common.statistics.half_width`.
        """
        return {
            name: half_width(average.numerator, average.denominator)
            for name, average in self.averages(record).items()
        }

    def columns(self, more: Sequence[str] = ()) -> list[tuple[str, Column]]:
        """Return names and columns of the metrics of every table, and of some ``more``."""
        shown = [
            (metric.name, metric.column)
            for metric in self
            if metric.column is not None and metric.column.by_default
        ]
        extra = [(name, self.column(name)) for name in more if name not in dict(shown)]
        return [*sorted(shown, key=lambda entry: entry[1].place), *extra]

    def cells(
        self,
        documents: Sequence[Mapping[str, Any]],
        metrics: Sequence[str] | None = None,
    ) -> list[tuple[str, list[str]]]:
        """Return heading and texts of each column of a table, a line per document of a run.

        Parameters
        ----------
        documents : sequence of mapping
            Values by the names of metrics; what is missing is a dash. Half the widths of their
            intervals, if any, are in ``half_widths`` by the same names.
        metrics : sequence of str, optional
            What is shown; by default the metrics that have a column by default.
        """
        if metrics is None:
            columns = self.columns()
        else:
            columns = [(name, self.column(name)) for name in metrics]
        return [
            (
                column.heading,
                [
                    column.text(document.get(name), document.get("half_widths", {}).get(name))
                    for document in documents
                ],
            )
            for name, column in columns
        ]

    def column(self, name: str) -> Column:
        """Return the column of a metric; one that has none gets its name and unit.

        Raises
        ------
        InputError
            If there is no such metric.
        """
        if name not in self._metrics:
            remedy = use_one_of(name, self._metrics)
            raise InputError("metrics", f"unknown metric {name!r}", remedy)
        metric = self._metrics[name]
        return metric.column or Column(f"{name}\n[{metric.unit}]" if metric.unit else name)

    def _add(self, metric: Metric[Record]) -> None:
        if metric.name in self._metrics:
            raise ValueError(f"metric {metric.name} is registered twice")
        self._metrics[metric.name] = metric


def _averaging(
    name: str,
    unit: str,
    description: str,
    average: Callable[[Record], Average],
    column: Column | None,
    domain: Domain = Domain.NON_NEGATIVE,
) -> Metric[Record]:
    return Metric(
        name, unit, description, lambda record: average(record).value, column, average, domain
    )


def percentile(values: FloatArray, percent: float) -> float | None:
    """Return a percentile, linear between order statistics; None of no values."""
    return float(np.percentile(values, percent)) if len(values) else None


def _percentile_of(
    values: Callable[[Record], FloatArray], percent: float, record: Record
) -> float | None:
    return percentile(values(record), percent)
