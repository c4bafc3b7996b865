"""Functions with machine code of their own, and its storage on disk.

Python calls a function decorated by `entry_point`. The first call compiles this function together
with all `compilable` functions that it names. Entry points and functions marked ``apart`` have
machine code of their own: it is compiled once, and other machine code calls it.

Machine code is stored on disk under a digest of everything that determines it, the versions of
Numba and Python, and the processor. So stored code is always valid: an edit of a compiled
function, another checkout or an upgrade changes the digest. The folder is ``NUMBA_CACHE_DIR`` or
``XDG_CACHE_HOME`` if set, otherwise ``~/.cache``. If this folder cannot be written, a temporary
folder is used, with a warning.

Numba is loaded by the first call of an entry point, not by this module or the decorator. Queries
of what is compiled are therefore fast.

The values of names that are not functions are constants of the machine code. The digest covers the
byte code, constants and compile options of each function that is called. It does not cover
comments, docstrings, annotations or other functions in the same files. So an edit elsewhere does
not invalidate stored machine code.
"""

import functools
import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dis import get_instructions
from enum import Enum
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import version
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar, cast

import numpy as np

from bfio.common.compilable import Recipe
from bfio.common.numba_parts import (
    compiled_apart,
    compiled_entry,
    compiled_inner,
    uses_private_parts,
)
from bfio.common.provenance import closure_digest

#: Packages covered by their version in every key, and modules written in C.
_KNOWN_BY_VERSION = ("numpy", "numba", "math", "builtins")
_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), np.generic)


class Made(NamedTuple):
    """The sources of a function's machine code.

    Parameters
    ----------
    digest : str or None
        Digest of all sources; None if it cannot be determined, so that nothing may be stored.
    modules : frozenset of str
        The modules of the functions.
    """

    digest: str | None
    modules: frozenset[str]


def made_of(function: Callable[..., Any]) -> Made:
    """Collect the sources of the machine code of a function.

    Parameters
    ----------
    function : callable
        A Python function, which may name compilable functions and entry points.
    """
    walk = _Walk()
    text = "\n".join(walk.lines(function))
    digest = hashlib.sha256(text.encode()).hexdigest() if walk.is_told else None
    return Made(digest, frozenset(walk.modules))


class _Walk:
    """A walk over functions that call each other; each function is described once."""

    def __init__(self) -> None:
        self._waiting: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self.is_told = True
        self.modules: set[str] = set()

    def lines(self, function: Callable[..., Any]) -> Iterator[str]:
        """Yield the descriptions of a function and of all its callees, in the order of calls."""
        self._number(function)
        while self._waiting:
            yield self._function(self._waiting.pop())

    def _number(self, function: Any) -> str:
        if function not in self._numbers:
            self._numbers[function] = len(self._numbers)
            self._waiting.append(function)
        return f"function {self._numbers[function]}"

    def _function(self, function: Any) -> str:
        """Return the description of one function. The functions that it calls follow later."""
        recipe = getattr(function, "__recipe__", None)
        how = ""
        if recipe is not None:
            how = f"{recipe.allocates} {recipe.into_caller} {recipe.apart}"
            function = recipe.compiled_as or function
        # Code created at run time has no module.
        self.modules |= {function.__module__} - {None}
        code = function.__code__
        enclosed = [cell.cell_contents for cell in function.__closure__ or ()]
        values = [
            f"{name} {self._value(function.__globals__[name], code.co_names)}"
            for name in _global_names(code)
            if name in function.__globals__
        ]
        others = (*enclosed, function.__defaults__, function.__kwdefaults__)
        values += [self._value(value, code.co_names) for value in others]
        return "\n".join([how, _code_text(code, bool(function.__doc__)), *values])

    def _value(self, value: Any, names: tuple[str, ...]) -> str:
        """Describe a value; ``names`` are the attributes of it that the function may read."""
        if isinstance(value, _PLAIN) or value is NotImplemented:
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, Enum):
            return f"{type(value).__qualname__} {value!r}"
        if isinstance(value, tuple | list | frozenset):
            inner = [self._value(one, names) for one in value]
            return f"{type(value).__qualname__} {inner}"
        if isinstance(value, dict):
            return str([(key, self._value(one, names)) for key, one in value.items()])
        if isinstance(value, np.ndarray):
            return f"array {value.dtype} {value.shape} {value.tobytes().hex()}"
        if isinstance(value, ModuleType):
            return f"module {value.__name__} {self._attributes(value, names)}"
        return self._callable(value)

    def _attributes(self, module: ModuleType, names: tuple[str, ...]) -> list[str]:
        """Return the descriptions of the attributes of a module that a function may read."""
        if _is_known_by_version(module.__name__):
            return []
        held = vars(module)
        return [f"{name} {self._value(held[name], names)}" for name in names if name in held]

    def _callable(self, value: Any) -> str:
        # An entry point, or a function compiled by Numba, is described by its Python function.
        value = getattr(value, "entry", value) if isinstance(value, FunctionType) else value
        value = getattr(value, "py_func", value)
        if hasattr(value, "__recipe__"):
            return self._number(value)
        home = str(getattr(value, "__module__", ""))
        if _is_known_by_version(home) or isinstance(value, np.ufunc):
            name = getattr(value, "__qualname__", getattr(value, "__name__", repr(value)))
            self.is_told &= " at 0x" not in name
            return f"{home} {name}"
        if isinstance(value, type):
            # Machine code depends on the fields or members of a class.
            fields = getattr(value, "_fields", ())
            members = [repr(member) for member in value] if issubclass(value, Enum) else []
            defaults = self._value(getattr(value, "_field_defaults", {}), ())
            return f"class {home} {value.__qualname__} {fields} {defaults} {members}"
        if isinstance(value, FunctionType):
            return self._number(value)
        self.is_told = False
        return ""


def _is_known_by_version(module: str) -> bool:
    return module.partition(".")[0] in _KNOWN_BY_VERSION


@cache
def _global_names(code: CodeType) -> tuple[str, ...]:
    """Return the globals that a function names, in order of occurrence."""
    inner = [name for one in code.co_consts if isinstance(one, CodeType) for name in one.co_names]
    read = (str(one.argval) for one in get_instructions(code) if one.opname == "LOAD_GLOBAL")
    return tuple(dict.fromkeys([*read, *inner]))


@cache
def _code_text(code: CodeType, has_docstring: bool = False) -> str:
    """Return a text that identifies the byte code of a function, independent of its location."""
    constants = [_constant_text(one) for one in code.co_consts[has_docstring:]]
    return repr(
        (
            code.co_code,
            constants,
            code.co_names,
            code.co_varnames,
            code.co_freevars,
            code.co_cellvars,
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
            # Numba clears this flag while a profiler runs.
            code.co_flags & ~CO_OPTIMIZED,
            code.co_exceptiontable,
        )
    )


def _constant_text(constant: object) -> str:
    if isinstance(constant, CodeType):
        return _code_text(constant)
    # The order of a set of strings differs between processes.
    return str(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)


P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

#: Packages whose versions determine the machine code, in addition to the sources.
_MAKERS = ("numba", "llvmlite", "numpy")
#: Variables of Numba that do not affect machine code.
_HARMLESS = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")
_SUFFIX = ".kernel"
#: Time after which an unused folder of machine code is removed [s].
_KEPT_S = 30 * 86_400
_FOLDER = re.compile(r"[0-9a-f]{32}")
_is_interpreting: ContextVar[bool] = ContextVar("is_interpreting", default=False)


class StoredFunction:
    """The sources of a function with its own machine code, this code, and its storage.

    Attributes
    ----------
    py_func : callable
        The function in Python.
    name : str
        ``module:function``.
    """

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        self.py_func = function
        self.name = name or f"{function.__module__}:{function.__qualname__}"

    @cached_property
    def made(self) -> Made:
        """The sources of the machine code, with their digest."""
        return made_of(self.py_func)

    @cached_property
    def machine_code(self) -> Any:
        """The Numba dispatcher. Nothing is compiled before its first call."""
        recipe: Recipe = self.py_func.__recipe__  # type: ignore[attr-defined]
        return compiled_apart(self.py_func, linked, self._kept, allocates=recipe.allocates)

    @property
    def digest(self) -> str:
        """A text that identifies sources and options; empty if they cannot be determined."""
        return f"{type(self).__name__} {self.made.digest}" if self.made.digest else ""

    @property
    def _kept(self) -> Self | None:
        return self if uses_private_parts() and self.digest else None

    def is_compiled(self) -> bool:
        """Return whether machine code of the present sources is on disk."""
        pattern = f"{self._stem}-*{_SUFFIX}"
        return uses_private_parts() and any(any(at.glob(pattern)) for at in self._places())

    def read(self, types: str) -> bytes | None:
        """Return the stored machine code for argument types; None if there is none."""
        for place in self._places():
            payload = _checked_payload(place / self._file_name(types))
            if payload is not None:
                note_use(place)
                return payload
        return None

    def write(self, types: str, payload: bytes) -> None:
        """Store machine code. Code that cannot be stored is compiled again in the next process."""
        content = hashlib.sha256(payload).digest() + payload
        places = self._places()
        for place, spare in zip(places, [*places[1:], None], strict=True):
            if _is_written(place / self._file_name(types), content):
                return
            if spare is not None:
                _warn(place.parent, spare.parent)

    def machine_code_of(self, name: str) -> Any:
        """Return the compiled twin of another function with its own machine code."""
        module, _, function = name.partition(":")
        return machine_code(getattr(import_module(module), function))

    def _places(self) -> list[Path]:
        """Return the possible folders of its machine code, the preferred one first."""
        if not self.digest:
            return []
        name = hashlib.sha256(f"{self.digest}\n{_makers()}".encode()).hexdigest()[:32]
        return [root / name for root in cache_folders() if _usable(root)]

    @property
    def _stem(self) -> str:
        return self.name.replace(":", ".")

    def _file_name(self, types: str) -> str:
        return f"{self._stem}-{hashlib.sha256(types.encode()).hexdigest()[:16]}{_SUFFIX}"


class EntryPoint(StoredFunction):
    """The sources of a function under `entry_point`, its machine code, and its storage."""

    @cached_property
    def machine_code(self) -> Any:
        """The Numba dispatcher. Nothing is compiled before its first call."""
        return compiled_entry(self.py_func, linked, self._kept)


def entry_point(
    function: Callable[P, R], *, name: str = "", by_reference: bool = False
) -> Callable[P, R]:
    """Return ``function`` compiled at its first call per argument types, with storage on disk.

    The compiled function runs without the interpreter lock, so threads may run kernels
    concurrently.

    Parameters
    ----------
    function : callable
        A Python function that Numba supports; it may call compilable functions.
    name : str
        ``module:function`` under which the machine code is stored; by default the function's own
        name.
    by_reference : bool
        Whether machine code takes named tuples as pointers, see `bfio.common.reference_type`. It
        can then read fields by name, but not unpack, index or return the tuples.
    """
    entry = EntryPoint(function, name)
    code: Callable[..., R] = function

    def first_call(*args: P.args, **kwargs: P.kwargs) -> R:
        if _is_interpreting.get():
            return function(*args, **kwargs)
        nonlocal code
        code = _taking_pointers(entry.machine_code) if by_reference else entry.machine_code
        return code(*args, **kwargs)

    code = cast(Callable[..., R], first_call)

    # Dispatch by a class method, or named arguments, would take as long as a small kernel.
    @functools.wraps(function)
    def call(*args: P.args, **_: P.kwargs) -> R:
        return code(*args)

    call.entry = entry  # type: ignore[attr-defined]
    # Machine code that calls an entry point calls its machine code directly.
    call.__recipe__ = Recipe(of_entry=lambda: entry.machine_code)  # type: ignore[attr-defined]
    return call


def _taking_pointers(machine_code: Any) -> Any:
    """Return a function that passes named tuples to machine code as pointers."""
    if not hasattr(machine_code, "py_func"):
        # NUMBA_DISABLE_JIT is set.
        return machine_code
    from bfio.common.reference_type import Pointer

    def call(*given: Any) -> Any:
        return machine_code(*[Pointer(x) if hasattr(x, "_fields") else x for x in given])

    return call


def entry_of(function: Callable[..., Any]) -> EntryPoint:
    """Return the `EntryPoint` of a function under `entry_point`."""
    entry: EntryPoint = function.entry  # type: ignore[attr-defined]
    return entry


@cache
def machine_code(function: F) -> F:
    """Return the compiled twin of a compilable function, for calls by other compiled functions.

    The twin calls the compiled twins of all compilable functions that the original names, as
    globals or in an enclosing function.
    """
    recipe: Recipe = function.__recipe__  # type: ignore[attr-defined]
    if recipe.of_entry is not None:
        return cast(F, recipe.of_entry())
    if recipe.apart:
        return cast(F, StoredFunction(function).machine_code)
    body = linked(recipe.compiled_as or function)
    inner = compiled_inner(body, allocates=recipe.allocates, into_caller=recipe.into_caller)
    return cast(F, inner)


def linked(function: Callable[..., Any]) -> Any:
    """Return a copy of a function, not yet compiled, that calls compiled twins."""

    def twin_of(value: Any) -> Any:
        return machine_code(value) if hasattr(value, "__recipe__") else value

    names = {name: twin_of(value) for name, value in _named(function).items()}
    return _copied(
        function, names, tuple(CellType(twin_of(value)) for value in _enclosed(function))
    )


def rewired(function: Callable[..., Any], **replaced: Callable[..., Any]) -> Any:
    """Return a copy of a function, not yet compiled, with some globals replaced."""
    return _copied(function, replaced, getattr(function, "__closure__", None) or ())


def _copied(
    function: Callable[..., Any], names: dict[str, Any], closure: tuple[CellType, ...]
) -> Any:
    assert isinstance(function, FunctionType)
    copy = FunctionType(
        function.__code__,
        function.__globals__ | names,
        function.__name__,
        function.__defaults__,
        closure,
    )
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    return copy


def _named(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the globals that a function names."""
    assert isinstance(function, FunctionType)
    # Not `co_names`: that includes attributes, which may have the name of a function.
    code = get_instructions(function)
    names = {str(each.argval) for each in code if each.opname == "LOAD_GLOBAL"}
    return {name: value for name in names if (value := function.__globals__.get(name)) is not None}


def _enclosed(function: Callable[..., Any]) -> list[Any]:
    """Return the variables of enclosing functions that a function uses."""
    return [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]


@contextmanager
def interpreted() -> Iterator[None]:
    """Run entry points that this process has not called yet as plain Python."""
    token = _is_interpreting.set(True)
    try:
        yield
    finally:
        _is_interpreting.reset(token)


def cache_folders() -> tuple[Path, Path]:
    """Return the folder for machine code and its fallback."""
    named = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    wanted = Path(named) if named else Path("~").expanduser() / ".cache"
    spare = Path(tempfile.gettempdir()) / f"bfio-kernels-{_user()}"
    return wanted / "bfio" / "kernels", spare


def _usable(folder: Path) -> bool:
    """Return whether a folder may hold machine code; a public folder must belong to the user."""
    wanted, spare = cache_folders()
    if folder == spare:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            status = folder.stat()
        except OSError:
            return False
        return status.st_uid == _user() and status.st_mode & 0o022 == 0
    return folder == wanted


@cache
def _warn(folder: Path, spare: Path) -> None:
    """Warn once that machine code is stored in a fallback folder."""
    print(
        f"warning: cannot write machine code to {folder}, using {spare}; set NUMBA_CACHE_DIR to a "
        f"folder of yours",
        file=sys.stderr,
    )


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


@cache
def _makers() -> str:
    # The code of this module affects machine code as well.
    versions = [f"{name} {version(name)}" for name in _MAKERS] + [closure_digest(__name__)]
    python = f"{sys.implementation.cache_tag} {platform.python_version()} {sys.flags.optimize}"
    settings = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith("NUMBA_") and name not in _HARMLESS
    ]
    return "\n".join([*versions, python, _processor(), *settings])


def _processor() -> str:
    """Return a text that identifies the processor's features."""
    lines: list[str] = []
    if Path("/proc/cpuinfo").exists():
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.split("\n\n")[0].splitlines() if _tells_features(line)]
    return "\n".join([platform.system(), platform.machine(), platform.processor(), *lines])


def _tells_features(line: str) -> bool:
    return line.startswith(("model name", "flags", "Features", "CPU part"))


@cache
def note_use(folder: Path) -> None:
    """Mark a folder as used, once per process, so that it is not removed."""
    with suppress(OSError):
        os.utime(folder)


def remove_unused(root: Path) -> None:
    """Remove folders of machine code that were not used for a month.

    These folders belong to other versions of the sources, which are compiled again if needed.
    Other processes may remove folders at the same time.
    """
    with suppress(OSError):
        for folder in list(root.iterdir()):
            is_ours = _FOLDER.fullmatch(folder.name) and folder.is_dir()
            if is_ours and time.time() - folder.stat().st_mtime > _KEPT_S:
                shutil.rmtree(folder, ignore_errors=True)


def _checked_payload(file: Path) -> bytes | None:
    try:
        content = file.read_bytes()
    except OSError:
        return None
    check, payload = content[:32], content[32:]
    return payload if hashlib.sha256(payload).digest() == check else None


def _is_written(file: Path, content: bytes) -> bool:
    """Write a file atomically, so that other processes see all of it or none; return success."""
    if not file.parent.exists():
        remove_unused(file.parent.parent)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as partial:
            partial.write(content)
        Path(partial.name).replace(file)
    except OSError:
        return False
    return True
