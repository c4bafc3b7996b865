"""The interface of a policy: a callable from the state of one decode step to an assignment.

The simplest policy is a function::

    def shortest_first(state):
        order = sorted(range(state.num_waiting), key=lambda i: state.sizes[i])
        answer, free = [None] * state.num_waiting, list(state.free_slots)
        for i in order:
            worker = max(range(len(free)), key=lambda g: free[g])
            if free[worker] > 0:
                answer[i], free[worker] = worker, free[worker] - 1
        return answer

A policy may also have these attributes: ``horizon``, the look-ahead ``H`` that it needs (the state
then has ``H + 1`` columns of projected loads and contributions); a method ``finished(requests,
outputs)``, called after each step with the requests that ended, as indices in order of arrival,
and their lengths; and a method ``statistics()``, whose mapping is stored with the run. A policy
with memory between steps must be an object made for one run.

A policy with an attribute ``max_pauses`` (``P``) may *pause* requests. It is called at every step
at which a request is active, and may return a `Decision`. No request rests for more than ``P``
consecutive steps (``docs/pausing.md``).

With immediate dispatch, a policy is called for each request separately. A policy with
``binds_together = True`` is called once for all unbound requests of a step, and may let them wait.
``margin`` is its default in-flight margin, used unless the options of the run set one (``None``:
no limit).
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, Self, TypeAlias, runtime_checkable

import numpy as np

from bfio.common.options import MAX_SHOWN
from bfio.decode.state import DecodeState
from formulations.arrays import integer
from formulations.errors import InputError
from formulations.words import counted

#: One entry per waiting request, in order of arrival: its worker, or None to keep waiting.
Assignment: TypeAlias = Sequence[int | None]


class Decision(tuple[int | None, ...]):
    """The answer of a policy that pauses: which requests start, and which rest for a step.

    Parameters
    ----------
    assignment : sequence of (int or None)
        The worker of each waiting request, None to keep waiting; these are the entries of the
        tuple.
    rests : sequence of int
        Indices in `DecodeState.active` of the requests that rest at this step, without duplicates.
        All other requests run, including those that start.
    """

    rests: tuple[int, ...]

    def __new__(cls, assignment: Assignment, rests: Iterable[int] = ()) -> Self:
        """Create a decision from an assignment and rests."""
        made = super().__new__(cls, assignment)
        made.rests = tuple(rests)
        return made


@runtime_checkable
class Policy(Protocol):
    """Any callable that returns an `Assignment` for a `DecodeState`."""

    def __call__(self, state: DecodeState, /) -> Assignment:
        """Return a worker or None for each waiting request, at most ``free_slots`` per worker."""


#: Largest number of consecutive steps that a request may rest.
MAX_PAUSES = 10**6
#: Default in-flight margin of policies that are asked about all requests at once.
MARGIN = 2


def binds_together(policy: object) -> bool:
    """Return whether immediate dispatch calls a policy once for all unbound requests."""
    return bool(getattr(policy, "binds_together", False))


def margin_of(policy: object) -> int | None:
    """Return the default in-flight margin of a policy; None for no limit."""
    return getattr(policy, "margin", MARGIN if binds_together(policy) else None)


class LooksAhead:
    """Base class of built-in policies with a look-ahead of ``look_ahead`` steps."""

    look_ahead = 0

    @property
    def horizon(self) -> int:
        """The look-ahead, under the attribute name that runs read."""
        return self.look_ahead


def look_ahead_of(policy: object) -> int:
    """Return the look-ahead that a policy needs, from its attribute ``horizon``.

    Raises
    ------
    InputError
        If the look-ahead is not an integer from 0 to `MAX_SHOWN`.
    """
    return integer(getattr(policy, "horizon", 0), "horizon", maximum=MAX_SHOWN)


def max_pauses_of(policy: object) -> int | None:
    """Return the number of consecutive steps a request may rest; None if a policy never pauses.

    Raises
    ------
    InputError
        If ``max_pauses`` is not an integer from 0 to `MAX_PAUSES`.
    """
    limit = getattr(policy, "max_pauses", None)
    return None if limit is None else integer(limit, "max_pauses", maximum=MAX_PAUSES)


def policy_name(policy: Policy) -> str:
    """Return the name of a policy: its own name, or that of its function or class."""
    for owner, attribute in ((policy, "name"), (policy, "__name__"), (type(policy), "__name__")):
        name = getattr(owner, attribute, None)
        if isinstance(name, str):
            return name
    return repr(policy)


def checked_decision(
    answer: object, num_waiting: int, num_workers: int, policy: str, step: int
) -> tuple[int | None, ...]:
    """Return a policy's answer as a tuple, one worker or None per waiting request.

    Raises InputError if the answer is not a sequence of N entries, or if an entry is neither None
    nor an integer in ``0..G-1``. The error names policy and step.
    """
    where = f"policy {policy}, step {step}"
    if isinstance(answer, np.ndarray):
        answer = answer.tolist()
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        what = f"returned {shown(answer)}"
        raise InputError(where, what, "return a list: a worker or None per waiting request")
    if len(answer) != num_waiting:
        what = f"{counted(len(answer), 'entry')} for {counted(num_waiting, 'waiting request')}"
        raise InputError(where, f"returned {what}", "return a worker or None per waiting request")
    checked = list(answer)
    for i, entry in enumerate(checked):
        if entry is not None:
            checked[i] = _checked_worker(entry, num_workers, where, i)
    return tuple(checked)


def _checked_worker(entry: object, num_workers: int, where: str, request: int) -> int:
    if isinstance(entry, bool | np.bool_) or not isinstance(entry, int | np.integer):
        what, remedy = f"{shown(entry)} is not a worker", "return an integer or None"
        raise InputError(f"{where}, request {request}", what, remedy)
    worker = int(entry)
    if not 0 <= worker < num_workers:
        what, remedy = f"there is no worker {worker}", f"use 0..{num_workers - 1}"
        raise InputError(f"{where}, request {request}", what, remedy)
    return worker


def shown(value: object) -> str:
    """Return the representation of a policy's answer, shortened for an error."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
