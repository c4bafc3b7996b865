"""Groups of kernels that are compiled together: before first use, or all at once.

Every module ``kernel_groups`` of this project defines the groups of its sub-package in the tuple
``GROUPS``. Other packages name such a tuple in the entry point group ``bfio.kernels``. Numba is
loaded by the compiling processes, not by this module.

`takes_compiled` chooses between the reference engine (Python) and the compiled one.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from math import ceil
from pkgutil import iter_modules
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Self

from bfio.common.kernels import EntryPoint, cache_folders, entry_of
from bfio.common.numba_parts import uses_private_parts
from bfio.common.processes import interrupts_blocked
from bfio.common.provenance import ROOT
from formulations.errors import InputError
from formulations.problem_data import member

if TYPE_CHECKING:
    from rich.progress import Progress


#: Entry-point group for kernel groups of other packages.
GROUP = "bfio.kernels"
#: Time between two checks of the progress of compiling processes [s].
_LOOK_S = 0.2
#: Program of a compiling process. Garbage collection is off, because it takes a seventh of the
#: time, and the process ends soon.
_COMPILE = (
    "import gc, sys; gc.disable(); from bfio.common import kernel_groups as g; "
    "g.compile_here(sys.argv[1:])"
)


@dataclass(frozen=True)
class KernelGroup:
    """The kernels of one computation.

    Parameters
    ----------
    name : str
        Name in messages and in ``bfio prepare``.
    kernels : tuple of (str or callable)
        Each entry is a module with entry points, a package (all its modules), a single entry point
        as ``module:name``, or a function that returns an entry point created at run time.
    warm_up : str or callable
        Function, or ``module:function``, that compiles all kernels of the group or loads them from
        disk.
    seconds : int
        Approximate compile time on one core [s].
    made : tuple of str
        Names of the group's entry points that are created at run time.
    """

    name: str
    kernels: tuple[str | Callable[[], Callable[..., Any]], ...]
    warm_up: str | Callable[[], None]
    seconds: int
    made: tuple[str, ...] = ()

    def entry_points(self) -> Iterator[EntryPoint]:
        """Yield the entry points of the group. Their modules are imported, Numba is not."""
        for kernel in self.kernels:
            if callable(kernel):
                yield entry_of(kernel())
            elif ":" in kernel:
                module, _, name = kernel.partition(":")
                yield entry_of(getattr(import_module(module), name))
            else:
                for module in _modules(kernel):
                    held = vars(import_module(module)).values()
                    own = [value for value in held if getattr(value, "__module__", "") == module]
                    entries = (getattr(value, "entry", None) for value in own)
                    yield from (entry for entry in entries if isinstance(entry, EntryPoint))

    def num_compiled(self) -> tuple[int, int]:
        """Return how many entry points are compiled and on disk, and how many exist."""
        answers = [entry.is_compiled() for entry in self.entry_points()]
        return sum(answers), len(answers)

    def seconds_missing(self) -> int:
        """Return the approximate time to compile the missing entry points of the group [s]."""
        done, of = self.num_compiled()
        return ceil(self.seconds * (of - done) / of)

    def is_ready(self) -> bool:
        """Return whether all entry points of the group are compiled and on disk."""
        done, of = self.num_compiled()
        return done == of

    def warm_up_here(self) -> None:
        """Compile or load the entry points of the group in this process."""
        if callable(self.warm_up):
            self.warm_up()
            return
        module, _, function = self.warm_up.partition(":")
        getattr(import_module(module), function)()


@cache
def groups() -> dict[str, KernelGroup]:
    """Return all kernel groups by name: those of this project and of installed packages."""
    modules = sorted((ROOT / "bfio").rglob("kernel_groups.py"))
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in modules]
    ours = [import_module(name).GROUPS for name in names if name != __name__]
    others = [point.load() for point in entry_points(group=GROUP)]
    return {group.name: group for some in (*ours, *others) for group in some}


@cache
def ensure_compiled(*names: str) -> None:
    """Compile groups of kernels that are not on disk yet, with a message on stderr.

    Separate processes compile the groups, at most one per processor at a time. If a kernel is not
    compiled there, this process compiles the kernel at its first call.
    """
    if _compiles_here or not uses_private_parts():
        return
    missing = [group for group in map(groups().__getitem__, names) if not group.is_ready()]
    if missing:
        seconds = _about(missing)
        print(
            f"compiling kernels: {', '.join(group.name for group in missing)}, about {seconds} s, "
            "once per installation; `bfio prepare` compiles everything",
            file=sys.stderr,
            flush=True,
        )
        # If processes fail, the first call compiles the kernel or raises its error.
        with suppress(InputError, OSError):
            compile_groups(missing)


@cache
def load(name: str) -> None:
    """Compile a kernel group, or load it from disk, once per process."""
    ensure_compiled(name)
    groups()[name].warm_up_here()


def load_if_compiled(name: str) -> None:
    """Load a kernel group that is on disk, so that no decision's time includes loading."""
    if groups()[name].is_ready():
        load(name)


def compile_groups(missing: Sequence[KernelGroup]) -> dict[str, float]:
    """Compile kernel groups in separate processes; return the time of each group [s].

    Raises
    ------
    InputError
        If a process fails.
    """
    parts = _parts(missing, _num_processors())
    with _bar(missing) as show, ExitStack() as stack:
        processes = [stack.enter_context(_Compiling(part)) for part in parts]
        # Not `all`, which would stop at the first running process: each may have failed.
        while not min([process.has_ended() for process in processes], default=True):
            time.sleep(_LOOK_S)
            for group in missing:
                show(group)
        return {name: s for process in processes for name, s in process.seconds().items()}


def _parts(missing: Sequence[KernelGroup], most: int) -> list[list[KernelGroup]]:
    """Distribute kernel groups over processes: longest first, each to the least loaded one.

    A process that compiles several groups compiles Numba's own functions only once.
    """
    parts: list[list[KernelGroup]] = [[] for _ in range(min(most, len(missing)))]
    for group in sorted(missing, key=lambda group: -group.seconds):
        min(parts, key=lambda part: sum(other.seconds for other in part)).append(group)
    return [part for part in parts if part]


class _Compiling:
    """A process that compiles kernel groups one after the other."""

    def __init__(self, groups: Sequence[KernelGroup]) -> None:
        self._names = [group.name for group in groups]
        # A file instead of a pipe, because its output is read only after the process has ended.
        self._said = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (closed on exit)
        with interrupts_blocked():
            self._process = subprocess.Popen(
                [sys.executable, "-c", _COMPILE, *self._names],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])},
            )

    def has_ended(self) -> bool:
        """Return whether the process has ended. A failure raises an error."""
        code = self._process.poll()
        if code:
            done = self.seconds()
            failed = next((name for name in self._names if name not in done), self._names[-1])
            raise InputError(
                f"kernels {failed}",
                "cannot be compiled",
                "read the error of the compiling process above",
            )
        return code is not None

    def seconds(self) -> dict[str, float]:
        """Return the time of each group after the process has ended [s]."""
        self._said.seek(0)
        said = [line.split("\t") for line in self._said.read().splitlines()]
        return {words[0]: float(words[1]) for words in said if words[0] in self._names}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Kill the process if it has not ended."""
        self._process.kill()
        self._process.wait()
        self._said.close()


def compile_here(names: Sequence[str]) -> None:
    """Compile kernel groups in this process and print the time of each group [s].

    If another process is compiling a group, wait for that process.
    """
    global _compiles_here
    _compiles_here = True
    for name in names:
        began = time.perf_counter()
        with _alone(name):
            groups()[name].warm_up_here()
        print(name, time.perf_counter() - began, sep="\t", flush=True)


_compiles_here = False
_bars: list["Progress"] = []


@contextmanager
def shown_in(progress: "Progress") -> Iterator[None]:
    """Show compile tasks in an existing progress display."""
    _bars.append(progress)
    try:
        yield
    finally:
        _bars.pop()


def _about(missing: Sequence[KernelGroup]) -> int:
    """Return the approximate compile time with the available processors [s]."""
    seconds = [group.seconds_missing() for group in missing]
    return max(max(seconds), round(sum(seconds) / _num_processors()))


def _num_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _modules(name: str) -> list[str]:
    """Return the modules in a package, or the module itself."""
    paths = getattr(import_module(name), "__path__", None)
    return [name] if paths is None else [f"{name}.{each.name}" for each in iter_modules(paths)]


@contextmanager
def _bar(groups: Sequence[KernelGroup]) -> Iterator[Callable[[KernelGroup], None]]:
    """Show progress per entry point on a terminal; yield a function that updates a group's bar."""
    display: Any = _bars[-1] if _bars else _own_display()
    tasks = {
        group.name: display.add_task(f"compile {group.name}", total=group.num_compiled()[1])
        for group in groups
    }
    if not _bars:
        display.start()
    try:
        yield lambda group: display.update(tasks[group.name], completed=group.num_compiled()[0])
    finally:
        for task in tasks.values():
            display.remove_task(task)
        if not _bars:
            display.stop()


def _own_display() -> "Progress":
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Wait until no other process compiles the same group, if file locks are supported."""
    with ExitStack() as stack:
        with suppress(ImportError, OSError):
            import fcntl

            folder = cache_folders()[0]
            folder.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context((folder / f"{name}.lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Engine(StrEnum):
    """The engine of a run. Both engines give the same run."""

    #: Compiled for long runs of built-in policies, otherwise the reference.
    AUTO = "auto"
    COMPILED = "compiled"
    REFERENCE = "reference"


#: Time to load Numba and the machine code of a group, and the machine code alone [s].
LOADING_S, CODE_S = 0.5, 0.1
#: Time that compiled runs would have saved in this process so far, by kernel group [s].
_saveable_s: dict[str, float] = {}


def is_worthwhile(
    kernels: str, saved_s: float, find: Callable[[], KernelGroup] | None = None
) -> bool:
    """Return whether to compile a run; all engines use this rule.

    Kernels are loaded, or compiled if not on disk, as soon as the runs of this process together
    would have saved the time for loading. So many short runs load the kernels just as one long run
    does. Whatever runs follow, the total time is at most twice that of the best choice in
    hindsight (the ski-rental rule).

    Parameters
    ----------
    kernels : str
        Name of the kernels of the run.
    saved_s : float
        Approximate time that the compiled run saves once kernels are loaded [s].
    find : callable, optional
        Returns the group of these kernels; by default the group of that name. Called only where
        the answer depends on the group, because listing groups imports the packages that define
        them.
    """
    saveable = _saveable_s[kernels] = _saveable_s.get(kernels, 0.0) + saved_s
    if saveable <= (CODE_S if "numba" in sys.modules else LOADING_S):
        return False
    group = groups()[kernels] if find is None else find()
    return saveable > group.seconds or group.is_ready()


def takes_compiled(engine: Engine | str, *, able: bool, kernels: str, saved_s: float) -> bool:
    """Return whether to use the compiled engine.

    Parameters
    ----------
    engine : Engine or str
        The requested engine.
    able : bool
        Whether the policy can be compiled.
    kernels, saved_s
        See `is_worthwhile`.

    Raises
    ------
    InputError
        If the engine is unknown, or the compiled engine is requested for a policy that cannot be
        compiled.
    """
    engine = member(Engine, engine, "engine")
    if engine is Engine.COMPILED and not able:
        raise InputError(
            "engine",
            "'compiled' does not support this policy, only built-in ones",
            "use auto or reference",
        )
    if engine is Engine.AUTO:
        return able and is_worthwhile(kernels, saved_s)
    return engine is Engine.COMPILED
