"""Compressed JSON documents with reproducible bytes, and exact numbers in JSON.

Objectives and bounds are integers, or fractions for continuous programs.
"""

import hashlib
import json
import lzma
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

from formulations.errors import InputError
from formulations.problem_data import parse_json, shown


def canonical(document: Any) -> str:
    """Return the canonical text of a document, used for its digest: sorted keys, no blanks."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def digest_of(document: Any) -> str:
    """Return the 16-digit hexadecimal digest of a document, as `ProblemData.digest` does."""
    return hashlib.sha256(canonical(document).encode()).hexdigest()[:16]


def packed(document: Any) -> bytes:
    """Return a document in the compressed format of `read_packed`."""
    return lzma.compress(canonical(document).encode(), preset=9 | lzma.PRESET_EXTREME)


def read_packed(path: Path) -> Any:
    """Return the document in a compressed file.

    Raises
    ------
    InputError
        If the file is missing or damaged.
    """
    try:
        return parse_json(lzma.decompress(path.read_bytes()).decode("utf-8"))
    except FileNotFoundError:
        raise InputError(str(path), "no such file", "install bfio anew") from None
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read ({error})", "install bfio anew") from None


def read_plain(path: Path) -> Any:
    """Return the document in a text file.

    Raises
    ------
    InputError
        If the file is missing or damaged.
    """
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read ({error})", "install bfio anew") from None


def lines_text(head: dict[str, Any], name: str, lines: list[str]) -> str:
    """Return a document with one line per element of its last field, for readable diffs."""
    fields = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    opening, closing = ("{", "}") if lines and lines[0].startswith('"') else ("[", "]")
    body = ",\n".join(lines)
    return "{" + ", ".join(fields) + f',\n"{name}": {opening}\n{body}\n{closing}}}\n'


Value: TypeAlias = int | Fraction


def read_value(document: object, where: str) -> Value:
    """Return the number in a JSON value: an integer, or a text such as ``"7/3"``.

    Raises
    ------
    InputError
        If the value is not an exact number.
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
    """Return a value in the format of `read_value`."""
    value = plain(value)
    return value if isinstance(value, int) else str(value)


def plain(value: Value) -> Value:
    """Return integral fractions as integers."""
    return int(value) if value.denominator == 1 else value


def value_text(value: Value | None, scale: int = 1) -> str:
    """Format a value in units of the problem, rounded if it is not an integer."""
    if value is None:
        return "–"
    exact = Fraction(value) / scale
    if exact.denominator == 1:
        return f"{int(exact):,}"
    return f"{float(exact):,.3f}" if abs(exact) >= 1000 else f"{float(exact):.6g}"
