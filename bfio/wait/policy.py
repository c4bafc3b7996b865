"""Policies of one engine: callables that map the state before a batch to the batch.

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
from typing import Protocol, TypeAlias, runtime_checkable

from bfio.wait.instance import StageClock, StageInstance
from formulations.arrays import IntArray
from formulations.errors import InputError


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
