"""Exact decimal numbers: text to Fraction and back, without a float in between."""

import re
from fractions import Fraction

from formulations.errors import InputError

#: Longest decimal number read or written; a longer one is damage, not data.
MAX_CHARACTERS = 100
#: Largest exponent read. ``Fraction("1e999999999")`` would try to build that integer.
MAX_EXPONENT = 100
#: Largest time accepted anywhere [s], about 32,000 years.
MAX_SECONDS = 10**12

_DECIMAL = re.compile(r"(-?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4}))?")
_REMEDY = "write a decimal number such as 12.5"


def parse_decimal(text: str, where: str) -> Fraction:
    """Return the exact value of a decimal number such as ``"12.50"``, ``".5"`` or ``"5.2e-05"``.

    Only ASCII digits, one point, one sign and one exponent are understood; ``nan``, ``inf``,
    ``1_000`` and digits of other scripts are not.

    Raises
    ------
    InputError
        If the text is anything else, or longer than any real datum.
    """
    match = _DECIMAL.fullmatch(text) if len(text) <= MAX_CHARACTERS else None
    if match is None or not (match[2] or match[3]):
        raise InputError(where, f"{shown(text)} is not a finite decimal number", _REMEDY)
    sign, whole, digits, exponent = match.groups(default="")
    power = int(exponent or "0") - len(digits)
    if abs(power) > 2 * MAX_EXPONENT or abs(int(exponent or "0")) > MAX_EXPONENT:
        raise InputError(where, f"{shown(text)} has an extreme exponent", _REMEDY)
    magnitude = int(whole + digits)
    numerator = -magnitude if sign else magnitude
    return Fraction(numerator, 10**-power) if power < 0 else Fraction(numerator * 10**power)


def format_decimal(value: Fraction, where: str) -> str:
    """Return the shortest plain decimal text whose exact value is ``value >= 0``.

    Raises
    ------
    InputError
        If the decimal expansion never ends (1/3) or is longer than `MAX_CHARACTERS`.
    """
    digits = _decimal_digits(value.denominator)
    if digits is None or digits > MAX_CHARACTERS - 2:
        raise InputError(
            where,
            f"{value} has no decimal expansion of at most {MAX_CHARACTERS} characters",
            "round the times first, for example to microseconds",
        )
    scaled = value.numerator * 10**digits // value.denominator
    if digits == 0:
        return str(scaled)
    text = str(scaled).rjust(digits + 1, "0")
    return f"{text[:-digits]}.{text[-digits:]}"


def shown(value: object) -> str:
    """Return ``repr(value)`` cut to a length that fits an error message."""
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 40 else text[:37] + "..."


def _decimal_digits(denominator: int) -> int | None:
    # A fraction in lowest terms ends after max(a, b) digits iff its denominator is 2^a 5^b.
    counts = []
    for prime in (2, 5):
        count = 0
        while denominator % prime == 0:
            denominator //= prime
            count += 1
        counts.append(count)
    return max(counts) if denominator == 1 else None
