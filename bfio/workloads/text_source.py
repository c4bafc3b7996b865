"""Lines of a text file, plain or gzip, with every way of failing told as `InputError`."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from formulations.errors import InputError

#: Longest line read [characters]; the block hashes of a Mooncake row take thousands.
MAX_LINE = 4_000_000

_GZIP_MAGIC = b"\x1f\x8b"
_SNIFFED_BYTES = 4096
_NOT_TEXT = "give a CSV or JSON Lines file in UTF-8, plain or gzip"


@contextmanager
def open_content(path: Path) -> Iterator[BinaryIO]:
    """Open a text file and yield its bytes, unpacked.

    Gzip is recognised by its first two bytes, whatever the name. Failures while reading inside
    the ``with`` block are translated as well.

    Raises
    ------
    InputError
        If the file is missing, a directory, unreadable, not text, or damaged gzip.
    """
    if path.is_fifo():
        raise InputError(str(path), "a pipe, which may never end", "save it to a file first")
    try:
        with path.open("rb") as raw, _decompressed(raw) as content:
            _refuse_binary(content, path)
            yield cast("BinaryIO", content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            str(path), f"damaged gzip data ({error})", "fetch or compress the file again"
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(str(path), reason, "give a readable file") from None


@contextmanager
def open_lines(path: Path) -> Iterator[Iterator[str]]:
    """Open a text file and yield an iterator over its lines, line ends kept.

    A UTF-8 byte-order mark is dropped.

    Raises
    ------
    InputError
        See `open_content`; also if the text is not UTF-8 or has a line longer than `MAX_LINE`.
    """
    with open_content(path) as content:
        try:
            # newline="" leaves line ends to the csv module, as it asks for.
            text = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
            yield _lines(text, path)
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            what = f"byte 0x{byte:02x} is not UTF-8 text"
            raise InputError(str(path), what, _NOT_TEXT) from None


@contextmanager
def _decompressed(raw: io.BufferedReader) -> Iterator["io.BufferedReader[Any]"]:
    if raw.peek(2)[:2] != _GZIP_MAGIC:
        yield raw
        return
    with gzip.GzipFile(fileobj=raw) as unzipped, io.BufferedReader(unzipped) as content:
        yield content


def _refuse_binary(content: "io.BufferedReader[Any]", path: Path) -> None:
    if b"\0" in content.peek(_SNIFFED_BYTES)[:_SNIFFED_BYTES]:
        raise InputError(str(path), "binary data", _NOT_TEXT)


def _lines(text: io.TextIOWrapper, path: Path) -> Iterator[str]:
    number = 0
    while line := text.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise InputError(
                f"{path} line {number}",
                f"longer than {MAX_LINE} characters",
                "check that the file is a trace with one request per line",
            )
        yield line
