"""The trace formats: one module each, found by being in this folder.

A module that defines ``FORMAT``, a `TraceFormat`, is enough to add one. A package outside adds
one through an entry point in the group ``bfio.trace_readers`` that names such an object.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.metadata import entry_points

from bfio.workloads.trace_format import TraceFormat
from formulations.errors import InputError

#: Entry-point group through which other packages add formats.
ENTRY_POINT_GROUP = "bfio.trace_readers"


def formats() -> tuple[TraceFormat, ...]:
    """Return every known format: built-in ones by name, then those of entry points by name.

    Raises
    ------
    InputError
        If an entry point cannot be loaded, is no `TraceFormat`, or reuses a name.
    """
    found: dict[str, TraceFormat] = {}
    for origin, candidate in (*_built_in(), *_installed()):
        if not isinstance(candidate, TraceFormat):
            raise InputError(origin, "is not a TraceFormat", "point it at a TraceFormat object")
        if candidate.name in found:
            raise InputError(
                origin, f"the format name {candidate.name!r} is taken", "choose another name"
            )
        found[candidate.name] = candidate
    return tuple(found.values())


def _built_in() -> Iterator[tuple[str, object]]:
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        path = f"{__name__}.{module.name}"
        yield path, importlib.import_module(path).FORMAT


def _installed() -> Iterator[tuple[str, object]]:
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        origin = f"entry point {ENTRY_POINT_GROUP}:{entry.name}"
        try:
            yield origin, entry.load()
        except (ImportError, AttributeError) as error:
            raise InputError(
                origin, f"cannot be loaded ({error})", "repair or uninstall that package"
            ) from None
