"""Time decode steps of a transformer with random weights (needs PyTorch).

A step is the computation of a serving engine for one new token of each of B requests. Each layer
has an RMS norm, projections of query, key and value, attention over the cache, the output
projection, and a gated feed-forward part with its own norm. All B caches have the same length T in
a step, so the load of the step is B·T tokens and no kernel pads. The queries of a group are passed
as query positions, which is equivalent to grouped attention of a single token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional

from bfio.common.memory import require_memory
from formulations.errors import InputError

if TYPE_CHECKING:
    from bfio.calibration.measure import MeasureOptions


@dataclass(frozen=True)
class TimedStep:
    """A measured step: cached tokens per request, and duration [s]."""

    length: int
    duration_s: float


def timed_steps(options: MeasureOptions) -> tuple[str, Iterator[TimedStep]]:
    """Return the device name and an iterator of timed steps, in random order of cache length.

    Raises
    ------
    InputError
        If the device does not exist or has too little memory.
    """
    device = _device(options)
    is_gpu = device.type == "cuda"
    _require_room(options, device)
    loop = DecodeLoop(options, device)
    wait = (lambda: torch.cuda.synchronize(device)) if is_gpu else (lambda: None)
    name = torch.cuda.get_device_name(device) if is_gpu else "cpu"
    return name, _timed(loop, options, wait)


class DecodeLoop:
    """Weights and caches of the model on a device.

    Parameters
    ----------
    options : MeasureOptions
        Shape of the model, number of requests, and cache lengths.
    device : torch.device
        Device of the tensors.

    Attributes
    ----------
    layers : list of tuple of torch.Tensor
        For each layer: the weights of the QKV projection, the output projection, and the input and
        output of the feed-forward part; then the caches of keys and values, shape (B, heads,
        tokens, size).
    tokens : torch.Tensor
        Shape (B, hidden): input of the first layer.
    """

    def __init__(self, options: MeasureOptions, device: Any) -> None:
        self._shape = options
        self._like = {"device": device, "dtype": getattr(torch, options.dtype)}
        self._random = torch.Generator(device).manual_seed(options.seed)
        head, most = options.hidden // options.heads, max(options.cache_lengths)
        rows = options.hidden, options.hidden + 2 * options.kv_heads * head
        cache = options.batch, options.kv_heads, most, head
        inner = options.hidden, 2 * options.mlp
        self.layers = [
            (
                self._drawn(*rows),
                self._drawn(options.hidden, options.hidden),
                self._drawn(*inner),
                self._drawn(options.mlp, options.hidden),
                self._drawn(*cache),
                self._drawn(*cache),
            )
            for _ in range(options.layers)
        ]
        self.tokens = self._drawn(options.batch, options.hidden) * options.hidden**0.5

    def step(self, length: int) -> Any:
        """Decode a token of each request with ``length`` cached tokens, including the new one."""
        hidden = self.tokens
        with torch.inference_mode():
            for into_heads, back, inner, outer, keys, values in self.layers:
                attended = self._attended(_norm(hidden) @ into_heads, keys, values, length)
                hidden = hidden + attended @ back
                gate, up = (_norm(hidden) @ inner).chunk(2, dim=-1)
                hidden = hidden + (functional.silu(gate) * up) @ outer
        return hidden

    def _attended(self, heads: Any, keys: Any, values: Any, length: int) -> Any:
        """Write key and value of the new token, and attend to the cache; shape (B, hidden)."""
        shape = self._shape
        batch, head = shape.batch, shape.hidden // shape.heads
        own = shape.kv_heads * head
        query, key, value = heads.split([shape.hidden, own, own], dim=-1)
        keys[:, :, length - 1] = key.view(batch, shape.kv_heads, head)
        values[:, :, length - 1] = value.view(batch, shape.kv_heads, head)
        grouped = query.view(batch, shape.kv_heads, shape.heads // shape.kv_heads, head)
        found = functional.scaled_dot_product_attention(
            grouped, keys[:, :, :length], values[:, :, :length]
        )
        return found.reshape(batch, shape.hidden)

    def _drawn(self, *shape: int) -> Any:
        """Return normal random numbers, scaled so that products keep their magnitude."""
        drawn = torch.empty(shape, **self._like)
        return drawn.normal_(0, shape[0] ** -0.5, generator=self._random)


def _norm(hidden: Any) -> Any:
    return functional.rms_norm(hidden, hidden.shape[-1:])


def _timed(
    loop: DecodeLoop, options: MeasureOptions, wait: Callable[[], None]
) -> Iterator[TimedStep]:
    lengths = np.array(options.cache_lengths)
    for length in np.repeat(lengths, options.warm_up).tolist():
        loop.step(length)
    rng = np.random.default_rng(options.seed)
    # Temperature and clock rate drift; the random order spreads the drift over all lengths.
    for length in rng.permutation(np.repeat(lengths, options.repeats)).tolist():
        wait()
        begin = perf_counter()
        loop.step(length)
        wait()
        yield TimedStep(length, perf_counter() - begin)


def _device(options: MeasureOptions) -> Any:
    name = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError("device", f"{name!r:.40} is unknown", "use cuda, cuda:1 or cpu") from None
    if device.type not in ("cuda", "cpu"):
        raise InputError("device", f"{name} steps cannot be timed", "use cuda, cuda:1 or cpu")
    number = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= number:
        what = f"{name} does not exist, PyTorch finds {number} of this kind"
        raise InputError("device", what, "use another device, or cpu")
    return device


def _require_room(options: MeasureOptions, device: Any) -> None:
    size = f"{options.layers} layers and {options.batch} caches of {max(options.cache_lengths)}"
    remedy = "give shorter lengths, fewer layers or a smaller batch"
    if device.type == "cpu":
        require_memory(options.num_bytes, "model", size, remedy)
        return
    free, _ = torch.cuda.mem_get_info(device)
    if options.num_bytes > free:
        what = f"{size} take {options.num_bytes / 2**30:.1f} GiB, {free / 2**30:.1f} are free"
        raise InputError("model", what, remedy)
