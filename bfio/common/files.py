"""Write files that appear atomically."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from formulations.errors import InputError, kind_of


@contextmanager
def atomic_file(path: Path, *, overwrite: bool) -> Iterator[tuple[BinaryIO, Path]]:
    """Yield a new file next to ``path`` and its name; rename it to ``path`` on success.

    If the block raises, the new file is removed and ``path`` is unchanged. If ``path`` is a link
    to a file, that file is replaced.

    Raises
    ------
    InputError
        If ``path`` exists and ``overwrite`` is False, it is no file, or cannot be written.
    """
    # lexists: a broken or circular link also blocks the name.
    if path.is_dir() or (os.path.lexists(path) and not overwrite):
        what = "is a directory" if path.is_dir() else "the file exists"
        raise InputError(str(path), what, "choose another name or add overwrite=True")
    if path.exists():
        if not path.is_file():
            # A rename would put a file in place of the device.
            raise InputError(str(path), "is a device or a pipe", "choose the name of a file")
        path = path.resolve()
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("xb") as stream:
            yield stream, partial
            stream.flush()
            # Without fsync a power failure could preserve the rename but lose the content.
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError as error:
        what = error.strerror or str(error)
        raise InputError(str(path), what, "choose a writable folder") from None
    finally:
        # A read-only file system refuses even to remove what is not there.
        with suppress(OSError):
            partial.unlink()


def file_path(value: object, where: str = "path", remedy: str = "give a file name") -> Path:
    """Return a file name as a path.

    Raises
    ------
    InputError
        If it is neither a text nor a path.
    """
    if not isinstance(value, str | PathLike):
        raise InputError(where, f"{kind_of(value)} is not a file name", remedy)
    return Path(value)


def write_file(path: Path, content: bytes, *, overwrite: bool = True) -> None:
    """Write a whole file atomically; see `atomic_file` for errors."""
    with atomic_file(path, overwrite=overwrite) as (stream, _):
        stream.write(content)
