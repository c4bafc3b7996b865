"""Compile a function with Numba, keeping its type."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bfio.step.two_stage.kernels.on_disk import fingerprint

#: Bits of reachable sums, 64 to a word, and the one word of a pseudo-random sequence.
Words: TypeAlias = NDArray[np.uint64]
RandomState: TypeAlias = NDArray[np.uint64]

P = ParamSpec("P")
R = TypeVar("R")

_BFIO = Path(__file__).parents[2]
#: Folders of everything that is compiled here; a test holds the list complete.
SOURCES = tuple(_BFIO / name for name in ("step/exact", "hindsight/latency", "hindsight/makespan"))


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` compiled to machine code on its first call and cached on disk.

    It runs without the interpreter's lock, so threads may run kernels side by side.
    """
    machine_code: Callable[P, R] = njit(cache=True, nogil=True)(function)
    _tie_to_sources(machine_code)
    return machine_code


def _tie_to_sources(machine_code: Any) -> None:
    """Let cached machine code be used only for the sources that it was made from.

    Numba asks for the time stamp of the one file that holds the function, and would go on using
    callees from other files as they were. It offers no public way to add to that stamp.
    """
    file = machine_code._cache._cache_file  # noqa: SLF001
    stamp = file._source_stamp  # noqa: SLF001
    file._source_stamp = (stamp, fingerprint(SOURCES))  # noqa: SLF001
