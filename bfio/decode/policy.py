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
``H + 1`` columns of projected loads and contributions), a method ``finished(requests, outputs)``,
which is told after each step which requests ended, as positions in order of arrival, and their
lengths, and a method ``statistics()`` whose mapping is stored with the run. One that keeps
anything between steps is an object made for one run.

With immediate dispatch it is asked about each request alone; one with ``binds_together = True``
about all at once that wait for a worker at a step, and it may let them wait. ``margin`` is the
in-flight margin it takes unless the options of the run give one (``None``: any number).
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from bfio.decode.state import DecodeState

#: One entry per waiting request, in arrival order: its worker, or None if it keeps waiting.
Assignment: TypeAlias = Sequence[int | None]


@runtime_checkable
class Policy(Protocol):
    """Anything callable with a `DecodeState` that returns an `Assignment`."""

    def __call__(self, state: DecodeState, /) -> Assignment:
        """Return a worker or None for each waiting request, at most ``free_slots`` per worker."""


#: In-flight margin of policies that are asked about all requests at once, unless they have one.
MARGIN = 2


def binds_together(policy: object) -> bool:
    """Whether immediate dispatch asks a policy about all requests at once."""
    return bool(getattr(policy, "binds_together", False))


def margin_of(policy: object) -> int | None:
    """Return the in-flight margin of a policy unless a run gives one; None for any number."""
    margin: int | None = getattr(policy, "margin", MARGIN if binds_together(policy) else None)
    return margin


def policy_name(policy: Policy) -> str:
    """Return the name a policy goes by: its own, its function's or its class's."""
    for owner, attribute in ((policy, "name"), (policy, "__name__"), (type(policy), "__name__")):
        name = getattr(owner, attribute, None)
        if isinstance(name, str):
            return name
    return repr(policy)
