"""Compile the kernels of this package before the first measured solve."""

import time
from functools import cache

import numpy as np

from bfio.common.kernel_groups import ensure_compiled
from bfio.step.exact.effort import Effort
from formulations.step.problem import StepProblem


@cache
def prepare_windows() -> float:
    """Compile all kernels, or load them from Numba's cache; once per process.

    Returns
    -------
    float
        Wall-clock time of the compilation [s].
    """
    from bfio.step.exact.windows.model import build_model
    from bfio.step.exact.windows.search import WindowSearch

    ensure_compiled("windows")
    began = time.perf_counter()
    sizes = np.array([[9], [7], [6], [6], [5], [3], [2]])
    problem = StepProblem(
        capacity=np.array([2, 1, 1]),
        base=np.array([[20, 9], [17, 18], [15, 16]]),
        contribution=sizes + np.arange(2),
    )
    model = build_model(problem)
    assert model is not None
    WindowSearch(model, Effort()).rehearse()
    return time.perf_counter() - began
