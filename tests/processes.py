"""Start programs in tests and wait for conditions, on machines of any speed."""

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

#: Seconds after which what was waited for is taken for never; less than a test may take.
#: What must happen soon has a limit of its own, in its test.
PATIENCE_S = 200.0
_LOOK_S = 0.02

T = TypeVar("T")


@contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """Start a program, and end it at the end of the ``with`` block at the latest."""
    with subprocess.Popen(command, text=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def python(
    *words: str, env: Mapping[str, str] = MappingProxyType({}), check: bool = True, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """Run Python with these arguments and additional environment, and return what it prints."""
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=check,
        **{"timeout": PATIENCE_S, **options},
    )


def with_numba(
    folder: Path, code: str, variables: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run a program in a process that begins with Numba loaded, and nothing of bfio.

    To start Python and to load Numba takes two seconds; this process is forked from one that has.
    The program runs in `folder`, imports from there first, and sees `variables`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.numba_loaded"])
    streams = tuple(folder / f"{name}.txt" for name in ("stdout", "stderr"))
    process = context.Process(target=_run_here, args=(folder, code, dict(variables), streams))
    process.start()
    process.join(PATIENCE_S)
    process.kill()
    process.join()
    out, err = (stream.read_text() for stream in streams)
    return subprocess.CompletedProcess(code, process.exitcode or 0, out, err)


def _run_here(
    folder: Path, code: str, variables: dict[str, str], streams: tuple[Path, Path]
) -> None:
    """Run a program in this process, which is of no use afterwards."""
    for number, stream in enumerate(streams, start=1):
        os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.path.insert(0, "")
    sys.dont_write_bytecode = True
    exec(code, {"__name__": "__main__"})


def wait_until(happens: Callable[[], T], what: str, seconds: float = PATIENCE_S) -> T:
    """Call a function until its answer is true, and return the answer.

    Raises
    ------
    AssertionError
        `what` has not happened in time.
    """
    end = time.monotonic() + seconds
    while not (answer := happens()):
        assert time.monotonic() < end, f"not in {seconds:g} s: {what}"
        time.sleep(_LOOK_S)
    return answer


def is_running(process: int) -> bool:
    """Return whether a process runs, that is, is neither gone nor a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # it may end between opening and reading
        return False
    return state not in "ZX"


def children(process: int) -> list[int]:
    """Return the child processes of a process; empty if it has ended."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found
