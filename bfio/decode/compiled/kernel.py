"""How functions of this package become machine code, and how old machine code is told apart.

Numba caches a compiled function under the time stamp of the one file that holds it. A function
that calls into other files would go on using what they said when it was compiled. So here only
the entry points are cached: each is made by a function of the fingerprint below, which Numba
counts among the variables the code depends on. Everything they call is compiled into them.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from numba import njit

from bfio.decode.compiled.scope import SOURCES
from bfio.step.two_stage.kernels.on_disk import fingerprint

#: Nothing but other kernels calls an inner one: it needs no wrapper for Python, slow to compile.
_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` compiled into whatever kernel calls it."""
    compiled: Callable[P, R] = njit(**_INNER)(function)
    return compiled


def in_place(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function``, which allocates nothing, compiled into whatever kernel calls it.

    Without allocations no array needs its references counted.
    """
    compiled: Callable[P, R] = njit(_nrt=False, **_INNER)(function)
    return compiled


def entry_point(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` compiled on its first call and cached on disk.

    It must depend on `sources_fingerprint` through a variable of an enclosing function.
    """
    compiled: Callable[P, R] = njit(cache=True)(function)
    return compiled


def sources_fingerprint() -> int:
    """Return 62 bits that change with any source of this package or of the two-stage kernels."""
    return fingerprint(SOURCES)
