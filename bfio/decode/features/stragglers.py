"""Workers that are slow for some time; policies do not see the slowdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.features.feature import WorkerEvents
from bfio.decode.machine.counters import NOW, SLOWED
from formulations.errors import InputError
from formulations.scalars import real

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bfio.decode.features.feature import WorkerEvent
    from bfio.decode.machine.state import State
    from formulations.arrays import FloatArray, IntArray

#: Largest slowdown factor.
MAX_FACTOR = 1e6


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


def _factors(events: Iterable[tuple[str, WorkerEvent]]) -> Iterator[float]:
    """Yield the slowdown factors of events."""
    for place, (_, _, factor) in events:
        if not 0 < real(factor, place) <= MAX_FACTOR:
            what = f"slowdown factor {factor} is out of range"
            raise InputError(place, what, f"give one in (0, {MAX_FACTOR:g}]")
        yield factor


_STRAGGLERS = WorkerEvents(
    "stragglers",
    "straggler",
    column="factor",
    read_value=float,
    drawn="random:mtbf=3600:mttr=60:factor=2",
    example="12.5,0,2",
    stream=5,
    value=lambda is_up, numbers: 1.0 if is_up else numbers["factor"],
    numbers=_factors,
    number_type=np.float64,
    more={"factor": 2.0},
)


def stragglers_of(
    given: str | Iterable[tuple[float, int, float]], num_workers: int, seed: int
) -> Stragglers:
    """Return the slowdown schedule of a run, see `WorkerEvents`; values are factors > 0."""
    return Stragglers(*_STRAGGLERS.read(given, num_workers, seed))


@compilable
def keep_pace(state: State) -> None:
    """Update the slowdown factors of the workers to those of this step."""
    slow, machine, counters = state.slowness, state.machine, state.counters
    while (
        counters[SLOWED] < len(slow.time_s) and slow.time_s[counters[SLOWED]] <= state.clock[NOW]
    ):
        worker, factor = slow.worker[counters[SLOWED]], slow.factor[counters[SLOWED]]
        machine.overhead_s[worker] = factor * machine.own_overhead_s[worker]
        machine.token_time_s[worker] = factor * machine.own_token_time_s[worker]
        counters[SLOWED] += 1


FEATURE = _STRAGGLERS.feature(lambda state: state.slowness.until_s, rank=7)
