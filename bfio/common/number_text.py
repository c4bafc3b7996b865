"""Numbers as people read them."""

from fractions import Fraction


def number(value: float | None, digits: int = 4) -> str:
    """Write a number with so many significant digits, thousands separated; a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, int) or abs(value) >= 10**digits:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{float(text):,.{digits}g}" if "e" not in text else text


def exact(value: object) -> str:
    """Write a value so that no other one is written alike: a number short where that is exact."""
    if isinstance(value, float | Fraction):
        text = f"{float(value):g}"
        return text if type(value)(text) == value else str(value)
    return str(value)


def percent(value: float | None, digits: int = 1) -> str:
    """Write a share in percent; a dash for None."""
    return "–" if value is None else f"{percentage(value, digits)} %"


def percentage(value: float, digits: int = 1) -> str:
    """Write a share in percent without the sign.

    A share between none and all is never written as 0 or 100: ``> 99.9`` stands for 0.99996.
    """
    text, unit = f"{100 * value:.{digits}f}", 10.0**-digits
    if 0 < value < 1 and float(text) == 100:
        return f"> {100 - unit:.{digits}f}"
    if 0 < value < 1 and float(text) == 0:
        return f"< {unit:.{digits}f}"
    return text
