"""What a command is, and where commands come from."""

import argparse
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points

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

    found: dict[str, Command] = {}
    for point in entry_points(group=GROUP):
        found[point.name] = _installed(point.name, point.load)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        command = importlib.import_module(module.name).COMMAND
        found[command.name] = command
    return dict(sorted(found.items()))


def _installed(name: str, load: Callable[[], Command]) -> Command:
    """Load an installed command; one that cannot be loaded must not break the others."""
    try:
        return load()
    except Exception as error:
        reason = f"cannot be loaded ({type(error).__name__}: {error})"

    def run(args: argparse.Namespace) -> int:
        from formulations.errors import InputError

        raise InputError(f"command {name}", reason, "repair or remove the package that adds it")

    return Command(name, reason, reason, lambda parser: None, run)
