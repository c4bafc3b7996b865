"""Read the problem file a command is given."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from formulations.errors import InputError

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
