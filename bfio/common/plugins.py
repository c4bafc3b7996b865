"""Code from outside: plugins found by location, and policies that users name.

Plugins are modules of a folder and entry points of installed packages. Users' policies are loaded,
their answers checked and their sources digested; a time limit applies and statistics are kept.
"""

import hashlib
import importlib
import pkgutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from itertools import islice
from numbers import Integral
from typing import Any

from bfio.common.provenance import closure_digest
from formulations.errors import InputError
from formulations.named_objects import check_call, load_object, make_object, source_of, users_code


def members(package: str, path: Iterable[str], name: str) -> Iterator[tuple[str, Any]]:
    """Yield the objects that the modules of a package define, each with its module name.

    A module defines one object ``name``, several in a tuple ``name + "S"``, or none. A subpackage
    defines the object in its module of that name in lower case.

    Parameters
    ----------
    package : str
        Name of the package.
    path : iterable of str
        The ``__path__`` of the package. `bfio.common.provenance` searches the caller's source
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
    found = _entry_points(group, tuple(sys.path))
    return {point.name: point for point in sorted(found, key=lambda point: point.name)}


@cache
def _entry_points(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Return the entry points, cached: to read those of 100 packages takes as long as a run."""
    return entry_points(group=group)


@contextmanager
def loading(
    where: str, what: str = "", remedy: str = "repair or remove the package that adds it"
) -> Iterator[None]:
    """Turn any exception from the import of a foreign module into a one-line error.

    Raises
    ------
    InputError
        If the ``with`` block raises. The error names ``where``, ``what`` and the reason.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(where, f"{what} cannot be loaded ({why})".strip(), remedy) from error


def load_callable(text: str, kind: str) -> Callable[..., Any]:
    """Load a policy function from ``module:NAME`` or ``FILE.py:NAME``; a class is instantiated.

    Raises
    ------
    InputError
        As for `load_object` and `make_object`; if the object cannot be called with a state; or if
        options follow the name.
    """
    if text.count(":") > 1:
        what = "options cannot follow module:NAME"
        raise InputError(text, what, "set them as attributes instead")
    found = load_object(text, kind)
    if isinstance(found, type):
        found = make_object(text, found)
    check_call(found, text, "state")
    return found  # type: ignore[return-value]


def call_check(policy: object, name: str, instance: object) -> None:
    """Call the ``check`` method of a policy with an instance, if the policy has one.

    Raises
    ------
    InputError
        If the check rejects the instance, cannot be called, or raises another exception.
    """
    if (check := getattr(policy, "check", None)) is not None:
        with users_code(f"policy {name}", "its check ", remedy="correct the policy"):
            check(instance)


def policy_statistics(policy: object, name: str) -> dict[str, object]:
    """Return the policy's own statistics of a run, if the policy has a method ``statistics``.

    If the method raises an error, the run is kept, and ``error`` holds the reason in one line.
    """
    method = getattr(policy, "statistics", None)
    try:
        with users_code(f"policy {name}", "its statistics ", remedy="return a mapping"):
            return dict(method()) if callable(method) else {}
    except InputError as error:
        return {"error": str(error)}


def checked_choice(answer: object, present: Collection[int], where: str, noun: str) -> list[int]:
    """Return the integers in a policy's answer, in order, after checks.

    Parameters
    ----------
    answer : object
        The object that the policy returned.
    present : collection of int
        Valid integers.
    where : str
        Policy and time, for errors.
    noun : str
        Kind of the integers, for errors, such as ``"request"``.

    Raises
    ------
    InputError
        If the answer is not a collection of distinct valid integers.
    """
    remedy = f"return {noun}s of the state, each once"
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes):
        raise InputError(where, f"returned {answer!r:.40}", remedy)
    with users_code(where, "its answer ", remedy="correct the policy"):
        # Read at most one entry too many, because an iterator may be infinite.
        entries = list(islice(answer, len(present) + 1))
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, int | Integral):
            raise InputError(where, f"the answer {entry!r:.40} is not a {noun} number", remedy)
        if entry not in present:
            raise InputError(where, f"{noun} {entry} is not in the state", remedy)
    if len(set(entries)) < len(entries):
        raise InputError(where, f"a {noun} occurs twice", remedy)
    return [int(entry) for entry in entries]


def users_digest(name: str) -> str:
    """Return a digest of the sources of a user's policy ``module:NAME`` or ``FILE.py:NAME``.

    For a compiled module, the digest covers only its file. Built-in modules have no digest.
    """
    module_name, path = source_of(name)
    if path is None:
        return ""
    if path.suffix != ".py":
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    # The folder of the module's top-level package is the root for resolving imports.
    depth = module_name.count(".") + (path.name == "__init__.py")
    return closure_digest(module_name, root=path.parents[depth])


@contextmanager
def patience(seconds: float, where: str, what: str, remedy: str) -> Iterator[None]:
    """Raise an error in Python code that exceeds a time limit.

    Outside the main thread, or on systems without interval timers, the code is not interrupted.
    An alarm that was set before goes off afterwards, at its time or at once.

    Parameters
    ----------
    seconds : float
        Wall-clock limit [s].
    where, what, remedy : str
        The three parts of the error: place, problem and remedy.

    Raises
    ------
    InputError
        If the limit is exceeded.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return

    def on_alarm(number: int, frame: object) -> None:
        raise InputError(where, f"{what} takes more than {seconds:g} s", remedy)

    before = signal.signal(signal.SIGALRM, on_alarm)
    began = time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left > 0:
            # Zero would switch it off.
            still = max(left - (time.monotonic() - began), 1e-6)
            signal.setitimer(signal.ITIMER_REAL, still, interval)
