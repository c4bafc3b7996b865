"""Metrics of runs: one function per metric, registered in the table of its simulator.

A simulator creates one `MetricTable` for the records of its runs and registers functions in it.
Everything that shows or stores metrics reads the table: JSON, tables of commands, values of
studies, texts of reports, confidence intervals. A metric that is not defined for a record (no
step, no completed request, no trajectory kept) is None, never 0 or NaN.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from bfio.common.statistics import half_width
from bfio.common.text import number
from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError, did_you_mean
from formulations.scalars import percent, percentage

Value: TypeAlias = int | float | None
Record = TypeVar("Record")

#: Percentiles of a distribution with their names. The last one is the largest value.
_PERCENTILES = {
    "p50": (50, "median"),
    "p95": (95, "95th percentile of the"),
    "p99": (99, "99th percentile of the"),
    "max": (100, "largest"),
}
_LOW_BITS = 0xFFFFFFFF


def exact_sum(values: IntArray) -> int:
    """Return the exact sum of an int64 array as a Python integer.

    The high and low halves are summed separately. Each half is below 2^32 in magnitude, so neither
    sum can overflow for fewer than 2^31 entries.
    """
    return (int((values >> 32).sum()) << 32) + int((values & _LOW_BITS).sum())


@dataclass(frozen=True)
class Average:
    """A ratio ``Σ numerator / Σ denominator`` over consecutive steps, batches or requests.

    Batch means give a confidence interval of the ratio.

    Parameters
    ----------
    numerator : IntArray or FloatArray
        Shape (K,): one value per observation, in order. Integers are summed exactly.
    denominator : FloatArray, optional
        Shape (K,), with a positive sum; by default 1 for each observation, which gives a mean.
    """

    numerator: IntArray | FloatArray
    denominator: FloatArray | None = None

    @property
    def value(self) -> float | None:
        """The ratio, with integers summed exactly; None without observations."""
        if len(self.numerator) == 0:
            return None
        # Sum integers exactly; a sum of floats depends on their order only in the last digits.
        if self.numerator.dtype.kind == "i":
            total: float = exact_sum(self.numerator.astype(np.int64, copy=False))
        else:
            total = float(self.numerator.sum())
        if self.denominator is None:
            return total / len(self.numerator)
        return total / float(self.denominator.sum())


#: The average without observations, for a record that lacks the averaged quantity.
NOTHING = Average(np.zeros(0, dtype=np.int64))


class Domain(StrEnum):
    """Domain of a metric's values, with its text in documents."""

    REAL = "any number"
    NON_NEGATIVE = "0 or more"
    SHARE = "0 to 1"

    def holds(self, value: float) -> bool:
        """Return whether a number is in the domain."""
        if self is Domain.REAL:
            return True
        return value >= 0 and (value <= 1 or self is Domain.NON_NEGATIVE)


@dataclass(frozen=True)
class Column:
    """Display of a metric as a column of a table of runs.

    Parameters
    ----------
    heading : str
        Heading of the column, with a line break where the heading may be split.
    factor : float
        Factor applied to shown values, such as 1e3 for milliseconds.
    is_share : bool
        Whether to show values in percent.
    place : int
        Columns are ordered by place, and within one place by registration.
    by_default : bool
        Whether the column is in tables for which no metrics are chosen.
    """

    heading: str
    factor: float = 1.0
    is_share: bool = False
    place: int = 0
    by_default: bool = True

    def text(self, value: float | None, half_width: float | None = None) -> str:
        """Return a value as shown in the column, ± half the width of its interval if given."""
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
        Name in JSON documents; unit as printed; description in one line.
    compute : callable
        Function from the record of a run to the value of the metric.
    column : Column, optional
        Column in tables of runs; None for no column.
    average : callable, optional
        Function from a record to the averaged quantity; None for metrics that are not averages.
    domain : Domain
        Domain of its values. Intervals over rows of a study stay within it.
    together : callable, optional
        Function from a record to the values, by name, of all metrics of one distribution.
    """

    name: str
    unit: str
    description: str
    compute: Callable[[Record], Value]
    column: Column | None = None
    average: Callable[[Record], Average] | None = None
    domain: Domain = Domain.NON_NEGATIVE
    together: Callable[[Record], dict[str, Value]] | None = None


class MetricTable(Generic[Record]):
    """The metrics of one simulator, in the order of registration."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric[Record]] = {}

    def __iter__(self) -> Iterator[Metric[Record]]:
        return iter(self._metrics.values())

    def extended(self, added: Iterable[Metric[Record]]) -> "MetricTable[Record]":
        """Return a new table with these metrics and the added ones."""
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
        domain: Domain | None = None,
    ) -> Callable[[Callable[[Record], Value]], Callable[[Record], Value]]:
        """Register the decorated function of a record as a metric; see `Metric` for arguments.

        A metric of unit 1 is a share, 0 to 1, unless its domain is given.
        """

        def register(compute: Callable[[Record], Value]) -> Callable[[Record], Value]:
            of = domain or _domain_of(unit)
            self._add(Metric(name, unit, description, compute, column, domain=of))
            return compute

        return register

    def average(
        self,
        name: str,
        unit: str,
        description: str,
        column: Column | None = None,
    ) -> Callable[[Callable[[Record], Average]], Callable[[Record], Average]]:
        """Register a function that returns an `Average` as a metric with a confidence interval."""

        def register(average: Callable[[Record], Average]) -> Callable[[Record], Average]:
            self._add(_averaging(name, unit, description, average, column))
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
        """Register the mean, percentiles 50, 95 and 99, and maximum of a quantity as metrics.

        Percentiles interpolate linearly between order statistics. The mean has a confidence
        interval.

        Parameters
        ----------
        name, unit, description : str
            The quantity, such as ``"latency"``; the metrics are named ``name_mean``, ``name_p50``
            and so on.
        ending : str
            Suffix of the metric names, such as ``"_s"``.
        shown : mapping, optional
            Columns by ``"mean"``, ``"p95"`` and so on; metrics that are missing here have no
            column.
        """
        columns = shown or {}

        def register(values: Callable[[Record], FloatArray]) -> Callable[[Record], FloatArray]:
            def together(record: Record) -> dict[str, Value]:
                return dict(zip(names, _distribution(values(record)), strict=True))

            def one(record: Record, name: str) -> Value:
                return together(record)[name]

            mean: Metric[Record] = _averaging(
                f"{name}_mean{ending}",
                unit,
                f"mean {description}",
                lambda record: Average(values(record)),
                columns.get("mean"),
            )
            metrics = [mean]
            for label, (_, words) in _PERCENTILES.items():
                own, text = f"{name}_{label}{ending}", f"{words} {description}"
                metrics.append(Metric(own, unit, text, partial(one, name=own), columns.get(label)))
            names = [metric.name for metric in metrics]
            for metric in metrics:
                self._add(replace(metric, together=together))
            return values

        return register

    def measure(self, record: Record) -> dict[str, Value]:
        """Return every metric of a record, by name."""
        found: dict[str, Value] = {}
        for metric in self:
            if metric.together is None:
                found[metric.name] = metric.compute(record)
            elif metric.name not in found:
                found |= metric.together(record)
        return found

    def averages(self, record: Record) -> Iterator[tuple[str, Average]]:
        """Yield name and averaged quantity of each average, one at a time to save memory."""
        return ((m.name, m.average(record)) for m in self if m.average is not None)

    def half_widths(self, record: Record) -> dict[str, float | None]:
        """Return half the widths of the 95 % intervals of the averages, by name, in their units.

        A half width is None if there are too few observations; see
        `bfio.common.statistics.half_width`.
        """
        return {
            name: half_width(average.numerator, average.denominator)
            for name, average in self.averages(record)
        }

    def columns(self, more: Sequence[str] = ()) -> list[tuple[str, Column]]:
        """Return name and column of each metric shown by default, and of the metrics ``more``."""
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
        """Return heading and cell texts of each column of a table, one cell per run document.

        Parameters
        ----------
        documents : sequence of mapping
            Values by names of metrics; missing ones are shown as a dash. Half the widths of
            intervals, if known, are in ``half_widths`` under the same names.
        metrics : sequence of str, optional
            The metrics to show; by default those with a column shown by default.
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
        """Return the column of a metric; if it has none, a column made from name and unit.

        Raises
        ------
        InputError
            If the metric does not exist.
        """
        if name not in self._metrics:
            listed = "docs/metrics.md lists all; module:NAME is one of your own"
            remedy = f"{did_you_mean(name, self._metrics, 3)}{listed}"
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
) -> Metric[Record]:
    def compute(record: Record) -> Value:
        return average(record).value

    return Metric(name, unit, description, compute, column, average, _domain_of(unit))


def _domain_of(unit: str) -> Domain:
    return Domain.SHARE if unit == "1" else Domain.NON_NEGATIVE


def percentile(values: FloatArray, percent: float) -> float | None:
    """Return a percentile, interpolated linearly between order statistics; None without values."""
    return float(np.percentile(values, percent)) if len(values) else None


def _distribution(values: FloatArray) -> list[float | None]:
    """Return mean and percentiles, computed together, as each would copy the values."""
    shares = [share for share, _ in _PERCENTILES.values()]
    if len(values) == 0:
        return [None] * (1 + len(shares))
    return [Average(values).value, *np.percentile(values, shares).tolist()]
