"""Named things with options, written ``name:option=value:...``."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bfio.common.options import split_options
from bfio.common.users_code import load_callable
from formulations.arrays import integer
from formulations.errors import InputError, use_one_of

F = TypeVar("F")

#: Of an integer in an option: all such integers fit into 64 bits.
MAX_DIGITS = 18


@dataclass(frozen=True)
class NamedSpec(Generic[F]):
    """What a table knows about one name.

    Parameters
    ----------
    name : str
        Name on the command line.
    summary : str
        One line for listings.
    source : str
        Where the rule comes from.
    defaults : mapping
        Its options, each with the value used if none is written.
    factory : callable
        Makes it from all its options.
    """

    name: str
    summary: str
    source: str
    defaults: Mapping[str, str]
    factory: F


class SpecTable(Generic[F]):
    """Built-in names of one kind of thing, such as algorithms.

    Parameters
    ----------
    kind : str
        What they are, for errors.
    specs : iterable of NamedSpec
        No two with one name.
    """

    def __init__(self, kind: str, specs: Iterable[NamedSpec[F]]) -> None:
        self._kind = kind
        self._specs = {spec.name: spec for spec in specs}

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._specs)

    def specs(self) -> list[NamedSpec[F]]:
        """Everything known, sorted by name."""
        return [self._specs[name] for name in self.names()]

    def build(self, text: str, make: Callable[[F, dict[str, str]], Any]) -> Any:
        """Return what a text stands for: a name with options, or ``module:name``.

        The latter is a function, an object that can be called, or a class whose objects can, made
        without arguments.

        Parameters
        ----------
        text : str
            The text.
        make : callable
            From a factory and all options to the thing.

        Raises
        ------
        InputError
            If name or option are unknown, a value is unreadable, or a module cannot be used.
        """
        name, written = split_options(text, self._specs)
        if name in self._specs:
            spec = self._specs[name]
            known = ", ".join(spec.defaults) or "none"
            if strangers := sorted(written.keys() - spec.defaults.keys()):
                what = f"{name} has no option {strangers[0]}"
                raise InputError(text, what, f"its options: {known}")
            return make(spec.factory, {**spec.defaults, **written})
        module, _, function = name.partition(":")
        if not function:
            remedy = use_one_of(module, self.names(), "or module:function")
            raise InputError(module or "an empty name", f"unknown {self._kind}", remedy)
        return load_callable(text, self._kind)


def whole_option(options: Mapping[str, str], key: str, *, minimum: int = 0) -> int:
    """Return an option as an integer.

    Raises
    ------
    InputError
        If it is none, or out of range.
    """
    text = options[key]
    if not text.removeprefix("-").isdecimal():
        raise InputError(key, f"{text!r} is no integer", "write e.g. 3")
    if len(text) > MAX_DIGITS:
        raise InputError(key, f"{text:.40} is too large", f"use at most {MAX_DIGITS} digits")
    return integer(int(text), key, minimum=minimum)
