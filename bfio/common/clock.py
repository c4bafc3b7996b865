"""Measure the time of a piece of work."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def timed(
    work: Callable[[], T], clock: Callable[[], float] = time.perf_counter
) -> tuple[T, float]:
    """Return what a function returns, and the time that it took by a clock [s]."""
    began = clock()
    found = work()
    return found, clock() - began
