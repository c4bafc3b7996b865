"""Read input files and print output of commands: JSON, tables, progress and plots."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from math import isfinite
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from bfio.cli.command import DONE
from formulations.errors import InputError, naming

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console, JustifyMethod
    from rich.progress import Progress, ProgressColumn

#: Largest file size read [bytes]: some five million requests, or many thousand step problems.
_MAX_BYTES = 2**28

T = TypeVar("T")


def read_problem(name: str, parse: Callable[[str], T]) -> T:
    """Parse the text of a file with a function; error messages name the file.

    Raises
    ------
    InputError
        As raised by `read_text` and the function.
    """
    text = read_text(name)
    with naming(name):
        return parse(text)


def read_text(name: str) -> str:
    """Return the text of a file, or of stdin for ``-``.

    Raises
    ------
    InputError
        If the name is empty, or the file cannot be read, is a pipe, is too large or not UTF-8.
    """
    if not name:
        raise InputError("command line", "the file name is empty", "name a file")
    try:
        data = sys.stdin.buffer.read(_MAX_BYTES + 1) if name == "-" else _bytes(Path(name))
    except FileNotFoundError:
        raise InputError(name, "no such file", "check the path") from None
    except IsADirectoryError:
        raise InputError(name, "is a directory", "name a file") from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(name, f"cannot be read ({error})", "check path and rights") from None
    if len(data) > _MAX_BYTES:
        raise InputError(name, f"is larger than {_MAX_BYTES} bytes", "split it into smaller files")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = "is not UTF-8 text"
        raise InputError(f"{name}: byte {error.start}", what, "give a JSON text file") from None


def _bytes(path: Path) -> bytes:
    if path.is_fifo():
        raise InputError(str(path), "is a pipe, which may never end", "use - to read stdin")
    with path.open("rb") as stream:
        return stream.read(_MAX_BYTES + 1)


#: Width of tables without a terminal [characters].
_PLAIN_WIDTH = 150
_PICTURES = (".png", ".pdf", ".svg")


def print_json(document: Any) -> None:
    """Print one JSON document on stdout with a single write."""
    sys.stdout.write(json_text(document))


def print_answer(args: argparse.Namespace, document: Any, show: Callable[[], object]) -> int:
    """Print a document with ``--json``, otherwise call the function that prints it as text.

    A document that takes time to make may be given as a function that returns it.

    Returns
    -------
    int
        The exit status `DONE`.
    """
    if args.json:
        print_json(document() if callable(document) else document)
    else:
        show()
    return DONE


def interruption(interrupted: bool) -> dict[str, bool]:
    """Return the entry that marks the document of an interrupted command; empty if it was not."""
    return {"interrupted": True} if interrupted else {}


def json_text(document: Any) -> str:
    """Return the text of a JSON document as printed."""
    # Statistics of a user's policy may contain any object; these are written as text.
    text = json.dumps(_finite(document), allow_nan=False, indent=2, default=str)
    return f"{text}\n"


def _finite(value: Any) -> Any:
    """Return a document in which floats that JSON does not have are text."""
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


def can_print(text: str) -> bool:
    """Return whether the encoding of stdout can represent a text."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def console() -> "Console":
    """Return the Rich console for stdout."""
    from rich.console import Console

    class PipedConsole(Console):
        """Console that raises an error on a broken pipe, where Rich would exit with status 1."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    asked = sys.stdout.isatty() or "COLUMNS" in os.environ
    return PipedConsole(width=None if asked else _PLAIN_WIDTH, highlight=False)


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
) -> None:
    """Print a table: number columns right-aligned, other columns left-aligned."""
    from rich.table import Table
    from rich.text import Text

    # Use Text, not markup: units and user-given names may contain brackets.
    table = Table(
        title=Text(title), title_justify="left", caption=Text(note), caption_justify="left"
    )
    for name, cells in zip(columns, zip(*rows, strict=True), strict=True):
        numeric = all(cell[:1].isdigit() or cell[:1] in "–-∞" for cell in cells)
        # Never wrap a number: it would read as two numbers.
        least = max(map(len, cells)) if numeric else None
        justify: JustifyMethod = "right" if numeric else "left"
        table.add_column(Text(name), justify=justify, overflow="fold", min_width=least)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def progress_display(console: "Console", *columns: "ProgressColumn") -> "Progress":
    """Return a progress display: name, bar, count, elapsed and remaining time, given columns."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        *columns,
        console=console,
        disable=not console.is_terminal,
    )


@contextmanager
def progress_bar() -> Iterator["Progress"]:
    """Yield a progress display on stderr; without a terminal, print one line per task at the end.

    Meanwhile stdout of a user's policy goes to stderr, because stdout is reserved for the answer.
    """
    from rich.console import Console

    from bfio.common.kernel_groups import shown_in

    console = Console(stderr=True)
    with redirect_stdout(sys.stderr), progress_display(console) as display, shown_in(display):
        yield display
    if not console.is_terminal:
        for task in display.tasks:
            print(f"{task.description}: {task.completed:.0f}/{task.total:.0f}", file=sys.stderr)


class Written(Generic[T]):
    """Results of writing output files; an error is kept until the answer is printed.

    Parameters
    ----------
    makes : callable
        Each writes a file and returns its content or path. None is called after an error.
    """

    def __init__(self, *makes: Callable[[], T]) -> None:
        self.found: list[T] = []
        self._error: InputError | None = None
        try:
            for make in makes:
                self.found.append(make())
        except InputError as error:
            self._error = error

    def check(self) -> None:
        """Raise the error of writing, after the answer is printed.

        Raises
        ------
        InputError
            If a file could not be written; it names the file.
        """
        if self._error is not None:
            raise self._error


def drawn(place: Path | None, figure: "Callable[[], Figure]") -> Written[Path]:
    """Make and write the figure; keep an `InputError` in the result. Without a path do nothing."""
    if place is None:
        return Written()

    def draw() -> Path:
        from bfio.common.figure_style import save

        return save(figure(), place)

    return Written(draw)


def plot_folder(args: argparse.Namespace) -> Path | None:
    """Create and return the folder of plots, before any long work; None with ``--no-plots``.

    Raises
    ------
    InputError
        If it cannot be created.
    """
    return None if args.no_plots else output_folder(args)


def picture_place(file: str | None) -> Path | None:
    """Return the path of ``--plot``, checked before any long work; None without ``--plot``.

    Raises
    ------
    InputError
        If its suffix is not that of a picture, its folder is missing, or it cannot be written.
    """
    if file is None:
        return None
    place = Path(file)
    if place.suffix not in _PICTURES:
        remedy = f"use a name that ends in {' or '.join(_PICTURES)}"
        raise InputError("--plot", f"{file} is not a picture", remedy)
    if not place.parent.is_dir():
        what = f"folder {place.parent} does not exist"
        raise InputError("--plot", what, "create it, or use another")
    # Create a file beside it, as writing does: permissions do not show a virtual file system.
    try:
        NamedTemporaryFile(dir=place.resolve().parent).close()
        if place.exists() and not place.is_file():
            raise OSError("it is no file")
    except (OSError, ValueError) as error:
        what = f"{place} cannot be written ({getattr(error, 'strerror', None) or error})"
        remedy = "name a file in a writable folder"
        raise InputError("--plot", what, remedy) from None
    return place


def plot_runs(args: argparse.Namespace, module: str, runs: Sequence[Any]) -> None:
    """Draw runs by the ``run_figure`` of a module into the file ``--plot``, if given.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    if args.plot is None:
        return
    from bfio.common.figure_style import save

    save(import_module(module).run_figure(runs), Path(args.plot))
    if not args.json:
        print(f"plot: {args.plot}")


def output_folder(args: argparse.Namespace) -> Path:
    """Return the folder ``--output``, created before any long work; see `plot_folder`."""
    folder = Path(args.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"cannot be created ({error.strerror})"
        raise InputError(args.output, what, "choose another --output") from None
    return folder
