"""Memory and queue of a run over time, as series of equally long intervals."""

import numpy as np

from bfio.kvcache.run import CacheRun
from bfio.studies.row import MAX_POINTS
from formulations.arrays import FloatArray, IntArray


def cache_series(run: CacheRun, seconds: int | None = None) -> dict[str, list[float]]:
    """Return tokens in the cache and requests waiting, as means over time.

    Parameters
    ----------
    run : CacheRun
        A run whose clock counts parts of a second.
    seconds : int, optional
        The series cover this time from 0, as far as the run lasts; by default the whole run.

    Returns
    -------
    dict
        ``memory`` [tokens] and ``waiting`` [requests], one value for each of 400 equally long
        intervals. Between batches nothing is held and nobody waits.
    """
    units = run.instance.batch_time.units_per_second or 1
    start, end = run.batches.start, run.batches.start + run.batches.duration
    last = int(end[-1]) if len(end) else 0
    duration = last if seconds is None else seconds * units
    edges = np.linspace(0, duration, MAX_POINTS + 1)
    # A last interval that the run leaves early would mix in a worker that has nothing to do.
    edges = edges[: int(np.searchsorted(edges, last, side="right"))]
    return {
        "memory": time_means(start, end, run.batches.memory, edges),
        "waiting": time_means(start, end, run.batches.waiting, edges),
    }


def time_means(start: IntArray, end: IntArray, values: IntArray, edges: FloatArray) -> list[float]:
    """Return the mean over each interval of a function that is 0 outside of given pieces.

    Parameters
    ----------
    start, end, values : IntArray
        Shape (K,): the function has a value from a start up to the next end; in order of time.
    edges : FloatArray
        Shape (I + 1,): the ends of the intervals.
    """
    if len(edges) < 2 or len(start) == 0:
        return []
    areas = np.concatenate([[0.0], np.cumsum(values * (end - start).astype(np.float64))])
    times = np.stack([start, end], axis=1).ravel().astype(np.float64)
    integral = np.interp(edges, times, np.repeat(areas, 2)[1:-1])
    return [float(mean) for mean in np.diff(integral) / np.diff(edges)]
