"""Exact rates and times: what a document writes as a decimal is that decimal, not a float."""

from fractions import Fraction

from formulations.errors import InputError
from formulations.rationals import exact_rational


def exact_number(
    value: object, where: str, *, positive: bool = False, otherwise: str = ""
) -> Fraction:
    """Return a rate or a time as a fraction.

    A float stands for the shortest decimal that reads as it: JSON's ``0.1`` is 1/10. A third or
    1/18 has no such decimal and must be written as text, ``"1/18"``.

    Parameters
    ----------
    value : int, float, str or Fraction
        Non-negative and finite.
    where : str
        Name used in errors.
    positive : bool
        Whether 0 is refused.
    otherwise : str
        What else to do about a 0 that is refused.

    Raises
    ------
    InputError
        If it is none of these, negative, too large or, where it must not be, 0.
    """
    text = repr(value) if type(value) is float else value
    number = exact_rational(text, where, exponents=True, positive=positive)
    if positive and number == 0:
        remedy = f"{otherwise}use a number > 0 (10^12 at most)"
        raise InputError(where, "0 is no rate or time here", remedy)
    return number
