"""Complaints that keep to one line, whatever they quote."""

import argparse
import sys
from typing import Any, NoReturn

from bfio.cli.command import BAD_INPUT


class OneLineParser(argparse.ArgumentParser):
    """A parser whose complaints are one line like all our errors."""

    def error(self, message: str) -> NoReturn:
        """Print one line and leave with status 2."""
        told = f"error: command line: {one_line(message)}; see {self.prog} --help\n"
        self.exit(BAD_INPUT, told)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Refuse ``--option=--``, of which argparse would make an empty list."""
        if action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "expected one argument")
        return super()._get_values(action, arg_strings)


def say(line: str) -> None:
    """Print a line on stderr; a broken one must not hide the exit status."""
    try:
        print(one_line(line), file=sys.stderr)
    except OSError:
        return


def one_line(message: str) -> str:
    """Return the message without line breaks and control characters, which data may hold."""
    return "".join(c if c.isprintable() else " " for c in message)
