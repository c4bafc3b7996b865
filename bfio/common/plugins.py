"""What is added by being there: modules of a folder, entry points of installed packages."""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from formulations.errors import InputError


def members(package: str, path: Iterable[str], name: str) -> Iterator[tuple[str, Any]]:
    """Yield what the modules of a package add, each object with the name of its module.

    A module has one object called ``name``, or several in a tuple called ``name + "S"``, or none.
    A folder has it in its module of that name, in lower case.

    Parameters
    ----------
    package : str
        Name of the package.
    path : iterable of str
        Its ``__path__``. That the caller writes this word tells `bfio.common.import_closure` that
        it depends on all modules of the folder.
    name : str
        Such as ``"SPEC"``.
    """
    for module in pkgutil.iter_modules(path, f"{package}."):
        home = f"{module.name}.{name.lower()}" if module.ispkg else module.name
        loaded = vars(importlib.import_module(home))
        found = loaded.get(f"{name}S", (loaded[name],) if name in loaded else ())
        yield from ((module.name, each) for each in found)


def installed(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, in order of the names."""
    points = {point.name: point for point in entry_points(group=group)}
    return dict(sorted(points.items()))


@contextmanager
def loading(
    where: str, what: str = "", remedy: str = "repair or remove the package that adds it"
) -> Iterator[None]:
    """Say in one line whatever somebody else's module raises while it is imported.

    Raises
    ------
    InputError
        At ``where``, that ``what`` cannot be loaded, and why.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(where, f"{what} cannot be loaded ({why})".strip(), remedy) from error
