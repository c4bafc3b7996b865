"""Trace formats: their columns, and the conversion of a row to a request.

The first part converts single cells. A row maps column names to cells; a cell is text (CSV) or a
parsed JSON value (JSON Lines). Every function raises `InputError` with
``where = "column 'NAME'"``; the reader adds file and line.

The second part describes the columns of a request as data that both readers use. The reader of
rows converts cell by cell and locates errors (`RequestColumns.__call__`). The reader of columns
(`bfio.workloads.columnar`) converts whole columns that contain no errors.
"""

import datetime
import re
from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from bfio.workloads.request_data import BLOCK_TOKENS, wrong_length
from formulations.arrays import MAX_TOKENS, IntArray
from formulations.errors import InputError

#: Maximum characters of a decimal number; longer ones are treated as damaged data.
MAX_CHARACTERS = 100
#: Maximum exponent; ``Fraction("1e999999999")`` would compute that integer.
MAX_EXPONENT = 100
#: Maximum time [s], about 32,000 years.
MAX_SECONDS = 10**12

_DECIMAL = re.compile(r"(-?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4}))?")
_REMEDY = "write a decimal number such as 12.5"


def parse_decimal(text: str, where: str) -> Fraction:
    """Return the exact value of a decimal number such as ``"12.50"``, ``".5"`` or ``"5.2e-05"``.

    Only ASCII digits, one point, one sign and one exponent are accepted; ``nan``, ``inf``,
    ``1_000`` and digits of other scripts are not.

    Raises
    ------
    InputError
        If the text is not such a number, or longer than `MAX_CHARACTERS`.
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
    lengths = range(MAX_CHARACTERS - 1)
    digits = next((k for k in lengths if 10**k % value.denominator == 0), None)
    if digits is None:
        what = f"{value} has no decimal expansion of at most {MAX_CHARACTERS} characters"
        raise InputError(where, what, "round the times, for example to microseconds")
    scaled = value.numerator * 10**digits // value.denominator
    if digits == 0:
        return str(scaled)
    text = str(scaled).rjust(digits + 1, "0")
    return f"{text[:-digits]}.{text[-digits:]}"


def shown(value: object) -> str:
    """Return ``repr(value)``, shortened for an error message."""
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 40 else text[:37] + "..."


#: Column name to cell: text in CSV, any JSON value in JSON Lines.
Row: TypeAlias = Mapping[str, object]


class Layout(StrEnum):
    """File layout of the rows: CSV or JSON Lines."""

    CSV = "csv"
    JSON_LINES = "jsonl"


class RequestRow(NamedTuple):
    """One request of a trace.

    Arrival time [s] or None, prompt and output length [tokens], a key that is equal for equal
    prompts, and the hashes of the prompt's blocks; key and hashes are None if unknown.
    """

    arrival: Fraction | None
    prompt_tokens: int
    output_tokens: int
    prompt_key: Hashable = None
    block_hashes: IntArray | None = None


@dataclass(frozen=True)
class TraceFormat:
    """A published trace format: its columns, and functions that read a row.

    Parameters
    ----------
    name : str
        Short name, unique.
    description : str
        One line for listings.
    source : str
        Publisher, or place of the definition.
    columns : tuple of str
        Required columns (keys, in JSON Lines); additional ones are ignored.
    parse : callable
        Row to `RequestRow`; raises `InputError` (see `bfio.workloads.trace_format`).
    layout : Layout
        CSV with a header line (default) or one JSON object per line.
    accepts : callable
        Whether a first row is of this format, to distinguish formats with the same columns.
    keeps_times : bool
        Whether times count from a defined origin; otherwise the reader subtracts the earliest
        time.
    """

    name: str
    description: str
    source: str
    columns: tuple[str, ...]
    parse: Callable[[Row], RequestRow]
    layout: Layout = Layout.CSV
    accepts: Callable[[Row], bool] = lambda row: True
    keeps_times: bool = False

    def matches(self, layout: Layout, header: Sequence[str], first_row: Row) -> bool:
        """Return whether a file with this header and first row (may be empty) has this format."""
        return (
            layout == self.layout
            and set(self.columns) <= set(header)
            and (not first_row or self.accepts(first_row))
        )


_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,18}))?"
    r"( ?UTC|Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_DECIMAL_COMMA = re.compile(r"-?[0-9]+,[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{1,2}[/.][0-9]{1,2}[/.][0-9]{2,4}")
_WHOLE_FLOAT = re.compile(r"(?<=[0-9])\.0*$")
#: Ambiguous between countries: thousands or one. No program writes whole floats like this.
_GROUPED = re.compile(r"-?[1-9][0-9]{0,2}(\.[0-9]{3})+")
_SKIP = "correct the row or add skip_bad_rows=True"
#: Digits of `MAX_TOKENS` plus some leading zeros; limits the texts given to ``int``.
_MAX_DIGITS = 24


def token_lengths(
    row: Row, prompt_column: str, output_column: str, prefix_column: str | None = None
) -> tuple[int, int]:
    """Return the prompt and output tokens of a row; the prompt includes its prefix, if any.

    Zero output is accepted: such a row is a failed request, which the reader drops and counts.
    Output without a prompt is an error.
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
    """Return an integer number of tokens, 0 to `MAX_TOKENS`; ``721.0`` is accepted."""
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
    """Return the exact time of a cell in seconds, given in units of 1/``per_second`` seconds."""
    cell = _cell(row, column)
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        raise bad_cell(column, f"expected a number, found {shown(cell)}")
    # The repr of a JSON float is its shortest decimal, most likely the text in the file.
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
        Whether the time must have a UTC offset (True) or must not (False). A file with both would
        mix local and universal times.
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
        raise bad_cell(column, f"{shown(cell)} is not a time of day")
    clock = int(hours) * 3600 + int(minutes) * 60 + int(secs) - _offset_seconds(zone, column)
    whole = _day_number(day, column) * 86_400 + clock
    if fraction is None:
        return Fraction(whole)
    scale = 10 ** len(fraction)
    return Fraction(whole * scale + int(fraction), scale)


def has_offset(row: Row, column: str) -> bool:
    """Return whether the cell is a date and time with a UTC offset."""
    cell = row.get(column)
    match = _TIMESTAMP.fullmatch(cell.strip()) if isinstance(cell, str) else None
    return match is not None and match[6] is not None


def is_timestamp(row: Row, column: str) -> bool:
    """Return whether the cell is a date and time, with or without a UTC offset."""
    cell = row.get(column)
    return isinstance(cell, str) and _TIMESTAMP.fullmatch(cell.strip()) is not None


def is_blank(row: Row, column: str) -> bool:
    """Return whether the cell is present and empty."""
    cell = row.get(column)
    return isinstance(cell, str) and not cell.strip()


def is_number(row: Row, column: str) -> bool:
    """Return whether the cell is a decimal number."""
    cell = row.get(column)
    if isinstance(cell, int | float):
        return True
    try:
        parse_decimal(str(cell).strip(), "")
    except InputError:
        return False
    return True


def role_of_number(value: Fraction) -> str:
    """Return the role (with unit) of a time column, assuming that times count from 1970."""
    for least, role in ((10**17, "arrival_ns"), (10**14, "arrival_us"), (10**11, "arrival_ms")):
        if value >= least:
            return role
    return "arrival"


def _meant(text: str) -> str:
    """Return a hint on the likely meaning of a text that is neither a number nor a time."""
    if _DECIMAL_COMMA.fullmatch(text.strip()):
        return " (a decimal comma? write a point)"
    if _DATE.match(text.strip()):
        return " (dates are written 2024-01-31 12:00:00)"
    return ""


def bad_cell(column: str, what: str) -> InputError:
    """Return the error for a cell, with the remedy common to all readers."""
    return InputError(_where(column), what, _SKIP)


def _whole_number(text: str, column: str) -> int:
    if _GROUPED.fullmatch(text):
        what = f"{shown(text)} may be {text.replace('.', '')} or {text.partition('.')[0]}"
        raise bad_cell(column, f"{what} (points between thousands? write whole numbers)")
    # A table of floats writes 721 as 721.0.
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
        raise bad_cell(column, f"{zone!r} is not a valid UTC offset")
    offset = hours * 3600 + minutes * 60
    return -offset if zone[0] == "-" else offset


@lru_cache(maxsize=64)
def _day_number(day: str, column: str) -> int:
    try:
        return datetime.date.fromisoformat(day).toordinal()
    except ValueError:
        raise bad_cell(column, f"{day!r} is not a calendar date") from None


def _where(column: str) -> str:
    return f"column {column!r}"


class TimeText(StrEnum):
    """Text format of a column of arrival times."""

    #: Decimal numbers in a fixed unit.
    NUMBER = "number"
    #: Integers in a fixed unit; a fraction would indicate another unit.
    WHOLE = "whole"
    #: Dates and times without a UTC offset.
    LOCAL = "local"
    #: Dates and times with a UTC offset.
    OFFSET = "offset"


@dataclass(frozen=True)
class TimeColumn:
    """A column of arrival times.

    Parameters
    ----------
    name : str
        Name of the column.
    text : TimeText
        Text format.
    per_second : int
        Units per second, for numbers.
    may_be_blank : bool
        Whether a blank column is allowed and means that there are no times.
    """

    name: str
    text: TimeText = TimeText.NUMBER
    per_second: int = 1
    may_be_blank: bool = False

    def __call__(self, row: Row) -> Fraction | None:
        """Return the exact time of a row [s]."""
        if self.may_be_blank and is_blank(row, self.name):
            return None
        if self.text in (TimeText.NUMBER, TimeText.WHOLE):
            time = seconds(row, self.name, per_second=self.per_second)
            if self.text == TimeText.WHOLE and (time * self.per_second).denominator != 1:
                what = f"{shown(row[self.name])} is not a whole number of 1/{self.per_second} s"
                raise bad_cell(self.name, f"{what} (if times are in seconds, name the columns)")
            return time
        return timestamp(row, self.name, offset=self.text == TimeText.OFFSET)

    def accepts(self, row: Row) -> bool:
        """Return whether the first row has a UTC offset exactly if the format requires one."""
        return has_offset(row, self.name) == (self.text == TimeText.OFFSET)


@dataclass(frozen=True)
class KeyColumn:
    """An optional column of texts that identify equal prompts; cells may be missing.

    Parameters
    ----------
    name : str
        Name of the column.
    """

    name: str

    def __call__(self, row: Row) -> str | None:
        """Return the text of a row without surrounding white space; None if missing."""
        cell = row.get(self.name)
        return str(cell).strip(WHITE_SPACE) or None if cell is not None else None


@dataclass(frozen=True)
class HashColumn:
    """An optional column of block hashes; cells may be missing.

    Parameters
    ----------
    name : str
        Name of the column. Cells are lists of integers, or texts of integers separated by spaces
        or written as lists.
    """

    name: str

    def __call__(self, row: Row, prompt: int) -> IntArray | None:
        """Return the hashes of a row with the given prompt length [tokens], or None."""
        cell = row.get(self.name)
        if cell is None or is_blank(row, self.name):
            return None
        try:
            cells = _integers(cell) if isinstance(cell, str) else cell
            if not isinstance(cells, list) or bool in map(type, cells):
                raise TypeError
            hashes = np.array(array("q", cells), dtype=np.int64)
        except (TypeError, ValueError, OverflowError):
            raise bad_cell(self.name, f"{cell!r:.40} is not a list of integers") from None
        if len(hashes) != -(-prompt // BLOCK_TOKENS):
            raise bad_cell(self.name, wrong_length(len(hashes), prompt))
        return hashes


def _integers(text: str) -> list[int]:
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1].replace(",", " ")
    return [int(number) for number in text.split()]


#: White space that both readers strip from keys.
WHITE_SPACE = " \t\n\v\f\r"


@dataclass(frozen=True)
class RequestColumns:
    """Columns of a trace that make up a request.

    Parameters
    ----------
    prompt, output : str
        Columns of lengths [tokens].
    arrival : TimeColumn, optional
        Column of arrival times.
    key : callable, optional
        Returns a key of a row that is equal for equal prompts, or None; must be a `KeyColumn` for
        reading by columns.
    hashes : HashColumn, optional
        Hashes of the prompt's blocks; a table with this column is read row by row.
    prefix : str, optional
        Column of tokens that precede those of ``prompt``; the prompt length is the sum of both.
    """

    prompt: str
    output: str
    arrival: TimeColumn | None = None
    key: Callable[[Row], Hashable] | None = None
    hashes: HashColumn | None = None
    prefix: str | None = None

    def __call__(self, row: Row) -> RequestRow:
        """Convert a row to a request.

        Raises
        ------
        InputError
            If a cell is invalid; the message names the column.
        """
        lengths = token_lengths(row, self.prompt, self.output, self.prefix)
        arrival = self.arrival(row) if self.arrival else None
        return RequestRow(
            arrival,
            *lengths,
            self.key(row) if self.key else None,
            self.hashes(row, lengths[0]) if self.hashes else None,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Columns of arrivals, prefixes, prompts and outputs that the format has."""
        arrival = () if self.arrival is None else (self.arrival.name,)
        prefix = () if self.prefix is None else (self.prefix,)
        return (*arrival, *prefix, self.prompt, self.output)

    @property
    def known(self) -> tuple[str, ...]:
        """The columns of `names`, then the optional ones."""
        optional = (self.hashes, self.key)
        return (*self.names, *(c.name for c in optional if isinstance(c, HashColumn | KeyColumn)))

    def has_hashes(self, header: Sequence[str]) -> bool:
        """Return whether a table has the column of block hashes."""
        return self.hashes is not None and self.hashes.name in header

    def key_name(self, header: Sequence[str]) -> str | None:
        """Return the name of the key column; None if the table has none."""
        if isinstance(self.key, KeyColumn) and self.key.name in header:
            return self.key.name
        return None
