"""Compile the kernels before the first measured solve."""

import time
from functools import cache

from bfio.exact.fill import reduce_to_fill
from formulations.step.problem import StepProblem

#: Two steps that between them reach every kernel: more requests than slots, and fewer.
_STEPS = (
    ([3, 3], [[1], [1]], [[6], [6], [6], [7], [8], [8], [4]]),
    ([0, 2, 3], [[1], [4], [3]], [[9], [8], [6]]),
)


@cache
def prepare() -> float:
    """Compile all kernels, or load them from Numba's cache; once per process.

    Returns
    -------
    float
        Wall-clock time this took when it was done [s].
    """
    from bfio.exact.fill_search import FillSearch

    began = time.perf_counter()
    for step in _STEPS:
        core = reduce_to_fill(StepProblem(*step))  # type: ignore[arg-type]
        assert core is not None
        FillSearch(core, None).run(None, node_limit=100)
    return time.perf_counter() - began
