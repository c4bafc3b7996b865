"""Entry points of machine code, and where it is kept on disk.

Python calls a function under `entry_point`; it is compiled, together with all `compilable`
functions that it names, by its first call. Its machine code is kept on disk under a digest of all
that it is made of (`bfio.common.kernel_key`), the versions of Numba and Python and the processor.
So it is valid wherever it is found: an edit of a compiled function, another checkout or an upgrade
change the digest, and never meet machine code of older sources. The folder is
``NUMBA_CACHE_DIR`` if that is set, or else ``~/.cache``, or what ``XDG_CACHE_HOME`` names; where
neither can be written, one for temporary files, with a warning.

Numba is loaded by the first call of an entry point, not by this module or a decorator: whoever
asks what is compiled does not wait for it.
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

#: What decides, besides sources, which machine code comes out.
_MAKERS = ("numba", "llvmlite", "numpy")
#: Variables for Numba that do not.
_HARMLESS = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")
_SUFFIX = ".kernel"
#: A folder of machine code that nobody has used for so long is removed [s].
_KEPT_S = 30 * 86_400
_FOLDER = re.compile(r"[0-9a-f]{32}")
_is_interpreting: ContextVar[bool] = ContextVar("is_interpreting", default=False)


class EntryPoint:
    """What a function under `entry_point` is made of, its machine code, and where that is kept.

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
        """What its machine code is made of."""
        return made_of(self.py_func, self._without)

    @cached_property
    def machine_code(self) -> Any:
        """What Numba makes of it; nothing is compiled before it is called."""
        is_kept = uses_private_parts() and self.made.digest is not None
        return compiled_entry(self.py_func, self._linked, self if is_kept else None)

    def is_compiled(self) -> bool:
        """Return whether its machine code is on disk, made from what it is made of now."""
        pattern = f"{self._stem}-*{_SUFFIX}"
        return uses_private_parts() and any(any(at.glob(pattern)) for at in self._places())

    def read(self, types: str) -> bytes | None:
        """Return its machine code for types of arguments, None if there is none on disk."""
        for place in self._places():
            payload = _checked_payload(place / self._file_name(types))
            if payload is not None:
                note_use(place)
                return payload
        return None

    def write(self, types: str, payload: bytes) -> None:
        """Keep its machine code; what cannot be kept is compiled again in the next process."""
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
        """Return the folders that may hold its machine code, the one to use first."""
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
    """Return ``function`` compiled on its first call with such arguments, and kept on disk.

    It runs without the interpreter's lock, so threads may run kernels side by side.

    Parameters
    ----------
    function : callable
        Plain Python that Numba understands; it may name compilable functions.
    name : str
        ``module:function`` under which it is kept, if that is not its own name.
    without : frozenset of str
        Features that it does not contain, see `bfio.common.compilable`.
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

    # A method of a class, and named arguments, would take as long as a small kernel.
    @functools.wraps(function)
    def call(*args: P.args, **_: P.kwargs) -> R:
        return code(*args)

    call.entry = entry  # type: ignore[attr-defined]
    # Machine code that names an entry point calls its machine code.
    call.__recipe__ = Recipe(written_by=lambda: entry.machine_code)  # type: ignore[attr-defined]
    return call


def entry_of(function: Callable[..., Any]) -> EntryPoint:
    """Return what is known of a function under `entry_point`."""
    entry: EntryPoint = function.entry  # type: ignore[attr-defined]
    return entry


@contextmanager
def interpreted() -> Iterator[None]:
    """Let entry points that this process has not called yet run as plain Python."""
    token = _is_interpreting.set(True)
    try:
        yield
    finally:
        _is_interpreting.reset(token)


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


@cache
def _makers() -> str:
    # How machine code is made counts as well.
    versions = [f"{name} {version(name)}" for name in _MAKERS] + [closure_digest(__name__)]
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
