"""What a policy is: a callable from the state before a batch to the requests to start.

The least a user writes is a function::

    def one_at_a_time(state):
        return [0] if len(state.waiting) and not len(state.running) else []

It may carry attributes, all optional:

``clearing``
    A `Clearing`: what happens when the running requests outgrow the memory (all are cleared by
    default).
``delta``
    Tokens added to predicted outputs, so that a prediction at most that much too short is safe
    (0 by default). This is ``ô + δ``: the published remark subtracts, which would not be safe.
``memoryless``
    True if the decision follows from waiting and running requests alone. A run that comes back
    to a state without a completion is then known to loop.
``first_come``
    True if, besides, it starts requests strictly in order of arrival: while one waits, those
    behind it change nothing.
``check``
    Called with the instance before a run; raises `InputError` if the policy cannot serve it.
``statistics``
    Called after a run; returns a mapping that is kept with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, runtime_checkable

from bfio.kvcache.state import CacheState
from formulations.arrays import integer
from formulations.errors import InputError
from formulations.rationals import exact_rational

#: What is said of the options of policies that clear.
BETA = "β: chance that an overflow clears a running request, in [1/10000, 1]"
PAUSE = "time that passes after each draw that did not free enough [clock units]"

_MAX_PAUSE = 10**12
#: Below it an overflow could take millions of draws.
_LEAST_BETA = Fraction(1, 10_000)


@runtime_checkable
class CachePolicy(Protocol):
    """Anything callable with a `CacheState` that returns positions of waiting requests."""

    def __call__(self, state: CacheState, /) -> Sequence[int]:
        """Return the positions in ``state.waiting`` of the requests to start."""
        ...


@dataclass(frozen=True)
class Clearing:
    """What happens when the coming batch would exceed the memory.

    Each running request, in arrival order, is cleared with the given probability: its tokens are
    dropped and it waits again with its original arrival. Draws repeat until the others fit.

    Parameters
    ----------
    probability : Fraction
        ``β``, in [1/10000, 1]; 1 clears all.
    pause : int
        Time that passes after each draw that did not free enough [clock units].
    """

    probability: Fraction = Fraction(1)
    pause: int = 0

    def __post_init__(self) -> None:
        """Validate, and read a text exactly."""
        beta = exact_rational(self.probability, "beta")
        object.__setattr__(self, "probability", beta)
        if not _LEAST_BETA <= beta <= 1:
            raise InputError("beta", f"{beta} is out of range", f"use {_LEAST_BETA} <= beta <= 1")
        integer(self.pause, "pause", maximum=_MAX_PAUSE)

    @property
    def is_full(self) -> bool:
        """Whether everything is cleared."""
        return self.probability == 1


def clearing_of(policy: CachePolicy) -> Clearing:
    """Return the policy's clearing rule.

    Raises
    ------
    InputError
        If it is anything else.
    """
    found = getattr(policy, "clearing", Clearing())
    if not isinstance(found, Clearing):
        raise InputError("clearing", f"{found!r:.40} is no rule", "set it to a Clearing")
    return found


def delta_of(policy: CachePolicy) -> int:
    """Return the tokens that the policy adds to predicted outputs."""
    return integer(getattr(policy, "delta", 0), "delta")
