"""Which values of arguments are equal, and which rows conditions choose."""

from collections.abc import Hashable, Mapping
from typing import Any


def identity(value: Any) -> Hashable:
    """Return what tells values apart: 1 and 1.0 are one value, True is another."""
    return isinstance(value, bool), value


def admits(wanted: Any, value: Any) -> bool:
    """Return whether a value is the one wanted, or among them if several are."""
    choices = wanted if isinstance(wanted, list | tuple) else (wanted,)
    return any(identity(choice) == identity(value) for choice in choices)


def fulfils(arguments: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Return whether arguments have the values wanted; an absent one equals None."""
    return all(admits(wanted, arguments.get(name)) for name, wanted in conditions.items())
