"""Cells of a trace row: what the parse function of a format is made of.

A row maps column names to cells; a cell is text (CSV) or a parsed JSON value (JSON Lines). Every
function raises `InputError` with ``where = "column 'NAME'"``; the reader adds file and line.
"""

import datetime
import re
from fractions import Fraction
from functools import lru_cache

from bfio.workloads.decimals import MAX_SECONDS, parse_decimal, shown
from bfio.workloads.trace_format import Row
from formulations.arrays import MAX_TOKENS
from formulations.errors import InputError

_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,18}))?"
    r"( ?UTC|Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_DECIMAL_COMMA = re.compile(r"-?[0-9]+,[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{1,2}[/.][0-9]{1,2}[/.][0-9]{2,4}")
_WHOLE_FLOAT = re.compile(r"(?<=[0-9])\.0*$")
#: One thousand or one, depending on the country: no program writes a whole float so.
_GROUPED = re.compile(r"-?[1-9][0-9]{0,2}(\.[0-9]{3})+")
_SKIP = "correct the row or pass --skip-bad-rows"
#: Digits of `MAX_TOKENS` and some leading zeros; ``int`` is never given a longer text.
_MAX_DIGITS = 24


def token_lengths(
    row: Row, prompt_column: str, output_column: str, prefix_column: str | None = None
) -> tuple[int, int]:
    """Return (prompt, output) tokens of a row; the prompt with its prefix, if that has a column.

    Zero output is let through: such a row is a failed request, and the reader drops and counts
    it. A request with output but no prompt is an error.
    """
    prompt = token_count(row, prompt_column)
    if prefix_column is not None:
        prompt += token_count(row, prefix_column)
        _check_tokens(prompt, prompt, prompt_column)
    output = token_count(row, output_column)
    if prompt == 0 and output > 0:
        raise bad_cell(prompt_column, f"0 prompt tokens for {output} output tokens")
    return prompt, output


def token_count(row: Row, column: str) -> int:
    """Return a whole number of tokens, 0 to `MAX_TOKENS`; ``721.0`` is one."""
    cell = _cell(row, column)
    if isinstance(cell, str):
        value = _whole_number(cell.strip(), column)
    elif isinstance(cell, int) and not isinstance(cell, bool):
        value = cell
    elif isinstance(cell, float) and cell.is_integer():
        value = int(cell)
    else:
        raise bad_cell(column, f"{shown(cell)} is not a whole number")
    _check_tokens(value, cell, column)
    return value


def _check_tokens(value: int, cell: object, column: str) -> None:
    if not 0 <= value <= MAX_TOKENS:
        rule = "is negative" if value < 0 else f"is more than {MAX_TOKENS} tokens"
        raise bad_cell(column, f"{shown(cell)} {rule}")


def seconds(row: Row, column: str, *, per_second: int = 1) -> Fraction:
    """Return a time written as a decimal number of 1/``per_second`` seconds, exactly [s]."""
    cell = _cell(row, column)
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        raise bad_cell(column, f"expected a number, found {shown(cell)}")
    # The repr of a JSON float is its shortest decimal, which is what the file most likely says.
    text = cell.strip() if isinstance(cell, str) else repr(cell)
    try:
        value = parse_decimal(text, _where(column))
    except InputError as error:
        raise bad_cell(column, f"{error.what}{_meant(text)}") from None
    # Plain integers compare several times faster than Fractions.
    if not 0 <= value.numerator <= MAX_SECONDS * per_second * value.denominator:
        rule = "is negative" if value < 0 else f"is more than {MAX_SECONDS} seconds"
        if value > 0 and (role := role_of_number(value)) != "arrival":
            rule += f" (name the column as {role}?)"
        raise bad_cell(column, f"{shown(cell)} {rule}")
    return value if per_second == 1 else value / per_second


def timestamp(row: Row, column: str, *, offset: bool) -> Fraction:
    """Return ``YYYY-MM-DD HH:MM:SS[.fraction][offset]`` as exact seconds since year 1, UTC.

    Parameters
    ----------
    offset : bool
        Whether the time must carry a UTC offset (True) or must not (False): mixing both in one
        file would compare local with universal time.
    """
    cell = _cell(row, column)
    match = _TIMESTAMP.fullmatch(cell.strip()) if isinstance(cell, str) else None
    if match is None:
        raise bad_cell(column, f"{shown(cell)} is not a date and time{_meant(str(cell))}")
    day, hours, minutes, secs, fraction, zone = match.groups()
    if (zone is not None) != offset:
        rule = "has no UTC offset" if offset else "has a UTC offset"
        raise bad_cell(column, f"{shown(cell)} {rule}, unlike the first row")
    if int(hours) > 23 or int(minutes) > 59 or int(secs) > 59:
        raise bad_cell(column, f"{shown(cell)} is no time of day")
    clock = int(hours) * 3600 + int(minutes) * 60 + int(secs) - _offset_seconds(zone, column)
    whole = _day_number(day, column) * 86_400 + clock
    if fraction is None:
        return Fraction(whole)
    scale = 10 ** len(fraction)
    return Fraction(whole * scale + int(fraction), scale)


def has_offset(row: Row, column: str) -> bool:
    """Tell whether the cell is a date and time with a UTC offset."""
    cell = row.get(column)
    match = _TIMESTAMP.fullmatch(cell.strip()) if isinstance(cell, str) else None
    return match is not None and match[6] is not None


def is_timestamp(row: Row, column: str) -> bool:
    """Tell whether the cell is a date and time, with or without a UTC offset."""
    cell = row.get(column)
    return isinstance(cell, str) and _TIMESTAMP.fullmatch(cell.strip()) is not None


def is_blank(row: Row, column: str) -> bool:
    """Tell whether the cell is present and empty."""
    cell = row.get(column)
    return isinstance(cell, str) and not cell.strip()


def is_number(row: Row, column: str) -> bool:
    """Tell whether the cell is a decimal number."""
    cell = row.get(column)
    if isinstance(cell, int | float):
        return True
    try:
        parse_decimal(str(cell).strip(), "")
    except InputError:
        return False
    return True


def role_of_number(value: Fraction) -> str:
    """Return the role of a column of times that holds such a number, if it counts from 1970."""
    for least, role in ((10**17, "arrival_ns"), (10**14, "arrival_us"), (10**11, "arrival_ms")):
        if value >= least:
            return role
    return "arrival"


def _meant(text: str) -> str:
    """Return what a text might mean that is no number and no time."""
    if _DECIMAL_COMMA.fullmatch(text.strip()):
        return " (a decimal comma? write a point)"
    if _DATE.match(text.strip()):
        return " (dates are written 2024-01-31 12:00:00)"
    return ""


def bad_cell(column: str, what: str) -> InputError:
    """Return the error of a cell, with the remedy that every reader shares."""
    return InputError(_where(column), what, _SKIP)


def _whole_number(text: str, column: str) -> int:
    if _GROUPED.fullmatch(text):
        what = f"{shown(text)} may be {text.replace('.', '')} or {text.partition('.')[0]}"
        raise bad_cell(column, f"{what} (points between thousands? write whole numbers)")
    # 721.0 is how a table of floats writes 721.
    digits = _WHOLE_FLOAT.sub("", text.removeprefix("-"))
    # isdigit alone would accept superscripts and the digits of other scripts.
    if not (digits.isascii() and digits.isdigit()):
        raise bad_cell(column, f"{shown(text)} is not a whole number{_meant(text)}")
    if len(digits) > _MAX_DIGITS:
        raise bad_cell(column, f"{shown(text)} is more than {MAX_TOKENS} tokens")
    return -int(digits) if text.startswith("-") else int(digits)


def _cell(row: Row, column: str) -> object:
    if column not in row:
        raise bad_cell(column, "missing")
    return row[column]


def _offset_seconds(zone: str | None, column: str) -> int:
    if zone is None or zone in ("Z", "UTC", " UTC"):
        return 0
    hours, minutes = int(zone[1:3]), int(zone[3:].removeprefix(":") or 0)
    if hours > 23 or minutes > 59:
        raise bad_cell(column, f"{zone!r} is no UTC offset")
    offset = hours * 3600 + minutes * 60
    return -offset if zone[0] == "-" else offset


@lru_cache(maxsize=64)
def _day_number(day: str, column: str) -> int:
    try:
        return datetime.date.fromisoformat(day).toordinal()
    except ValueError:
        raise bad_cell(column, f"{day!r} is no calendar date") from None


def _where(column: str) -> str:
    return f"column {column!r}"
