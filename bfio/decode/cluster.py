"""The simulated machine: workers, slots, memory, and the duration of a step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from bfio.common.compilable import compilable
from bfio.common.options import (
    NUMBER,
    CheckedOptions,
    OptionKind,
    checked,
    described,
    option,
    whole,
)
from formulations.errors import InputError, known_fields
from formulations.scalars import integer, real
from formulations.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.arrays import FloatArray, IntArray

#: Fixed part of a step [s] at 72 slots: (0.6e-3·72 + 35e-3)/16, read from the simulator that the
#: BF-IO authors released; the paper itself prints no value.
STEP_OVERHEAD_S = (0.6e-3 * 72 + 35e-3) / 16
#: Time per token of the most loaded worker [s/token]: 1.5·2·576·61e-6/2^20, same source.
TOKEN_TIME_S = 1.5 * 2 * 576 * 61e-6 / 2**20

#: Range of accepted times, so that all metrics stay finite floating-point numbers.
MIN_TIME_S, MAX_TIME_S = 1e-15, 1e6

#: Largest total number of slots; the engine keeps one row of state per slot.
MAX_TOTAL_SLOTS = 4_000_000

#: Memory of a worker without a limit [tokens]; a given limit must be less.
NO_LIMIT = 2**62
#: Range of accepted speeds.
MIN_SPEED, MAX_SPEED = 1e-6, 1e6

#: Largest denominator for the ratios of times per token, and the error at which the search stops.
PACE_SCALE, PACE_ERROR = 100, 1e-9

#: One number for all workers, or one per worker: single values or ``count*value``.
PER_WORKER = OptionKind(
    "number, or one per worker such as 8*72,8*36",
    str,
    (int, float, str, list),
    lambda value: value,
)


def _time(value: object, where: str) -> float:
    time = real(value, where)
    if time != 0.0 and not MIN_TIME_S <= time <= MAX_TIME_S:
        what = f"{time} s is out of range"
        raise InputError(where, what, f"give 0 or a time in [{MIN_TIME_S}, {MAX_TIME_S}] s")
    return time


_TIME = checked(NUMBER, _time)


@described
@known_fields
@dataclass(frozen=True)
class Cluster(CheckedOptions):
    """Barrier-synchronised decode workers (BF-IO, section 3 and eq. 6).

    If workers differ, a field is a tuple, list or array with one entry per worker, or a text such
    as ``"8*72,8*36"``. It is stored as a tuple, or as a single number if all entries are equal.

    Raises
    ------
    InputError
        If a value is invalid; the error names the field.

    Notes
    -----
    A step lasts ``max_g (C_g + t_g·L_g)`` plus ``mean_time_s`` times the mean load. ``C_g`` and
    ``t_g`` are the overhead and token time of worker g, divided by its speed. With token budgets,
    worker g also takes ``a·max(0, b'_g - b0)`` for a batch of ``b'_g`` tokens (throughput paper,
    eq. 2.3), where ``a`` is ``batch_token_time_s`` and ``b0`` is ``free_tokens``.
    """

    workers: int = option(16, whole(1, MAX_TOTAL_SLOTS), "G", "workers (default 16)")
    slots: int | tuple[int, ...] = option(
        72, PER_WORKER, "B", "requests a worker decodes at once (72), or one each: 8*72,8*36"
    )
    step_overhead_s: float | tuple[float, ...] = option(
        STEP_OVERHEAD_S,
        PER_WORKER,
        "C",
        "fixed part of a step [s] (4.8875e-3)",
        name="step_overhead",
    )
    token_time_s: float | tuple[float, ...] = option(
        TOKEN_TIME_S,
        PER_WORKER,
        "T",
        "time per token of the largest load [s] (1.0052490234375e-7)",
        name="token_time",
    )
    mean_time_s: float = option(
        0.0, _TIME, "T", "time per token of the mean load [s] (0)", name="mean_time"
    )
    memory: int | tuple[int, ...] | None = option(
        None, PER_WORKER, "K", "KV cache of a worker [tokens], or one each (default: no limit)"
    )
    speed: float | tuple[float, ...] = option(
        1.0, PER_WORKER, "S", "speed of a worker, or one each such as 8*1,8*2: divides its times"
    )
    prefix_cache: int | tuple[int, ...] | None = option(
        None, PER_WORKER, "K", "prefix cache of a worker [tokens], or one each (default: none)"
    )
    token_budget: int | tuple[int, ...] | None = option(
        None,
        PER_WORKER,
        "b",
        "compute prompts in chunks on the workers that decode: most tokens of a worker's batch, "
        "or one each (default: prompts are computed elsewhere; docs/barrier-batching.md)",
    )
    batch_token_time_s: float = option(
        0.0,
        _TIME,
        "T",
        "with a token budget, time per token of a batch beyond the free ones (0)",
        name="batch_token_time",
    )
    free_tokens: int = option(
        0,
        whole(0, NO_LIMIT - 1),
        "b0",
        "with a token budget, tokens of a batch that take no time (0)",
    )

    def __post_init__(self) -> None:
        """Validate the fields."""
        super().__post_init__()
        self._set("slots", partial(integer, minimum=1, maximum=MAX_TOTAL_SLOTS))
        for name in ("memory", "prefix_cache", "token_budget"):
            if getattr(self, name) is not None:
                self._set(name, partial(integer, minimum=1, maximum=NO_LIMIT - 1))
        self._set("step_overhead_s", _time)
        self._set("token_time_s", _time)
        self._set("speed", _speed)
        self._check_batches()
        if self.total_slots > MAX_TOTAL_SLOTS:
            raise InputError(
                "slots",
                f"{self.total_slots} slots on {self.workers} workers are more than "
                f"{MAX_TOTAL_SLOTS}",
                "simulate fewer slots",
            )
        for overhead, token_time in zip(*self._times(), strict=True):
            if overhead + token_time + self.mean_time_s == 0.0:
                raise InputError("step_overhead_s", "every step would take 0 s", "give a time > 0")

    def _check_batches(self) -> None:
        """Check the fields that apply only with token budgets."""
        for name in ("batch_token_time_s", "free_tokens"):
            if self.token_budget is None and getattr(self, name):
                what = "has no effect without token budgets"
                raise InputError(name, what, "give token_budget, or leave it out")
        if self.free_tokens and not self.batch_token_time_s:
            what = "has no effect while batch_token_time_s is 0"
            raise InputError("free_tokens", what, "give batch_token_time_s, or leave it out")

    def _set(self, name: str, check: Callable[[Any, str], float]) -> None:
        """Check a field that may differ between workers, and store equal entries as one value."""
        value = getattr(self, name)
        if isinstance(value, str):
            value = _entries(value, name)
        elif hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, list | tuple):
            if len(value) != self.workers:
                raise InputError(
                    name,
                    f"{counted(len(value), 'entry')} for {counted(self.workers, 'worker')}",
                    "give one per worker",
                )
            each = tuple(check(entry, f"{name}[{g}]") for g, entry in enumerate(value))
            value = each[0] if len(set(each)) == 1 else each
        else:
            value = check(value, name)
        object.__setattr__(self, name, value)

    @property
    def total_slots(self) -> int:
        """Number of slots of all workers, ``G·B`` if workers are equal."""
        return self.workers * self.slots if isinstance(self.slots, int) else sum(self.slots)

    @property
    def shape(self) -> str:
        """Workers and slots in words: ``16x72``, or ``16x(8*72,8*36)``."""
        slots = per_worker_text(self.slots)
        return f"{self.workers}x({slots})" if "*" in slots else f"{self.workers}x{slots}"

    def alike(self, name: str, who: str) -> Any:
        """Return a field that must be equal for all workers; ``who`` is named in the error."""
        value = getattr(self, name)
        if isinstance(value, tuple):
            raise InputError(name, f"{who} supports equal workers only", "give one number for all")
        return value

    @property
    def keeps_one_pace(self) -> bool:
        """Whether the same load takes the same time on all workers."""
        times = (self.speed, self.step_overhead_s, self.token_time_s)
        return not any(isinstance(entry, tuple) for entry in times)

    def worker_slots(self) -> IntArray:
        """Return the number of slots ``B_g`` of each worker, shape (G,)."""
        return self._whole(self.slots)

    def worker_memory(self) -> IntArray:
        """Return the memory ``κ_g`` of each worker, (G,) [tokens]; `NO_LIMIT` without a limit."""
        return self._whole(NO_LIMIT if self.memory is None else self.memory)

    def worker_budgets(self) -> IntArray:
        """Return the token budget ``b_g`` of each worker, (G,); `NO_LIMIT` without budgets."""
        return self._whole(NO_LIMIT if self.token_budget is None else self.token_budget)

    def worker_prefix_blocks(self) -> IntArray:
        """Return the capacity of each worker's prefix cache in blocks, shape (G,)."""
        from bfio.workloads.request_data import BLOCK_TOKENS

        return self._whole(self.prefix_cache or 0) // BLOCK_TOKENS

    def worker_times(self) -> tuple[FloatArray, FloatArray]:
        """Return overhead ``C_g`` [s] and token time ``t_g`` [s/token] of workers, each (G,)."""
        import numpy as np

        overhead, token_time = self._times()
        return np.array(overhead), np.array(token_time)

    def batch_times(self, tokens: IntArray) -> FloatArray:
        """Return the time that batches add to each worker's step, ``a·max(0, b' - b0)`` [s].

        Source: throughput paper, eq. (2.3); its constant term is the fixed part of a step here.
        """
        import numpy as np

        speed = np.array(self._each(self.speed))
        return self.batch_token_time_s / speed * np.maximum(tokens - self.free_tokens, 0)

    def paces(self) -> tuple[IntArray | None, IntArray | None]:
        """Return the relative worker speeds for step programs; (None, None) if workers are equal.

        Both arrays have shape (G,). The first holds integers in proportion to the times per token.
        If no integers with a least one up to `PACE_SCALE` give the proportion exactly, they are
        rounded to multiples of 1 / `PACE_SCALE` of the least. The second holds the fixed part of a
        step of each worker, in units of its time per token.
        """
        if self.keeps_one_pace:
            return None, None
        import numpy as np

        overheads, token_times = self.worker_times()
        fastest = token_times[token_times > 0].min(initial=np.inf)
        if (token_times <= 0).any() or fastest == np.inf:
            what = "is 0 for a worker, and workers differ"
            raise InputError("token_time_s", what, "give every worker a time > 0")
        ratios = token_times / fastest
        for scale in range(1, PACE_SCALE + 1):
            whole = np.rint(ratios * scale)
            if np.abs(whole / scale - ratios).max() < PACE_ERROR:
                break
        paces = _frozen_whole(whole)
        return _frozen_whole(paces // np.gcd.reduce(paces)), _frozen_whole(overheads / token_times)

    def step_units(self) -> tuple[IntArray, IntArray] | None:
        """Return fixed parts of a step and times per token in integer units of a common time.

        Both arrays have shape (G,) and are rounded as in `paces`. For equal workers the unit is
        the time of one token. Returns None if a token takes no time. Raises InputError if a fixed
        part exceeds 2^53 units.
        """
        import numpy as np

        from formulations.arrays import frozen

        overheads, token_times = self.worker_times()
        if (token_times <= 0).any():
            return None
        rates, overhead_tokens = self.paces()
        if rates is None or overhead_tokens is None:
            rates = np.ones(self.workers, dtype=np.int64)
            tokens = np.rint(overheads / token_times)
            if tokens.max() > 2**53:
                what = "the fixed part of a step exceeds the time of 2^53 tokens"
                raise InputError("token_time_s", what, "give a longer time per token")
            overhead_tokens = tokens.astype(np.int64)
        return frozen(rates * overhead_tokens), frozen(rates)

    def step_time(
        self, loads: IntArray, factors: FloatArray | None = None, more_s: FloatArray | None = None
    ) -> float:
        """Return the duration of a step, ``max_g (C_g + t_g·L_g) + t_m·mean load`` [s].

        This is equation (6) of BF-IO if workers are equal and t_m = 0. ``loads`` are in tokens.
        ``factors`` multiply all times of a worker, and ``more_s`` is added to ``C_g``, for example
        the time of a batch. All three have shape (G,).
        """
        slow = (1.0,) * self.workers if factors is None else factors
        added = (0.0,) * self.workers if more_s is None else more_s
        busy = max(
            step_time(factor * (overhead + more), factor * token_time, 0.0, int(load), 0.0)
            for overhead, token_time, load, factor, more in zip(
                *self._times(), loads, slow, added, strict=True
            )
        )
        return float(busy + self.mean_time_s * (int(sum(map(int, loads))) / self.workers))

    def _times(self) -> tuple[list[float], list[float]]:
        speeds = self._each(self.speed)
        overheads, token_times = self._each(self.step_overhead_s), self._each(self.token_time_s)
        return (
            [time / speed for time, speed in zip(overheads, speeds, strict=True)],
            [time / speed for time, speed in zip(token_times, speeds, strict=True)],
        )

    def _each(self, value: float | tuple[float, ...]) -> tuple[float, ...]:
        """Return the value of a field for each worker."""
        return value if isinstance(value, tuple) else (value,) * self.workers

    def _whole(self, value: int | tuple[int, ...]) -> IntArray:
        import numpy as np

        return np.array(self._each(value), dtype=np.int64)


def _frozen_whole(values: FloatArray) -> IntArray:
    import numpy as np

    from formulations.arrays import frozen

    return frozen(np.rint(values).astype(np.int64))


def per_worker_text(value: float | tuple[float, ...]) -> str:
    """Return a number, or one entry per worker, in the format that `Cluster` reads."""
    if not isinstance(value, tuple):
        return f"{value}"
    runs = [(entry, len(list(same))) for entry, same in groupby(value)]
    return ",".join(f"{count}*{entry}" for entry, count in runs)


def _entries(text: str, where: str) -> float | tuple[float, ...]:
    """Parse a number, or a list with one entry per worker such as ``8*72,8*36``."""
    entries: list[float] = []
    for part in text.split(","):
        count, star, value = part.rpartition("*")
        try:
            entries += [_number(value)] * (min(int(count), MAX_TOTAL_SLOTS) if star else 1)
        except ValueError:
            remedy = "write a number, or one per worker such as 8*72,8*36"
            raise InputError(where, f"{part.strip()!r} is not a number", remedy) from None
    return entries[0] if "*" not in text and len(entries) == 1 else tuple(entries)


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _speed(value: object, where: str) -> float:
    speed = real(value, where)
    if not MIN_SPEED <= speed <= MAX_SPEED:
        what = f"worker speed {speed:g} is out of range"
        raise InputError(where, what, f"give one in [{MIN_SPEED}, {MAX_SPEED}]")
    return speed


@compilable
def step_time(
    overhead_s: float, token_time_s: float, mean_time_s: float, max_load: float, mean_load: float
) -> float:
    """Return the duration of a step, see `Cluster.step_time`; all loops of the engine use it."""
    return overhead_s + token_time_s * max_load + mean_time_s * mean_load
