"""Objectives and bounds of entries: integers, or fractions where programs are continuous."""

from fractions import Fraction
from typing import TypeAlias

from formulations.documents import shown
from formulations.errors import InputError

Value: TypeAlias = int | Fraction


def read_value(document: object, where: str) -> Value:
    """Return the number that a document holds: an integer, or a text such as ``"7/3"``.

    Raises
    ------
    InputError
        If it is neither.
    """
    if type(document) is int:
        return document
    if isinstance(document, str):
        try:
            return plain(Fraction(document))
        except (ValueError, ZeroDivisionError):
            pass
    raise InputError(where, f"{shown(document)} is no exact number", 'write 7 or "7/3"')


def written_value(value: Value) -> int | str:
    """Return what `read_value` reads."""
    value = plain(value)
    return value if isinstance(value, int) else str(value)


def plain(value: Value) -> Value:
    """Return whole fractions as integers."""
    return int(value) if value.denominator == 1 else value


def value_text(value: Value | None, scale: int = 1) -> str:
    """Write a value for a person in units of the problem, rounded if it is no whole number."""
    if value is None:
        return "–"
    exact = Fraction(value) / scale
    if exact.denominator == 1:
        return f"{int(exact):,}"
    return f"{float(exact):,.3f}" if abs(exact) >= 1000 else f"{float(exact):.6g}"
