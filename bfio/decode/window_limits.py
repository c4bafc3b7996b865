"""How much a worker is to hold over the look-ahead window, where memory is limited."""

import numpy as np

from bfio.common.compilable import compilable
from formulations.arrays import IntArray


@compilable(allocates=True)
def window_capacity(
    base: IntArray,
    contribution: IntArray,
    loads: IntArray,
    running: IntArray,
    room: IntArray,
    needs: IntArray,
    reserves: bool,
) -> IntArray:
    """Return the most tokens that each worker is to hold at any step of the window, shape (G,).

    That is its memory, or what it will hold by itself if that is more. On a worker that runs
    nothing one request may start that fits now, however much it may grow: else it might wait for
    ever. What exceeds every load is no limit, and stays small enough to be multiplied.

    Parameters
    ----------
    base, contribution : IntArray
        Shapes (G, H+1) and (N, H+1): projected loads, and those of the waiting requests [tokens].
    loads, running, room : IntArray
        Shape (G,): loads [tokens], requests and free memory [tokens] of the workers.
    needs : IntArray
        Shape (N,): memory that each waiting request takes [tokens].
    reserves : bool
        Whether peaks are reserved, so that growth takes no room any more.
    """
    peaks = np.zeros(len(contribution), dtype=np.int64)
    for i in range(len(contribution)):
        peaks[i] = contribution[i].max()
    heaviest = base.max() + peaks.sum()
    capacity = np.empty(len(base), dtype=np.int64)
    for g in range(len(base)):
        projected = base[g].max()
        most = (projected if reserves else loads[g]) + room[g]
        if running[g] == 0:
            for i in range(len(peaks)):
                if needs[i] <= room[g]:
                    most = max(most, peaks[i])
        capacity[g] = min(max(most, projected), heaviest)
    return capacity
