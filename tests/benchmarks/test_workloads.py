from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.workloads import SYNTHETIC, TRACES, draw, rescaled_outputs
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


def test_equal_seeds_draw_equal_requests(tmp_path: Path) -> None:
    """And other seeds others."""
    first, again, other = (draw(SYNTHETIC, 50, 100, seed, tmp_path) for seed in (1, 1, 2))
    assert first.prompt_tokens.tolist() == again.prompt_tokens.tolist()
    assert first.output_tokens.tolist() == again.output_tokens.tolist()
    assert first.prompt_tokens.tolist() != other.prompt_tokens.tolist()


def test_a_trace_is_resampled_at_the_mean(tmp_path: Path) -> None:
    """Prompts stay with their outputs, which are rescaled: 10, 30 to mean 4 are 2, 6."""
    lines = "arrival_time_s,prompt_tokens,output_tokens\n,7,10\n,9,30\n"
    import gzip

    (tmp_path / "tiny.csv.gz").write_bytes(gzip.compress(lines.encode()))
    workload = draw("tiny", 200, 4, 0, tmp_path)
    pairs = zip(workload.prompt_tokens.tolist(), workload.output_tokens.tolist(), strict=True)
    assert set(pairs) == {(7, 2), (9, 6)}


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    """With what to do about it."""
    with pytest.raises(InputError, match=r"no such trace; give --data"):
        draw(TRACES[0], 10, 100, 0, tmp_path)


@pytest.mark.parametrize("name", TRACES)
def test_the_real_cuts_are_readable(name: str, shared_data: Path) -> None:
    """The mean output of many draws is near the wanted one."""
    workload = draw(name, 20_000, 100, 0, shared_data)
    assert abs(workload.output_tokens.mean() - 100) < 10
