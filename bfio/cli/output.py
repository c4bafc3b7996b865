"""What commands print: JSON documents, tables and progress."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

#: Width of tables where there is no terminal to ask.
_PLAIN_WIDTH = 150


def print_json(document: Any) -> None:
    """Print one JSON document on stdout."""
    json.dump(document, sys.stdout, allow_nan=False, indent=2)
    sys.stdout.write("\n")


def console() -> "Console":
    """Return the console that tables go to (stdout)."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False)


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
) -> None:
    """Print a table: text left in the first column, numbers right in the others."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", caption=note or None)
    table.caption_justify = "left"
    for k, name in enumerate(columns):
        table.add_column(name, justify="left" if k == 0 else "right", overflow="fold")
    for row in rows:
        # Text(), not markup: names come from users and may hold brackets.
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


@contextmanager
def progress_bar() -> Iterator["Progress"]:
    """Yield a progress display on stderr; without a terminal it prints its last state alone."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as display:
        yield display


def number(value: float | None, digits: int = 4) -> str:
    """Write a number with so many significant digits, thousands separated; a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, int) or abs(value) >= 10**digits:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{float(text):,.{digits}g}" if "e" not in text else text


def percent(value: float | None) -> str:
    """Write a share in percent; a dash for None."""
    return "–" if value is None else f"{100 * value:.1f} %"
