"""Results as data frames and as tables of notebooks."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from formulations.errors import InputError


def data_frame(rows: Sequence[Mapping[str, object]]) -> Any:
    """Return rows as a data frame of pandas.

    Raises
    ------
    InputError
        If pandas is not installed.
    """
    import pyarrow as pa

    try:
        return pa.Table.from_pylist(list(rows)).to_pandas()
    except ImportError:
        raise InputError("to_frame", "pandas is not installed", "pip install pandas") from None


def html_paragraphs(sentences: Sequence[str]) -> str:
    """Return sentences as paragraphs in HTML."""
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Return a table in HTML: the first column to the left, numbers to the right.

    It looks the same wherever it is shown, and scrolls by itself where it is too wide.
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
