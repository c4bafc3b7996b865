"""Derived saturation of one Llama-3-70B engine, and its batch-time curve.

    python derived.py

writes ``capacity.csv``, ``groups-derived.csv``, ``vllm.csv`` and ``curve.png`` next to this file.
Requests have 129 prompt and 112 decode tokens; arrivals are Poisson. Sources: (2.3) for the
capacity; for FasterTransformer a cycle of one group; for vLLM the mean time between two full
decode batches, during which all prompts that arrive are prefilled.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import poisson

from bfio.batching.hardware import hardware

PREFILL, DECODE = 129, 112
LLAMA = hardware("llama-3-70b-2xa100")
BUDGETS = (64, 128, 256, 512, 768, 1024, 2048)
GROUPS = (4, 8, 16, 32, 64, 128, 256, 512)
#: Token budget of prefill batches, and largest number of requests in a decode batch.
VLLM = ((512, 512), (512, 256), (256, 256), (1024, 1024), (2048, 128))
#: Largest numbers of requests waiting for prefill, and arriving during a batch.
_WAITING, _ARRIVING = 60, 30


def seconds(tokens: int) -> float:
    """Return the time of a batch [s]."""
    return float(LLAMA.batch_time.slots(tokens) * LLAMA.slot)


def of_group(size: int) -> float:
    """Return requests/s of FasterTransformer with groups of ``size`` requests."""
    full, rest = divmod(size * PREFILL, 512)
    prefill = full * seconds(512) + (seconds(rest) if rest else 0)
    return size / (prefill + DECODE * seconds(size))


def of_vllm(budget: int, limit: int) -> float:
    """Return the largest rate [requests/s] that full decode batches of vLLM can serve."""
    low, high = 0.1, 1 / (PREFILL * seconds(budget) / budget) * 0.999
    for _ in range(20):
        rate = (low + high) / 2
        if rate * DECODE * _cycle(rate, budget, limit) < limit:
            low = rate
        else:
            high = rate
    return low


def _cycle(rate: float, budget: int, limit: int) -> float:
    """Return the mean time of a decode batch and of the prefills before the next one [s]."""
    most = _WAITING * PREFILL
    tokens = np.arange(most + 1)
    rest = np.maximum(tokens - budget, 0)
    times = np.array([seconds(int(w)) for w in range(budget + 1)])
    times[0] = 0.0
    lasts = times[np.minimum(tokens, budget)]
    chances = poisson.pmf(np.arange(_ARRIVING)[:, None], rate * lasts)
    left = np.zeros(most + 1)
    for _ in range(1000):
        after = sum(
            chances[k] * left[np.minimum(rest + k * PREFILL, most)] for k in range(_ARRIVING)
        )
        new = np.where(tokens > 0, lasts + after, 0.0)
        if np.abs(new - left).max() < 1e-7:
            break
        left = new
    decode = seconds(limit)
    first = poisson.pmf(np.arange(_ARRIVING), rate * decode)
    return decode + float(first @ left[np.minimum(np.arange(_ARRIVING) * PREFILL, most)])


def _write(name: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with (Path(__file__).parent / name).open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([header, *rows])


def _draw(path: Path) -> None:
    drawing, axes = plt.subplots(1, 2, figsize=(10, 3.8))
    tokens = np.arange(1, 1025)
    times = np.array([seconds(int(b)) for b in tokens])
    axes[0].plot(tokens, 1000 * times)
    axes[0].set(xlabel="tokens of the batch", ylabel="time of the batch [ms]", ylim=(0, None))
    axes[1].plot(tokens, tokens / times)
    axes[1].axhline(10_000 / 3, color="grey", linestyle=":")
    axes[1].text(1024, 10_000 / 3, "1/a", ha="right", va="bottom")
    axes[1].set(xlabel="token budget", ylabel="most tokens per second", ylim=(0, 3600))
    drawing.tight_layout()
    drawing.savefig(path, dpi=110)


def main() -> None:
    """Write tables and figure."""
    rows: list[Sequence[object]] = [
        (b, f"{1000 * seconds(b):.1f}", f"{(r := b / seconds(b)):.1f}", f"{r / 241:.3f}")
        for b in BUDGETS
    ]
    limit = 10_000 / 3
    rows.append(("infinite", "", f"{limit:.1f}", f"{limit / 241:.3f}"))
    _write("capacity.csv", ["token budget", "full batch [ms]", "tokens/s", "requests/s"], rows)
    groups: list[Sequence[object]] = [(m, f"{of_group(m):.3f}") for m in GROUPS]
    _write("groups-derived.csv", ["group M", "derived requests/s"], groups)
    vllm = [(b, m, f"{of_vllm(b, m):.3f}") for b, m in VLLM]
    _write("vllm.csv", ["budget of a prefill", "limit of a decode", "derived requests/s"], vllm)
    _draw(Path(__file__).parent / "curve.png")


if __name__ == "__main__":
    main()
