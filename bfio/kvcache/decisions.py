"""Checks of what a policy answers: nothing enters the engine unchecked."""

from collections.abc import Iterable
from itertools import islice

import numpy as np

from bfio.common.users_code import users_code
from formulations.errors import InputError

_REMEDY = "return positions in state.waiting, each once"


def checked_positions(answer: object, num_waiting: int, where: str) -> list[int]:
    """Return the positions that a policy's answer names.

    Parameters
    ----------
    answer : object
        Whatever the policy returned.
    num_waiting : int
        ``N``.
    where : str
        Policy and time, for errors.

    Raises
    ------
    InputError
        If it is no collection of different integers in ``0..N-1``.
    """
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes):
        raise InputError(where, f"returned {answer!r:.40}", _REMEDY)
    with users_code(where, "its answer ", remedy="mend the policy"):
        # One too many is enough to see: an iterator may never end.
        positions = list(islice(answer, num_waiting + 1))
    for position in positions:
        if isinstance(position, bool) or not isinstance(position, int | np.integer):
            raise InputError(where, f"{position!r:.40} is no position", _REMEDY)
        if not 0 <= position < num_waiting:
            raise InputError(where, f"position {position} is out of range", _REMEDY)
    if len(set(positions)) < len(positions):
        raise InputError(where, "a position occurs twice", _REMEDY)
    return positions
