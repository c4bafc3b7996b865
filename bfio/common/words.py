"""64-bit words: bit sets and pseudo-random sequences that are the same on every machine."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bfio.common.compilable import compilable

#: Bit sets of reachable sums, 64 per word; and the one-word state of a pseudo-random sequence.
Words: TypeAlias = NDArray[np.uint64]
RandomState: TypeAlias = NDArray[np.uint64]


@compilable
def next_random(x: np.uint64) -> np.uint64:
    """Return the successor of ``x`` in a pseudo-random sequence (xorshift64, never 0)."""
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    return x


@compilable
def random_below(state: RandomState, bound: int) -> int:
    """Return a pseudo-random number in 0..bound-1; ``state`` is updated."""
    state[0] = next_random(state[0])
    return int(np.int64(state[0] % np.uint64(bound)))


def mixed_bits(
    values: "np.ndarray[Any, np.dtype[np.uint64]]",
) -> "np.ndarray[Any, np.dtype[np.uint64]]":
    """Return SplitMix64 of each value (Steele, Lea and Flood 2014)."""
    bits = values + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
