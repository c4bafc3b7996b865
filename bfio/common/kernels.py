"""Entry points of machine code, and their storage on disk.

Python calls a function decorated by `entry_point`. Its first call compiles it together with all
`compilable` functions that it names. The machine code is stored on disk under a digest of
everything that determines it (`bfio.common.kernel_key`), the versions of Numba and Python, and the
processor. So stored code is always valid: an edit of a compiled function, another checkout or an
upgrade changes the digest. The folder is ``NUMBA_CACHE_DIR`` or ``XDG_CACHE_HOME`` if set,
otherwise ``~/.cache``. If that cannot be written, a temporary folder is used, with a warning.

Numba is loaded by the first call of an entry point, not by this module or the decorator. Queries
of what is compiled are therefore fast.
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
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from bfio.common.compilable import Recipe, linked
from bfio.common.import_closure import closure_digest
from bfio.common.kernel_key import Made, made_of
from bfio.common.numba_parts import compiled_entry, uses_private_parts

P = ParamSpec("P")
R = TypeVar("R")

#: Packages whose versions determine the machine code, in addition to the sources.
_MAKERS = ("numba", "llvmlite", "numpy")
#: Variables of Numba that do not affect machine code.
_HARMLESS = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")
_SUFFIX = ".kernel"
#: Time after which an unused folder of machine code is removed [s].
_KEPT_S = 30 * 86_400
_FOLDER = re.compile(r"[0-9a-f]{32}")
_is_interpreting: ContextVar[bool] = ContextVar("is_interpreting", default=False)


class EntryPoint:
    """The sources of a function under `entry_point`, its machine code, and its storage.

    Attributes
    ----------
    py_func : callable
        The function in Python.
    name : str
        ``module:function``.
    """

    def __init__(self, function: Callable[..., Any], name: str, without: frozenset[str]) -> None:
        self.py_func, self._without = function, without
        self.name = name or f"{function.__module__}:{function.__qualname__}"

    @cached_property
    def made(self) -> Made:
        """The sources of its machine code, with their digest."""
        return made_of(self.py_func, self._without)

    @cached_property
    def machine_code(self) -> Any:
        """The dispatcher of Numba. Nothing is compiled before its first call."""
        is_kept = uses_private_parts() and self.made.digest is not None
        return compiled_entry(self.py_func, self._linked, self if is_kept else None)

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

    def _linked(self, function: Callable[..., Any]) -> Any:
        return linked(function, self._without)

    def _places(self) -> list[Path]:
        """Return the possible folders of its machine code, the preferred one first."""
        if self.made.digest is None:
            return []
        name = hashlib.sha256(f"{self.made.digest}\n{_makers()}".encode()).hexdigest()[:32]
        return [root / name for root in cache_folders() if _usable(root)]

    @property
    def _stem(self) -> str:
        return self.name.replace(":", ".")

    def _file_name(self, types: str) -> str:
        return f"{self._stem}-{hashlib.sha256(types.encode()).hexdigest()[:16]}{_SUFFIX}"


def entry_point(
    function: Callable[P, R], *, name: str = "", without: frozenset[str] = frozenset()
) -> Callable[P, R]:
    """Return ``function`` compiled at its first call per argument types, with storage on disk.

    It runs without the interpreter lock, so threads may run kernels concurrently.

    Parameters
    ----------
    function : callable
        A Python function that Numba supports; it may call compilable functions.
    name : str
        ``module:function`` under which it is stored, if different from its own name.
    without : frozenset of str
        Features left out of the machine code, see `bfio.common.compilable`.
    """
    entry = EntryPoint(function, name, without)
    code: Callable[..., R] = function

    def first_call(*args: P.args, **kwargs: P.kwargs) -> R:
        if _is_interpreting.get():
            return function(*args, **kwargs)
        nonlocal code
        code = entry.machine_code
        return code(*args, **kwargs)

    code = cast(Callable[..., R], first_call)

    # Dispatch by a class method, or named arguments, would take as long as a small kernel.
    @functools.wraps(function)
    def call(*args: P.args, **_: P.kwargs) -> R:
        return code(*args)

    call.entry = entry  # type: ignore[attr-defined]
    # Machine code that calls an entry point calls its machine code directly.
    call.__recipe__ = Recipe(written_by=lambda: entry.machine_code)  # type: ignore[attr-defined]
    return call


def entry_of(function: Callable[..., Any]) -> EntryPoint:
    """Return the `EntryPoint` of a function under `entry_point`."""
    entry: EntryPoint = function.entry  # type: ignore[attr-defined]
    return entry


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
    """Return whether a folder may hold machine code; in a public place it must be the user's."""
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
    """Warn once about the folder in which machine code is stored instead."""
    print(
        f"warning: machine code cannot be kept in {folder}, so it is kept in {spare}; "
        "set NUMBA_CACHE_DIR to a folder of yours",
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

    They belong to other sources, which are compiled again if needed. Other processes may remove
    folders at the same time.
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
