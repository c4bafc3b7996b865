"""Memory limits: of a command, from size estimates before allocation, and of requests."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from formulations.arrays import BoolArray
from formulations.errors import InputError

#: Environment variable: memory limit of a computation [GiB]; default: a share of free memory.
VARIABLE = "BFIO_MEMORY_GIB"
#: Share of the free memory that one estimate may take. Estimates are rough.
_SHARE = 0.5
_GIBIBYTE = 2**30


def require_memory(num_bytes: int, where: str, size: str, remedy: str) -> None:
    """Reject a computation whose estimated memory exceeds the limit, before allocation.

    Parameters
    ----------
    num_bytes : int
        Estimated memory [bytes].
    where : str
        Input named in the error.
    size : str
        Size of this input as text.
    remedy : str
        What the user should do.

    Raises
    ------
    InputError
        With size, estimate and remedy.
    """
    allowed = allowed_bytes()
    if num_bytes > allowed:
        what = (
            f"{size} take about {num_bytes / _GIBIBYTE:,.1f} GiB; "
            f"the limit is {allowed / _GIBIBYTE:,.1f} GiB"
        )
        raise InputError(where, what, f"{remedy}, or raise the limit with {VARIABLE}")


def allowed_bytes() -> int:
    """Return the memory limit of a command [bytes]: `VARIABLE`, or a share of the free memory.

    Raises
    ------
    InputError
        If the environment variable is not a number > 0.
    """
    said = os.environ.get(VARIABLE)
    if not said:
        return int(_SHARE * free_bytes())
    try:
        gibibytes = float(said)
    except ValueError:
        gibibytes = 0.0
    if not 0 < gibibytes < 1e9:
        raise InputError(VARIABLE, f"{said!r:.40}", "set it to a number of GiB above 0")
    return int(gibibytes * _GIBIBYTE)


def free_bytes() -> int:
    """Return the memory available to this process, on machine and in control group [bytes]."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    meminfo = _text("/proc/meminfo")
    if "MemAvailable:" in meminfo:
        machine = 1024 * int(meminfo.split("MemAvailable:")[1].split()[0])
    most, used = _text("/sys/fs/cgroup/memory.max"), _text("/sys/fs/cgroup/memory.current")
    if most.strip().isdigit() and used.strip().isdigit():
        machine = min(machine, max(0, int(most) - int(used)))
    return machine


@contextmanager
def limited_memory(more_bytes: int) -> Iterator[None]:
    """Limit the address space of this process to its present size plus ``more_bytes``."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = _text("/proc/self/statm").split()
    if not pages:
        yield
        return
    limit = int(pages[0]) * os.sysconf("SC_PAGE_SIZE") + more_bytes
    known = [value for value in (soft, hard) if value != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([limit, *known]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="ascii")
    except OSError:
        return ""


def refuse_oversized(oversized: BoolArray, memory: int, remedy: str) -> None:
    """Reject requests that exceed the KV-cache memory even when they run alone.

    Parameters
    ----------
    oversized : BoolArray
        Shape (n,): whether each request exceeds the memory.
    memory : int
        Size of the memory [tokens].
    remedy : str
        What the user should do.

    Raises
    ------
    InputError
        If there is such a request; the message names the first and counts all.
    """
    if (count := int(np.count_nonzero(oversized))) > 0:
        what = f"{count} of {len(oversized)} requests exceed the memory of {memory} tokens alone"
        raise InputError(f"requests[{int(np.argmax(oversized))}]", what, remedy)
