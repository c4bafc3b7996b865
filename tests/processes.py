"""Start programs in tests and wait for conditions, on machines of any speed."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
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
