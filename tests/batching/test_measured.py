"""Batch times fitted to measurements."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bfio.batching.hardware import fit_batch_time, hardware, read_batches
from formulations.errors import InputError
from tests.cli.conftest import Bfio, bfio

__all__ = ["bfio"]


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


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12)), min_size=4, max_size=12),
    st.sampled_from([1, 50]),
)
def test_no_integer_b0_gives_smaller_squares(batches: list[tuple[int, int]], factor: int) -> None:
    """Every b0 with two larger loads is tried; loads may lie far apart."""
    loads, durations = np.array(batches).T * np.array([[factor], [1]])
    assume(len(np.unique(loads)) > 2)
    squares = {}
    for b0 in range(int(np.unique(loads)[-2])):
        columns = np.column_stack((np.ones(len(loads)), np.maximum(loads - b0, 0)))
        (overhead, per_token), *_ = np.linalg.lstsq(columns, durations)
        if overhead > 1e-9 and per_token > 1e-9:
            squares[b0] = ((columns @ (overhead, per_token) - durations) ** 2).sum()
    assume(squares)
    fit = fit_batch_time(loads, durations)
    left = sum((fit.seconds(b) - t) ** 2 for b, t in zip(loads, durations, strict=True))
    assert left <= min(squares.values()) + 1e-7


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("tokens\n1\n", "column duration_s is missing"),
        ("tokens,duration_s\n1,x\n", "row 1"),
        ("tokens,duration_s\n0,1\n", "0 tokens"),
        ("tokens,duration_s\n1,inf\n", "inf s are not both finite"),
        ("tokens,duration_s\n1,1\n2,1\n", "three batches"),
        ("tokens,duration_s\n5,1\n5,1\n5,2\n", "do not differ"),
        ("tokens,duration_s\n1,3\n2,2\n4,1\n", "durations: no line with a positive overhead"),
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


def _measured() -> str:
    rows = [f"{b},{0.0455 + 0.0003 * max(0, b - 64):.6f}\n" for b in (1, 32, 64, 128, 512, 900)]
    Path("batches.csv").write_text("tokens,duration_s\n" + "".join(rows))
    return "batches.csv"


def test_the_command_prints_an_engine_that_others_read(bfio: Bfio) -> None:
    """Constants, what full batches process, a picture; the engine carries 11.809 requests/s."""
    done = bfio("fit", _measured(), "--kind", "batches", "--plot", "batches.png")
    assert done.status == 0, done.err
    assert Path("batches.png").read_bytes().startswith(b"\x89PNG")
    engine = json.loads(done.out.splitlines()[-1])
    stage = {"agent": "engine", "prefill": 129, "decode": 112, "rate": "0.001"}
    Path("engine.json").write_text(json.dumps(engine | {"stages": [stage]}))
    (kind,) = bfio("capacity", "engine.json", "--json").json["types"]
    assert kind["most_per_second"] == pytest.approx(11.809, abs=0.001)
    answer = bfio("fit", _measured(), "--kind", "batches", "--json", "--slot", "0.001").json
    assert (answer["free_tokens"], answer["batches"], answer["warning"]) == (64, 6, None)
    assert answer["engine"]["agents"][0]["overhead"] == "91/2"
    assert answer["budgets"][2]["tokens_per_s"] == pytest.approx(512 / 0.1799)


def test_a_faster_small_batch_is_told(bfio: Bfio) -> None:
    """C < a·b0, against what Theorem 1 (b) takes for granted."""
    Path("b.csv").write_text("tokens,duration_s\n1,1\n8,1\n9,2\n12,5\n20,13\n")
    out = bfio("fit", "b.csv", "--kind", "batches", "--free-tokens", "8").out
    assert "warning: c < a*b0" in out


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--kind", "rows"), "--kind: 'rows' is unknown"),
        (("--kind", "batches", "--loss", "huber"), "--loss: has no effect with --kind batches"),
        (("--kind", "batches", "--per-worker"), "--per-worker: has no effect with --kind batches"),
        (("--kind", "batches", "--slot", "0"), "--slot"),
        (("--kind", "batches", "--free-tokens", "-1"), "is below 0"),
        (("--kind", "batches", "--free-tokens", "1000"), "do not differ beyond b0"),
        (("--kind", "batches", "--plot", "b.txt"), "is not a picture"),
        (("--free-tokens", "1"), "--free-tokens: has no effect without --kind batches"),
        (("--slot", "1"), "--slot: has no effect without --kind batches"),
    ],
)
def test_what_the_command_refuses(bfio: Bfio, words: tuple[str, ...], what: str) -> None:
    """One line, exit status 2."""
    done = bfio("fit", _measured(), *words)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert what in done.err
