"""What a policy of one engine is: a callable from the state before a batch to the batch.

The least a user writes is a function::

    def ongoing_before_new(state):
        return state.held or state.waiting[:8]

It returns the requests of the next batch, each of which passes its next stage. An empty answer
lets the engine idle until the next arrival. A policy that drops requests returns a `Decision`; if
nobody is in its batch, it is asked again at once. Attributes, optional:

``knows_lengths``
    True if the policy may read output lengths; without it ``state.instance.output`` is refused.
``check``
    Called with the instance before a run; raises `InputError` if the policy cannot serve it.
``statistics``
    Called after a run; returns a mapping that is kept with it.
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
    """What a policy knows of the requests that have arrived.

    Parameters
    ----------
    memory : int
        ``C`` [tokens].
    clock : StageClock
        How long batches last.
    prompt : IntArray
        Shape (n,) [tokens].
    lengths : IntArray or None
        Shape (n,): outputs [tokens]; None if the policy does not know them.
    """

    memory: int
    clock: StageClock
    prompt: IntArray
    lengths: IntArray | None

    @staticmethod
    def of(instance: StageInstance, revealed: int, policy: object) -> KnownRequests:
        """Return what a policy knows once a number of requests have arrived."""
        knows = getattr(policy, "knows_lengths", False) is True
        lengths = instance.output[:revealed] if knows else None
        return KnownRequests(instance.memory, instance.clock, instance.prompt[:revealed], lengths)

    @property
    def output(self) -> IntArray:
        """Output lengths, shape (n,) [tokens].

        Raises
        ------
        InputError
            If the policy does not know them.
        """
        if self.lengths is None:
            raise InputError(
                "state.instance.output",
                "requests' lengths are unknown",
                "set knows_lengths = True on a policy that may know them",
            )
        return self.lengths

    @property
    def peaks(self) -> IntArray:
        """Most tokens that each request ever holds, shape (n,); refused as `output` is."""
        return self.prompt + self.output


@dataclass(frozen=True)
class StageState:
    """The engine before a batch, after all arrivals and completions up to now.

    Parameters
    ----------
    instance : KnownRequests
        Data of the requests that have arrived.
    clock : int
        Now [clock units].
    waiting : list of int
        Requests that wait for stage 0, in order of arrival.
    held : list of int
        Requests that have passed stage 0 and wait for another, in order of arrival.
    stage : IntArray
        Shape (n,): the stage that each request passes next; read only.
    is_draining : bool
        Whether the run drains and nothing arrives any more: policies ignore thresholds then.
    """

    instance: KnownRequests
    clock: int
    waiting: list[int]
    held: list[int]
    stage: IntArray
    is_draining: bool


@dataclass(frozen=True)
class Decision:
    """What to do now.

    Parameters
    ----------
    batch : sequence of int
        Requests of the next batch, without repetition.
    evict : sequence of int
        Held requests that lose their tokens before it and wait again, from stage 0.
    """

    batch: Sequence[int]
    evict: Sequence[int] = ()


Answer: TypeAlias = "Decision | Sequence[int]"


@runtime_checkable
class StagePolicy(Protocol):
    """Anything callable with a `StageState`."""

    def __call__(self, state: StageState, /) -> Answer:
        """Return the next batch."""
        ...
