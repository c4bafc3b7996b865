"""Define the commands of ``bfio``, find them and parse their arguments."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, NoReturn

from bfio.common.options import flag
from bfio.common.plugins import installed, loading, members
from formulations.errors import InputError, did_you_mean, with_article

#: Entry-point group for commands of other packages. Each entry is a `Command`.
GROUP = "bfio.commands"

#: Exit statuses.
DONE, BAD_INPUT, NOTHING_FOUND, INTERRUPTED = 0, 2, 3, 130


class SeveralErrors(Exception):  # noqa: N818 - several, not one
    """Errors of the policies or predictors that failed, raised once the others are shown.

    Parameters
    ----------
    errors : sequence of InputError
        At least one error; each is printed on a line of its own, equal ones once.
    """

    def __init__(self, errors: Sequence[InputError]) -> None:
        super().__init__(*errors)
        self.errors = tuple(errors)


@dataclass(frozen=True)
class Command:
    """One subcommand of ``bfio``.

    Parameters
    ----------
    name : str
        Name on the command line.
    summary : str
        One line in ``bfio --help``.
    description : str
        Text of ``bfio NAME --help``, with examples, printed as written.
    add_arguments : callable
        Adds the arguments to a parser. It must not import a solver, Numba or matplotlib, so that
        help appears at once.
    run : callable
        Does the work and returns the exit status.
    """

    name: str
    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def commands() -> dict[str, Command]:
    """Return built-in and installed commands by name. Built-in names cannot be replaced."""
    import bfio.cli.commands as package

    found = {name: _loaded(name, point) for name, point in installed(GROUP).items()}
    ours = members(package.__name__, package.__path__, "COMMAND")
    found |= {command.name: command for _, command in ours}
    return dict(sorted(found.items()))


def _loaded(name: str, point: EntryPoint) -> Command:
    """Load an installed command; if that fails, return a command that raises the load error."""
    try:
        with loading(f"command {name}"):
            command: Command = point.load()
            return command
    except InputError as error:
        broken = error

    def run(args: argparse.Namespace) -> int:
        raise broken

    return Command(name, broken.what, broken.what, lambda parser: None, run)


_CHOICE = re.compile(r"(argument \S+): invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)


class OneLineParser(argparse.ArgumentParser):
    """Argument parser whose error messages fit on one line."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        #: Adds arguments that are slow to determine, given the words to parse.
        self.add_late: Callable[[Sequence[str]], None] = lambda words: None
        self.register("type", int, _reads(int, "integer"))
        self.register("type", float, _reads(float, "number"))

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the arguments, and report an unknown one with the nearest known option."""
        self.add_late(sys.argv[1:] if args is None else args)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [word for action in self._actions for word in action.option_strings]
            word = unknown[0].partition("=")[0]
            kind = "option" if word.startswith("-") else "argument"
            remedy = did_you_mean(word, options)
            if kind == "option" and any(
                action.nargs == argparse.PARSER for action in self._actions
            ):
                remedy = "put options after the command name"
            self.error(f"unknown {kind} {word}; {remedy}".rstrip("; "))
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Print the error on one line and exit with status 2."""
        told = _with_choices(message)
        remedy = f"see {self.prog} --help"
        joint = " " if told.endswith("?") else "; "
        self.exit(BAD_INPUT, f"error: command line: {one_line(told)}{joint}{remedy}\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print a text; output that takes nothing is an error, which argparse does not report."""
        print(message, end="", file=file or sys.stderr, flush=True)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Read the values of an option, and reject ``--option=--``, an empty list for argparse."""
        if action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(
                action, "has an empty list of values; write --option VALUE"
            )
        return super()._get_values(action, arg_strings)


def _reads(kind: type, name: str) -> Callable[[str], Any]:
    """Return a function that parses a number and names the offending text in its error."""

    def read(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r:.40} is not {with_article(name)}") from None

    return read


def _with_choices(message: str) -> str:
    """Add the nearest known name to the error text of an invalid choice."""
    found = _CHOICE.fullmatch(message)
    if found is None:
        return message
    where, given, listed = found.groups()
    names = [name.strip("' ") for name in listed.split(",")]
    meant = did_you_mean(given, names).strip()
    name = where.removeprefix("argument ")
    what = (
        f"unknown {name.lower()} {given}" if name.isupper() else f"{where}: {given!r} is unknown"
    )
    return f"{what}; {meant or 'use one of ' + ', '.join(names)}"


#: A keyword with its value, and further values: ``method="cp-sat" or "highs"``.
_KEYWORD = re.compile(
    r"""(?<![\w:,'".=-])([a-z]\w*)=(?:True|"([^"]*)"|([\w./-]+))((?:,? or "[^"]*")*)"""
)
#: A keyword without a value: ``token_budget``. Words without underscore may be ordinary words.
_NAME = re.compile(r"""(?<![\w:,'"./=-])[a-z]+(?:_[a-z]+)+(?![\w:/=('"]|\.\w)""")

#: Where a list of known names begins: these are written as they are, such as ``ttl=60``.
_KNOWN = re.compile("(?=did you mean |use one of )")


def in_flags(error: InputError, parser: argparse.ArgumentParser, command: str) -> str:
    """Return the message of an error with the flags of a command in place of keywords."""
    flags = _flags(parser, command)
    # The place may go on, as in "slo: ttft_s".
    first, colon, rest = error.where.partition(": ")
    where = f"{flags.get(first, first)}{colon}{rest}"

    def flag_of(name: str) -> str | None:
        return flags.get(name) or flags.get(name.removesuffix("_s"))

    told, *known = _KNOWN.split(f"{error.what}; {error.remedy}", maxsplit=1)
    told = with_flags(told, flag_of)
    told = _NAME.sub(lambda found: flag_of(found[0]) or found[0], told)
    return f"{where}: {''.join([told, *known])}"


def with_flags(text: str, flag_of: Callable[[str], str | None] = flag) -> str:
    """Return a text with flags in place of keywords, such as ``--method cp-sat``."""

    def spoken(found: re.Match[str]) -> str:
        name, quoted, plain, others = found.groups()
        if (given := flag_of(name)) is None:
            return found[0]
        value = quoted or plain or ""
        return f"{given} {value}".rstrip() + others.replace('"', "")

    return _KEYWORD.sub(spoken, text)


def _flags(parser: argparse.ArgumentParser, command: str = "") -> dict[str, str]:
    """Return the flag of each argument of a command and of its subcommands, by keyword."""
    found: dict[str, str] = {}
    for action in parser._actions:  # noqa: SLF001  (argparse lists them nowhere else)
        if isinstance(action.choices, dict):
            for name, sub in action.choices.items():
                if command in ("", name):
                    found |= _flags(sub)
        elif action.option_strings:
            found[action.dest] = action.option_strings[0]
    return found


def say(line: str) -> None:
    """Print a line on stderr."""
    print(one_line(line), file=sys.stderr)


def one_line(message: str) -> str:
    """Return the message with line breaks and control characters replaced by spaces."""
    return "".join(c if c.isprintable() else " " for c in message)
