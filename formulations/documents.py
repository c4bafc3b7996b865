"""Strict JSON: what a document from outside may not contain is an error, not a guess."""

import json
from collections.abc import Mapping
from typing import Any

from formulations.errors import InputError


def parse_json(text: str) -> Any:
    """Parse JSON strictly: no duplicate key, no NaN or infinity, an error that names the place."""
    try:
        return json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_no_constant, parse_float=_float
        )
    except json.JSONDecodeError as error:
        raise InputError(
            f"line {error.lineno} column {error.colno}",
            f"not valid JSON ({error.msg})",
            "check that the document is complete",
        ) from None
    except (RecursionError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("document", "not readable as JSON", "check nesting and numbers") from None


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        _no_constant(text)
    return value


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document: dict[str, object] = {}
    for key, value in pairs:
        if key in document:
            raise InputError(key, "the key occurs twice", "keep one of them")
        document[key] = value
    return document


def _no_constant(name: str) -> object:
    raise InputError("document", f"{name} is not a finite number", "write an integer")


def json_word(value: object) -> str:
    """Return what JSON calls a value: null, true, false, a number, text, a list or an object."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    words = {int | float: "a number", str: "text", list | tuple: "a list", Mapping: "an object"}
    return next(
        (word for kinds, word in words.items() if isinstance(value, kinds)),
        f"a {type(value).__name__}",
    )


def shown(value: object) -> str:
    """Return a value as a document would write it, cut short; its kind if it has parts."""
    if value is None or isinstance(value, bool | Mapping):
        return json_word(value)
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def check_list(document: object, where: str) -> list[Any]:
    """Return a list; refuse anything else.

    Raises
    ------
    InputError
        Naming the place.
    """
    if not isinstance(document, list):
        raise InputError(where, json_word(document), "write a list")
    return document


def check_keys(
    document: object, where: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Mapping[str, Any]:
    """Return an object; refuse anything else, and unknown or missing keys.

    Raises
    ------
    InputError
        Naming the key.
    """
    known = ", ".join((*required, *optional))
    if not isinstance(document, Mapping):
        raise InputError(where, json_word(document), f"write an object with {known}")
    for key in document:
        if key not in required and key not in optional:
            raise InputError(f"{where}.{key}", "unknown", f"use {known}")
    for key in required:
        if key not in document:
            raise InputError(f"{where}.{key}", "missing", "add it")
    return document
