"""Files that appear complete or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from formulations.errors import InputError


@contextmanager
def atomic_file(path: Path, *, overwrite: bool) -> Iterator[tuple[BinaryIO, Path]]:
    """Yield a new file beside ``path`` and its name; rename it to ``path`` on success.

    If the block raises, nothing is left behind and ``path`` is as it was.

    Raises
    ------
    InputError
        If ``path`` exists and ``overwrite`` is False, or the place cannot be written.
    """
    # lexists: a link to nowhere, or to itself, is in the way too.
    if path.is_dir() or (os.path.lexists(path) and not overwrite):
        what = "is a directory" if path.is_dir() else "the file exists"
        raise InputError(str(path), what, "choose another name or pass --overwrite")
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("xb") as stream:
            yield stream, partial
            stream.flush()
            # Without this the rename may survive a power failure that the content does not.
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError as error:
        raise InputError(
            str(path), error.strerror or str(error), "choose a place that can be written"
        ) from None
    finally:
        partial.unlink(missing_ok=True)
