"""Contiguous parts of a trace, as replicates that keep its order and its bursts."""

from dataclasses import replace

import numpy as np

from bfio.workloads.workload import Workload
from formulations.arrays import integer
from formulations.errors import InputError


def window(workload: Workload, index: int, count: int) -> Workload:
    """Return one of ``count`` contiguous windows with equally many requests.

    Window k holds requests ``⌊k·n/count⌋ .. ⌊(k+1)·n/count⌋ - 1``, so each request is in exactly
    one window and their sizes differ by at most 1. Arrival times count from the first request of
    the window.

    Parameters
    ----------
    workload : Workload
        The whole, n requests.
    index : int
        Which window, from 0.
    count : int
        Number of windows, >= 1.

    Raises
    ------
    InputError
        If there is no such window, or no request in it.
    """
    integer(count, "windows", minimum=1)
    integer(index, "window", minimum=0)
    if index >= count:
        raise InputError("window", f"{index} of {count} windows", f"use 0 to {count - 1}")
    first, last = index * len(workload) // count, (index + 1) * len(workload) // count
    if first == last:
        raise InputError(
            "windows", f"{count} for {len(workload)} requests", "use at most one per request"
        )
    provenance = {**workload.provenance, "window": [index, count], "first_request": first}
    return replace(workload.part(np.arange(first, last)), provenance=provenance)
