"""How the kernels become machine code, and how machine code of older sources is told apart.

Numba caches a compiled function under the time stamp of the one file that holds it; it would go on
using callees from other files as they were when it was compiled. So only the entry point is
cached, and it depends on a fingerprint of all sources through a variable of an enclosing function,
which Numba counts in. Whoever caches code that calls it does the same with `sources_fingerprint`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeAlias, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bfio.step.two_stage.kernels.on_disk import fingerprint

#: Bits of reachable sums, 64 to a word.
Words: TypeAlias = NDArray[np.uint64]

#: Only compiled code calls an inner function; wrappers for other callers take long to compile.
_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` compiled into whatever calls it."""
    machine_code: Callable[P, R] = njit(**_INNER)(function)
    return machine_code


def in_place(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function``, which allocates nothing, compiled into whatever calls it.

    Without allocations no array needs its references counted, and inlined no state needs to be
    handed over: each of the two takes several times as long as these small functions themselves.
    """
    machine_code: Callable[P, R] = njit(_nrt=False, forceinline=True, **_INNER)(function)
    return machine_code


def entry_point(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` compiled on its first call and cached on disk."""
    machine_code: Callable[P, R] = njit(cache=True)(function)
    return machine_code


def sources_fingerprint() -> int:
    """Return 62 bits that change with any source file of this package."""
    return fingerprint((Path(__file__).parent,))
