"""Run a case in a forked copy of this process, and return its outcome.

The copy has all modules and compiled kernels loaded, so that a case has little overhead. It has
its own memory and time limits, signals and working directory.
"""

import contextlib
import ctypes
import io
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from proofs_checks.evidence import VacuousCheckError
from tests.fuzz.case import Case

#: Seconds of work after which a case is interrupted, and that it then has to end.
SOFT_SECONDS, GRACE_SECONDS = 6.0, 2.0
#: Seconds of work after the interrupt at which it is killed.
_KILL_SECONDS = 5.0
#: Idle seconds that count as one second of work, so that a sleeping case is ended too.
_IDLE_SHARE = 4.0
#: Address space of a case beyond that of this process, and its largest file [bytes].
_ADDRESS_SPACE, _FILE_SIZE = 6 << 30, 1 << 28
_PR_SET_CHILD_SUBREAPER = 36
_LOOK_S = 0.05
#: Encoding of the locale of that name, in which Python is started anew.
POSIX = "posix"
#: Temporary folder that commands share where nothing else can be written.
_KERNELS = "bfio-kernels"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a case.

    Parameters
    ----------
    status : int
        Exit status; negative for the signal that ended it.
    out, err : bytes
        What it wrote to standard output and error.
    wall_s, cpu_s : float
        Time that it took.
    peak_bytes : int
        Most memory beyond what it began with.
    interrupt_s : float or None
        How long it ran after the interrupt; None if it ended by itself.
    written : tuple of str
        Files that are new or changed, relative to its working directory.
    left : tuple of str
        Temporary files and processes that outlive it.
    """

    status: int
    out: bytes
    err: bytes
    wall_s: float
    cpu_s: float
    peak_bytes: int
    interrupt_s: float | None
    written: tuple[str, ...]
    left: tuple[str, ...]


def warm_up(*, with_kernels: bool) -> None:
    """Load the modules of all commands, and kernels; adopt orphaned processes of cases."""
    import rich.console  # noqa: F401

    from bfio.cli.command import commands
    from bfio.common.kernel_groups import groups

    commands()
    for group in groups().values() if with_kernels else ():
        if group.is_ready():
            group.warm_up_here()
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run(case: Case, soft_s: float = SOFT_SECONDS) -> Outcome:
    """Run a case in an empty folder of its own."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        box = Path(name)
        for part in ("work", "tmp", "claims"):
            (box / part).mkdir()
        case.write_files(box / "work")
        case.write_counterexamples(box / "claims")
        (box / "stdin").write_bytes(case.stdin)
        before = _stamps(box / "work")
        sys.stdout.flush()
        sys.stderr.flush()
        began = time.perf_counter()
        child = os.fork()
        if child == 0:
            _become(case, box)
        status, usage, interrupt_s = _wait(child, soft_s)
        wall_s = time.perf_counter() - began
        left = [
            *_adopted(),
            *(
                f"$TMPDIR/{path.name}"
                for path in (box / "tmp").iterdir()
                if not path.name.startswith(_KERNELS)
            ),
        ]
        after = _stamps(box / "work")
        return Outcome(
            status=os.waitstatus_to_exitcode(status),
            out=(box / "out").read_bytes(),
            err=(box / "err").read_bytes(),
            wall_s=wall_s,
            cpu_s=usage.ru_utime + usage.ru_stime,
            peak_bytes=(usage.ru_maxrss - _own_kilobytes()) * 1024,
            interrupt_s=interrupt_s,
            written=tuple(sorted(p for p in after if after[p] != before.get(p))),
            left=tuple(left) if interrupt_s is None else (),
        )


def _wait(child: int, soft_s: float) -> tuple[int, Any, float | None]:
    """Wait for a case; interrupt it after its time limit, and kill it if it does not end."""
    clock, interrupted = _Clock(child), None
    death = os.pidfd_open(child)
    try:
        while not select.select([death], [], [], _LOOK_S)[0]:
            if interrupted is None and clock.work() > soft_s:
                interrupted = clock.work()
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGINT)
            elif interrupted is not None and clock.work() - interrupted > _KILL_SECONDS:
                _end_group(child)
        ran_on = None if interrupted is None else clock.work() - interrupted
        _, status, usage = os.wait4(child, 0)
    finally:
        os.close(death)
    _end_group(child)
    return status, usage, ran_on


class _Clock:
    """Work of a process and its children, on a busy machine and with waiting times."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._began = time.monotonic()
        self._most = 0.0

    def work(self) -> float:
        """Return the seconds of the processor they had, or a share of those of the wall."""
        wall = time.monotonic() - self._began
        # Less than before if one of them has ended since.
        self._most = max(self._most, min(_processor_s(self._pid), wall), wall / _IDLE_SHARE)
        return self._most


def _processor_s(pid: int) -> float:
    """Return the seconds that a process and those below it have had of the processor."""
    ticks, open_pids = 0, [pid]
    while open_pids:
        proc = Path(f"/proc/{open_pids.pop()}")
        with contextlib.suppress(OSError):
            fields = (proc / "stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
            for task in (proc / "task").iterdir():
                open_pids += map(int, (task / "children").read_text().split())
    return ticks / os.sysconf("SC_CLK_TCK")


def _end_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def _adopted() -> list[str]:
    """End the processes that a case left behind; return what they were, if they live on."""
    found = []
    deadline = time.monotonic() + 1.0
    while children := _children():
        for pid in children:
            done, _ = os.waitpid(pid, os.WNOHANG)
            if not done and time.monotonic() > deadline:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                found.append(f"process {b' '.join(words).decode(errors='replace')[:100]}")
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        time.sleep(_LOOK_S)
    return found


def _children() -> list[int]:
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(word) for word in text.split()]


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of each file, by its place relative to a folder."""
    found = {}
    for path in folder.rglob("*"):
        stat = path.lstat()
        if not path.is_dir():
            found[str(path.relative_to(folder))] = (stat.st_size, stat.st_mtime_ns)
    return found


def _own_kilobytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


def _become(case: Case, box: Path) -> NoReturn:
    """In the copy: be a fresh ``bfio`` with the words of the case, and end."""
    status = 70
    try:
        _settle(case, box)
        if case.encoding == POSIX:
            os.execve(sys.executable, [sys.executable, "-m", "bfio", *case.argv], _posix())
        status = _called(case)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BaseException:  # what the interpreter would print and leave with 1
        traceback.print_exc()
        sys.stderr.flush()
        status = 1
    finally:
        os._exit(status)


def _called(case: Case) -> int:
    from bfio.cli import run as bfio

    sys.argv = ["bfio", *case.argv]
    try:
        bfio()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)


def _posix() -> dict[str, str]:
    others = {k: v for k, v in os.environ.items() if k not in ("LANG", "PYTHONIOENCODING")}
    return others | {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def _settle(case: Case, box: Path) -> None:
    os.setsid()
    os.chdir(box / "work")
    os.environ["TMPDIR"] = tempfile.tempdir = str(box / "tmp")
    if case.encoding != POSIX:
        os.environ["PYTHONIOENCODING"] = case.encoding
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + _ADDRESS_SPACE,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_SIZE,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, (name, flags) in enumerate(_STREAMS):
        os.dup2(os.open(box / name, flags, 0o600), number)
    encoding = "ascii" if case.encoding == POSIX else case.encoding
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", False), encoding, "strict")
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", False), encoding, "backslashreplace", line_buffering=True
    )
    socket.socket.connect = _no_network  # type: ignore[method-assign,assignment]
    if case.counterexamples:
        import proofs_checks.run
        import proofs_checks.store

        proofs_checks.store.COUNTEREXAMPLES = box / "claims"
        proofs_checks.run.run_check = _no_evidence  # type: ignore[assignment]


#: Where the standard streams lead, by number.
_STREAMS = (
    ("stdin", os.O_RDONLY),
    ("out", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ("err", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
)


def _no_evidence(*_: object) -> NoReturn:
    raise VacuousCheckError("not checked here")


def _no_network(self: socket.socket, address: object) -> None:
    """Replace ``connect``, so that inputs cannot use the network."""
    raise ConnectionRefusedError(111, "Connection refused")


@contextlib.contextmanager
def quiet_collector() -> Iterator[None]:
    """Keep the collector from touching the memory that copies share."""
    import gc

    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
