"""Which columns hold a request, as data: one statement for both readers.

The reader of rows parses with it cell by cell and says what is wrong where
(`RequestColumns.__call__`); the reader of columns (`bfio.workloads.columnar`) takes whole columns
that have nothing wrong in them.
"""

from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np

from bfio.workloads.block_hashes import BLOCK_TOKENS, wrong_length
from bfio.workloads.cells import bad_cell, has_offset, is_blank, seconds, timestamp, token_lengths
from bfio.workloads.decimals import shown
from bfio.workloads.trace_format import RequestRow, Row
from formulations.arrays import IntArray


class TimeText(StrEnum):
    """How a column of times is written."""

    #: Decimal numbers of a unit.
    NUMBER = "number"
    #: Whole numbers of a unit; a fraction would be a time of another unit.
    WHOLE = "whole"
    #: Dates and times without a UTC offset.
    LOCAL = "local"
    #: Dates and times with one.
    OFFSET = "offset"


@dataclass(frozen=True)
class TimeColumn:
    """A column of arrival times.

    Parameters
    ----------
    name : str
        Its name.
    text : TimeText
        How it is written.
    per_second : int
        Of numbers: how many make a second.
    may_be_blank : bool
        Whether a blank column means that there are no times.
    """

    name: str
    text: TimeText = TimeText.NUMBER
    per_second: int = 1
    may_be_blank: bool = False

    def __call__(self, row: Row) -> Fraction | None:
        """Return the time of a row [s], exactly."""
        if self.may_be_blank and is_blank(row, self.name):
            return None
        if self.text in (TimeText.NUMBER, TimeText.WHOLE):
            time = seconds(row, self.name, per_second=self.per_second)
            if self.text == TimeText.WHOLE and (time * self.per_second).denominator != 1:
                what = f"{shown(row[self.name])} is no whole number of 1/{self.per_second} s"
                raise bad_cell(self.name, f"{what} (name the columns where these are seconds)")
            return time
        return timestamp(row, self.name, offset=self.text == TimeText.OFFSET)

    def accepts(self, row: Row) -> bool:
        """Tell whether the cell of a first row carries a UTC offset if the others are to."""
        return has_offset(row, self.name) == (self.text == TimeText.OFFSET)


@dataclass(frozen=True)
class KeyColumn:
    """A column of texts that tell prompts apart; it may be missing, as may cells of it.

    Parameters
    ----------
    name : str
        Its name.
    """

    name: str

    def __call__(self, row: Row) -> str | None:
        """Return the text of a row without white space around, None if there is none."""
        cell = row.get(self.name)
        return str(cell).strip(WHITE_SPACE) or None if cell is not None else None


@dataclass(frozen=True)
class HashColumn:
    """A column of hashes of blocks; it may be missing, as may cells of it.

    Parameters
    ----------
    name : str
        Its name. Cells are lists of integers, or texts of integers with spaces between them.
    """

    name: str

    def __call__(self, row: Row, prompt: int) -> IntArray | None:
        """Return the hashes of a row whose prompt has that length [tokens], None without any."""
        cell = row.get(self.name)
        if cell is None or is_blank(row, self.name):
            return None
        try:
            cells = [int(text) for text in cell.split()] if isinstance(cell, str) else cell
            if not isinstance(cells, list):
                raise TypeError
            hashes = np.array(array("q", cells), dtype=np.int64)
        except (TypeError, ValueError, OverflowError):
            raise bad_cell(self.name, f"{cell!r:.40} is no list of integers") from None
        if len(hashes) != -(-prompt // BLOCK_TOKENS):
            raise bad_cell(self.name, wrong_length(len(hashes), prompt))
        return hashes


#: What both readers take off keys.
WHITE_SPACE = " \t\n\v\f\r"


@dataclass(frozen=True)
class RequestColumns:
    """The columns of a request.

    Parameters
    ----------
    prompt, output : str
        Columns of lengths [tokens].
    arrival : TimeColumn, optional
        Column of arrival times.
    key : callable, optional
        Returns what tells the prompt of a row from others, or None; a `KeyColumn` where columns
        are to be read as a whole.
    hashes : HashColumn, optional
        The hashes of a prompt's blocks; a table that has them is read row by row.
    prefix : str, optional
        Column of tokens that come before those of ``prompt``; a prompt is both.
    """

    prompt: str
    output: str
    arrival: TimeColumn | None = None
    key: Callable[[Row], Hashable] | None = None
    hashes: HashColumn | None = None
    prefix: str | None = None

    def __call__(self, row: Row) -> RequestRow:
        """Turn one row into a request.

        Raises
        ------
        InputError
            Naming the column.
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
        """All columns, the arrival time first."""
        arrival = () if self.arrival is None else (self.arrival.name,)
        prefix = () if self.prefix is None else (self.prefix,)
        return (*arrival, *prefix, self.prompt, self.output)

    @property
    def known(self) -> tuple[str, ...]:
        """All columns that are read where a table has them."""
        optional = (self.hashes, self.key)
        return (*self.names, *(c.name for c in optional if isinstance(c, HashColumn | KeyColumn)))

    def has_hashes(self, header: Sequence[str]) -> bool:
        """Whether a table has the column of hashes."""
        return self.hashes is not None and self.hashes.name in header

    def key_name(self, header: Sequence[str]) -> str | None:
        """Return the column of keys if a table has it."""
        if isinstance(self.key, KeyColumn) and self.key.name in header:
            return self.key.name
        return None
