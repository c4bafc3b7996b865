"""Policies of one engine: callables that map the state before a batch to the batch.

The instance is defined here too: requests that pass stages, on an integer clock.

A minimal policy is a function::

    def ongoing_before_new(state):
        return state.held or state.waiting[:8]

It returns the requests of the next batch, each of which passes its next stage. After an empty
answer the engine idles until the next arrival. A policy that evicts requests returns a `Decision`;
if its batch is empty, the policy is called again immediately. Optional attributes:

``knows_lengths``
    True if the policy may read output lengths; otherwise ``state.instance.output`` raises an
    error.
``check``
    Called with the instance before a run; raises `InputError` if the policy cannot serve it.
``statistics``
    Called after a run; returns a mapping that is stored with the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from formulations.arrays import IntArray, integer, integer_vector
from formulations.errors import InputError
from formulations.fluid import FluidWorker


@dataclass(frozen=True)
class KnownRequests:
    """Data of the arrived requests that a policy may read.

    Parameters
    ----------
    memory : int
        ``C`` [tokens].
    clock : StageClock
        Clock with the duration of batches.
    prompt : IntArray
        Shape (n,) [tokens].
    lengths : IntArray or None
        Shape (n,): outputs [tokens]; None if the policy may not read them.
    """

    memory: int
    clock: StageClock
    prompt: IntArray
    lengths: IntArray | None

    @staticmethod
    def of(instance: StageInstance, revealed: int, policy: object) -> KnownRequests:
        """Return the data that a policy may read after ``revealed`` requests have arrived."""
        knows = getattr(policy, "knows_lengths", False) is True
        lengths = instance.output[:revealed] if knows else None
        return KnownRequests(instance.memory, instance.clock, instance.prompt[:revealed], lengths)

    @property
    def output(self) -> IntArray:
        """Output lengths, shape (n,) [tokens].

        Raises
        ------
        InputError
            If the policy may not read them.
        """
        if self.lengths is None:
            raise InputError(
                "state.instance.output",
                "output lengths are unknown to this policy",
                "set knows_lengths = True if the policy may read them",
            )
        return self.lengths

    @property
    def peaks(self) -> IntArray:
        """Maximum tokens held by each request, shape (n,); an error if outputs may not be read."""
        return self.prompt + self.output


@dataclass(frozen=True)
class StageState:
    """State of the engine before a batch, after all arrivals and completions up to now.

    Parameters
    ----------
    instance : KnownRequests
        Data of the requests that have arrived.
    clock : int
        Present time [clock units].
    waiting : list of int
        Requests waiting for stage 0, in order of arrival.
    held : list of int
        Requests that have passed stage 0 and wait for a later stage, in order of arrival.
    stage : IntArray
        Shape (n,): next stage of each request; read-only.
    is_draining : bool
        Whether the run drains after the last arrival; policies then ignore thresholds.
    """

    instance: KnownRequests
    clock: int
    waiting: list[int]
    held: list[int]
    stage: IntArray
    is_draining: bool


@dataclass(frozen=True)
class Decision:
    """Decision of a policy before a batch: its requests, and evictions.

    Parameters
    ----------
    batch : sequence of int
        Requests of the next batch, without repetitions.
    evict : sequence of int
        Held requests that lose their tokens before the batch and wait again at stage 0.
    """

    batch: Sequence[int]
    evict: Sequence[int] = ()


Answer: TypeAlias = "Decision | Sequence[int]"


@runtime_checkable
class StagePolicy(Protocol):
    """Protocol of policies: a `StageState` is mapped to the requests of the next batch."""

    def __call__(self, state: StageState, /) -> Answer:
        """Return the requests of the next batch."""
        ...


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
    def of(worker: FluidWorker) -> StageClock:
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
                "d1", "d0 and d1 have no common unit that fits the clock", "round d0 and d1"
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
        if len(early := np.flatnonzero(np.diff(self.arrival) < 0)):
            i = int(early[0]) + 1
            raise InputError(
                f"arrival[{i}]", "is earlier than the previous arrival", "sort requests by arrival"
            )
        # A batch of all requests at their peaks must fit into 64 bits.
        if self.clock.duration(sum(self.peaks.tolist())) > MAX_CLOCK:
            raise InputError(
                "d1", "a batch of all requests lasts too long", "use smaller d0 and d1"
            )

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
