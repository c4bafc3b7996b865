"""Batch times fitted to measurements."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from bfio.batching.hardware import hardware
from bfio.batching.measured import fit_batch_time, read_batches
from formulations.errors import InputError


def test_published_constants_are_found_again(tmp_path: Path) -> None:
    """Batches of Llama-3-70B without noise: c = 45.5 ms, a = 0.3 ms, b0 = 64."""
    llama = hardware("llama-3-70b-2xa100")
    loads = [1, 16, 32, 64, 100, 128, 200, 256, 512, 1024]
    rows = [f"{b},{float(llama.batch_time.slots(b) * llama.slot)!r}\n" for b in loads]
    (tmp_path / "batches.csv").write_text("tokens,duration_s\n" + "".join(rows))
    fit = fit_batch_time(*read_batches(tmp_path / "batches.csv"))
    assert (fit.overhead_s, fit.per_token_s) == pytest.approx((0.0455, 0.0003))
    assert fit.free_tokens == 64
    assert fit.r_squared == pytest.approx(1)
    assert fit.batch_time(llama.slot) == llama.batch_time


def test_noise_is_averaged() -> None:
    """Two per cent of noise on 2,000 batches: constants within two per cent, R² as published."""
    rng = np.random.default_rng(1)
    loads = rng.integers(1, 1025, 2000)
    exact = 0.0455 + 0.0003 * np.maximum(loads - 64, 0)
    fit = fit_batch_time(loads, exact * rng.normal(1, 0.02, 2000))
    assert fit.overhead_s == pytest.approx(0.0455, rel=0.02)
    assert fit.per_token_s == pytest.approx(0.0003, rel=0.02)
    assert abs(fit.free_tokens - 64) < 20
    assert fit.r_squared > 0.985


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("tokens\n1\n", "no column duration_s"),
        ("tokens,duration_s\n1,x\n", "row 1"),
        ("tokens,duration_s\n0,1\n", "0 tokens"),
        ("tokens,duration_s\n1,inf\n", "inf s"),
        ("tokens,duration_s\n1,1\n2,1\n", "three batches"),
        ("tokens,duration_s\n5,1\n5,1\n5,2\n", "do not differ"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, what: str) -> None:
    """With the row, the column or the rule."""
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(InputError, match=what):
        fit_batch_time(*read_batches(tmp_path / "x.csv"))


def test_a_slot_may_be_any_length() -> None:
    """Constants are rounded to a thousandth of it."""
    fit = fit_batch_time([1, 64, 128, 256], np.array([1.0, 1.0, 1.5, 2.5]), free_tokens=64)
    assert fit.batch_time(Fraction(1, 10)).overhead == 10
