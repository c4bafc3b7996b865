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

One with an attribute ``max_pauses`` (``P``) *pauses*: it is asked at every step at which something
runs, may answer with a `Decision`, and nobody rests more than ``P`` steps in a row
(``docs/pausing.md``).

With immediate dispatch it is asked about each request alone; one with ``binds_together = True``
about all at once that wait for a worker at a step, and it may let them wait. ``margin`` is the
in-flight margin it takes unless the options of the run give one (``None``: any number).
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, Self, TypeAlias, runtime_checkable

import numpy as np

from bfio.decode.state import DecodeState
from formulations.arrays import integer
from formulations.errors import InputError

#: One entry per waiting request, in arrival order: its worker, or None if it keeps waiting.
Assignment: TypeAlias = Sequence[int | None]


class Decision(tuple[int | None, ...]):
    """The answer of a policy that pauses: who starts, and who rests for a step.

    Parameters
    ----------
    assignment : sequence of (int or None)
        One entry per waiting request; these are the entries of the tuple.
    rests : sequence of int
        Places in `DecodeState.active` of those that rest at this step, each once. All others run,
        also those that start.
    """

    rests: tuple[int, ...]

    def __new__(cls, assignment: Assignment, rests: Iterable[int] = ()) -> Self:
        """Make it of both."""
        made = super().__new__(cls, assignment)
        made.rests = tuple(rests)
        return made


@runtime_checkable
class Policy(Protocol):
    """Anything callable with a `DecodeState` that returns an `Assignment`."""

    def __call__(self, state: DecodeState, /) -> Assignment:
        """Return a worker or None for each waiting request, at most ``free_slots`` per worker."""


#: Longest look-ahead of a policy that is none of this toolkit.
MAX_SHOWN = 10**5
#: Most steps that requests may rest in a row.
MAX_PAUSES = 10**6
#: In-flight margin of policies that are asked about all requests at once, unless they have one.
MARGIN = 2


def binds_together(policy: object) -> bool:
    """Whether immediate dispatch asks a policy about all requests at once."""
    return bool(getattr(policy, "binds_together", False))


def margin_of(policy: object) -> int | None:
    """Return the in-flight margin of a policy unless a run gives one; None for any number."""
    margin: int | None = getattr(policy, "margin", MARGIN if binds_together(policy) else None)
    return margin


class LooksAhead:
    """A policy of this toolkit that looks so many steps ahead."""

    look_ahead = 0

    @property
    def horizon(self) -> int:
        """The same, as runs ask for it."""
        return self.look_ahead


def look_ahead_of(policy: object) -> int:
    """Return the look-ahead steps that a policy asks for by its attribute ``horizon``.

    Raises
    ------
    InputError
        If that is no integer from 0 to `MAX_SHOWN`.
    """
    return integer(getattr(policy, "horizon", 0), "horizon", maximum=MAX_SHOWN)


def max_pauses_of(policy: object) -> int | None:
    """Return how many steps in a row a policy lets requests rest; None if it does not pause.

    Raises
    ------
    InputError
        If that is no integer from 0 to `MAX_PAUSES`.
    """
    limit = getattr(policy, "max_pauses", None)
    return None if limit is None else integer(limit, "max_pauses", maximum=MAX_PAUSES)


def policy_name(policy: Policy) -> str:
    """Return the name a policy goes by: its own, its function's or its class's."""
    for owner, attribute in ((policy, "name"), (policy, "__name__"), (type(policy), "__name__")):
        name = getattr(owner, attribute, None)
        if isinstance(name, str):
            return name
    return repr(policy)


def checked_decision(
    answer: object, num_waiting: int, num_workers: int, policy: str, step: int
) -> tuple[int | None, ...]:
    """Return a policy's answer as a tuple, one worker or None per waiting request.

    Refused is what is no sequence of N entries, and one that is neither None nor an integer in
    ``0..G-1``; policy and step are named.
    """
    where = f"policy {policy}, step {step}"
    if isinstance(answer, np.ndarray):
        answer = answer.tolist()
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        raise InputError(
            where, f"returned {shown(answer)}", "return a list with one worker or None each"
        )
    if len(answer) != num_waiting:
        raise InputError(
            where,
            f"returned {len(answer)} entries for {num_waiting} waiting requests",
            "return one worker or None per waiting request",
        )
    checked = list(answer)
    for i, entry in enumerate(checked):
        if entry is not None:
            checked[i] = _checked_worker(entry, num_workers, where, i)
    return tuple(checked)


def _checked_worker(entry: object, num_workers: int, where: str, request: int) -> int:
    if isinstance(entry, bool | np.bool_) or not isinstance(entry, int | np.integer):
        what, remedy = f"{shown(entry)} is no worker", "return an integer or None"
        raise InputError(f"{where}, request {request}", what, remedy)
    worker = int(entry)
    if not 0 <= worker < num_workers:
        what, remedy = f"there is no worker {worker}", f"use 0..{num_workers - 1}"
        raise InputError(f"{where}, request {request}", what, remedy)
    return worker


def shown(value: object) -> str:
    """Return what a policy answered, short enough for an error."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
