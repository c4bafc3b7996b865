"""Every command with its options and arguments, read from the parsers."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NoReturn

from bfio.cli.command import commands


@dataclass(frozen=True)
class Parameter:
    """One option, or one positional argument.

    Parameters
    ----------
    flags : tuple of str
        What the user types; none for a positional argument.
    metavar, words : str, tuple of str
        What stands for its value in the help, and the words of that help.
    kind : str
        Name of the function that reads its value; empty for text.
    takes_value, is_optional : bool
        Whether a value follows; whether it may be left out.
    """

    flags: tuple[str, ...]
    metavar: str
    words: tuple[str, ...]
    kind: str
    takes_value: bool
    is_optional: bool


@dataclass(frozen=True)
class Surface:
    """A command that can be run, by its words (``study``, ``run``), and what it takes."""

    words: tuple[str, ...]
    parameters: tuple[Parameter, ...]

    @property
    def options(self) -> tuple[Parameter, ...]:
        """Parameters with a flag."""
        return tuple(p for p in self.parameters if p.flags)

    @property
    def positionals(self) -> tuple[Parameter, ...]:
        """Parameters without one."""
        return tuple(p for p in self.parameters if not p.flags)

    def option(self, word: str) -> Parameter | None:
        """Return the option that a word of a command line names."""
        name = word.partition("=")[0]
        return next((p for p in self.options if name in p.flags), None)


class _Parser(argparse.ArgumentParser):
    """A parser that raises an exception instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Refuse."""
        raise ValueError(message)


#: Commands that run until they are interrupted.
_SERVING = ("emulate", "route")


@cache
def _parsers() -> dict[str, _Parser]:
    parsers = {}
    for name, command in commands().items():
        parsers[name] = _Parser(prog=name, add_help=False, allow_abbrev=False)
        command.add_arguments(parsers[name])
    return parsers


def is_parsed(argv: Sequence[str]) -> bool:
    """Whether a command line is one that parsers take."""
    try:
        _parsers()[argv[0]].parse_args(argv[1:])
    except (ValueError, KeyError, TypeError):
        return False
    return True


@cache
def surfaces() -> tuple[Surface, ...]:
    """Return all commands that can be run."""
    found: list[Surface] = []
    for name, parser in _parsers().items():
        if name not in _SERVING:
            found += _leaves(parser, (name,))
    return tuple(found)


def surface_of(argv: tuple[str, ...]) -> Surface | None:
    """Return the command that a command line begins with."""
    known = [s for s in surfaces() if argv[: len(s.words)] == s.words]
    return max(known, key=lambda s: len(s.words), default=None)


def _leaves(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[Surface]:
    actions = parser._actions  # noqa: SLF001 (argparse offers no other way to ask)
    below = [a for a in actions if isinstance(a, argparse._SubParsersAction)]  # noqa: SLF001
    for action in below:
        for name, child in action.choices.items():
            yield from _leaves(child, (*words, name))
    if not below:
        yield Surface(words, tuple(_parameter(a) for a in actions if a.dest != "help"))


def _parameter(action: argparse.Action) -> Parameter:
    choices = [str(choice) for choice in action.choices or ()]
    words = (action.help or "").replace("(", " ").replace(")", " ").replace(",", " ").split()
    default = [] if action.default in (None, argparse.SUPPRESS) else [str(action.default)]
    return Parameter(
        flags=tuple(action.option_strings),
        metavar=str(action.metavar or action.dest),
        words=(*choices, *default, *(word.strip(":;.") for word in words)),
        kind=getattr(action.type, "__name__", ""),
        takes_value=action.nargs != 0,
        is_optional=bool(action.option_strings) or action.nargs in ("?", "*"),
    )
