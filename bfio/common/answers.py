"""Checks of what a policy answers: nothing enters an engine unchecked."""

from collections.abc import Collection, Iterable
from itertools import islice

import numpy as np

from formulations.errors import InputError
from formulations.named_objects import users_code


def checked_choice(answer: object, present: Collection[int], where: str, noun: str) -> list[int]:
    """Return what a policy's answer names, in its order.

    Parameters
    ----------
    answer : object
        Whatever the policy returned.
    present : collection of int
        What it may name.
    where : str
        Policy and time, for errors.
    noun : str
        What is named, for errors, such as ``"request"``.

    Raises
    ------
    InputError
        If it is no collection of integers, each of them present and named once.
    """
    remedy = f"return {noun}s that are there, each once"
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes):
        raise InputError(where, f"returned {answer!r:.40}", remedy)
    with users_code(where, "its answer ", remedy="mend the policy"):
        # One too many is enough to see: an iterator may never end.
        entries = list(islice(answer, len(present) + 1))
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, int | np.integer):
            raise InputError(where, f"{entry!r:.40} is no {noun}", remedy)
        if entry not in present:
            raise InputError(where, f"{noun} {entry} is not there", remedy)
    if len(set(entries)) < len(entries):
        raise InputError(where, f"a {noun} occurs twice", remedy)
    return [int(entry) for entry in entries]
