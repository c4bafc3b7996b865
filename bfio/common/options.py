"""One table of options for the command line, for studies and for Python.

An option is a field of a frozen dataclass, declared by `option` with default, kind and help. This
declaration gives the argument of a command, and reads the option from a namespace, a mapping (the
arguments of a study) or a text ``name:key=value``. `spelled_out` gives a function these options as
keywords with a real signature. Only the dataclass defines which values are valid. Registries of
built-in names with options, written ``name:option=value:...``, are mappings from names to `Named`.
This module does not load numpy, so that help texts appear at once.
"""

import argparse
import inspect
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from fractions import Fraction
from functools import cache, partial, wraps
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, cast

from formulations.errors import InputError, check_keywords, check_kind, use_one_of, with_article
from formulations.named_objects import OR_YOUR_OWN, is_users
from formulations.problem_data import member
from formulations.scalars import exact_number, exact_rational, integer

T = TypeVar("T")
R = TypeVar("R")
#: Name of the option of the look-ahead, and the longest one that is computed [steps].
LOOK_AHEAD, MAX_SHOWN = "horizon", 10**5
#: Largest seed.
MAX_SEED = 2**63 - 1
#: Function from a value and its field name to the checked value.
Check: TypeAlias = Callable[[Any, str], Any]


def flag(name: str) -> str:
    """Return the command-line argument for an option of this name."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class OptionKind:
    """The type of an option's values, with the functions that read and check a value.

    Parameters
    ----------
    name : str
        Name of the type in error messages.
    from_text : callable
        Converts a text to a value, or raises ValueError.
    types : tuple of type
        Types that a value may have in a document.
    from_value : callable
        Converts a value from a document.
    draws : callable
        Returns whether an option with this value makes a run draw from its seed.
    is_file : callable
        Returns whether a value is the name of a file.
    check : callable, optional
        Function from a value and its field name to the checked value, used by `CheckedOptions`.
    words : tuple of str
        All valid values, if the option is one of a few words.
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
        """Return a value after the check of this kind.

        Raises
        ------
        InputError
            If the value breaks a rule; the error names the field.
        """
        return value if self.check is None else self.check(value, name)


WHOLE = OptionKind("integer", int, (int,), int)
NUMBER = OptionKind("number", float, (int, float), float)
#: Kept as text until the dataclass reads it exactly. A float becomes its shortest decimal.
RATIONAL = OptionKind("number", str, (int, float, str), str)
TEXT = OptionKind("string", str, (str,), str)
#: Only for documents; commands define their flags separately.
FLAG = OptionKind("flag", bool, (bool,), bool)


@dataclass(frozen=True)
class Option:
    """One option of a dataclass.

    Parameters
    ----------
    field : str
        Name of the dataclass field.
    name : str
        Name for users, with underscores.
    kind : OptionKind
        Kind of its values.
    default : object
        Default value.
    metavar, help : str
        Texts for the command line.
    beside : str
        Condition for the option to be read: the name of an option that must differ from its
        default, or ``name=value``. Empty if the option is always read.
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
        """Command-line argument of the option."""
        return flag(self.name)

    def value(self, given: object, where: str) -> Any:
        """Return the value of the option from a document.

        Raises
        ------
        InputError
            If the value has the wrong type.
        """
        is_flag = isinstance(given, bool)
        if is_flag != (self.kind is FLAG) or not isinstance(given, self.kind.types):
            what = f"{given!r} is not {with_article(self.kind.name)}"
            raise InputError(where, what, "write one")
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
        Default value; None if it is determined later.
    kind : OptionKind
        Kind of its values.
    metavar, help : str
        Texts for the command line.
    name : str, optional
        Name of the option for users; by default the field's name.
    beside : str
        Condition for the option to be read, see `Option`.
    """
    metadata = {"kind": kind, "metavar": metavar, "help": help, "name": name}
    return field(default=default, metadata=metadata | {"beside": beside})


@dataclass(frozen=True)
class CheckedOptions:
    """Base class of dataclasses that check their options; by itself it has no options.

    Raises
    ------
    InputError
        If a value breaks its rule; the error names the field.
    """

    #: Words before the name of a field in errors.
    whose: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Check every value. None is accepted where it is the default."""
        for entry in options_of(type(self)):
            value = getattr(self, entry.field)
            if value is not None or entry.default is not None:
                value = entry.kind.checked(value, f"{self.whose}{entry.field}")
                object.__setattr__(self, entry.field, value)


def checked(kind: OptionKind, check: Check) -> OptionKind:
    """Return an option kind with a check of its values."""
    return replace(kind, check=check)


#: Any rational number >= 0.
EXACT = checked(RATIONAL, exact_rational)
#: Exact numbers > 0.
POSITIVE = checked(RATIONAL, partial(exact_number, positive=True))


def whole(minimum: int = 0, maximum: int = 10**9) -> OptionKind:
    """Return the option kind of integers from ``minimum`` to ``maximum``."""
    return checked(WHOLE, partial(integer, minimum=minimum, maximum=maximum))


def word_of(words: type[StrEnum]) -> OptionKind:
    """Return the option kind whose values are the members of an enumeration."""
    return checked(TEXT, partial(member, words))


def rational(
    least: Fraction | int, most: Fraction | int, largest_part: int | None = None
) -> OptionKind:
    """Return the option kind of rational numbers from ``least`` to ``most``.

    If ``largest_part`` is given, numerator and denominator are at most this number.
    """

    def check(value: object, name: str) -> Fraction:
        ratio = exact_rational(value, name)
        if not least <= ratio <= most:
            raise InputError(name, f"{ratio} is out of range", f"use {least} to {most}")
        if largest_part is not None and max(ratio.as_integer_ratio()) > largest_part:
            remedy = f"use a/b of whole numbers up to {largest_part}"
            raise InputError(name, f"{ratio} is out of range", remedy)
        return ratio

    return checked(RATIONAL, check)


def one_of(*words: str) -> OptionKind:
    """Return the option kind of texts with a fixed set of words."""

    def check(value: object, name: str) -> object:
        if value not in words:
            raise InputError(name, f"{value!r} is unknown", f"use one of {', '.join(words)}")
        return value

    return replace(TEXT, check=check, words=words)


def is_read(entry: Option, *owners: object) -> bool:
    """Return whether an option is read, given the options chosen with it.

    Parameters
    ----------
    entry : Option
        The option.
    *owners : object
        Dataclasses, one of which has the option named in ``beside``.
    """
    name, _, wanted = entry.beside.partition("=")
    if not name:
        return True
    for owner in owners:
        for other in options_of(type(owner)):
            if other.name == name:
                value = getattr(owner, other.field)
                return str(value) == wanted if wanted else value != other.default
    raise LookupError(f"{entry.name} depends on {name}, which is not an option here")


def options_of(owner: type[Any]) -> tuple[Option, ...]:
    """Return the options of a dataclass, in the order of its fields."""
    return _declared(cast("Any", owner))


# Cached, because thousands of rows of a study use a few tables.
@cache
def _declared(owner: Any) -> tuple[Option, ...]:
    return tuple(
        Option(
            field=entry.name,
            default=entry.default,
            **{**entry.metadata, "name": entry.metadata["name"] or entry.name},
        )
        for entry in fields(owner)
        if "kind" in entry.metadata
    )


def described(owner: type[T]) -> type[T]:
    """Prepend the options of a decorated dataclass to its docstring, as parameters."""
    lines = ["", "Parameters", "----------"]
    for entry in options_of(owner):
        kind = owner.__annotations__[entry.field]
        lines += [f"{entry.field} : {getattr(kind, '__name__', kind)}", f"    {entry.help}"]
    head, _, rest = inspect.cleandoc(owner.__doc__ or "").partition("\n\nRaises\n")
    after = f"\n\nRaises\n{rest}" if rest else ""
    owner.__doc__ = "\n".join([head, *lines]) + after
    return owner


def drawing(options: Any) -> frozenset[str]:
    """Return the names of options with values that make a run draw from its seed."""
    table = options_of(type(options))
    return frozenset(
        entry.name for entry in table if entry.kind.draws(getattr(options, entry.field))
    )


def unread(entry: Option, where: str) -> InputError:
    """Return the error for an option that is given although its condition is not met."""
    what = f"changes nothing without {entry.beside}"
    return InputError(where, what, f"leave it out, or give {entry.beside}")


def check_beside(options: Any) -> None:
    """Reject options of a dataclass that differ from their defaults although they are not read.

    Raises
    ------
    InputError
        If there is such an option; the error names its field.
    """
    for entry in options_of(type(options)):
        if getattr(options, entry.field) != entry.default and not is_read(entry, options):
            raise unread(entry, entry.field)


def options_table(*owners: type[Any], heading: str = "argument") -> str:
    """Return the options of dataclasses as a Markdown table, with each name once."""
    meanings = {entry.name: entry.help for owner in owners for entry in options_of(owner)}
    # Imported here because every command loads this module, and only pages need tables.
    from bfio.common.text import TextTable

    lines = [(f"`{name}`", text) for name, text in meanings.items()]
    return TextTable("", (heading, "meaning"), lines, words=2).markdown()


def names_of(*owners: type[Any]) -> tuple[str, ...]:
    """Return the user-facing names of the options of dataclasses, each name once."""
    return tuple(dict.fromkeys(entry.name for owner in owners for entry in options_of(owner)))


def add_options(
    parser: argparse._ActionsContainer, owner: type[Any], names: Container[str] | None = None
) -> None:
    """Add the options of a dataclass, or those of the given names, to the parser of a command."""
    for entry in options_of(owner):
        if names is None or entry.name in names:
            parser.add_argument(
                entry.flag,
                type=entry.kind.from_text,
                default=entry.default,
                metavar=entry.metavar,
                help=entry.help,
            )


def from_namespace(owner: type[T], args: argparse.Namespace, **others: Any) -> T:
    """Build an option dataclass from the parsed arguments of a command.

    Parameters
    ----------
    owner : type
        The dataclass.
    args : argparse.Namespace
        Parsed arguments, as declared by `add_options`.
    **others
        Fields that are not options.

    Raises
    ------
    InputError
        If a value breaks its rule; the error names the argument.
    """
    given = {entry.field: getattr(args, entry.name) for entry in options_of(owner)}
    return _made(owner, given | others, {entry.field: entry.flag for entry in options_of(owner)})


def from_mapping(owner: type[T], mapping: Mapping[str, Any], **others: Any) -> T:
    """Build an option dataclass from the arguments of a study; None counts as not given.

    Raises
    ------
    InputError
        If a value has the wrong type or breaks its rule; the error names the argument.
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
    """Split ``name:option=value:...`` into the name and its options.

    All parts without ``=`` belong to the name, so ``module:function:option=value`` is split too.

    Parameters
    ----------
    text : str
        The text.
    names : container of str
        Names without a colon; only options may follow them.

    Raises
    ------
    InputError
        If an option occurs twice or has no value, or if a text other than an option follows one of
        ``names``.
    """
    check_kind(text, str, "name", "a text such as name:option=value")
    first, *rest = text.split(":")
    name, options = [first], {}
    for part in rest:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals and first in names:
            what = f"{part!r} is not an option" if part else "no option after a colon"
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
    """Return the values of options that are given as texts.

    Parameters
    ----------
    kinds : mapping
        Kinds of all known options, by name.
    texts : mapping
        Texts of the given options, by name.
    where : str
        Place named in errors.

    Raises
    ------
    InputError
        If an option is unknown or its value cannot be read.
    """
    values = {}
    for key, text in texts.items():
        name = key.replace("-", "_")
        if name not in kinds:
            remedy = use_one_of(name, kinds) if kinds else "leave it out; no options are accepted"
            raise InputError(where, f"unknown option {name!r}", remedy)
        try:
            values[name] = kinds[name].from_text(text)
        except ValueError:
            what = f"{text!r:.40} is not a value of {name}"
            raise InputError(where, what, f"write one {kinds[name].name}") from None
    return values


def read_pairs(kinds: Mapping[str, OptionKind], text: str, where: str) -> dict[str, Any]:
    """Return the values in a text ``name=value,name=value``, read by the kind of each name.

    Parameters
    ----------
    kinds : mapping
        Option kinds of all known names.
    text : str
        The text.
    where : str
        Place named in errors.

    Raises
    ------
    InputError
        If a name is unknown or occurs twice, or a value cannot be read.
    """
    return read_texts(kinds, split_pairs(text.split(","), where), where)


def split_pairs(texts: Iterable[str], where: str) -> dict[str, str]:
    """Return the value for each name in texts ``name=value``; the value is empty without a ``=``.

    Parameters
    ----------
    texts : iterable of str
        Texts ``name=value``. A name may contain a ``=``, a value may not.
    where : str
        Place named in errors.

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
    """Return a copy of a dataclass with some options replaced, see `read_texts`."""
    if not texts:
        return base
    table = {entry.name: entry for entry in options_of(type(base))}
    values = read_texts({name: entry.kind for name, entry in table.items()}, texts, where)
    given = {table[name].field: value for name, value in values.items()}
    return replace(base, **given)  # type: ignore[type-var]


def with_values(base: T, values: Mapping[str, Any], places: Mapping[str, str]) -> T:
    """Return a copy of a dataclass with new values for some options.

    Parameters
    ----------
    base : dataclass
        The options.
    values : mapping
        Values by user-facing names. Other names are ignored.
    places : mapping
        Place where the user gave each value, by user-facing name.

    Raises
    ------
    InputError
        If a value breaks its rule; the error names the place in ``places``.
    """
    table = {entry.field: entry.name for entry in options_of(type(base))}
    given = {field: values[name] for field, name in table.items() if name in values}
    where = {field: places[table[field]] for field in given}
    return _made(partial(replace, base), given, where)  # type: ignore[type-var]


def spelled_out(
    owner: type[Any], others: Callable[[], Iterable[str]] = tuple
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a function with a parameter ``options`` also accept the dataclass fields as keywords.

    The function's signature lists all keywords. The error for an unknown keyword suggests the
    nearest known one.

    Parameters
    ----------
    owner : type
        A dataclass with a default for every field.
    others : callable
        Names of the further keywords that the function takes as ``**keywords``.
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
            if keywords.get("options") is not None:
                check_kind(keywords["options"], owner, "options", f"options={owner.__name__}(...)")
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
    """Build the dataclass; an error about a field names the place of the given value."""
    try:
        return owner(**given)
    except InputError as error:
        where = places.get(error.where, error.where)
        raise InputError(where, error.what, error.remedy) from None


@dataclass(frozen=True)
class Named(Generic[T]):
    """The entry of a registry: name, description and options.

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
        """User-facing names of the options of this entry."""
        return names_of(type(self.options))


def by_name(*known: Named[T]) -> dict[str, Named[T]]:
    """Return the entries as a registry, sorted by name."""
    return {entry.name: entry for entry in sorted(known, key=lambda entry: entry.name)}


def read_named(text: str, known: Mapping[str, Named[T]], kind: str) -> T | None:
    """Parse ``name:option=value`` to an entry with its options; None for ``module:function``.

    Parameters
    ----------
    text : str
        The text.
    known : mapping
        The registry.
    kind : str
        Kind of the entries, such as ``policy``, for errors.

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
