"""Compile a function with Numba, keeping its type."""

from collections.abc import Callable
from typing import ParamSpec, TypeAlias, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

#: Bits of reachable sums, 64 to a word, and the one word of a pseudo-random sequence.
Words: TypeAlias = NDArray[np.uint64]
RandomState: TypeAlias = NDArray[np.uint64]

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` compiled to machine code on its first call and cached on disk.

    It runs without the interpreter's lock, so threads may run kernels side by side.
    """
    machine_code: Callable[P, R] = njit(cache=True, nogil=True)(function)
    return machine_code
