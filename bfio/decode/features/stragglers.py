"""Workers that are slow for a while; policies are not told."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.options import NUMBER
from bfio.decode.features.feature import (
    arrays_of,
    drawn_turns,
    in_order,
    read_schedule,
    schedule_of_workers,
)
from bfio.decode.machine.counters import NOW, SLOWED
from formulations.errors import InputError
from formulations.scalars import real

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bfio.decode.machine.state import State
    from formulations.arrays import FloatArray, IntArray

#: How many times as long a drawn straggler takes, unless ``factor`` says otherwise.
DEFAULT_FACTOR = 2.0
#: Largest factor.
MAX_FACTOR = 1e6
#: Number of the random stream; policies, predictors, failures and cancellations have others.
_STREAM = 5
_FORM = (
    "write random:mtbf=3600:mttr=60:factor=2, or the name of a CSV file with time_s,worker,factor"
)


class Stragglers(NamedTuple):
    """From when on workers take how many times as long, in order of time."""

    #: Shape (E,) [s]; an event takes effect with the first step that starts then or later.
    time_s: FloatArray
    worker: IntArray  #: Shape (E,).
    #: Shape (E,): what its time of a step, ``C_g + t_g·L_g``, is multiplied by; 1 is its pace.
    factor: FloatArray
    until_s: float  #: Up to when the schedule says what happens [s].

    def factors(self, start_s: FloatArray, num_workers: int) -> FloatArray:
        """Return the factor of each worker at steps in order of start [s], shape (K, G)."""
        factors = np.empty((len(start_s), num_workers))
        for g in range(num_workers):
            own = self.worker == g
            passed = np.searchsorted(self.time_s[own], start_s, side="right")
            factors[:, g] = np.concatenate(([1.0], self.factor[own]))[passed]
        return factors


def stragglers_of(
    given: str | Iterable[tuple[float, int, float]], num_workers: int, seed: int
) -> Stragglers:
    """Return the schedule that an option of a run stands for.

    That is ``none``; ``random:mtbf=SECONDS:mttr=SECONDS`` (beside these ``factor``, 2 by default,
    and ``until=SECONDS``, 1e6 by default); the name of a CSV file, or its rows: time [s], worker,
    factor. Refused is what cannot be read, is out of order or names no worker, and a factor that
    is no number > 0.
    """
    return read_schedule(
        "stragglers",
        given,
        {"time_s": float, "worker": int, "factor": float},
        form=_FORM,
        example="12.5,0,2",
        draw=lambda text: _drawn(text, num_workers, seed),
        check=lambda rows, where: _checked(rows, num_workers, where),
    )


# Energy, metrics and replay ask for the schedule of a run again and again.
@lru_cache(maxsize=4)
def _drawn(text: str, num_workers: int, seed: int) -> Stragglers:
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
    more = {"factor": (NUMBER, DEFAULT_FACTOR)}
    turns, values = drawn_turns(text, "stragglers", num_workers, rng, form=_FORM, more=more)
    rows = [(time, worker, 1.0 if is_up else values["factor"]) for time, worker, is_up in turns]
    return _checked(rows, num_workers, "stragglers", values["until"])


def _checked(
    rows: list[tuple[float, int, float]], num_workers: int, where: str, until_s: float = math.inf
) -> Stragglers:
    for place, (_, _, factor) in in_order(rows, where, "worker", num_workers):
        if not 0 < real(factor, place) <= MAX_FACTOR:
            raise InputError(place, f"factor {factor}", f"give one in (0, {MAX_FACTOR:g}]")
    return Stragglers._make((*arrays_of(rows, np.float64, np.int64, np.float64), until_s))


@compilable(part_of="stragglers")
def keep_pace(state: State) -> None:
    """Let the workers be as slow as they are from this step on."""
    slow, machine, counters = state.slowness, state.machine, state.counters
    while (
        counters[SLOWED] < len(slow.time_s) and slow.time_s[counters[SLOWED]] <= state.clock[NOW]
    ):
        worker, factor = slow.worker[counters[SLOWED]], slow.factor[counters[SLOWED]]
        machine.overhead_s[worker] = factor * machine.own_overhead_s[worker]
        machine.token_time_s[worker] = factor * machine.own_token_time_s[worker]
        counters[SLOWED] += 1


FEATURE = schedule_of_workers(
    "stragglers", "straggler", stragglers_of, lambda state: state.slowness.until_s, rank=7
)
