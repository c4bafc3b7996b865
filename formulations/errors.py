"""Exceptions for bad input and unsupported problems, and checks of keyword arguments."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

T = TypeVar("T")


class InputError(ValueError):
    """Raised for bad input; the message gives the place, the fault and the remedy.

    Parameters
    ----------
    where : str
        The file, line, field and index at fault, e.g. ``"capacity[2]"``.
    what : str
        The value found and the rule it breaks.
    remedy : str
        What the user should do, as an imperative.
    """

    def __init__(self, where: str, what: str, remedy: str) -> None:
        # Join lines, because a user's name or value may contain line breaks.
        super().__init__(" ".join(f"{where}: {what}; {remedy}".splitlines()))
        self.where = where
        self.what = what
        self.remedy = remedy

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        """Support pickling between processes."""
        return type(self), (self.where, self.what, self.remedy)


class CapabilityError(InputError):
    """Raised for a valid problem that the chosen solver cannot solve; names an alternative."""


def check_known(where: str, value: str, known: Collection[str]) -> None:
    """Refuse a word that is not among the known ones.

    Raises
    ------
    InputError
        At ``where``, with all known words.
    """
    # An array of one text equals it.
    if not isinstance(value, str) or value not in known:
        raise InputError(where, f"{value!r} is unknown", use_one_of(value, known))


def use_one_of(name: str, known: Iterable[str], also: str = "") -> str:
    """Return the remedy for an unknown name: the most similar known name, and all known names.

    Parameters
    ----------
    name : str
        The unknown name.
    known : iterable of str
        The known names, in the order in which they are listed.
    also : str
        Text on further allowed values.
    """
    names = list(known)
    listed = ", ".join([*names, also] if also else names)
    return f"{did_you_mean(name, names)}use one of {listed}"


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """Return "did you mean NAME?" for the most similar known names; empty if none is similar."""
    close = get_close_matches(str(name), list(known), n=most)
    return f"did you mean {' or '.join(close)}? " if close else ""


def within(where: str, make: Callable[[], T]) -> T:
    """Call ``make`` and return its result; prefix the place of its errors with ``where``.

    Parameters
    ----------
    where : str
        Place of the object, e.g. ``"classes[2]"``.
    make : callable
        Builds the object; its errors name a field, e.g. ``"rate"``.

    Raises
    ------
    InputError
        As ``make`` does, at ``"classes[2].rate"``.
    """
    try:
        return make()
    except InputError as error:
        raise InputError(f"{where}.{error.where}", error.what, error.remedy) from None


@contextmanager
def naming(name: str, *fields: str) -> Iterator[None]:
    """Prefix the place of errors with a file name: of all errors, or of those at given fields."""
    try:
        yield
    except InputError as error:
        field = error.where.partition(".")[0].partition("[")[0]
        if fields and field not in fields:
            raise
        raise InputError(f"{name}: {error.where}", error.what, error.remedy) from None


F = TypeVar("F", bound=Callable[..., Any])


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


def kind_of(value: object) -> str:
    """Return the type of a value with its article, e.g. ``an int``."""
    return with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """Return a noun with its article, e.g. ``an integer``."""
    return f"{'an' if noun[0] in 'aeiouAEIOU' else 'a'} {noun}"


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
        If the argument is of another type.
    """
    if not isinstance(value, kind):
        what = f"{kind_of(value)} is not {with_article(kind.__name__)}"
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
