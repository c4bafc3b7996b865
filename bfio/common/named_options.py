"""Registries of built-in names with options, written ``name:option=value:...``.

A registry is a mapping from names to `Named`. Options are read by `bfio.common.options`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from bfio.common.options import from_texts, names_of, split_options
from formulations.errors import InputError, use_one_of
from formulations.named_objects import OR_YOUR_OWN, is_users

T = TypeVar("T")


@dataclass(frozen=True)
class Named(Generic[T]):
    """The entry of a name in a registry.

    Parameters
    ----------
    name : str
        Name on the command line.
    summary : str
        One line for listings.
    source : str
        Source of the rule.
    options : dataclass
        Options that may follow the name: fields made by `bfio.common.options.option`, with their
        defaults.
    """

    name: str
    summary: str
    source: str
    options: T

    @property
    def option_names(self) -> tuple[str, ...]:
        """User-facing names of its options."""
        return names_of(type(self.options))


def by_name(*known: Named[T]) -> dict[str, Named[T]]:
    """Return a registry, sorted by name."""
    return {entry.name: entry for entry in sorted(known, key=lambda entry: entry.name)}


def read_named(text: str, known: Mapping[str, Named[T]], kind: str) -> T | None:
    """Parse a name with options; return the options, or None for ``module:function``.

    Parameters
    ----------
    text : str
        The text.
    known : mapping
        The registry.
    kind : str
        Kind of the names, for errors.

    Raises
    ------
    InputError
        If the name or an option is unknown, or a value cannot be read or breaks its rule.
    """
    name, texts = split_options(text, known)
    if name in known:
        return from_texts(known[name].options, texts, text)
    name = name.removesuffix(":")
    if not is_users(name):
        remedy = use_one_of(name, known, OR_YOUR_OWN)
        raise InputError(name or "an empty name", f"unknown {kind}", remedy)
    return None
