"""Numbers formatted for people."""

from fractions import Fraction


def number(value: float | None, digits: int = 4) -> str:
    """Format a number with significant digits and thousands separators; a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, int) or abs(value) >= 10**digits:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{float(text):,.{digits}g}" if "e" not in text else text


def exact(value: object) -> str:
    """Format a value without loss: numbers in their shortest exact form."""
    if isinstance(value, float | Fraction):
        text = f"{float(value):g}"
        return text if type(value)(text) == value else str(value)
    return str(value)


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
