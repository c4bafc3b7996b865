"""What a policy is: a callable from the state of one decode step to an assignment.

The least a user writes is a function::

    def shortest_first(state):
        order = sorted(range(state.num_waiting), key=lambda i: state.sizes[i])
        answer, free = [None] * state.num_waiting, list(state.free_slots)
        for i in order:
            worker = max(range(len(free)), key=lambda g: free[g])
            if free[worker] > 0:
                answer[i], free[worker] = worker, free[worker] - 1
        return answer

A policy may also carry an attribute ``horizon`` (look-ahead ``H`` it wants; the state then has
``H + 1`` columns of projected loads and contributions) and a method ``statistics()`` whose mapping
is stored with the run. One that keeps anything between steps is an object made for one run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from bfio.decode.run import Dispatch
from bfio.decode.state import DecodeState
from bfio.policies.options import PolicyOptions

#: One entry per waiting request, in arrival order: its worker, or None if it keeps waiting.
Assignment: TypeAlias = Sequence[int | None]

#: Dispatch modes of a policy that also works when requests are bound as soon as they arrive.
BOTH_DISPATCHES = (Dispatch.POOLED, Dispatch.IMMEDIATE)


@runtime_checkable
class Policy(Protocol):
    """Anything callable with a `DecodeState` that returns an `Assignment`."""

    def __call__(self, state: DecodeState, /) -> Assignment:
        """Return a worker or None for each waiting request, at most ``free_slots`` per worker."""


@dataclass(frozen=True)
class PolicySpec:
    """What the registry knows about one policy.

    Parameters
    ----------
    name : str
        Name on the command line.
    factory : callable
        Makes a fresh policy, for one run, from the options.
    summary : str
        One line for listings.
    source : str
        Where the rule comes from.
    dispatch : tuple of Dispatch
        Dispatch modes it supports.
    uses_horizon : bool
        Whether it reads look-ahead columns beyond the first.
    """

    name: str
    factory: Callable[[PolicyOptions], Policy]
    summary: str
    source: str
    dispatch: tuple[Dispatch, ...] = (Dispatch.POOLED,)
    uses_horizon: bool = False


def stateless(function: Policy) -> Callable[[PolicyOptions], Policy]:
    """Return a factory that ignores the options and gives ``function`` itself."""
    return lambda options: function
