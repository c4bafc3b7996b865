"""Validate integers, reals and exact rationals; format shares. Errors name the field.

This module does not import numpy, unlike `arrays`.
"""

import re
from fractions import Fraction
from numbers import Integral, Real
from typing import cast

from formulations.errors import CapabilityError, InputError
from formulations.problem_data import shown

#: Largest number of tokens accepted anywhere, so that sums fit in 64-bit integers.
MAX_TOKENS = 10**12
#: Largest seed that every solver accepts.
MAX_SEED = 2**31 - 1


def real(value: object, where: str) -> float:
    """Return ``value`` unchanged if it is a number.

    Raises
    ------
    InputError
        If the value is not a number; bools and texts are not numbers.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(where, f"expected a number, found {shown(value)}", "write a number")
    return cast("float", value)


def truth(value: object, where: str) -> bool:
    """Return ``value`` if it is True or False; texts such as ``"no"`` are not.

    Raises
    ------
    InputError
        If it is neither.
    """
    if not isinstance(value, bool):
        raise InputError(
            where, f"expected true or false, found {shown(value)}", "write one of them"
        )
    return value


def integer(value: object, where: str, *, minimum: int = 0, maximum: int = MAX_TOKENS) -> int:
    """Return ``value`` as an ``int`` in ``[minimum, maximum]``.

    Raises
    ------
    InputError
        If the value is not an integer (bools and floats such as 3.0 are not), or out of range.
    """
    # numpy integers are registered as Integral, numpy booleans are not.
    if isinstance(value, bool) or not isinstance(value, int | Integral):
        what = f"expected an integer, found {shown(value)}"
        least = f" >= {minimum}" if minimum > -MAX_TOKENS else ""
        raise InputError(where, what, f"write a whole number{least} without a decimal point")
    number = int(value)
    if not minimum <= number <= maximum:
        raise InputError(
            where, f"{number} is out of range", f"use {minimum} <= value <= {maximum}"
        )
    return number


#: Largest rational accepted.
MAX_RATIONAL = 10**12
_MAX_CHARACTERS = 60
_SHORT_EXPONENT = re.compile(r"[0-9.]+[eE][+-]?[0-9]{1,2}")


def exact_rational(
    value: object,
    where: str,
    *,
    exponents: bool = False,
    positive: bool = False,
    otherwise: str = "",
) -> Fraction:
    """Convert an integer, a `Fraction` or a text such as ``"9/10"`` or ``"0.9"`` exactly.

    Parameters
    ----------
    value : object
        The number.
    where : str
        Name used in errors.
    exponents : bool
        Whether texts with exponents such as ``"1e-7"`` are accepted.
    positive : bool
        Whether 0 is refused.
    otherwise : str
        Text that begins the remedy if 0 is refused.

    Raises
    ------
    InputError
        If the value is a float, a bool or any other text, or outside ``[0, MAX_RATIONAL]``.
    """
    example = '"0.9" or "1e-7"' if exponents else '"9/10" or "0.9"'
    remedy = f"write an integer or a string such as {example}"
    if isinstance(value, bool) or not isinstance(value, Integral | str | Fraction):
        raise InputError(where, f"{shown(value)} is not an exact rational", remedy)
    if isinstance(value, str) and not _is_plain(value, exponents=exponents):
        limit = (
            f"at most {_MAX_CHARACTERS} characters" + exponents * " and exponents of two digits"
        )
        raise InputError(where, f"{value[:40]!r} is not a plain rational", f"{remedy} ({limit})")
    try:
        # A Fraction of numpy's integers would compute in 64 bits.
        rational = Fraction(int(value) if isinstance(value, Integral) else value)
    except (ValueError, ZeroDivisionError):
        raise InputError(where, f"{value!r} is not a rational number", remedy) from None
    use = f"use a number {'> 0' if positive else '>= 0'} (10^12 at most)"
    if not 0 <= rational <= MAX_RATIONAL:
        raise InputError(where, f"{value} is out of range", use)
    if positive and rational == 0:
        raise InputError(where, "0 is not allowed for a rate or time", f"{otherwise}{use}")
    return rational


def exact_number(
    value: object, where: str, *, positive: bool = False, otherwise: str = ""
) -> Fraction:
    """Convert a number of a document exactly; unlike `exact_rational`, also floats and exponents.

    A float stands for the shortest decimal that rounds to it: JSON's ``0.1`` is 1/10. Numbers
    without a finite decimal must be written as text, such as ``"1/18"``.
    """
    text = repr(float(value)) if isinstance(value, float) else value
    return exact_rational(text, where, exponents=True, positive=positive, otherwise=otherwise)


def plain_number(value: Fraction | None) -> int | float | None:
    """Return a fraction as ``int`` if it is whole, else as the nearest float; None stays None.

    Raises
    ------
    CapabilityError
        If the number is too large for a float.
    """
    if value is None:
        return None
    if value.denominator == 1:
        return int(value)
    try:
        return float(value)
    except OverflowError:
        raise CapabilityError(
            "answer", "a value exceeds the range of floats", "use coarser units"
        ) from None


def _is_plain(text: str, *, exponents: bool) -> bool:
    """Return whether a text is short enough to parse; exponents may imply millions of digits."""
    if len(text) > _MAX_CHARACTERS:
        return False
    return "e" not in text.lower() or (exponents and _SHORT_EXPONENT.fullmatch(text) is not None)


def percent(value: float | None, digits: int = 1) -> str:
    """Format a share in percent; a dash for None."""
    return "–" if value is None else f"{percentage(value, digits)} %"


def percentage(value: float, digits: int = 1) -> str:
    """Format a share in percent without the percent sign.

    A share strictly between 0 and 1 is never shown as 0 or 100: 0.99996 gives ``> 99.9``.
    """
    text, unit = f"{100 * value:.{digits}f}", 10.0**-digits
    if 0 < value < 1 and float(text) == 100:
        return f"> {100 - unit:.{digits}f}"
    if 0 < value < 1 and float(text) == 0:
        return f"< {unit:.{digits}f}"
    return text
