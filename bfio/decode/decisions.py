"""Checks of what a policy answers: nothing enters the engine unchecked."""

from collections.abc import Sequence

import numpy as np

from bfio.decode.cluster import fits
from formulations.arrays import IntArray
from formulations.errors import InputError


def checked_decision(
    answer: object, num_waiting: int, free_slots: IntArray, policy: str, step: int
) -> tuple[int | None, ...]:
    """Return a policy's answer as a tuple, one worker or None per waiting request.

    Parameters
    ----------
    answer : object
        Whatever the policy returned.
    num_waiting : int
        ``N``.
    free_slots : IntArray
        Shape (G,): slots that may be filled.
    policy, step
        Named in errors.

    Raises
    ------
    InputError
        If it is no sequence of length N, an entry is neither None nor an integer in ``0..G-1``,
        or a worker gets more requests than it has free slots.
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
    left = free_slots.tolist()
    return tuple(
        _checked_worker(entry, left, f"{where}, request {i}") for i, entry in enumerate(answer)
    )


def _checked_worker(entry: object, left: list[int], where: str) -> int | None:
    """Return one entry and take its slot from ``left``."""
    if entry is None:
        return None
    if isinstance(entry, bool | np.bool_) or not isinstance(entry, int | np.integer):
        raise InputError(where, f"{_shown(entry)} is no worker", "return an integer or None")
    worker = int(entry)
    if not 0 <= worker < len(left):
        raise InputError(where, f"there is no worker {worker}", f"use 0..{len(left) - 1}")
    if not fits(left[worker]):
        raise InputError(
            where, f"worker {worker} has no free slot left", "respect state.free_slots"
        )
    left[worker] -= 1
    return worker


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
