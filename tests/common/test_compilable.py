"""Functions that are inlined into the machine code of their callers."""

from typing import Any, cast

import numpy as np

from bfio.common.compilable import compilable, machine_code
from bfio.common.kernels import entry_point
from formulations.arrays import IntArray


@compilable(into_caller=True)
def shift(values: IntArray, amount: int) -> int:
    """Add to all numbers, and return their sum."""
    for i in range(len(values)):
        values[i] += amount
    return int(values.sum())


@compilable(allocates=True, into_caller=True)
def doubled(values: IntArray) -> IntArray:
    """Return an array of twice the numbers."""
    return 2 * values


def run(values: IntArray, amount: int) -> int:
    """Call each of them, one twice."""
    return shift(values, amount) + shift(doubled(values), -amount)


def test_they_do_the_same_and_are_not_called() -> None:
    """Interpreted and compiled alike; Numba is told, also of what allocates."""
    slow, fast = np.arange(5), np.arange(5)
    compiled: Any = entry_point(run)
    assert run(slow, 3) == compiled(fast, 3) == 25 + 35
    assert slow.tolist() == fast.tolist() == [3, 4, 5, 6, 7]
    for function in (shift, doubled):
        options = cast(Any, machine_code(function)).targetoptions
        assert options["forceinline"]
        assert options["_nrt"] is (function is doubled)
