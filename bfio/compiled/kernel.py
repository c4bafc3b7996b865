"""How functions of this package become machine code, and how old machine code is told apart.

Numba caches a compiled function under the time stamp of the one file that holds it. A function
that calls into other files would go on using what they said when it was compiled. So here only
the entry points are cached: each is made by a function of the fingerprint below, which Numba
counts among the variables the code depends on. Everything they call is compiled into them.
"""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import ParamSpec, TypeVar

from numba import njit

from bfio.policies.kernels import machine_code

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


@cache
def sources_fingerprint() -> int:
    """Return 62 bits that change with any source of this package or of the two-stage kernels."""
    digest = sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return (int.from_bytes(digest.digest()[:8], "big") >> 2) ^ machine_code.sources_fingerprint()
