"""Largest values of requests by number and sum: what every bound on one worker is made of."""

import numpy as np

from formulations.arrays import IntArray

#: Less than any sum of values: no such subset.
UNREACHABLE = -(1 << 60)


def priced_sums(sizes: IntArray, values: IntArray, most: int, limit: int) -> IntArray:
    """Return the largest value of c requests whose sizes sum to at most x.

    Parameters
    ----------
    sizes, values : IntArray
        Shape (n,), one per request.
    most, limit : int
        Largest c and x.

    Returns
    -------
    IntArray
        Shape (most + 1, limit + 1); around `UNREACHABLE` where there are no such requests.
    """
    best = np.full((most + 1, limit + 1), UNREACHABLE, dtype=np.int64)
    best[0] = 0
    for size, value in zip(sizes.tolist(), values.tolist(), strict=True):
        if size <= limit:
            # The right-hand side is computed in full before it is stored: each request once.
            extended = best[:-1, : limit + 1 - size] + value
            np.maximum(best[1:, size:], extended, out=best[1:, size:])
    return best
