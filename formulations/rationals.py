"""Exact rational numbers from outside: fractions, never floats."""

import re
from fractions import Fraction

from formulations.documents import shown
from formulations.errors import InputError

#: Largest rational accepted.
MAX_RATIONAL = 10**12
_MAX_CHARACTERS = 60
_SHORT_EXPONENT = re.compile(r"[0-9.]+[eE][+-]?[0-9]{1,2}")


def exact_rational(
    value: object, where: str, *, exponents: bool = False, positive: bool = False
) -> Fraction:
    """Return an integer, a `Fraction`, or a text such as ``"9/10"`` or ``"0.9"``, exactly.

    Parameters
    ----------
    value : object
        The number.
    where : str
        Name used in errors.
    exponents : bool
        Whether ``"1e-7"`` is a number too.
    positive : bool
        Whether a number below 0 is told that 0 is refused too; the caller refuses it.

    Raises
    ------
    InputError
        If it is a float or bool, no such text, or outside ``[0, MAX_RATIONAL]``.
    """
    example = '"0.9" or "1e-7"' if exponents else '"9/10" or "0.9"'
    remedy = f"write an integer or a string such as {example}"
    if isinstance(value, bool) or not isinstance(value, int | str | Fraction):
        raise InputError(where, f"{shown(value)} is no exact rational", remedy)
    if isinstance(value, str) and not _is_plain(value, exponents=exponents):
        limit = (
            f"at most {_MAX_CHARACTERS} characters" + exponents * " and exponents of two digits"
        )
        raise InputError(where, f"{value[:40]!r} is no plain rational", f"{remedy} ({limit})")
    try:
        rational = Fraction(value)
    except (ValueError, ZeroDivisionError):
        raise InputError(where, f"{value!r} is no rational", remedy) from None
    if not 0 <= rational <= MAX_RATIONAL:
        least = "> 0" if positive else ">= 0"
        raise InputError(
            where, f"{value} is out of range", f"use a number {least} (10^12 at most)"
        )
    return rational


def _is_plain(text: str, *, exponents: bool) -> bool:
    """Whether it is short; a long exponent could make a number of millions of digits."""
    if len(text) > _MAX_CHARACTERS:
        return False
    return "e" not in text.lower() or (exponents and _SHORT_EXPONENT.fullmatch(text) is not None)
