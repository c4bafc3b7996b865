"""Find the trace formats in the modules of this folder and in entry points.

To add a format, add a module that defines ``FORMAT``, a `TraceFormat`, or several formats in
``FORMATS``. Another package adds one through an entry point in the group ``bfio.trace_readers``
that refers to a `TraceFormat`.
"""

from collections.abc import Iterator

from bfio.common.plugins import installed, loading, members
from bfio.workloads.trace_format import TraceFormat
from formulations.errors import InputError

#: Entry-point group through which other packages add formats.
ENTRY_POINT_GROUP = "bfio.trace_readers"


def formats() -> tuple[TraceFormat, ...]:
    """Return all trace formats: built-in ones by name, then those of entry points by name.

    Raises
    ------
    InputError
        If an entry point cannot be loaded, is not a `TraceFormat`, or reuses a name.
    """
    found: dict[str, TraceFormat] = {}
    for origin, candidate in (*members(__name__, __path__, "FORMAT"), *_installed()):
        if not isinstance(candidate, TraceFormat):
            raise InputError(origin, "is not a TraceFormat", "point it at a TraceFormat object")
        if candidate.name in found:
            what = f"the format name {candidate.name!r} is taken"
            raise InputError(origin, what, "choose another name")
        found[candidate.name] = candidate
    return tuple(found.values())


def _installed() -> Iterator[tuple[str, object]]:
    for name, point in installed(ENTRY_POINT_GROUP).items():
        origin = f"entry point {ENTRY_POINT_GROUP}:{name}"
        with loading(origin):
            found = point.load()
        yield origin, found
