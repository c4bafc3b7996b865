"""Validation of the answers of policies before an engine uses them."""

from collections.abc import Collection, Iterable
from itertools import islice

import numpy as np

from formulations.errors import InputError
from formulations.named_objects import users_code


def checked_choice(answer: object, present: Collection[int], where: str, noun: str) -> list[int]:
    """Return the integers in a policy's answer, in order.

    Parameters
    ----------
    answer : object
        The object that the policy returned.
    present : collection of int
        Valid integers.
    where : str
        Policy and time, for errors.
    noun : str
        Kind of the integers, for errors, such as ``"request"``.

    Raises
    ------
    InputError
        If it is not a collection of distinct valid integers.
    """
    remedy = f"return {noun}s that are there, each once"
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes):
        raise InputError(where, f"returned {answer!r:.40}", remedy)
    with users_code(where, "its answer ", remedy="mend the policy"):
        # Read at most one entry too many, because an iterator may be infinite.
        entries = list(islice(answer, len(present) + 1))
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, int | np.integer):
            raise InputError(where, f"{entry!r:.40} is no {noun}", remedy)
        if entry not in present:
            raise InputError(where, f"{noun} {entry} is not there", remedy)
    if len(set(entries)) < len(entries):
        raise InputError(where, f"a {noun} occurs twice", remedy)
    return [int(entry) for entry in entries]
