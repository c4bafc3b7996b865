"""Errors for unknown keyword arguments, with the nearest known keyword."""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from formulations.errors import InputError, use_one_of

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def check_keywords(name: str, given: Mapping[str, object], known: Iterable[str]) -> None:
    """Refuse an unknown keyword.

    Raises
    ------
    InputError
        Names the call, the keyword, the nearest known one and all known ones.
    """
    names = [word for word in known if word != "self"]
    for word in given:
        if word not in names:
            raise InputError(f"{name}(...)", f"no option {word!r}", use_one_of(word, names))


def check_kind(value: object, kind: type, where: str, form: str) -> None:
    """Refuse an argument of another type, for example if two arguments were swapped.

    Parameters
    ----------
    value : object
        The argument.
    kind : type
        The required type.
    where : str
        Name of the argument.
    form : str
        The intended call, for the remedy.

    Raises
    ------
    InputError
        If it is of another type.
    """
    if not isinstance(value, kind):
        what = f"a {type(value).__name__} is no {kind.__name__}"
        raise InputError(where, what, f"write {form}")


def known_keywords(function: F) -> F:
    """Decorate a function so that it refuses unknown keywords by `check_keywords`."""
    known = signature(function).parameters

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        check_keywords(function.__name__, keywords, known)
        return function(*args, **keywords)

    return cast("F", call)


def known_fields(owner: type[T]) -> type[T]:
    """Decorate a class so that its constructor refuses unknown keywords by `check_keywords`."""
    make = owner.__init__
    known = signature(make).parameters

    @wraps(make)
    def initialise(self: T, *args: Any, **keywords: Any) -> None:
        check_keywords(owner.__name__, keywords, known)
        make(self, *args, **keywords)

    owner.__init__ = initialise  # type: ignore[assignment,method-assign]
    return owner
