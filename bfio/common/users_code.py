"""Objects that users name as ``module:name``, and what their code raises."""

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from formulations.errors import InputError

#: Characters of a user's own message that are passed on.
_MAX_MESSAGE = 200


def load_object(name: str, kind: str) -> object:
    """Return what ``module:name`` stands for; the working directory is searched as well.

    Parameters
    ----------
    name : str
        ``package.module:name``.
    kind : str
        What it is to be, for the error, e.g. ``"policy"``.

    Raises
    ------
    InputError
        If the name is incomplete, the module cannot be imported or has no such name.
    """
    module_name, _, attribute = name.partition(":")
    parts = [*module_name.split("."), attribute]
    if not all(part.isidentifier() for part in parts):
        raise InputError(name, f"incomplete {kind} name", "write module:function")
    module = _import_module(module_name, name)
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise InputError(
            name, f"module {module_name} has no {attribute}", "check the function's name"
        ) from None


def load_callable(text: str, kind: str) -> Callable[..., Any]:
    """Return what ``module:name`` stands for, if it can be called; of a class, an object.

    Raises
    ------
    InputError
        As `load_object` and `make_object`, or if it is not callable or options follow the name.
    """
    if text.count(":") > 1:
        raise InputError(text, "options after module:function", "set its attributes instead")
    found = load_object(text, kind)
    if isinstance(found, type):
        found = make_object(text, found)
    if not callable(found):
        raise InputError(text, "it is not callable", "name a function of the state")
    return found


def make_object(name: str, users_class: type) -> object:
    """Return an object of a user's class, made without arguments.

    Raises
    ------
    InputError
        If making it raises anything.
    """
    with users_code(name, "making it ", remedy="give a class that needs no arguments"):
        return users_class()


def call_check(policy: object, name: str, instance: object) -> None:
    """Let a policy refuse an instance, if it has a ``check``.

    Raises
    ------
    InputError
        If it does, or its check cannot be called or raises anything else.
    """
    if (check := getattr(policy, "check", None)) is not None:
        with users_code(f"policy {name}", "its check ", remedy="mend the policy"):
            check(instance)


def policy_statistics(policy: object, name: str) -> dict[str, object]:
    """Return a policy's own figures of a run, if it has ``statistics``.

    A run is not lost because they cannot be had: then ``error`` says why, in one line.
    """
    method = getattr(policy, "statistics", None)
    try:
        with users_code(f"policy {name}", "its statistics ", remedy="return a mapping"):
            return dict(method()) if callable(method) else {}
    except InputError as error:
        return {"error": str(error)}


@contextmanager
def users_code(where: str, doing: str = "", *, remedy: str = "mend it") -> Iterator[None]:
    """Turn whatever a user's code raises into an error that says where in that code.

    Parameters
    ----------
    where : str
        Which code, e.g. ``"policy mine:route, step 3"``.
    doing : str
        What it was at, before the word "raised".
    remedy : str
        What the user should do.
    """
    try:
        yield
    except InputError:
        raise
    # SystemExit included: only Ctrl-C is not its author's to mend.
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {str(error)[:_MAX_MESSAGE]}{_place(error)}"
        raise InputError(where, f"{doing}raised {what}", remedy) from error


def _place(error: BaseException) -> str:
    """Return the innermost line of a traceback; empty if the call itself failed."""
    # The first two are those of `users_code` and of its caller.
    frames = traceback.extract_tb(error.__traceback__)[2:]
    return f" at {frames[-1].filename} line {frames[-1].lineno}" if frames else ""


def _import_module(module_name: str, name: str) -> object:
    try:
        with _working_directory_importable():
            importlib.invalidate_caches()
            return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise InputError(
                name, f"no module named {error.name}", "run from its folder or install it"
            ) from None
        raise _import_failure(name, error) from error
    # Whatever a user's module raises while it is imported is that user's error, not ours.
    except (Exception, SystemExit) as error:
        raise _import_failure(name, error) from error


def _import_failure(name: str, error: BaseException) -> InputError:
    what = f"importing it raised {type(error).__name__}: {error}"
    return InputError(name, what, "make the module importable on its own")


@contextmanager
def _working_directory_importable() -> Iterator[None]:
    """Search the working directory for modules, after everything installed."""
    here = str(Path.cwd())
    if here in sys.path:
        yield
        return
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)
