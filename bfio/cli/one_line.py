"""Complaints that keep to one line, whatever they quote, and say what was meant."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from bfio.cli.command import BAD_INPUT
from formulations.errors import did_you_mean

_CHOICE = re.compile(r"(argument \S+): invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)


class OneLineParser(argparse.ArgumentParser):
    """A parser whose complaints are one line like all our errors, in words and not in Python's."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        #: Adds arguments that take long to know, from the words that are to be parsed.
        self.add_late: Callable[[Sequence[str]], None] = lambda words: None
        self.register("type", int, _reads(int, "integer"))
        self.register("type", float, _reads(float, "number"))

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse what is unknown at once: here the options that might be meant are known."""
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
                remedy = "options follow the command"
            self.error(f"unknown {kind} {word}; {remedy}".rstrip("; "))
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Print one line and leave with status 2."""
        told = _with_choices(message)
        remedy = f"see {self.prog} --help"
        joint = " " if told.endswith("?") else "; "
        self.exit(BAD_INPUT, f"error: command line: {one_line(told)}{joint}{remedy}\n")

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Refuse ``--option=--``, of which argparse would make an empty list."""
        if action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "expected one argument")
        return super()._get_values(action, arg_strings)


def _reads(kind: type, name: str) -> Callable[[str], Any]:
    """Return what reads a text as a number, and says so in words if it is none."""

    def read(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r:.40} is no {name}") from None

    return read


def _with_choices(message: str) -> str:
    """Return a complaint about a choice with the nearest one, others as they are."""
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


def say(line: str) -> None:
    """Print a line on stderr; a broken one must not hide the exit status."""
    try:
        print(one_line(line), file=sys.stderr)
    except OSError:
        return


def one_line(message: str) -> str:
    """Return the message without line breaks and control characters, which data may hold."""
    return "".join(c if c.isprintable() else " " for c in message)
