"""Reading JSON documents of rates and times: a number that is not finite is told by its key."""

import json
from typing import Any

from formulations.documents import parse_json
from formulations.errors import InputError

#: How deep numbers stand in such a document; whatever is deeper has no place in it.
_DEPTH = 5


class _NotFinite(str):
    """What stands in a document where JSON has no finite number: ``NaN``, ``1e400``."""

    __slots__ = ()


def parse_numbers(text: str) -> Any:
    """Parse a document strictly, as `parse_json`; an error about a number names its key.

    Raises
    ------
    InputError
        As `parse_json`.
    """
    try:
        return parse_json(text)
    except InputError as error:
        if not error.what.endswith("is not a finite number"):
            raise
        document = json.loads(text, parse_constant=_NotFinite, parse_float=_number)
        where = _place(document, "", _DEPTH) or error.where
        raise InputError(where, error.what, "write a number of 10^12 at most") from None


def _number(text: str) -> object:
    value = float(text)
    return _NotFinite(text) if abs(value) == float("inf") else value


def _place(value: object, where: str, depth: int) -> str | None:
    """Return where in a document the first number that is not finite stands."""
    if isinstance(value, _NotFinite):
        return where or None
    if depth == 0:
        return None
    if isinstance(value, dict):
        parts = [(f"{where}.{key}" if where else key, part) for key, part in value.items()]
    elif isinstance(value, list):
        parts = [(f"{where}[{i}]", part) for i, part in enumerate(value)]
    else:
        return None
    found = (_place(part, name, depth - 1) for name, part in parts)
    return next((place for place in found if place), None)
