"""Base classes of problem data: read from documents, validated and frozen."""

import hashlib
import json
from enum import StrEnum
from typing import Any, Self, TypeVar

from formulations.documents import parse_json, shown
from formulations.errors import InputError, use_one_of

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
        If there is none; the error names the nearest member and all members.
    """
    try:
        return kind(value)  # type: ignore[arg-type]
    except ValueError:
        remedy = use_one_of(str(value), kind)
        raise InputError(where, f"{shown(value)} is unknown", remedy) from None
