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
    """Return a table in HTML: the first column to the left, numbers to the right."""

    def line(cells: Sequence[str], tag: str) -> str:
        first, *others = (escape(cell).replace("\n", "<br>") for cell in cells)
        left = f'<{tag} style="text-align: left">{first}</{tag}>'
        return f"<tr>{left}{''.join(f'<{tag}>{cell}</{tag}>' for cell in others)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return (
        f"<table><caption>{escape(caption)}</caption><thead>{line(head, 'th')}</thead>"
        f"<tbody>{body}</tbody></table>"
    )
