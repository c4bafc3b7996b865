"""Checks of what a policy answers: nothing enters the engine unchecked."""

from collections.abc import Sequence

import numpy as np

from bfio.decode.policy import Decision
from bfio.decode.state import ActiveRequests
from formulations.arrays import IntArray
from formulations.errors import InputError


def checked_decision(
    answer: object, num_waiting: int, num_workers: int, policy: str, step: int
) -> tuple[int | None, ...]:
    """Return a policy's answer as a tuple, one worker or None per waiting request.

    Parameters
    ----------
    answer : object
        Whatever the policy returned.
    num_waiting, num_workers : int
        ``N`` and ``G``.
    policy, step
        Named in errors.

    Raises
    ------
    InputError
        If it is no sequence of length N, or an entry is neither None nor an integer in ``0..G-1``.
    """
    where = f"policy {policy}, step {step}"
    if isinstance(answer, np.ndarray):
        answer = answer.tolist()
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        raise InputError(
            where, f"returned {_shown(answer)}", "return a list with one worker or None each"
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


def checked_rests(
    answer: object, active: ActiveRequests, max_pauses: int, policy: str, step: int
) -> IntArray:
    """Return the requests that rest, shape (r,), in order of arrival.

    Parameters
    ----------
    answer : object
        What the policy returned; who rests if it is a `Decision`.
    active : ActiveRequests
        Those that have a slot before this step.
    max_pauses : int
        Most steps in a row that one rests.
    policy, step
        Named in errors.

    Raises
    ------
    InputError
        If they are not different places, or one has rested as long as it may.
    """
    where, most = f"policy {policy}, step {step}", len(active.request) - 1
    rests = answer.rests if isinstance(answer, Decision) else ()
    for place in rests:
        is_whole = isinstance(place, int | np.integer) and not isinstance(place, bool)
        if not is_whole or not 0 <= place <= most:
            raise InputError(where, f"{_shown(place)} rests", f"use places 0..{most} of active")
        if active.rested[place] >= max_pauses:
            what = f"active request {place} has rested {active.rested[place]} steps"
            raise InputError(where, what, f"let it run: max_pauses is {max_pauses}")
    if len(set(rests)) < len(rests):
        raise InputError(where, "a request rests twice", "name each place once")
    return active.request[np.sort(np.array(rests, dtype=np.int64))]


def check_nobody_rests(answer: object, policy: str, step: int) -> None:
    """Refuse rests that a policy names which is none that pauses.

    Raises
    ------
    InputError
        If it names any.
    """
    if isinstance(answer, Decision) and answer.rests:
        raise InputError(
            f"policy {policy}, step {step}",
            "says who rests, and is none that pauses",
            "give it an attribute max_pauses, the most steps in a row",
        )


def _checked_worker(entry: object, num_workers: int, where: str, request: int) -> int:
    if isinstance(entry, bool | np.bool_) or not isinstance(entry, int | np.integer):
        what, remedy = f"{_shown(entry)} is no worker", "return an integer or None"
        raise InputError(f"{where}, request {request}", what, remedy)
    worker = int(entry)
    if not 0 <= worker < num_workers:
        what, remedy = f"there is no worker {worker}", f"use 0..{num_workers - 1}"
        raise InputError(f"{where}, request {request}", what, remedy)
    return worker


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
