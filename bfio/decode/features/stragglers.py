"""Workers that are slow for some time; policies do not see it."""

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

#: Slowdown factor of drawn stragglers, option ``factor``.
DEFAULT_FACTOR = 2.0
#: Largest factor.
MAX_FACTOR = 1e6
#: Number of the random stream; policies, predictors, failures and cancellations use others.
_STREAM = 5
_FORM = (
    "write random:mtbf=3600:mttr=60:factor=2, or the name of a CSV file with time_s,worker,factor"
)


class Stragglers(NamedTuple):
    """Changes of the slowdown factors of workers, in order of time."""

    #: Shape (E,) [s]; an event takes effect at the first step that starts then or later.
    time_s: FloatArray
    worker: IntArray  #: Shape (E,).
    #: Shape (E,): factor on the worker's step time, ``C_g + t_g·L_g``; 1 for its normal speed.
    factor: FloatArray
    until_s: float  #: End of the schedule [s].

    def factors(self, start_s: FloatArray, num_workers: int) -> FloatArray:
        """Return the factor of each worker at steps with ascending start [s], shape (K, G)."""
        factors = np.empty((len(start_s), num_workers))
        for g in range(num_workers):
            own = self.worker == g
            passed = np.searchsorted(self.time_s[own], start_s, side="right")
            factors[:, g] = np.concatenate(([1.0], self.factor[own]))[passed]
        return factors


def stragglers_of(
    given: str | Iterable[tuple[float, int, float]], num_workers: int, seed: int
) -> Stragglers:
    """Return the straggler schedule of a run.

    The option is ``none``; ``random:mtbf=SECONDS:mttr=SECONDS``, with optional ``factor`` (2 by
    default) and ``until=SECONDS`` (1e6 by default); the name of a CSV file, or its rows: time [s],
    worker, factor. Raises InputError if it cannot be read or is out of order, and for unknown
    workers and factors that are not numbers > 0.
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


# Cached, since energy, metrics and replay ask for the schedule of a run many times.
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
    """Set the slowdown factors of the workers for this step."""
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
