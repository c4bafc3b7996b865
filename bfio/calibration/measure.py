"""Measure decode steps and write them to a file that `bfio fit` reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bfio.common.options import TEXT, WHOLE, option
from formulations.errors import InputError, check_known, known_fields
from formulations.scalars import integer

#: Data types of weights and caches, with their bytes.
NUMBER_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
_MOST = 10**7


@known_fields
@dataclass(frozen=True)
class MeasureOptions:
    """Options of timed steps of a decoder-only transformer with random weights.

    The default shape is that of an 8-billion-parameter model with grouped-query attention, without
    its embeddings.

    Parameters
    ----------
    lengths : str
        Cached tokens per request: numbers separated by commas.
    batch : int
        Number of requests decoded at once, B.
    repeats : int
        Timed steps per length.
    warm_up : int
        Untimed steps per length before the timed ones.
    layers, hidden, heads, kv_heads, mlp : int
        Shape of the model; each head has ``hidden / heads`` numbers.
    dtype : str
        Data type of weights and caches.
    device : str
        PyTorch device: ``cuda``, ``cuda:1``, ``cpu``; by default ``cuda`` if available.
    seed : int
        Seed of the weights and of the order of the steps.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    lengths: str = option(
        "128,256,512,768,1024,1536,2048",
        TEXT,
        "N,N,...",
        "cached tokens per request, one or more lengths (128 … 2048)",
    )
    batch: int = option(72, WHOLE, "B", "batch size: requests decoded per step (72)")
    repeats: int = option(40, WHOLE, "N", "timed steps per length (40)")
    warm_up: int = option(3, WHOLE, "N", "untimed warm-up steps per length (3)")
    layers: int = option(32, WHOLE, "N", "number of layers (32)")
    hidden: int = option(4096, WHOLE, "N", "width of the model (4096)")
    heads: int = option(32, WHOLE, "N", "query heads (32)")
    kv_heads: int = option(8, WHOLE, "N", "key-value heads (8)")
    mlp: int = option(14336, WHOLE, "N", "inner width of the feed-forward part (14336)")
    dtype: str = option(
        "bfloat16",
        TEXT,
        "T",
        "data type of weights and caches: bfloat16 (default), float16 or float32",
    )
    device: str | None = option(
        None, TEXT, "D", "PyTorch device: cuda (default if available), cuda:1, cpu"
    )
    seed: int = 0

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        for name in ("batch", "repeats", "layers", "hidden", "heads", "kv_heads", "mlp"):
            integer(getattr(self, name), name, minimum=1, maximum=_MOST)
        integer(self.warm_up, "warm_up", maximum=_MOST)
        integer(self.seed, "seed", maximum=2**63 - 1)
        for whole, part in (("hidden", "heads"), ("heads", "kv_heads")):
            number, of = getattr(self, whole), getattr(self, part)
            if number % of:
                what = f"{of} is not a divisor of {whole} = {number}"
                raise InputError(part, what, "use a divisor")
        check_known("dtype", self.dtype, NUMBER_BYTES)
        if len(set(self.cache_lengths)) < 2:
            what = "one length does not determine the time per token"
            raise InputError("lengths", what, "give two or more lengths")

    @property
    def cache_lengths(self) -> tuple[int, ...]:
        """The lengths as numbers."""
        found = []
        for text in self.lengths.split(","):
            if not (text.strip().isascii() and text.strip().isdigit()):
                what = f"{text!r:.40} is not a whole number"
                raise InputError("lengths", what, "write whole numbers, such as 128,256")
            found.append(integer(int(text[:20]), "lengths", minimum=1, maximum=_MOST))
        return tuple(found)

    @property
    def num_bytes(self) -> int:
        """Bytes of the weights and of the longest caches."""
        keys = 2 * self.kv_heads * (self.hidden // self.heads)
        weights = self.hidden * (2 * self.hidden + keys + 3 * self.mlp)
        caches = self.batch * max(self.cache_lengths) * keys
        return self.layers * (weights + caches) * NUMBER_BYTES[self.dtype]


_HEADER = "duration_s,load_0,batch,length,device\n"


def require_torch() -> None:
    """Raise an error if PyTorch is not installed.

    Raises
    ------
    InputError
        If it is not installed.
    """
    if find_spec("torch") is None:
        raise InputError("measure", "PyTorch is not installed", "pip install 'bfio[gpu]'")


def measure_steps(
    path: str | Path,
    options: MeasureOptions | None = None,
    *,
    overwrite: bool = False,
    on_step: Callable[[], None] = lambda: None,
) -> str:
    """Time decode steps, write one row each, and return the name of the device.

    Parameters
    ----------
    path : str or Path
        Output file (.csv); it only appears when it is complete.
    options : MeasureOptions, optional
        Options of the measurement.
    overwrite : bool
        Whether an existing file may be replaced.
    on_step : callable
        Called after each timed step.

    Raises
    ------
    InputError
        If PyTorch is not installed, the device is missing or too small, or the file exists.
    """
    require_torch()
    from bfio.calibration.decode_loop import timed_steps
    from bfio.common.files import atomic_file

    options = options or MeasureOptions()
    with atomic_file(Path(path), overwrite=overwrite) as (stream, _):
        device, steps = timed_steps(options)
        stream.write(_HEADER.encode())
        for step in steps:
            load = options.batch * step.length
            cells = f"{step.duration_s!r},{load},{options.batch},{step.length}"
            # A comma in the name would split the cell.
            stream.write(f"{cells},{device.replace(',', ' ')}\n".encode())
            on_step()
    return device
