"""Outputs scaled to a mean, and windows of a trace."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.workloads.generators import rescaled_outputs, window, with_output_mean
from bfio.workloads.workload import Workload
from formulations.errors import InputError


def test_rescaling_by_hand() -> None:
    """Lengths 1, 2, 6 (mean 3) to mean 5: factors 5/3 give 1.67, 3.33, 10, rounded 2, 3, 10."""
    assert rescaled_outputs(np.array([1, 2, 6]), 5).tolist() == [2, 3, 10]
    # To mean 1: 0.33, 0.67, 2 become 1 (the least length), 1, 2.
    assert rescaled_outputs(np.array([1, 2, 6]), 1).tolist() == [1, 1, 2]
    # Lengths 1, 3 to mean 1: exactly 0.5 and 1.5, halves go up.
    assert rescaled_outputs(np.array([1, 3]), 1).tolist() == [1, 2]


@given(
    st.lists(st.integers(1, 10**9), min_size=1, max_size=30),
    st.integers(1, 10**6),
)
def test_rescaling_is_exact_rounding(lengths: list[int], mean: int) -> None:
    """Each length is the exact rational, rounded half up, and 1 at least; huge values included."""
    factor = Fraction(mean * len(lengths), sum(lengths))
    expected = [max(1, floor(length * factor + Fraction(1, 2))) for length in lengths]
    assert rescaled_outputs(np.array(lengths), mean).tolist() == expected


def test_rescaling_keeps_all_else() -> None:
    """Prompts, arrival times and name; the provenance says what was done."""
    load = Workload([7, 8], [1, 3], (Fraction(0), Fraction(1)), "w", {"file": "f"})  # type: ignore[arg-type]
    found = with_output_mean(load, 4)
    assert found.output_tokens.tolist() == [2, 6]
    assert found.prompt_tokens.tolist() == [7, 8]
    assert found.arrival_times == load.arrival_times
    assert found.provenance == {"file": "f", "output_mean": 4}


@given(st.integers(1, 60), st.integers(1, 60))
def test_windows_share_out_all_requests(num_requests: int, count: int) -> None:
    """In order, each request once, sizes at most 1 apart; none of them empty."""
    load = Workload(np.arange(1, num_requests + 1), np.ones(num_requests, dtype=np.int64))
    if count > num_requests:
        # Then the first window is empty: floor(n/count) = 0.
        with pytest.raises(InputError, match="use at most one window per request"):
            window(load, 0, count)
        return
    parts = [window(load, k, count).prompt_tokens.tolist() for k in range(count)]
    assert [prompt for part in parts for prompt in part] == list(range(1, num_requests + 1))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(("index", "count"), [(2, 2), (-1, 2), (0, 0)])
def test_windows_that_do_not_exist_are_refused(index: int, count: int) -> None:
    """Windows count from 0."""
    with pytest.raises(InputError, match="window"):
        window(Workload([1, 1], [1, 1]), index, count)  # type: ignore[arg-type]
