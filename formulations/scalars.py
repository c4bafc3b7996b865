"""Validate numbers, with errors that name the field. Separate from `arrays` to avoid numpy."""

from numbers import Integral, Real
from typing import cast

from formulations.documents import shown
from formulations.errors import InputError

#: Largest number of tokens accepted anywhere, so that sums fit in 64-bit integers.
MAX_TOKENS = 10**12


def real(value: object, where: str) -> float:
    """Return ``value`` unchanged if it is a number.

    Raises
    ------
    InputError
        If it is not a number; bools and texts are refused as well.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(where, f"expected a number, found {shown(value)}", "write one")
    return cast("float", value)


def integer(value: object, where: str, *, minimum: int = 0, maximum: int = MAX_TOKENS) -> int:
    """Return ``value`` as an ``int`` in ``[minimum, maximum]``.

    Raises
    ------
    InputError
        If it is a bool, a float (even 3.0), any other type, or out of range.
    """
    # numpy integers are registered as Integral, numpy booleans are not.
    if isinstance(value, bool) or not isinstance(value, int | Integral):
        raise InputError(
            where,
            f"expected an integer, found {shown(value)}",
            f"write a whole number >= {minimum} without a decimal point",
        )
    number = int(value)
    if not minimum <= number <= maximum:
        raise InputError(
            where, f"{number} is out of range", f"use {minimum} <= value <= {maximum}"
        )
    return number
