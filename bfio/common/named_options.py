"""Built-in things of a name, each with options, written ``name:option=value:...``.

A registry is a mapping from names to `Named`. Its options are those of the one table
(`bfio.common.options`), so a name needs no reading of texts of its own.
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
    """What a registry knows about one name.

    Parameters
    ----------
    name : str
        Name on the command line.
    summary : str
        One line for listings.
    source : str
        Where the rule comes from.
    options : dataclass
        What can be written behind the name: fields made by `bfio.common.options.option`, with the
        values that hold if nothing is written.
    """

    name: str
    summary: str
    source: str
    options: T

    @property
    def option_names(self) -> tuple[str, ...]:
        """What users call its options."""
        return names_of(type(self.options))


def by_name(*known: Named[T]) -> dict[str, Named[T]]:
    """Return a registry, sorted by name."""
    return {entry.name: entry for entry in sorted(known, key=lambda entry: entry.name)}


def read_named(text: str, known: Mapping[str, Named[T]], kind: str) -> T | None:
    """Return the options that a text gives to a name, or None if it is ``module:function``.

    Parameters
    ----------
    text : str
        The text.
    known : mapping
        The registry.
    kind : str
        What its names stand for, for errors.

    Raises
    ------
    InputError
        If name or option are unknown, or a value is unreadable or breaks its rule.
    """
    name, texts = split_options(text, known)
    if name in known:
        return from_texts(known[name].options, texts, text)
    name = name.removesuffix(":")
    if not is_users(name):
        remedy = use_one_of(name, known, OR_YOUR_OWN)
        raise InputError(name or "an empty name", f"unknown {kind}", remedy)
    return None
