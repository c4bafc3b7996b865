"""Statistics against hand-made figures and slow, direct definitions."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.workloads import Geometric, Workload, describe, synthetic
from bfio.workloads.statistics import (
    correlation,
    describe_arrivals,
    describe_lengths,
    ks_to_geometric,
)

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=30)


def test_lengths_by_hand() -> None:
    """1, 2, 3, 6: mean 3, median 2.5, squares 4 + 1 + 0 + 9 = 14, std sqrt(14/4)."""
    figures = describe_lengths(np.array([6, 2, 1, 3]))
    assert figures["total"] == 12
    assert figures["mean"] == 3.0
    assert figures["median"] == 2.5
    assert figures["std"] == pytest.approx(math.sqrt(3.5))
    assert figures["cv"] == pytest.approx(math.sqrt(3.5) / 3)
    # Linear interpolation at 0.95·3 = 2.85: 3 + 0.85·3.
    assert figures["p95"] == pytest.approx(5.55)
    assert (figures["min"], figures["max"]) == (1, 6)


def test_total_does_not_overflow() -> None:
    """Ten million requests of 10^12 would not fit 64 bits; the sum is exact all the same."""
    assert describe_lengths(np.full(10, 2**62, dtype=np.int64))["total"] == 10 * 2**62


@given(LENGTHS)
def test_ks_is_the_supremum(lengths: list[int]) -> None:
    """Against the definition, evaluated at every integer from 0 to beyond the largest length."""
    mean = sum(lengths) / len(lengths)
    distances = [
        abs(sum(v <= k for v in lengths) / len(lengths) - (1 - (1 - 1 / mean) ** k))
        for k in range(max(lengths) + 200)
    ]
    assert ks_to_geometric(np.array(lengths)) == pytest.approx(max(distances), abs=1e-12)


def test_ks_tells_laws_apart() -> None:
    """Geometric samples are close to their law (5% point 1.36/sqrt(n)), uniform ones are not."""
    rng = np.random.default_rng(1)
    assert ks_to_geometric(Geometric(50).sample(10_000, rng)) < 0.0136
    assert ks_to_geometric(rng.integers(90, 111, size=10_000)) > 0.5


@given(LENGTHS)
def test_correlation_agrees_with_numpy(lengths: list[int]) -> None:
    """Against numpy's matrix; constants have none."""
    other = [(7 * v * v + i) % 31 + 1 for i, v in enumerate(lengths)]
    found = correlation(np.array(lengths), np.array(other))
    if len(set(lengths)) == 1 or len(set(other)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(np.corrcoef(lengths, other)[0, 1], abs=1e-9)


def test_arrivals_by_hand() -> None:
    """Times 1, 1, 2, 5: gaps 0, 1, 3, mean 4/3, variance (16 + 1 + 25)/27 = 14/9."""
    times = tuple(Fraction(t) for t in (1, 1, 2, 5))
    figures = describe_arrivals(times)
    assert figures["span_s"] == 4.0
    assert figures["requests_per_s"] == 1.0
    assert figures["inter_arrival_cv"] == pytest.approx(math.sqrt(14 / 9) * 3 / 4)
    assert figures["longest_gap_s"] == 3.0
    assert (figures["distinct_times"], figures["ties"], figures["most_at_one_time"]) == (3, 1, 2)


def test_gaps_survive_a_large_origin() -> None:
    """A microsecond after 10^11 s is lost in floats, not in the statistics."""
    times = tuple(10**11 + Fraction(i, 10**6) for i in range(4))
    figures = describe_arrivals(times)
    assert figures["span_s"] == pytest.approx(3e-6)
    assert figures["inter_arrival_cv"] == pytest.approx(0.0, abs=1e-9)
    assert figures["distinct_times"] == 4


@pytest.mark.parametrize("num_requests", [0, 1, 3])
@pytest.mark.parametrize("timed", [False, True])
def test_degenerate_workloads(num_requests: int, timed: bool) -> None:
    """Nothing, one request, or all at one time: what is undefined is None, never NaN."""
    lengths = np.full(num_requests, 5, dtype=np.int64)
    times = (Fraction(2),) * num_requests if timed else None
    figures = describe(Workload(lengths, lengths, times))
    assert figures["correlation"] is None
    assert (figures["arrivals"] is not None) == timed
    json.dumps(figures, allow_nan=False)


def test_describe_is_json() -> None:
    """The whole answer is plain JSON data."""
    figures = describe(synthetic("demo", 50, seed=1))
    assert json.loads(json.dumps(figures, allow_nan=False))["requests"] == 50
