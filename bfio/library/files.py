"""JSON documents, packed: the same document gives the same bytes."""

import hashlib
import json
import lzma
from pathlib import Path
from typing import Any

from formulations.documents import parse_json
from formulations.errors import InputError


def canonical(document: Any) -> str:
    """Return the text of a document whose digest counts: sorted keys, no blanks."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def digest_of(document: Any) -> str:
    """Return 16 hexadecimal digits of a document, as `ProblemData.digest` does."""
    return hashlib.sha256(canonical(document).encode()).hexdigest()[:16]


def packed(document: Any) -> bytes:
    """Return a document as `read_packed` reads it."""
    return lzma.compress(canonical(document).encode(), preset=9 | lzma.PRESET_EXTREME)


def read_packed(path: Path) -> Any:
    """Return the document of a packed file.

    Raises
    ------
    InputError
        If there is none.
    """
    try:
        return parse_json(lzma.decompress(path.read_bytes()).decode("utf-8"))
    except FileNotFoundError:
        raise InputError(str(path), "no such file", "install bfio anew") from None
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read ({error})", "install bfio anew") from None


def read_plain(path: Path) -> Any:
    """Return the document of a text file.

    Raises
    ------
    InputError
        If there is none.
    """
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read ({error})", "install bfio anew") from None


def lines_text(head: dict[str, Any], name: str, lines: list[str]) -> str:
    """Return a document whose last field is a list (or object) of one line each: good to diff."""
    fields = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    opening, closing = ("{", "}") if lines and lines[0].startswith('"') else ("[", "]")
    body = ",\n".join(lines)
    return "{" + ", ".join(fields) + f',\n"{name}": {opening}\n{body}\n{closing}}}\n'
