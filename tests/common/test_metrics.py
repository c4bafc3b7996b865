"""The table of metrics: one function gives values, averages and columns."""

import numpy as np
import pytest

from bfio.common.metrics import Average, Column, MetricTable, exact_sum
from formulations.arrays import FloatArray


def _table() -> MetricTable[FloatArray]:
    table: MetricTable[FloatArray] = MetricTable()

    @table.metric("count", "1", "how many", Column("count"))
    def count(record: FloatArray) -> int:
        return len(record)

    @table.average("mean", "1", "their mean")
    def mean(record: FloatArray) -> Average:
        return Average(record)

    @table.distribution("wait", "s", "wait", ending="_s", shown={"p95": Column("P95", 1e3)})
    def waits(record: FloatArray) -> FloatArray:
        return record

    return table


def test_every_metric_has_its_value_in_the_order_of_registration() -> None:
    """Values come from the functions; a distribution has five."""
    values = _table().measure(np.array([1.0, 2.0, 6.0]))

    assert values == {
        "count": 3,
        "mean": 3.0,
        "wait_mean_s": 3.0,
        "wait_p50_s": 2.0,
        "wait_p95_s": pytest.approx(2 + 0.9 * 4),
        "wait_p99_s": pytest.approx(2 + 0.98 * 4),
        "wait_max_s": 6.0,
    }
    assert list(values)[:2] == ["count", "mean"]


def test_without_observations_an_average_and_a_percentile_are_none() -> None:
    """None, never 0 or NaN."""
    values = _table().measure(np.zeros(0))

    assert values["count"] == 0
    assert {values[name] for name in values if name != "count"} == {None}


def test_averages_are_told_from_other_metrics() -> None:
    """An interval makes sense for them alone."""
    averages = dict(_table().averages(np.array([1.0, 2.0])))

    assert set(averages) == {"mean", "wait_mean_s"}
    assert averages["mean"].value == 1.5


def test_only_metrics_with_a_column_have_one() -> None:
    """The others are left out of tables."""
    assert _table().columns() == [("count", Column("count")), ("wait_p95_s", Column("P95", 1e3))]


def test_a_name_is_registered_once() -> None:
    """A second metric must not replace the first in silence."""
    table = _table()

    with pytest.raises(ValueError, match="count is registered twice"):
        table.metric("count", "1", "again")(len)


def test_a_ratio_divides_sums_and_integers_are_summed_exactly() -> None:
    """Sums beyond 64 bits do not wrap around."""
    large = np.array([2**62, 2**62, 2**62])

    assert Average(np.array([1.0, 2.0]), np.array([2.0, 4.0])).value == 0.5
    assert exact_sum(large) == 3 * 2**62
    assert Average(large).value == float(2**62)
