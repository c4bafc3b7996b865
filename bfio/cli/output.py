"""Files that commands read, and what they print: JSON, tables, progress, pictures."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from formulations.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console, JustifyMethod
    from rich.progress import Progress, ProgressColumn

#: Largest file read, in bytes: some five million requests, or many thousand step problems.
_MAX_BYTES = 2**28

T = TypeVar("T")


def read_problem(name: str, parse: Callable[[str], T]) -> T:
    """Return what a file holds, as a function makes it of its text; errors name the file.

    Raises
    ------
    InputError
        As `read_text` and the function.
    """
    text = read_text(name)
    with naming(name):
        return parse(text)


@contextmanager
def naming(name: str, *fields: str) -> Iterator[None]:
    """Put a file's name before errors: all of them, or those about some fields that it holds."""
    try:
        yield
    except InputError as error:
        field = error.where.partition(".")[0].partition("[")[0]
        if fields and field not in fields:
            raise
        raise InputError(f"{name}: {error.where}", error.what, error.remedy) from None


def read_text(name: str) -> str:
    """Return the text of a file, or of stdin for ``-``.

    Raises
    ------
    InputError
        If it has no name, cannot be read, is a pipe, is too large or not UTF-8.
    """
    if not name:
        raise InputError("command line", "the name of a file is empty", "name a file")
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
        raise InputError(name, f"larger than {_MAX_BYTES} bytes", "split it into smaller files")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}: byte {error.start}", "not UTF-8 text", "give a JSON text file"
        ) from None


def _bytes(path: Path) -> bytes:
    if path.is_fifo():
        raise InputError(str(path), "a pipe, which may never end", 'write "-" to read stdin')
    with path.open("rb") as stream:
        return stream.read(_MAX_BYTES + 1)


#: Width of tables where there is no terminal to ask.
_PLAIN_WIDTH = 150
_PICTURES = (".png", ".pdf", ".svg")


def print_json(document: Any) -> None:
    """Print one JSON document on stdout, whole or not at all."""
    sys.stdout.write(json_text(document))


def interruption(interrupted: bool) -> dict[str, bool]:
    """Return what marks a document as one of an interrupted command."""
    return {"interrupted": True} if interrupted else {}


def json_text(document: Any) -> str:
    """Return one JSON document as it is printed."""
    # What a user's policy says of itself may hold any object; its text must do.
    text = json.dumps(document, allow_nan=False, indent=2, default=str)
    return f"{text}\n"


def can_print(text: str) -> bool:
    """Return whether stdout has all characters of a text; otherwise it writes question marks."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def console() -> "Console":
    """Return the console that tables go to (stdout)."""
    from rich.console import Console

    class PipedConsole(Console):
        """Leaves a reader that has gone to `bfio.cli.main`: rich would exit with status 1."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    asked = sys.stdout.isatty() or "COLUMNS" in os.environ
    return PipedConsole(width=None if asked else _PLAIN_WIDTH, highlight=False)


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
) -> None:
    """Print a table: columns of numbers to the right, all others to the left."""
    from rich.table import Table
    from rich.text import Text

    # Text, not markup: units stand in brackets, and names that users give may hold some.
    table = Table(
        title=Text(title), title_justify="left", caption=Text(note), caption_justify="left"
    )
    for name, cells in zip(columns, zip(*rows, strict=True), strict=True):
        numeric = all(cell[:1].isdigit() or cell[:1] in "–-∞" for cell in cells)
        # A number that breaks into two lines reads as two numbers.
        least = max(map(len, cells)) if numeric else None
        justify: JustifyMethod = "right" if numeric else "left"
        table.add_column(Text(name), justify=justify, overflow="fold", min_width=least)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def progress_display(console: "Console", *columns: "ProgressColumn") -> "Progress":
    """Return a display of tasks: name, bar, count, time gone, time left, and further columns."""
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
    """Yield a progress display on stderr; without a terminal, one line per task at the end.

    While it shows, what a user's policy prints goes to stderr: stdout is for the answer.
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
    """Files beside an answer: one that cannot be written does not lose the answer.

    Parameters
    ----------
    makes : callable
        Each writes and returns what or where; after one that fails no other is tried.
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
        """Tell of what could not be written, once the answer is shown.

        Raises
        ------
        InputError
            Naming the file.
        """
        if self._error is not None:
            raise self._error


def drawn(place: Path | None, figure: "Callable[[], Figure]") -> Written[Path]:
    """Draw a picture where one was asked for."""
    if place is None:
        return Written()

    def draw() -> Path:
        from bfio.decode.plots import save

        return save(figure(), place)

    return Written(draw)


def plot_folder(args: argparse.Namespace) -> Path | None:
    """Return the folder for plots, made before any long work; None with ``--no-plots``.

    Raises
    ------
    InputError
        If it cannot be made.
    """
    return None if args.no_plots else output_folder(args)


def picture_place(file: str | None) -> Path | None:
    """Return where ``--plot`` writes, checked before any long work; None without it.

    Raises
    ------
    InputError
        If it is no picture, its folder does not exist, or it cannot be written.
    """
    if file is None:
        return None
    place = Path(file)
    if place.suffix not in _PICTURES:
        remedy = f"use a name that ends in {' or '.join(_PICTURES)}"
        raise InputError("--plot", f"{file} is no picture", remedy)
    if not place.parent.is_dir():
        raise InputError("--plot", f"no folder {place.parent}", "make it, or use another")
    # Only writing tells: rights say nothing of a full or virtual file system.
    try:
        is_new = not (place.exists() or place.is_symlink())
        place.open("ab").close()
        if is_new:
            place.unlink()
    except (OSError, ValueError) as error:
        what = f"{place} cannot be written ({getattr(error, 'strerror', None) or error})"
        remedy = "name a file in a folder that can be written"
        raise InputError("--plot", what, remedy) from None
    return place


def plot_runs(args: argparse.Namespace, module: str, runs: Sequence[Any]) -> None:
    """Draw runs where ``--plot`` says, if it does, with the ``run_figure`` of a module.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    if args.plot is None:
        return
    from bfio.decode.plots import save

    save(import_module(module).run_figure(runs), Path(args.plot))
    if not args.json:
        print(f"plot: {args.plot}")


def output_folder(args: argparse.Namespace) -> Path:
    """Return the folder ``--output``, made before any long work; see `plot_folder`."""
    folder = Path(args.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            args.output,
            f"no folder can be made there ({error.strerror})",
            "choose another --output",
        ) from None
    return folder
