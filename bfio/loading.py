"""Objects that users name as ``module:name``, searched in the working directory as well."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from formulations.errors import InputError


def load_object(name: str, kind: str) -> object:
    """Return what ``module:name`` stands for.

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
