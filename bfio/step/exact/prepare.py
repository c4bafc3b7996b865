"""Compile the kernels before the first measured solve."""

from functools import cache

import numpy as np

from bfio.common.kernel_groups import ensure_compiled
from bfio.step.exact.effort import Effort
from bfio.step.exact.fill import FillProblem, reduce_to_fill
from formulations.step.problem import StepProblem

#: Two steps: more requests than slots, and fewer.
_STEPS = (
    ([3, 3], [[1], [1]], [[6], [6], [6], [7], [8], [8], [4]]),
    ([0, 2, 3], [[1], [4], [3]], [[9], [8], [6]]),
)
#: Factor at which values no longer fit 32 bits.
_LARGE = 50_000


@cache
def prepare() -> None:
    """Compile the kernels for one-dimensional cores, or load them; once per process.

    Each kernel is called directly, or by a phase that always reaches it. A whole solve may end
    before it reaches a kernel.
    """
    from bfio.step.exact.fill_search import FillSearch
    from bfio.step.exact.pack_search import prepare_packing
    from bfio.step.exact.transport import best_flow

    ensure_compiled("exact")
    FillSearch(_core(_STEPS[0], 1), Effort()).prepare()
    for factor in (1, _LARGE):
        _prepare_columns(_core(_STEPS[0], factor))
    prepare_packing(_core(_STEPS[1], 1))
    one = np.ones((1, 1), dtype=np.int64)
    best_flow(one, one[0], one[0])


@cache
def prepare_windows() -> None:
    """Compile the kernels for windows, or load them; as `prepare`."""
    from bfio.step.exact.windows.boxes import Boxes
    from bfio.step.exact.windows.model import step_model
    from bfio.step.exact.windows.search import WindowSearch

    ensure_compiled("windows")
    sizes = np.array([[9], [7], [6], [6], [5], [3], [2]])
    problem = StepProblem(
        capacity=np.array([2, 1, 1]),
        base=np.array([[20, 9], [17, 18], [15, 16]]),
        contribution=sizes + np.arange(2),
    )
    boxes = Boxes.of(step_model(problem))
    assert boxes is not None
    WindowSearch(boxes, Effort()).rehearse()


def _core(step: tuple[list[int], list[list[int]], list[list[int]]], factor: int) -> FillProblem:
    capacity, base, contribution = (np.array(part) for part in step)
    core = reduce_to_fill(StepProblem(capacity, base * factor, contribution * factor))
    assert core is not None
    return core


def _prepare_columns(core: FillProblem) -> None:
    """Call the kernels that a solve reaches only if peaks stay open."""
    from bfio.step.exact.columns import ColumnGeneration

    effort = Effort()
    margin = int(core.sizes[-3:].sum()) - 1
    peak = int(core.base.min()) + margin
    nobody, no_bounds = np.full(len(core.sizes), -1), np.zeros(2, dtype=np.int64)
    barred = {int(core.open[0]): frozenset({int(core.sizes[-1])})}
    for sizes in (barred, None):
        generation = ColumnGeneration(core, margin, effort, sizes)
        generation.start(peak, nobody)
        _, prices = generation.bound_total(peak, 0)
        generation.raise_bounds(peak - 1, prices, no_bounds.copy(), 1 << 60)
