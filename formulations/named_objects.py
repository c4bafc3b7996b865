"""Load users' objects by name: ``module:NAME`` or ``path/to/file.py:NAME``.

Users' policies, predictors, metrics, kinds of rows, claims and solver backends are loaded here.
The search order is: installed modules, the folder of the study (`found_from`), the working
directory. Relative paths are resolved against the same two folders.
"""

import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

from formulations.errors import InputError, did_you_mean, kind_of

#: Longest part of a user's own error message that is shown [characters].
_MAX_MESSAGE = 200
#: Remedy text: an unknown name may also be a user's own object.
OR_YOUR_OWN = "or module:NAME or FILE.py:NAME of your own"

_folder: ContextVar[Path | None] = ContextVar("_folder", default=None)


@contextmanager
def found_from(folder: Path) -> Iterator[None]:
    """Inside the block, load modules and files from ``folder`` before the working directory."""
    before = _folder.set(folder.resolve())
    try:
        yield
    finally:
        _folder.reset(before)


def is_users(name: str) -> bool:
    """Return whether a name has the form of a user's own object."""
    return isinstance(name, str) and (":" in name or name.endswith(".py"))


def load_object(name: str, kind: str) -> object:
    """Return the object that ``module:NAME`` or ``path/to/file.py:NAME`` names.

    Parameters
    ----------
    name : str
        The name; see the module docstring for the search order.
    kind : str
        Expected kind of object, for the error, e.g. ``"policy"``.

    Raises
    ------
    InputError
        If the name is incomplete, the module or file cannot be imported or has no such name.
    """
    place, _, attribute = name.rpartition(":")
    if not (attribute.isidentifier() and _is_place(place)):
        raise InputError(
            name, f"incomplete {kind} name", "write module:NAME or path/to/file.py:NAME"
        )
    if place == "__main__" and _folder.get() is not None:
        # Worker processes that compute rows run another main script.
        remedy = "move it to a file of its own, and name it FILE.py:NAME"
        raise InputError(name, "a function of the running script cannot compute rows", remedy)
    module = _module(place, name)
    try:
        return getattr(module, attribute)
    except AttributeError:
        own = [word for word in vars(module) if not word.startswith("_")]
        what = "file" if _is_file(place) else "module"
        remedy = f"{did_you_mean(attribute, own)}check the name"
        raise InputError(name, f"{what} {place} has no {attribute}", remedy) from None


def check_call(found: object, name: str, *arguments: str) -> None:
    """Check that a user's object can be called with these arguments; raise otherwise.

    Parameters
    ----------
    found : object
        The user's object.
    name : str
        Its name, for the error.
    arguments : str
        Names of the arguments of the call, e.g. ``"state"``.

    Raises
    ------
    InputError
        If the object is not callable or takes other arguments; the remedy lists them.
    """
    form = f"({', '.join(arguments)})"
    if not callable(found):
        what = f"{kind_of(found)} is not callable"
        raise InputError(name, what, f"name a function of {form}")
    with users_code(name, "telling its arguments "):
        taken = _signature(found)
    if taken is None:
        return
    try:
        taken.bind(*arguments)
    except TypeError as error:
        what = f"cannot be called with {form} ({error})"
        raise InputError(name, what, f"let it take {form}") from None


def _signature(found: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature; None for a function in C, whose signature is unknown."""
    try:
        return inspect.signature(found)
    except ValueError:
        return None


def make_object(name: str, users_class: type) -> object:
    """Return an instance of a user's class, created without arguments.

    Raises
    ------
    InputError
        If the constructor raises anything.
    """
    with users_code(name, "making it ", remedy="give a class that needs no arguments"):
        return users_class()


@contextmanager
def users_code(where: str, doing: str = "", *, remedy: str = "fix this line") -> Iterator[None]:
    """Turn any exception of a user's code into an InputError that names the line of that code.

    Parameters
    ----------
    where : str
        Description of the code, e.g. ``"policy mine:route, step 3"``.
    doing : str
        The action, placed before the word "raised".
    remedy : str
        What the user should do.
    """
    try:
        yield
    except InputError as error:
        if not error.where.startswith("state."):
            raise
        # A field that this code may not read: name the code and its line, not that of the field.
        what = f"{error.what}{place_of(error, skipped=2, inner=1)}"
        raise InputError(f"{where}: {error.where}", what, error.remedy) from error
    # SystemExit is an error of the user's code as well; KeyboardInterrupt passes through.
    except (Exception, SystemExit) as error:
        # Skip the frames of `users_code` and of its caller.
        what = f"{type(error).__name__}: {str(error)[:_MAX_MESSAGE]}{place_of(error, skipped=2)}"
        raise InputError(where, f"{doing}raised {what}", remedy) from error


def place_of(error: BaseException, *, skipped: int, inner: int = 0) -> str:
    """Return the innermost line of a traceback, as " at FILE line N".

    Parameters
    ----------
    error : BaseException
        The caught exception.
    skipped : int
        Number of outermost frames to ignore. Without further frames the call itself failed, and
        the result is empty.
    inner : int
        Number of innermost frames to ignore.
    """
    frames = traceback.extract_tb(error.__traceback__)[skipped:]
    frames = frames[: len(frames) - inner]
    return f" at {frames[-1].filename} line {frames[-1].lineno}" if frames else ""


def source_of(name: str) -> tuple[str, Path | None]:
    """Return the import name of a user's object, and the path of its file, if any."""
    place = name.rpartition(":")[0]
    file = _module(place, name).__file__
    path = None if file is None else Path(file).resolve()
    return (path.stem if path is not None and _is_file(place) else place), path


def _is_file(place: str) -> bool:
    return place.endswith(".py")


def _is_place(place: str) -> bool:
    return _is_file(place) or all(part.isidentifier() for part in place.split("."))


def _module(place: str, name: str) -> ModuleType:
    return _of_file(place, name) if _is_file(place) else _by_name(place, name)


def _by_name(place: str, name: str) -> ModuleType:
    try:
        with _importable(*_folders()):
            importlib.invalidate_caches()
            return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{place}.".startswith(f"{error.name}."):
            remedy = "run from its folder, install it, or write path/to/file.py:NAME"
            raise InputError(name, f"no module named {error.name}", remedy) from None
        raise _import_failure(name, error) from error
    # Any exception during the import of a user's module is reported as the user's error.
    except (Exception, SystemExit) as error:
        raise _import_failure(name, error) from error


def _of_file(place: str, name: str) -> ModuleType:
    """Import a file once, under a name that no other file or module has."""
    path = _existing(place, name)
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    own_name = f"bfio_file_{digest}_{path.stem}"
    if own_name in sys.modules:
        return sys.modules[own_name]
    spec = importlib.util.spec_from_file_location(own_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[own_name] = importlib.util.module_from_spec(spec)
    try:
        with _importable(path.parent, *_folders()):
            spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[own_name]
        if isinstance(error, Exception | SystemExit):
            raise _import_failure(name, error) from error
        raise
    return module


def _existing(place: str, name: str) -> Path:
    # Joining a folder with an absolute path gives the absolute path.
    candidates = [folder / Path(place).expanduser() for folder in _folders()]
    for path in candidates:
        if path.is_file():
            return path.resolve()
    where = " or ".join(dict.fromkeys(str(path.parent) for path in candidates))
    raise InputError(
        name, f"no file {Path(place).name} in {where}", "give the full path of the file"
    )


def _folders() -> list[Path]:
    study, here = _folder.get(), Path.cwd()
    return [here] if study is None or study == here else [study, here]


def _import_failure(name: str, error: BaseException) -> InputError:
    if isinstance(error, InputError):
        # For example a malformed claim: its own error already names place and fault.
        return InputError(f"{name}: {error.where}", error.what, error.remedy)
    what = " ".join(f"importing it raised {type(error).__name__}: {error}".split())
    return InputError(name, what, "make the module importable on its own")


@contextmanager
def _importable(*folders: Path) -> Iterator[None]:
    """Add folders to the module search path, after all installed packages."""
    added = [text for text in dict.fromkeys(map(str, folders)) if text not in sys.path]
    sys.path.extend(added)
    try:
        yield
    finally:
        for text in added:
            # The module may have removed the entry itself.
            if text in sys.path:
                sys.path.remove(text)
