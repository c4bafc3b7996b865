"""What a command is, and where commands come from."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint

from bfio.common.plugins import installed, loading, members
from formulations.errors import InputError

#: Entry-point group through which other packages add commands; each names a `Command`.
GROUP = "bfio.commands"

#: Exit statuses.
DONE, BAD_INPUT, NOTHING_FOUND, INTERRUPTED = 0, 2, 3, 130


@dataclass(frozen=True)
class Command:
    """One subcommand of ``bfio``.

    Parameters
    ----------
    name : str
        What the user types.
    summary : str
        One line in ``bfio --help``.
    description : str
        What ``bfio NAME --help`` teaches; examples included, printed as written.
    add_arguments : callable
        Adds the arguments to a parser. It must not import a solver, Numba or matplotlib: help
        texts appear at once.
    run : callable
        Does the work and returns the exit status.
    """

    name: str
    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def commands() -> dict[str, Command]:
    """Return built-in and installed commands by name; built-in names cannot be taken over."""
    import bfio.cli.commands as package

    found = {name: _loaded(name, point) for name, point in installed(GROUP).items()}
    ours = members(package.__name__, package.__path__, "COMMAND")
    found |= {command.name: command for _, command in ours}
    return dict(sorted(found.items()))


def _loaded(name: str, point: EntryPoint) -> Command:
    """Load an installed command; one that cannot be loaded must not break the others."""
    try:
        with loading(f"command {name}"):
            command: Command = point.load()
            return command
    except InputError as error:
        broken = error

    def run(args: argparse.Namespace) -> int:
        raise broken

    return Command(name, broken.what, broken.what, lambda parser: None, run)
