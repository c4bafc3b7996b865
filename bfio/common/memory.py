"""How much memory a command may take: judged from sizes before anything is allocated."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from formulations.errors import InputError

#: Gibibytes that a computation may take, in the place of the share of what is free.
VARIABLE = "BFIO_MEMORY_GIB"
#: Share of the free memory that one estimate may reach: estimates are rough, and others run too.
_SHARE = 0.5
_GIBIBYTE = 2**30


def require_memory(num_bytes: int, where: str, size: str, remedy: str) -> None:
    """Refuse what would take more memory than there is, before it is allocated.

    Parameters
    ----------
    num_bytes : int
        Estimate, from sizes alone.
    where : str
        What is too large, for the error.
    size : str
        How large it is, in words.
    remedy : str
        What the user should do.

    Raises
    ------
    InputError
        Naming size, estimate and remedy.
    """
    allowed = allowed_bytes()
    if num_bytes > allowed:
        what = (
            f"{size} take about {num_bytes / _GIBIBYTE:,.1f} GiB, "
            f"of which {allowed / _GIBIBYTE:,.1f} are allowed"
        )
        raise InputError(where, what, f"{remedy}, or allow more with {VARIABLE}")


def allowed_bytes() -> int:
    """Return what an estimate may reach: `VARIABLE`, or a share of the memory that is free.

    Raises
    ------
    InputError
        If the variable is no number above 0.
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
    """Return the memory that this process could still take, of the machine and of its group."""
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
    """Let allocations fail that would take this process that much beyond what it has."""
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
