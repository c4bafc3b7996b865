"""Rows of lower-bound instances: golden totals, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from bfio.studies import kinds
from bfio.studies.report.statistics import power_law
from bfio.studies.row import RowContext, RowResult
from formulations.errors import InputError
from tests.kvcache.test_lower_bounds import GOLDEN
from tests.studies.here import compute_row

HERE = RowContext(Path())


def compute(instance: str, **arguments: Any) -> RowResult:
    """Compute one row without violations."""
    result = compute_row("lower-bound", instance=instance, **arguments)
    assert result.violations == {}
    return result


@pytest.mark.parametrize(("convention", "memory", "epsilon", "greedy", "waiting"), GOLDEN)
def test_the_golden_table_of_theorem_6_2(
    convention: str, memory: int, epsilon: str, greedy: int, waiting: int
) -> None:
    """To the integer."""
    values = compute(
        "theorem-6.2", convention=convention, memory=memory, epsilon=float(epsilon)
    ).values
    assert (values["total_latency"], values["reference_latency"]) == (greedy, waiting)
    assert values["ratio_at_least"] == greedy / waiting
    ratio, limit = values["ratio_at_least"], values["limit_ratio"]
    assert isinstance(ratio, float)
    assert isinstance(limit, float)
    assert ratio < limit


def test_the_printed_ratio_of_theorem_6_2() -> None:
    """ε = 0.1: 2.957 at M = 1,000 and 7.584 at 10,000, from formulas and not from runs."""
    for memory, printed in ((1000, 2.957), (10_000, 7.584)):
        found = compute("theorem-6.2", memory=memory).values["printed_ratio"]
        assert found == pytest.approx(printed, abs=5e-4)


def test_remark_6_3() -> None:
    """M = 1,000, ε = 0.1: 100 short requests hurt most, and are the instance of the theorem."""
    rows = {short: compute("remark-6.3", short=short).values for short in (1, 100, 10_000)}
    ratios = {short: float(values["ratio_at_least"] or 0) for short, values in rows.items()}
    assert max(ratios, key=ratios.__getitem__) == 100
    assert rows[100]["total_latency"] == compute("theorem-6.2").values["total_latency"] == 11506


def test_the_square_root_bound_grows_like_one() -> None:
    """The exponent of the ratio in n, fitted as a report does, lies near 1/2 for large n."""
    sizes = [513, 2049, 8193]
    ratios = [
        float(compute("square-root", requests=n).values["ratio_at_least"] or 0) for n in sizes
    ]
    law = power_law(sizes, ratios)
    assert law is not None
    assert law.exponent == pytest.approx(0.5, abs=0.05)


def test_theorem_6_4_adds_all_instances() -> None:
    """With c = 2, ε = 0.1: 21 of them. Held back, the algorithm pays for the wait in each."""
    at_once, later = (compute("theorem-6.4", memory=200, wait=wait).values for wait in (0, 0.5))
    assert at_once["instances"] == later["instances"] == 21
    assert at_once["reference_latency"] == later["reference_latency"]
    assert float(at_once["ratio_at_least"] or 0) < float(later["ratio_at_least"] or 0)
    assert at_once["printed_ratio"] == pytest.approx(1.414, abs=5e-4)
    # 1 + 2·9/21.
    assert at_once["limit_ratio"] == pytest.approx(1 + 18 / 21)
    assert later["limit_ratio"] is None


def test_equal_arguments_give_equal_rows() -> None:
    """Nothing is drawn, nothing is timed."""
    first, again = (compute("square-root", requests=33) for _ in range(2))
    assert first == again
    assert first.timings == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "argument instance: '' is unknown"),
        ({"instance": "theorem-6.3"}, "use one of theorem-6.2, remark-6.3"),
        ({"instance": "theorem-6.2", "epsilon": 0.7}, "use 0 < epsilon < 1/2"),
        ({"instance": "theorem-6.2", "epsilon": 0.0033}, "epsilon * memory an integer"),
        ({"instance": "theorem-6.2", "requests": 9}, "theorem-6.2 takes memory, epsilon"),
        ({"instance": "theorem-6.4", "epsilon": 0.3}, "use 1/epsilon whole"),
        ({"instance": "theorem-6.4", "constant": 0}, "argument constant"),
        ({"instance": "theorem-6.4", "wait": 0.0001}, "use a multiple of 1/memory"),
        ({"instance": "square-root", "requests": 2}, "2 are too few"),
        ({"instance": "square-root", "memory": 64}, "square-root takes requests"),
        ({"instance": "square-root", "requests": 9, "algorithm": "fcfs"}, "unknown algorithm"),
    ],
)
def test_bad_settings_are_refused_in_one_line(arguments: dict[str, Any], message: str) -> None:
    """While a study is planned, before any row is computed."""
    with pytest.raises(InputError) as caught:
        kinds.find("lower-bound").instance(arguments, HERE)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_algorithm_that_loops_is_an_error_of_the_row() -> None:
    """It has no total latency, and so no ratio. Convention A lets short ones overflow."""
    arguments = {"instance": "theorem-6.2", "memory": 100, "convention": "A"}
    arguments |= {"algorithm": "alpha-greedy", "alpha": 0}
    with pytest.raises(InputError, match="did not finish"):
        kinds.find("lower-bound").compute(arguments, HERE)
