"""Plugins found by location: modules of a folder, entry points of installed packages."""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from formulations.errors import InputError


def members(package: str, path: Iterable[str], name: str) -> Iterator[tuple[str, Any]]:
    """Yield the objects that the modules of a package define, each with its module name.

    A module defines one object ``name``, several in a tuple ``name + "S"``, or none. A subpackage
    defines the object in its module of that name in lower case.

    Parameters
    ----------
    package : str
        Name of the package.
    path : iterable of str
        The ``__path__`` of the package. `bfio.common.import_closure` searches the caller's source
        for this word, to detect that the caller depends on all modules of the folder.
    name : str
        Name of the object, such as ``"SPEC"``.
    """
    for module in pkgutil.iter_modules(path, f"{package}."):
        home = f"{module.name}.{name.lower()}" if module.ispkg else module.name
        loaded = vars(importlib.import_module(home))
        found = loaded.get(f"{name}S", (loaded[name],) if name in loaded else ())
        yield from ((module.name, each) for each in found)


def installed(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group, sorted by name."""
    points = {point.name: point for point in entry_points(group=group)}
    return dict(sorted(points.items()))


@contextmanager
def loading(
    where: str, what: str = "", remedy: str = "repair or remove the package that adds it"
) -> Iterator[None]:
    """Turn any exception from the import of a foreign module into a one-line error.

    Raises
    ------
    InputError
        At ``where``: ``what`` cannot be loaded. The message gives the reason.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(where, f"{what} cannot be loaded ({why})".strip(), remedy) from error
