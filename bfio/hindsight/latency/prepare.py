"""Compile the kernels of the exact method before the first measured solve."""

from functools import cache

import numpy as np

from bfio.common.kernel_groups import ensure_compiled
from bfio.hindsight.latency.solve import solve_hindsight
from formulations.hindsight_latency import LatencyProblem

#: Prompts and outputs that under a memory of 14 need prices, pairs and a search.
_PROMPTS = (3, 2, 2, 1, 1, 1, 1, 1)
_OUTPUTS = (2, 7, 5, 8, 6, 8, 4, 3)


@cache
def prepare() -> None:
    """Compile all kernels, or load them from Numba's cache; once per process."""
    ensure_compiled("hindsight")
    outputs = np.array(_OUTPUTS)
    for arrivals in (np.zeros_like(outputs), np.arange(len(outputs)) // 2):
        solve_hindsight(
            LatencyProblem(14, arrivals, np.array(_PROMPTS), outputs), decodes=100, threads=1
        )
