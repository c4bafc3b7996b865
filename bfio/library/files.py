"""JSON documents, packed: the same document gives the same bytes.

Objectives and bounds of entries: integers, or fractions where programs are continuous.
"""

import hashlib
import json
import lzma
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

from formulations.documents import parse_json, shown
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


Value: TypeAlias = int | Fraction


def read_value(document: object, where: str) -> Value:
    """Return the number that a document holds: an integer, or a text such as ``"7/3"``.

    Raises
    ------
    InputError
        If it is neither.
    """
    if type(document) is int:
        return document
    if isinstance(document, str):
        try:
            return plain(Fraction(document))
        except (ValueError, ZeroDivisionError):
            pass
    raise InputError(where, f"{shown(document)} is no exact number", 'write 7 or "7/3"')


def written_value(value: Value) -> int | str:
    """Return what `read_value` reads."""
    value = plain(value)
    return value if isinstance(value, int) else str(value)


def plain(value: Value) -> Value:
    """Return whole fractions as integers."""
    return int(value) if value.denominator == 1 else value


def value_text(value: Value | None, scale: int = 1) -> str:
    """Write a value for a person in units of the problem, rounded if it is no whole number."""
    if value is None:
        return "–"
    exact = Fraction(value) / scale
    if exact.denominator == 1:
        return f"{int(exact):,}"
    return f"{float(exact):,.3f}" if abs(exact) >= 1000 else f"{float(exact):.6g}"
