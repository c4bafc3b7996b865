"""Amounts by which records of a run violate rules, for the checkers of all engines."""

import numpy as np

from formulations.arrays import BoolArray, IntArray


def number(flags: BoolArray) -> int:
    """Return the number of true entries."""
    return int(np.count_nonzero(flags))


def covered(first: IntArray, end: IntArray, steps: int, weight: IntArray | int = 1) -> IntArray:
    """Return the total weight of the intervals ``[first, end)`` at each step, shape (steps,)."""
    change = np.zeros(steps + 1, dtype=np.int64)
    np.add.at(change, first, weight)
    np.subtract.at(change, end, weight)
    return np.cumsum(change[:-1])


def amounts(name: str, excess: IntArray) -> dict[str, int]:
    """Return each positive excess by its place, as ``name[k]``."""
    return {f"{name}[{k}]": int(excess[k]) for k in np.flatnonzero(excess > 0).tolist()}
