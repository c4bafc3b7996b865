"""Exact times from documents: fractions, never floats."""

import re
from fractions import Fraction

from formulations.errors import InputError

#: Largest time accepted [any unit].
MAX_TIME = 10**12
_MAX_CHARACTERS = 60
_PLAIN = re.compile(r"[0-9]+(/[0-9]+|(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?)")


def exact_time(value: object, where: str) -> Fraction:
    """Return an integer, a `Fraction`, or a text such as ``"1/3"``, ``"0.0049"``, ``"1e-7"``.

    Raises
    ------
    InputError
        If it is a float or bool, no such text, or outside ``[0, MAX_TIME]``.
    """
    remedy = 'write an integer or a string such as "0.0049", "1e-7" or "1/3"'
    if isinstance(value, bool) or not isinstance(value, int | str | Fraction):
        raise InputError(where, f"{str(value)[:40]} is no exact time", remedy)
    if isinstance(value, str) and not (
        len(value) <= _MAX_CHARACTERS and _PLAIN.fullmatch(value) is not None
    ):
        raise InputError(where, f"{value[:40]!r} is no exact time", remedy)
    try:
        time = Fraction(value)
    except ZeroDivisionError:
        raise InputError(where, f"{value!r} divides by 0", remedy) from None
    if not 0 <= time <= MAX_TIME:
        raise InputError(where, f"{value} is out of range", f"use 0 <= time <= {MAX_TIME}")
    return time
