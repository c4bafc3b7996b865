"""Strict JSON parsing, and base classes of problem data.

Invalid content of a document is an error and is never guessed.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Self, TypeVar

from formulations.errors import InputError, did_you_mean, kind_of, use_one_of

#: Longest path of a value that an error shows [characters].
_LONGEST_PLACE = 80
#: Matches the start of a number other than zero.
_NOT_ZERO = re.compile(r"[^eE]*[1-9]")


class _NoNumber(str):
    """A numeric literal that no finite float represents, such as ``NaN`` or ``1e400``."""

    __slots__ = ()


def parse_json(text: str) -> Any:
    """Parse JSON strictly: no duplicate key, no NaN or infinity, no number rounded to zero.

    Raises
    ------
    InputError
        If the document breaks a rule; the error names the place.
    """
    refused: list[_NoNumber] = []

    def refuse(number: str) -> _NoNumber:
        refused.append(_NoNumber(number))
        return refused[-1]

    def number(text: str) -> float | _NoNumber:
        value = float(text)
        is_lost = value == 0 and _NOT_ZERO.match(text) is not None
        return refuse(text) if math.isinf(value) or is_lost else value

    document = _load(text, refuse, number)
    if refused:
        what = "too small for a number" if float(refused[0]) == 0 else "not a finite number"
        where = _place(document, refused[0])
        raise InputError(where, f"{refused[0]} is {what}", "write a number of 10^12 at most")
    return document


def _load(text: str, constant: Callable[[str], Any], number: Callable[[str], Any]) -> Any:
    try:
        return json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=constant, parse_float=number
        )
    except json.JSONDecodeError as error:
        what = f"not valid JSON ({error.msg})"
        remedy = "check that the document is complete"
        raise InputError(f"line {error.lineno} column {error.colno}", what, remedy) from None
    except (RecursionError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("document", "not readable as JSON", "check nesting and numbers") from None


def _place(document: object, part: _NoNumber) -> str:
    """Return the path of a value in a document, such as ``classes[0].rate``."""
    # An explicit stack: documents may be nested more deeply than the recursion limit.
    open_parts = [("", document)]
    while open_parts:
        where, value = open_parts.pop()
        if value is part:
            return where if 0 < len(where) <= _LONGEST_PLACE else "document"
        if isinstance(value, dict):
            dot = "." if where else ""
            open_parts += [(f"{where}{dot}{key}", inner) for key, inner in value.items()]
        elif isinstance(value, list):
            open_parts += [(f"{where}[{i}]", inner) for i, inner in enumerate(value)]
    return "document"


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document: dict[str, object] = {}
    for key, value in pairs:
        if key in document:
            raise InputError(key, "the key occurs twice", "keep one of the two")
        document[key] = value
    return document


def json_word(value: object) -> str:
    """Return the JSON name of a value's type: null, true, false, a number, text, a list, ..."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    words = {int | float: "a number", str: "text", list | tuple: "a list", Mapping: "an object"}
    return next(
        (word for kinds, word in words.items() if isinstance(value, kinds)),
        kind_of(value),
    )


def shown(value: object) -> str:
    """Return a short text of a value for errors; for null, booleans and objects, their type."""
    if value is None or isinstance(value, bool | Mapping):
        return json_word(value)
    # A frame or a series of pandas has several lines.
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else text[:37] + "..."


def check_list(document: object, where: str) -> list[Any]:
    """Return a document that must be a list.

    Raises
    ------
    InputError
        If the document breaks a rule; the error names the place.
    """
    if not isinstance(document, list):
        raise InputError(where, json_word(document), "write a list")
    return document


def check_keys(
    document: object, where: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Mapping[str, Any]:
    """Return a document that must be an object with the required and only known keys.

    Raises
    ------
    InputError
        If the document is not an object, or a key is unknown or missing.
    """
    known = ", ".join((*required, *optional))
    if not isinstance(document, Mapping):
        raise InputError(where, json_word(document), f"write an object with {known}")
    for key in document:
        if key not in required and key not in optional:
            like = did_you_mean(key, (*required, *optional))
            raise InputError(f"{where}.{key}", "unknown", f"{like}use {known}")
    for key in required:
        if key not in document:
            raise InputError(f"{where}.{key}", "missing", "add it")
    return document


E = TypeVar("E", bound=StrEnum)


class Validated:
    """A frozen dataclass whose ``__post_init__`` checks its fields."""

    def _set(self, **fields: object) -> None:
        """Set fields to their validated values, from ``__post_init__``."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)


class ProblemData(Validated):
    """Validated problem data that can be read from and written to a JSON document."""

    @classmethod
    def from_mapping(cls, document: Any) -> Self:
        """Build the problem from a parsed document.

        Raises
        ------
        InputError
            If a key is unknown or missing, or a value breaks its rule.
        """
        raise NotImplementedError

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document that `from_mapping` reads."""
        raise NotImplementedError

    def digest(self) -> str:
        """Return a hash of the problem data as 16 hexadecimal digits."""
        text = json.dumps(self.to_mapping(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a JSON text strictly: duplicate keys and non-finite numbers are errors."""
        return cls.from_mapping(parse_json(text))


def member(kind: type[E], value: object, where: str) -> E:
    """Return the member of an enumeration that a document names.

    Raises
    ------
    InputError
        If no member has this name; the error lists all members.
    """
    # An array of one text equals the member.
    if not isinstance(value, str) or value not in tuple(kind):
        remedy = use_one_of(str(value), kind)
        raise InputError(where, f"{shown(value)} is unknown", remedy)
    return kind(value)
