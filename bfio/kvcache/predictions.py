"""Predicted output lengths that are wrong by a known amount."""

import numpy as np

from formulations.arrays import IntArray, frozen, integer


def noisy_lengths(output: IntArray, error: int, rng: np.random.Generator) -> IntArray:
    """Return lengths drawn uniformly from the integers within ``error`` of the true ones.

    None is below 1, so that ``delta = error`` makes every prediction safe.

    Parameters
    ----------
    output : IntArray
        Shape (n,), true outputs [tokens].
    error : int
        ``δ >= 0`` [tokens].
    rng : numpy.random.Generator
        Source of randomness.
    """
    integer(error, "error")
    drawn = rng.integers(np.maximum(1, output - error), output + error, endpoint=True)
    return frozen(drawn.astype(np.int64))
