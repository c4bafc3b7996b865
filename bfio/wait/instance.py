"""Define the instance of one engine: requests that pass stages, on an integer clock."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm

import numpy as np

from formulations.arrays import IntArray, integer, integer_vector
from formulations.errors import InputError
from formulations.fluid import FluidWorker

#: Maximum time of a run [clock units]; the sum of two times fits into 64 bits.
MAX_CLOCK = 2**61
_MAX_LENGTH = 10**9
#: Minimum clock units in the fixed time of a batch; arrivals are rounded to clock units.
_RESOLUTION = 10**6


@dataclass(frozen=True)
class StageClock:
    """A clock on which the duration of every batch is an integer.

    Parameters
    ----------
    units_per_second : int
        ``u >= 1``.
    fixed, per_token : int
        ``d0·u >= 1`` and ``d1·u >= 0``: a batch of X tokens takes ``fixed + per_token·X`` units,
        equation (1) of the paper.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    units_per_second: int
    fixed: int
    per_token: int

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        for name, least in (("units_per_second", 1), ("fixed", 1), ("per_token", 0)):
            value = integer(getattr(self, name), name, minimum=least, maximum=MAX_CLOCK)
            object.__setattr__(self, name, value)

    @staticmethod
    def of(worker: FluidWorker) -> "StageClock":
        """Return a clock that represents the times of a worker exactly.

        Its unit divides d0 and d1, and is at most 10^-6 of d0.

        Raises
        ------
        InputError
            If no common unit of d0 and d1 leaves enough range for a run.
        """
        units = lcm(worker.d0.denominator, worker.d1.denominator)
        units *= max(1, ceil(_RESOLUTION / (worker.d0 * units)))
        if worker.d0 * units > MAX_CLOCK >> 20:
            raise InputError(
                "d1", "d0 and d1 have no common unit that fits the clock", "round both"
            )
        return StageClock(units, int(worker.d0 * units), int(worker.d1 * units))

    def duration(self, tokens: int) -> int:
        """Return the duration of a batch with the given tokens [clock units]."""
        return self.fixed + self.per_token * tokens

    def seconds(self, clock: float) -> float:
        """Return a clock value in seconds."""
        return clock / self.units_per_second

    def units(self, seconds: Fraction | int) -> int:
        """Return the first clock value at or after a time."""
        return ceil(Fraction(seconds) * self.units_per_second)


@dataclass(frozen=True)
class StageInstance:
    """Requests of one engine.

    A request passes ``output + 1`` stages: stage 0, its prefill, and one stage per output token.
    Stage k counts ``prompt + k`` tokens in the time of its batch and in the memory. A request that
    waits between stages k − 1 and k holds ``prompt + k − 1`` tokens; before stage 0 it holds none.

    Parameters
    ----------
    memory : int
        ``C >= 1`` [tokens].
    clock : StageClock
        Clock with the duration of batches.
    arrival : IntArray
        Shape (n,), non-decreasing clock values.
    prompt : IntArray
        Shape (n,), ``l >= 1`` [tokens].
    output : IntArray
        Shape (n,), ``l' >= 0`` [tokens].

    Raises
    ------
    InputError
        If a value is invalid.
    """

    memory: int
    clock: StageClock
    arrival: IntArray
    prompt: IntArray
    output: IntArray

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        object.__setattr__(self, "memory", integer(self.memory, "memory", minimum=1))
        bounds = {
            "arrival": (0, MAX_CLOCK - 1),
            "prompt": (1, _MAX_LENGTH),
            "output": (0, _MAX_LENGTH),
        }
        for name, (lowest, highest) in bounds.items():
            values = integer_vector(getattr(self, name), name, minimum=lowest, maximum=highest)
            object.__setattr__(self, name, values)
        if not len(self.arrival) == len(self.prompt) == len(self.output):
            raise InputError(
                "requests", "the arrays have different lengths", "give one value per request"
            )
        self._check_order()
        self._check_durations()

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def iterations(self) -> IntArray:
        """``l' + 1``, the number of stages of each request, shape (n,)."""
        return self.output + 1

    @property
    def work(self) -> IntArray:
        """Sum of the tokens of each request over its stages, shape (n,)."""
        return self.iterations * (2 * self.prompt + self.output) // 2

    @property
    def peaks(self) -> IntArray:
        """Maximum tokens held by each request, shape (n,)."""
        return self.prompt + self.output

    def _check_order(self) -> None:
        if len(early := np.flatnonzero(np.diff(self.arrival) < 0)):
            i = int(early[0]) + 1
            raise InputError(
                f"arrival[{i}]", "is earlier than the previous arrival", "sort requests by arrival"
            )

    def _check_durations(self) -> None:
        """Raise an error if a batch of all requests at their peaks would exceed 64 bits."""
        everything = sum(self.peaks.tolist())
        if self.clock.duration(everything) > MAX_CLOCK:
            raise InputError(
                "d1", "a batch of all requests lasts too long", "use smaller d0 and d1"
            )
