"""``bfio measure``: a fit can read its file, and the model computes the stated times."""

import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from bfio.calibration.fit import fit_step_time
from bfio.calibration.measure import MeasureOptions
from bfio.calibration.measurements import read_steps
from formulations.errors import InputError
from tests.cli.conftest import Bfio, bfio

__all__ = ["bfio"]

NEEDS = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
TINY = ("--layers", "1", "--hidden", "8", "--heads", "4", "--kv-heads", "2", "--mlp", "8")


def _without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let steps of 1 ms + 2 µs per token be measured, on a device whose name has a comma."""

    def timed_steps(options: MeasureOptions) -> tuple[str, Iterator[SimpleNamespace]]:
        lengths = np.repeat(options.cache_lengths, options.repeats).tolist()
        steps = (SimpleNamespace(length=n, duration_s=1e-3 + 2e-6 * n * 5) for n in lengths)
        return "GPU, large", steps

    loop = ModuleType("bfio.calibration.decode_loop")
    loop.timed_steps = timed_steps  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, loop.__name__, loop)
    monkeypatch.setattr("bfio.calibration.measure.require_torch", lambda: None)


def test_the_file_is_what_a_fit_reads(bfio: Bfio, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row per step; loads are batch times length; an old file is kept unless told."""
    _without_torch(monkeypatch)
    arguments = ("measure", "steps.csv", "--batch", "5", "--lengths", "10,20", "--repeats", "3")
    done = bfio(*arguments, "--json")
    assert done.json == {"file": "steps.csv", "steps": 6, "device": "GPU, large"}
    steps = read_steps("steps.csv")
    assert steps.max_load.tolist() == [50] * 3 + [100] * 3
    fit = fit_step_time(steps)
    assert fit.token_time.value == pytest.approx(2e-6, rel=1e-9)
    again = bfio(*arguments)
    assert (again.status, "the file exists" in again.err) == (2, True)
    assert "6 steps on GPU, large; next: bfio fit steps.csv" in bfio(*arguments, "--overwrite").out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": "10"}, "lengths: one length does not determine"),
        ({"lengths": "10,10"}, "lengths: one length does not determine"),
        ({"lengths": "10,x"}, "lengths: 'x' is not a whole number"),
        ({"lengths": "10,0"}, "lengths: 0 is out of range"),
        ({"lengths": "10,"}, "lengths: '' is not a whole number"),
        ({"batch": 0}, "batch: 0 is out of range"),
        ({"heads": 3}, "heads: 3 is not a divisor of hidden = 4096"),
        ({"kv_heads": 5}, "kv_heads: 5 is not a divisor of heads = 32"),
        ({"dtype": "float8"}, "dtype: 'float8' is unknown"),
    ],
)
def test_what_cannot_be_measured(options: dict[str, object], message: str) -> None:
    """One line, before PyTorch is looked for."""
    with pytest.raises(InputError, match=re.escape(message)):
        MeasureOptions(**options)  # type: ignore[arg-type]


def test_bytes_by_hand() -> None:
    """Width 8, 2 of 4 heads of size 2: 8·(8 + 8 + 8) + 3·8·16 weights, 2·5·20·4 in the cache."""
    tiny = MeasureOptions(
        lengths="10,20", batch=5, layers=3, hidden=8, heads=4, kv_heads=2, mlp=16, dtype="float32"
    )
    assert tiny.num_bytes == 3 * (8 * 24 + 3 * 8 * 16 + 2 * 5 * 20 * 4) * 4


@pytest.mark.skipif(find_spec("torch") is not None, reason="PyTorch is installed")
def test_without_pytorch_one_line_says_so(bfio: Bfio) -> None:
    """And what to install; nothing is written."""
    done = bfio("measure", "steps.csv")
    assert done.err == "error: measure: PyTorch is not installed; pip install 'bfio[gpu]'\n"
    assert (done.status, Path("steps.csv").exists()) == (2, False)


@NEEDS
def test_steps_are_timed(bfio: Bfio) -> None:
    """On the processor, in random order, all of them; a device that is not there is one line."""
    some = ("measure", "steps.csv", "--batch", "2", "--lengths", "4,8", "--repeats", "4")
    assert bfio(*some, *TINY, "--device", "cpu").status == 0
    assert sorted(read_steps("steps.csv").max_load.tolist()) == [8] * 4 + [16] * 4
    for device in ("cuda:99", "abacus", "meta"):
        done = bfio(*some, *TINY, "--device", device, "--overwrite")
        assert done.status == 2
        assert re.fullmatch(r"error: --device: .+; .+\n|error: device: .+; .+\n", done.err)
    huge = bfio(*some, "--device", "cpu", "--overwrite", "--layers", "100000")
    assert "error: model: 100000 layers and 2 caches of 8 take about" in huge.err


@NEEDS
def test_the_model_is_a_transformer() -> None:
    """One layer by its formula, each query head beside its group's keys, in float32."""
    import torch

    from bfio.calibration.decode_loop import DecodeLoop

    options = MeasureOptions(
        lengths="3,5", batch=2, layers=1, hidden=8, heads=4, kv_heads=2, mlp=8, dtype="float32"
    )
    loop = DecodeLoop(options, torch.device("cpu"))
    into, back, inner, outer, keys, values = loop.layers[0]
    found = loop.step(3)

    def norm(x: torch.Tensor) -> torch.Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + torch.finfo(x.dtype).eps).sqrt()

    query, key, value = (norm(loop.tokens) @ into).split([8, 4, 4], dim=-1)
    assert torch.allclose(keys[:, :, 2], key.view(2, 2, 2), atol=1e-5)
    assert torch.allclose(values[:, :, 2], value.view(2, 2, 2), atol=1e-5)
    heads = []
    for h in range(4):
        own = query.view(2, 4, 2)[:, h]
        shares = torch.softmax((keys[:, h // 2, :3] @ own[:, :, None])[..., 0] / 2**0.5, dim=-1)
        heads.append((shares[:, None] @ values[:, h // 2, :3])[:, 0])
    hidden = loop.tokens + torch.cat(heads, dim=-1) @ back
    gate, up = (norm(hidden) @ inner).chunk(2, dim=-1)
    expected = hidden + (gate * torch.sigmoid(gate) * up) @ outer
    assert torch.allclose(found, expected, atol=1e-5)
