"""Checks of what a policy answers: nothing enters the engine unchecked."""

from collections.abc import Sequence

import numpy as np

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
