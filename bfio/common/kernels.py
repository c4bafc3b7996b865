"""How functions become machine code, and where it is kept.

Machine code is kept on disk under a digest of all that it is made of: the sources of the module
that holds the function and of every module that this imports (`bfio.common.import_closure`), and
the versions of Numba and Python and the processor. So it is valid wherever it is found: an
editor, another checkout or an upgrade change the digest, and never meet machine code of older
sources. The folder is ``NUMBA_CACHE_DIR`` if that is set, or else ``~/.cache``, or what
``XDG_CACHE_HOME`` names; where neither can be written, one for temporary files, with a warning.

Only entry points are kept; what they call is compiled into them. Numba is loaded by the first
decorator, not by this module: whoever asks what is compiled does not wait for it. All that is
private to Numba and used here is in `_DiskCache` and `bfio.common.late_code`.
"""

import hashlib
import importlib.util
import itertools
import os
import pickle
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from bfio.common.import_closure import closure_digest, import_closure, sources_digest
from bfio.common.late_code import (
    generate_late,
    load_without_linear_algebra,
    read_late,
    ready_to_load,
)

P = ParamSpec("P")
R = TypeVar("R")

#: Only compiled code calls an inner function; wrappers for other callers take long to compile.
_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
#: What decides, besides sources, which machine code comes out.
_MAKERS = ("numba", "llvmlite", "numpy")
#: Variables for Numba that do not.
_HARMLESS = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")
_SUFFIX = ".kernel"
#: A folder of machine code that nobody has used for so long is removed [s].
_KEPT_S = 30 * 86_400
_FOLDER = re.compile(r"[0-9a-f]{32}")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` compiled into whatever kernel calls it."""
    # Stated for every function: it would otherwise take over what its first caller says.
    return _dispatcher(function, _nrt=True, **_INNER)


def in_place(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function``, which allocates nothing, compiled into whatever kernel calls it.

    Without allocations no array needs its references counted, which takes several times as long
    to compile and to run as a small function itself.
    """
    return _dispatcher(function, _nrt=False, **_INNER)


def inlined(function: Callable[P, R], *, allocates: bool = False) -> Callable[P, R]:
    """Return ``function`` as `in_place` does, written into its caller whatever its size.

    It takes longer to compile; worth it in loops over states that spend their time in calls.
    """
    return _dispatcher(function, _nrt=allocates, forceinline=True, **_INNER)


def entry_point(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` compiled on its first call with such arguments, and kept on disk.

    It runs without the interpreter's lock, so threads may run kernels side by side. Of a function
    that depends on variables of an enclosing one nothing is kept: sources do not tell them.
    """
    machine_code: Any = _dispatcher(function, nogil=True, no_cfunc_wrapper=True)
    if hasattr(machine_code, "py_func") and not function.__closure__:
        machine_code._cache = _DiskCache(function)  # noqa: SLF001
    compiled: Callable[P, R] = machine_code
    return compiled


def is_compiled(name: str) -> bool:
    """Return whether machine code of an entry point is on disk, made from the present sources.

    Parameters
    ----------
    name : str
        The entry point as ``module:function``; neither its module nor Numba is imported.
    """
    module, _, function = name.partition(":")
    pattern = f"{module}.{function}-*{_SUFFIX}"
    return any(any(place.glob(pattern)) for place in _places(module))


def cache_folders() -> tuple[Path, Path]:
    """Return the folder under which machine code is kept, and the one if that is impossible."""
    named = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    wanted = Path(named) if named else Path("~").expanduser() / ".cache"
    spare = Path(tempfile.gettempdir()) / f"bfio-kernels-{_user()}"
    return wanted / "bfio" / "kernels", spare


def _usable(folder: Path) -> bool:
    """Whether a folder can hold machine code: in a public place it must be the user's own."""
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
    """Say, once, where machine code is kept instead."""
    print(
        f"warning: machine code cannot be kept in {folder}, so it is kept in {spare}; "
        "set NUMBA_CACHE_DIR to a folder of yours",
        file=sys.stderr,
    )


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _places(module: str) -> list[Path]:
    """Return the folders that may hold machine code of a module, the one to use first."""
    name = _folder_name(module)
    return [] if name is None else [root / name for root in cache_folders() if _usable(root)]


@cache
def _folder_name(module: str) -> str | None:
    """Return the folder's name of what is made from a module, None if it has no file.

    Sources are read once in a process, which goes on running what it has read.
    """
    if module in (closure := import_closure(module)):
        sources = sources_digest(closure)
    elif (file := _file_of(module)) is None:
        return None
    else:
        # A file that was named by its path is imported under another name than its own.
        own_name = module if file.stem == "__init__" else _beside(module, file.stem)
        depth = module.count(".") + (file.stem == "__init__")
        sources = closure_digest(own_name, root=file.parents[depth])
    return hashlib.sha256(f"{sources}\n{_makers()}".encode()).hexdigest()[:32]


def _file_of(module: str) -> Path | None:
    """Return the file of a user's module, None if it has none."""
    if module in sys.modules:
        origin = getattr(sys.modules[module], "__file__", None)
    else:
        spec = importlib.util.find_spec(module)
        origin = spec.origin if spec is not None and spec.has_location else None
    return None if origin is None else Path(origin)


def _beside(module: str, stem: str) -> str:
    """Return the name of a module of the same package."""
    return ".".join([*module.split(".")[:-1], stem])


@cache
def _makers() -> str:
    versions = [f"{name} {version(name)}" for name in _MAKERS]
    python = f"{sys.implementation.cache_tag} {platform.python_version()} {sys.flags.optimize}"
    settings = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith("NUMBA_") and name not in _HARMLESS
    ]
    return "\n".join([*versions, python, _processor(), *settings])


def _processor() -> str:
    """Return what tells this processor's machine code from that of others."""
    lines: list[str] = []
    if Path("/proc/cpuinfo").exists():
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.split("\n\n")[0].splitlines() if _tells_features(line)]
    return "\n".join([platform.system(), platform.machine(), platform.processor(), *lines])


def _tells_features(line: str) -> bool:
    return line.startswith(("model name", "flags", "Features", "CPU part"))


def _dispatcher(function: Callable[P, R], **options: bool) -> Callable[P, R]:
    """Return a function that Numba compiles for types of arguments when it meets them.

    For types only: it would compile anew for every number that a caller writes down.
    """
    machine_code: Any = _njit()(**options)(function)
    if hasattr(machine_code, "py_func"):
        from numba.types import unliteral

        template = machine_code.get_call_template
        machine_code.get_call_template = lambda args, named: template(
            [unliteral(kind) for kind in args],
            {name: unliteral(kind) for name, kind in named.items()},
        )
    compiled: Callable[P, R] = machine_code
    return compiled


@cache
def _njit() -> Any:
    """Return Numba's decorator, set up for our kernels."""
    from numba import njit

    generate_late()
    read_late()
    load_without_linear_algebra()
    _number_apart()
    os.register_at_fork(after_in_child=_number_apart)
    return njit


def _number_apart() -> None:
    """Let Numba number functions from where no other process is likely to.

    A symbol in machine code is the name of its function and such a number, and of two symbols that
    are equal the linker takes one. Numba's sorts of values and of positions have one name: two
    kernels that two processes had kept on disk gave each other's.
    """
    from numba.core.bytecode import FunctionIdentity

    # No number is used up to where 2**32 functions lead.
    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(7)) << 32)  # noqa: SLF001


class _DiskCache:
    """What Numba asks for machine code before it compiles, and gives it to afterwards.

    One file for each function and types of arguments, written whole or not at all, which begins
    with a digest of the rest: a damaged one is compiled anew.
    """

    #: Numba shows it in statistics.
    cache_path = ""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return compiled code for types of arguments, or None."""
        from numba.core.compiler import CompileResult

        ready_to_load(target)
        name = self._file_name(signature, target.codegen())
        for place in _places(self._function.__module__):
            payload = _checked_payload(place / name)
            if payload is not None:
                note_use(place)
                return CompileResult._rebuild(target, *pickle.loads(payload))  # noqa: SLF001
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep compiled code; what cannot be kept is compiled again in the next process.

        Inner functions, generated late, find their environments in it only now.
        """
        from numba.core.serialize import dumps

        for environment in result._find_referenced_environments():  # noqa: SLF001
            result.codegen.set_env(environment.env_name, environment)
        if result.lifted or result.library.has_dynamic_globals:
            return
        payload = dumps(result._reduce())  # noqa: SLF001
        name = self._file_name(signature, result.codegen)
        places = _places(self._function.__module__)
        for place, spare in zip(places, [*places[1:], None], strict=True):
            if _is_written(place / name, hashlib.sha256(payload).digest() + payload):
                return
            if spare is not None:
                _warn(place.parent, spare.parent)

    def _file_name(self, signature: Any, codegen: Any) -> str:
        function = self._function
        key = f"{function.__code__.co_firstlineno} {signature!r} {codegen.magic_tuple()!r}"
        types = hashlib.sha256(key.encode()).hexdigest()[:16]
        return f"{function.__module__}.{function.__qualname__}-{types}{_SUFFIX}"

    def flush(self) -> None:
        """Forget nothing: what is kept is valid."""


@cache
def note_use(folder: Path) -> None:
    """Keep a folder from being removed, once in a process."""
    with suppress(OSError):
        os.utime(folder)


def remove_unused(root: Path) -> None:
    """Remove folders of machine code that nobody has used for a month.

    They are of other sources, which compile again if they ever come back. Other processes may do
    the same at the same time.
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
    """Write a file at once, so that another process finds all of it or none; say if it worked."""
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
