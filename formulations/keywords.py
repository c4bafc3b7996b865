"""Keywords that nobody takes, told with those that are near."""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from formulations.errors import InputError, use_one_of

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def check_keywords(name: str, given: Mapping[str, object], known: Iterable[str]) -> None:
    """Refuse a keyword that is not known.

    Raises
    ------
    InputError
        Naming the call, the keyword, the nearest one and all that there are.
    """
    names = [word for word in known if word != "self"]
    for word in given:
        if word not in names:
            raise InputError(f"{name}(...)", f"no option {word!r}", use_one_of(word, names))


def check_kind(value: object, kind: type, where: str, form: str) -> None:
    """Refuse an argument of another type, such as one of two that were swapped.

    Parameters
    ----------
    value : object
        The argument.
    kind : type
        What it is to be.
    where : str
        Its name.
    form : str
        The call as it is meant.

    Raises
    ------
    InputError
        If it is of another type.
    """
    if not isinstance(value, kind):
        what = f"a {type(value).__name__} is no {kind.__name__}"
        raise InputError(where, what, f"write {form}")


def known_keywords(function: F) -> F:
    """Let a function tell an unknown keyword as `check_keywords` does."""
    known = signature(function).parameters

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        check_keywords(function.__name__, keywords, known)
        return function(*args, **keywords)

    return cast("F", call)


def known_fields(owner: type[T]) -> type[T]:
    """Let a class tell an unknown keyword of its own when it is made."""
    make = owner.__init__
    known = signature(make).parameters

    @wraps(make)
    def initialise(self: T, *args: Any, **keywords: Any) -> None:
        check_keywords(owner.__name__, keywords, known)
        make(self, *args, **keywords)

    owner.__init__ = initialise  # type: ignore[assignment,method-assign]
    return owner
