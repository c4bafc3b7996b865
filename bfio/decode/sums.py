"""Sums of 64-bit integers that cannot overflow."""

from formulations.arrays import IntArray

_LOW_BITS = 0xFFFFFFFF


def exact_sum(values: IntArray) -> int:
    """Return the sum of an int64 array as a Python integer, exact whatever its size.

    The high and low halves are summed apart: each half is below 2^32 in magnitude, so neither sum
    can overflow for fewer than 2^31 entries.
    """
    return (int((values >> 32).sum()) << 32) + int((values & _LOW_BITS).sum())
