"""One table of options for the command line, for studies and for Python.

An option is a field of a frozen dataclass, declared by `option` with its default, kind and help.
From that follow its argument of a command, the reading of a namespace, of a mapping (the arguments
of a study) and of texts ``name:key=value``, and, by `spelled_out`, keywords of functions with a
real signature. The dataclass alone says which values are valid. Nothing here loads numpy: help
texts appear at once.
"""

import argparse
import inspect
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache, partial, wraps
from typing import Any, TypeAlias, TypeVar, cast

from formulations.errors import InputError, use_one_of
from formulations.keywords import check_keywords
from formulations.rationals import exact_number
from formulations.scalars import integer

T = TypeVar("T")
R = TypeVar("R")
#: From a value and the name of its field to the checked value.
Check: TypeAlias = Callable[[Any, str], Any]


def flag(name: str) -> str:
    """Return the argument of the command line that sets an option of this name."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class OptionKind:
    """Which values an option has.

    Parameters
    ----------
    name : str
        In words, for errors.
    from_text : callable
        Makes a value of its text, or raises ValueError.
    types : tuple of type
        What a value may be in a document.
    from_value : callable
        Makes a value of one in a document.
    draws : callable
        Whether something is drawn from the seed of a run if an option has this value.
    is_file : callable
        Whether a value is the name of a file.
    check : callable, optional
        What `CheckedOptions` makes of a value: from it and the name of its field to the checked
        value.
    words : tuple of str
        Its values, if they are some words.
    """

    name: str
    from_text: Callable[[str], Any]
    types: tuple[type, ...]
    from_value: Callable[[Any], Any]
    draws: Callable[[Any], bool] = lambda value: False
    is_file: Callable[[Any], bool] = lambda value: False
    check: Check | None = None
    words: tuple[str, ...] = ()

    def checked(self, value: object, name: str) -> Any:
        """Return a value as it is checked.

        Raises
        ------
        InputError
            If it breaks a rule, naming it.
        """
        return value if self.check is None else self.check(value, name)


WHOLE = OptionKind("integer", int, (int,), int)
NUMBER = OptionKind("number", float, (int, float), float)
#: Kept as text until the dataclass reads it exactly; a decimal is taken as printed.
RATIONAL = OptionKind("number", str, (int, float, str), str)
TEXT = OptionKind("text", str, (str,), str)
#: In documents only: commands have flags of their own.
FLAG = OptionKind("flag", bool, (bool,), bool)


@dataclass(frozen=True)
class Option:
    """One option of the table.

    Parameters
    ----------
    field : str
        The dataclass's field.
    name : str
        What users call it, with underscores.
    kind : OptionKind
        Which values it has.
    default : object
        Its value unless given.
    metavar, help : str
        For the command line.
    beside : str
        What it is read beside: the name of an option that has another value than its default, or
        ``name=value``; empty if it is always read.
    """

    field: str
    name: str
    kind: OptionKind
    default: Any
    metavar: str
    help: str
    beside: str = ""

    @property
    def flag(self) -> str:
        """Its argument on the command line."""
        return flag(self.name)

    def value(self, given: object, where: str) -> Any:
        """Return a value from a document, if it is of the right type.

        Raises
        ------
        InputError
            If it is not.
        """
        is_flag = isinstance(given, bool)
        if is_flag != (self.kind is FLAG) or not isinstance(given, self.kind.types):
            raise InputError(where, f"{given!r} is no {self.kind.name}", "write one")
        return self.kind.from_value(given)


def option(
    default: Any,
    kind: OptionKind,
    metavar: str,
    help: str,
    *,
    name: str | None = None,
    beside: str = "",
) -> Any:
    """Declare a field of a dataclass as an option.

    Parameters
    ----------
    default : object
        Its value unless given; None if that is decided later.
    kind : OptionKind
        Which values it has.
    metavar, help : str
        For the command line.
    name : str, optional
        What users call it; by default the field's name.
    beside : str
        What it is read beside, see `Option`.
    """
    metadata = {"kind": kind, "metavar": metavar, "help": help, "name": name}
    return field(default=default, metadata=metadata | {"beside": beside})


@dataclass(frozen=True)
class CheckedOptions:
    """Base of options that are checked as they are declared; on its own: no options.

    Raises
    ------
    InputError
        If a value breaks its rule, naming the field.
    """

    def __post_init__(self) -> None:
        """Check every value; None is one where it is the default."""
        for entry in options_of(type(self)):
            value = getattr(self, entry.field)
            if value is not None or entry.default is not None:
                object.__setattr__(self, entry.field, entry.kind.checked(value, entry.field))


def checked(kind: OptionKind, check: Check) -> OptionKind:
    """Return a kind whose values are checked."""
    return replace(kind, check=check)


#: Exact numbers above 0.
POSITIVE = checked(RATIONAL, partial(exact_number, positive=True))


def whole(minimum: int = 0, maximum: int = 10**9) -> OptionKind:
    """Return the kind of integers from ``minimum`` to ``maximum``."""
    return checked(WHOLE, partial(integer, minimum=minimum, maximum=maximum))


def one_of(*words: str) -> OptionKind:
    """Return the kind of one of several words."""

    def check(value: object, name: str) -> object:
        if value not in words:
            raise InputError(name, f"{value!r} is unknown", f"use one of {', '.join(words)}")
        return value

    return replace(TEXT, check=check, words=words)


def is_read(entry: Option, *owners: object) -> bool:
    """Whether something reads an option, given the options that are chosen with it.

    Parameters
    ----------
    entry : Option
        The option.
    *owners : object
        Dataclasses, one of which has the option that it is read beside.
    """
    name, _, wanted = entry.beside.partition("=")
    if not name:
        return True
    for owner in owners:
        for other in options_of(type(owner)):
            if other.name == name:
                value = getattr(owner, other.field)
                return str(value) == wanted if wanted else value != other.default
    raise LookupError(f"{entry.name} is read beside {name}, which is no option here")


def options_of(owner: type[Any]) -> tuple[Option, ...]:
    """Return the options of a dataclass, in the order of its fields."""
    table: tuple[Option, ...] = _declared(cast("Any", owner))
    return table


# Thousands of rows of a study are read with a few tables.
@cache
def _declared(owner: Any) -> tuple[Option, ...]:
    return tuple(
        Option(
            field=entry.name,
            name=entry.metadata["name"] or entry.name,
            kind=entry.metadata["kind"],
            default=entry.default,
            metavar=entry.metadata["metavar"],
            help=entry.metadata["help"],
            beside=entry.metadata["beside"],
        )
        for entry in fields(owner)
        if "kind" in entry.metadata
    )


def drawing(options: Any) -> frozenset[str]:
    """Return the options whose values make a run draw from its seed."""
    table = options_of(type(options))
    return frozenset(
        entry.name for entry in table if entry.kind.draws(getattr(options, entry.field))
    )


def unread(entry: Option, where: str) -> InputError:
    """Return the error of an option that is given without that which it is read beside."""
    what = f"changes nothing without {entry.beside}"
    return InputError(where, what, f"leave it out, or give {entry.beside}")


def check_beside(options: Any) -> None:
    """Refuse options of a dataclass that are not read beside its others.

    Raises
    ------
    InputError
        Naming the field of one that has not its default.
    """
    for entry in options_of(type(options)):
        if getattr(options, entry.field) != entry.default and not is_read(entry, options):
            raise unread(entry, entry.field)


def options_table(*owners: type[Any], heading: str = "argument") -> str:
    """Return the options of dataclasses as a table in Markdown, each name once."""
    meanings = {entry.name: entry.help for owner in owners for entry in options_of(owner)}
    lines = [(heading, "meaning"), ("---", "---")]
    lines += [(f"`{name}`", text) for name, text in meanings.items()]
    return "".join(f"| {name} | {text} |\n" for name, text in lines)


def names_of(*owners: type[Any]) -> tuple[str, ...]:
    """Return what users call the options of dataclasses, each name once."""
    return tuple(dict.fromkeys(entry.name for owner in owners for entry in options_of(owner)))


def add_options(parser: argparse._ActionsContainer, owner: type[Any]) -> None:
    """Add the options of a dataclass to a command."""
    for entry in options_of(owner):
        parser.add_argument(
            entry.flag,
            type=entry.kind.from_text,
            default=entry.default,
            metavar=entry.metavar,
            help=entry.help,
        )


def from_namespace(owner: type[T], args: argparse.Namespace, **others: Any) -> T:
    """Return the dataclass that the arguments of a command give.

    Parameters
    ----------
    owner : type
        The dataclass.
    args : argparse.Namespace
        With the arguments of `add_options`.
    **others
        Fields that are no options.

    Raises
    ------
    InputError
        If a value breaks its rule, naming the argument.
    """
    given = {entry.field: getattr(args, entry.name) for entry in options_of(owner)}
    return _made(owner, given | others, {entry.field: entry.flag for entry in options_of(owner)})


def from_mapping(owner: type[T], mapping: Mapping[str, Any], **others: Any) -> T:
    """Return the dataclass that the arguments of a study give; None counts as not given.

    Raises
    ------
    InputError
        If a value is of a wrong type or breaks its rule, naming the argument.
    """
    table = options_of(owner)
    places = {entry.field: f"argument {entry.name}" for entry in table}
    given = {
        entry.field: entry.value(mapping[entry.name], places[entry.field])
        for entry in table
        if mapping.get(entry.name) is not None
    }
    return _made(owner, given | others, places)


def split_options(text: str, names: Container[str] = ()) -> tuple[str, dict[str, str]]:
    """Return the name in ``name:option=value:...`` and the options behind it.

    The name is all that holds no ``=``, so that ``module:function:option=value`` has one, too.

    Parameters
    ----------
    text : str
        The text.
    names : container of str
        Names without a colon, behind which only options may stand.

    Raises
    ------
    InputError
        If an option occurs twice or has no value, or such a name is followed by anything else.
    """
    first, *rest = text.split(":")
    name, options = [first], {}
    for part in rest:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals and first in names:
            what = f"{part!r} is no option" if part else "no option after a colon"
            raise InputError(text, what, "write option=value, or no colon")
        if not equals:
            name.append(part)
        elif key in options:
            raise InputError(text, f"option {key!r} occurs twice", "keep one of them")
        elif not value:
            raise InputError(text, f"option {key!r} without a value", "write option=value")
        else:
            options[key] = value
    return ":".join(name), options


def read_texts(
    kinds: Mapping[str, OptionKind], texts: Mapping[str, str], where: str
) -> dict[str, Any]:
    """Return the values of options that are written behind a name.

    Parameters
    ----------
    kinds : mapping
        All options there are.
    texts : mapping
        What is written of some of them.
    where : str
        What an error names.

    Raises
    ------
    InputError
        If an option is unknown or its value unreadable.
    """
    values = {}
    for key, text in texts.items():
        name = key.replace("-", "_")
        if name not in kinds:
            remedy = use_one_of(name, kinds) if kinds else "there is none here"
            raise InputError(where, f"unknown option {name!r}", remedy)
        try:
            values[name] = kinds[name].from_text(text)
        except ValueError:
            what = f"{text!r:.40} is no value of {name}"
            raise InputError(where, what, f"write one {kinds[name].name}") from None
    return values


def read_pairs(kinds: Mapping[str, OptionKind], text: str, where: str) -> dict[str, Any]:
    """Return the values in ``name=value,name=value``.

    Parameters
    ----------
    kinds : mapping
        All names there are.
    text : str
        The text.
    where : str
        What an error names.

    Raises
    ------
    InputError
        If a name is unknown or occurs twice, or a value is unreadable.
    """
    return read_texts(kinds, split_pairs(text.split(","), where), where)


def split_pairs(texts: Iterable[str], where: str) -> dict[str, str]:
    """Return what stands behind each name in texts ``name=value``, nothing without a ``=``.

    Parameters
    ----------
    texts : iterable of str
        The texts; a name may hold a ``=``, a value may not.
    where : str
        What an error names.

    Raises
    ------
    InputError
        If a name occurs twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = (piece.strip() for piece in text.rpartition("="))
        if not equals:
            name, value = value, ""
        if name in found:
            raise InputError(where, f"{name!r} occurs twice", "keep one of them")
        found[name] = value
    return found


def from_texts(base: T, texts: Mapping[str, str], where: str) -> T:
    """Return a dataclass with some options in place of its own, see `read_texts`."""
    if not texts:
        return base
    table = {entry.name: entry for entry in options_of(type(base))}
    values = read_texts({name: entry.kind for name, entry in table.items()}, texts, where)
    given = {table[name].field: value for name, value in values.items()}
    return replace(base, **given)  # type: ignore[type-var]


def with_values(base: T, values: Mapping[str, Any], places: Mapping[str, str]) -> T:
    """Return a dataclass with some options in place of its own.

    Parameters
    ----------
    base : dataclass
        The options.
    values : mapping
        Values by the names that users write; other names are passed over.
    places : mapping
        Where users wrote each of them.

    Raises
    ------
    InputError
        If a value breaks its rule, naming that place.
    """
    table = {entry.field: entry.name for entry in options_of(type(base))}
    given = {field: values[name] for field, name in table.items() if name in values}
    where = {field: places[table[field]] for field in given}
    return _made(partial(replace, base), given, where)  # type: ignore[type-var]


def spelled_out(
    owner: type[Any], others: Callable[[], Iterable[str]] = tuple
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a function that takes ``options`` take the fields of that dataclass as keywords, too.

    The function's signature states them all; an unknown keyword is told with the nearest one.

    Parameters
    ----------
    owner : type
        A dataclass with a default for every field.
    others : callable
        Names of the keywords that the function takes besides, as ``**keywords``.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        signature = inspect.signature(function)
        names = [entry.name for entry in fields(owner)]
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]

        @wraps(function)
        def call(*args: Any, **keywords: Any) -> R:
            given = {name: keywords.pop(name) for name in names if name in keywords}
            known = [*(each.name for each in own), *names, *others()]
            check_keywords(function.__name__, keywords, known)
            if given:
                keywords["options"] = replace(keywords.get("options") or owner(), **given)
            return function(*args, **keywords)

        rest = [each for each in signature.parameters.values() if each not in own]
        call.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*own, *_parameters(owner), *rest]
        )
        return call

    return decorate


def _parameters(owner: type[Any]) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            entry.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=entry.default,
            annotation=entry.type,
        )
        for entry in fields(owner)
        if entry.default is not MISSING
    ]


def _made(owner: Callable[..., T], given: Mapping[str, Any], places: Mapping[str, str]) -> T:
    """Make the dataclass; an error about a field names the place where users wrote it."""
    try:
        return owner(**given)
    except InputError as error:
        where = places.get(error.where, error.where)
        raise InputError(where, error.what, error.remedy) from None
