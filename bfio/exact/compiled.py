"""Compile a function with Numba, keeping its type."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` compiled to machine code on its first call and cached on disk."""
    machine_code: Callable[P, R] = njit(cache=True)(function)
    return machine_code
