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


def percent(value: float | None) -> str:
    """Write a share in percent; a dash for None."""
    return "–" if value is None else f"{100 * value:.1f} %"
