"""Schedules of events in CSV files: what fails when, who gives up when."""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from formulations.errors import InputError

Row = TypeVar("Row")


def read_schedule(
    name: str,
    option: str,
    columns: tuple[str, ...],
    row_of: Callable[[Mapping[str, str]], Row],
    *,
    form: str,
    example: str,
) -> list[Row]:
    """Read the rows of a schedule.

    Parameters
    ----------
    name : str
        File.
    option : str
        Option that names it.
    columns : tuple of str
        Its heading.
    row_of : callable
        Turns a line into what it says; a line it raises ``ValueError`` at is refused.
    form, example : str
        What to write where there is no such file, and a line of one.

    Raises
    ------
    InputError
        If the file or a line cannot be read.
    """
    try:
        with Path(name).open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no text"
        raise InputError(option, f"cannot read {name!r}: {reason}", form) from None
    found: list[Row] = []
    for number, line in enumerate(lines, 2):
        try:
            found.append(row_of(line))
        except (KeyError, ValueError, TypeError, AttributeError):
            what = f"no {', '.join(columns)} that can be read"
            remedy = f"write e.g. {example} below that heading"
            raise InputError(f"{name}, line {number}", what, remedy) from None
    return found
