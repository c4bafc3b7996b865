"""Which values of arguments are equal, how they are written, and which rows conditions choose."""

from collections.abc import Hashable, Mapping
from typing import Any

from bfio.studies.row import Value

#: What stands for an argument or a number that is not there.
DASH = "–"


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


def label(value: Value) -> str:
    """Return how an argument is written: true, false, a dash for None, all else as it is."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
