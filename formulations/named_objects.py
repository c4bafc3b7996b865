"""Objects that users name, ``module:NAME`` or ``path/to/file.py:NAME``: where they are found.

Policies, predictors, metrics, kinds of rows, claims and solver backends of one's own all come
through here. Installed modules come first, then those beside the study that names them
(`found_from`), then those of the working directory; relative paths start in the same two folders.
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

from formulations.errors import InputError, did_you_mean

#: Characters of a user's own message that are passed on.
_MAX_MESSAGE = 200
#: What else a name may be, for the remedies of unknown ones.
OR_YOUR_OWN = "or module:NAME or FILE.py:NAME of your own"

_folder: ContextVar[Path | None] = ContextVar("_folder", default=None)


@contextmanager
def found_from(folder: Path) -> Iterator[None]:
    """Look for modules and files in a folder before the working directory, such as a study's."""
    before = _folder.set(folder.resolve())
    try:
        yield
    finally:
        _folder.reset(before)


def is_users(name: str) -> bool:
    """Whether a name can only stand for something of the user's own."""
    return ":" in name or name.endswith(".py")


def load_object(name: str, kind: str) -> object:
    """Return what ``module:NAME`` or ``path/to/file.py:NAME`` stands for.

    Parameters
    ----------
    name : str
        The name; see the module for where it is looked up.
    kind : str
        What it is to be, for the error, e.g. ``"policy"``.

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
        # The processes that compute rows have a script of their own.
        remedy = "write it in a file of its own, and name FILE.py:NAME"
        raise InputError(name, "rows cannot be computed by your script itself", remedy)
    module = _module(place, name)
    try:
        return getattr(module, attribute)
    except AttributeError:
        own = [word for word in vars(module) if not word.startswith("_")]
        what = "file" if _is_file(place) else "module"
        remedy = f"{did_you_mean(attribute, own)}check the name"
        raise InputError(name, f"{what} {place} has no {attribute}", remedy) from None


def check_call(found: object, name: str, *arguments: str) -> None:
    """Refuse what cannot be called with these arguments, before anything runs.

    Parameters
    ----------
    found : object
        What a user named.
    name : str
        How.
    arguments : str
        What it is to be called with, e.g. ``"state"``.

    Raises
    ------
    InputError
        If it is not callable or takes other arguments; the remedy says which.
    """
    form = f"({', '.join(arguments)})"
    if not callable(found):
        what = f"a {type(found).__name__} is not callable"
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
    """Return what a call takes; None if it is written in C: nobody can tell before the call."""
    try:
        return inspect.signature(found)
    except ValueError:
        return None


def make_object(name: str, users_class: type) -> object:
    """Return an object of a user's class, made without arguments.

    Raises
    ------
    InputError
        If making it raises anything.
    """
    with users_code(name, "making it ", remedy="give a class that needs no arguments"):
        return users_class()


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
        # The first two lines are those of `users_code` and of its caller.
        what = f"{type(error).__name__}: {str(error)[:_MAX_MESSAGE]}{place_of(error, skipped=2)}"
        raise InputError(where, f"{doing}raised {what}", remedy) from error


def place_of(error: BaseException, *, skipped: int) -> str:
    """Return the innermost line of a traceback, as " at FILE line N".

    Parameters
    ----------
    error : BaseException
        What was raised and caught.
    skipped : int
        Outermost lines that are ours; if there are no others, the call itself failed: no place.
    """
    frames = traceback.extract_tb(error.__traceback__)[skipped:]
    return f" at {frames[-1].filename} line {frames[-1].lineno}" if frames else ""


def source_of(name: str) -> tuple[str, Path | None]:
    """Return how the module of a name is called beside its file, and that file, if it has one."""
    place = name.rpartition(":")[0]
    file = _module(place, name).__file__
    path = None if file is None else Path(file).resolve()
    return (path.stem if path is not None and _is_file(place) else place), path


def users_folder(name: str) -> Path:
    """Return the folder of the file behind a name; the working directory if it has none."""
    file = source_of(name)[1]
    return Path.cwd() if file is None else file.parent


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
    # Whatever a user's module raises while it is imported is that user's error, not ours.
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
    # An absolute path stays what it is.
    candidates = [folder / Path(place).expanduser() for folder in _folders()]
    for path in candidates:
        if path.is_file():
            return path.resolve()
    where = " or ".join(dict.fromkeys(str(path.parent) for path in candidates))
    raise InputError(name, f"no file {Path(place).name} in {where}", "name it by its whole path")


def _folders() -> list[Path]:
    study, here = _folder.get(), Path.cwd()
    return [here] if study is None or study == here else [study, here]


def _import_failure(name: str, error: BaseException) -> InputError:
    if isinstance(error, InputError):
        # Such as a claim that is none: it says itself what is wrong with which.
        return InputError(f"{name}: {error.where}", error.what, error.remedy)
    what = " ".join(f"importing it raised {type(error).__name__}: {error}".split())
    return InputError(name, what, "make the module importable on its own")


@contextmanager
def _importable(*folders: Path) -> Iterator[None]:
    """Search folders for modules, after everything installed."""
    added = [text for text in dict.fromkeys(map(str, folders)) if text not in sys.path]
    sys.path.extend(added)
    try:
        yield
    finally:
        for text in added:
            # The module may have taken it away itself.
            if text in sys.path:
                sys.path.remove(text)
