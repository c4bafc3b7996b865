"""Pseudo-random bits that are the same on every machine."""

from typing import Any

import numpy as np


def mixed_bits(
    values: "np.ndarray[Any, np.dtype[np.uint64]]",
) -> "np.ndarray[Any, np.dtype[np.uint64]]":
    """Return SplitMix64 of each value (Steele, Lea and Flood 2014)."""
    bits = values + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
