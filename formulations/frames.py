"""Results as pandas data frames and as HTML for notebooks."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from html import escape
from typing import Any, cast

import numpy as np

from formulations.errors import InputError


def data_frame(rows: Sequence[Mapping[str, object]]) -> Any:
    """Return rows as a data frame of pandas.

    Raises
    ------
    InputError
        If pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise InputError("to_frame", "pandas is not installed", "pip install pandas") from None
    return pandas.DataFrame(list(rows))


def fields_frame(result: object) -> Any:
    """Return the fields of a dataclass as a data frame, one row per request or class.

    Columns are the tuples and one-dimensional arrays of the largest length. Without any, the frame
    has one row with the numbers and texts. Fractions become floats.

    Raises
    ------
    InputError
        If pandas is not installed.
    """
    given = {
        entry.name: value.tolist() if isinstance(value, np.ndarray) and value.ndim == 1 else value
        for entry in fields(cast("Any", result))
        if (value := getattr(result, entry.name)) is not None
    }
    parts = {name: value for name, value in given.items() if isinstance(value, tuple | list)}
    if length := max(map(len, parts.values()), default=0):
        columns = {name: part for name, part in parts.items() if len(part) == length}
        lines = [{name: _cell(part[i]) for name, part in columns.items()} for i in range(length)]
        return data_frame(lines)
    plain = (str, int, float, Fraction)
    return data_frame([{n: _cell(v) for n, v in given.items() if isinstance(v, plain)}])


def _cell(value: object) -> object:
    """Return a value converted for a data frame column: fractions to floats, objects to text."""
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, tuple):
        return tuple(map(_cell, value))
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def html_paragraphs(sentences: Sequence[str]) -> str:
    """Return sentences as paragraphs in HTML."""
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Return a table in HTML: the first column to the left, numbers to the right.

    Styles are inline, so that it looks the same in every viewer. A wide table scrolls sideways.
    """

    def cell(text: str, tag: str, side: str) -> str:
        style = f"text-align: {side}; white-space: nowrap; padding: 0.1em 0.6em"
        return f'<{tag} style="{style}">{escape(text).replace(chr(10), "<br>")}</{tag}>'

    def line(cells: Sequence[str], tag: str) -> str:
        first, *others = cells
        numbers = "".join(cell(text, tag, "right") for text in others)
        return f"<tr>{cell(first, tag, 'left')}{numbers}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return (
        f'<div style="overflow-x: auto" tabindex="0"><table><caption>{escape(caption)}</caption>'
        f"<thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table></div>"
    )
