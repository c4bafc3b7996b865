"""Dive into the linear program over subsets: fix its largest columns, then price again."""

from dataclasses import replace

import numpy as np

from bfio.step.exact.columns import ColumnGeneration
from bfio.step.exact.effort import Effort
from bfio.step.exact.fill import FillProblem
from formulations.arrays import IntArray


def dive(
    core: FillProblem,
    peak: int,
    needed: int,
    effort: Effort,
    found: tuple[IntArray, IntArray] | None = None,
    prices: IntArray | None = None,
) -> IntArray | None:
    """Search for a placement under ``peak`` with a total size of at least ``needed``.

    Parameters
    ----------
    core : FillProblem
        The fill problem of the workers without a fixed subset.
    peak, needed : int
        Largest load, and least total size [tokens].
    effort : Effort
        Limits.
    found : tuple of IntArray, optional
        Initial subsets (`ColumnGeneration.found`).
    prices : IntArray, optional
        Initial prices, of the requests that fit or of all requests.

    Returns
    -------
    IntArray or None
        The worker of each size; None if no placement was found.
    """
    margin = int(peak - core.base.min())
    generation = ColumnGeneration(core, margin, effort)
    # What is settled may leave only requests that fit nowhere.
    if generation.num_fitting < int(core.capacity.sum()):
        return None
    if found is not None:
        generation.adopt(*found)
    generation.start(peak, np.full(len(core.sizes), -1, dtype=np.int64))
    if prices is not None:
        prices = prices[: generation.num_fitting]
    total, prices = generation.bound_total(peak, needed - 1, prices)
    if total < needed:
        return None
    placement, exhausted = generation.search(peak, prices, needed)
    if placement is not None or exhausted:
        return placement
    owner = generation.clearest()
    settled = np.zeros(len(core.base), dtype=np.bool_)
    settled[owner[owner >= 0]] = True
    if not settled.any() or settled.all() or effort.is_over:
        return None
    free = owner < 0
    rest = replace(
        core,
        workers=core.workers[~settled],
        base=core.base[~settled],
        capacity=core.capacity[~settled],
        sizes=core.sizes[free],
    )
    left = np.flatnonzero(~settled)
    sizes, workers = generation.found()
    of_left = ~settled[workers]
    found = sizes[of_left], np.searchsorted(left, workers[of_left])
    missing = needed - int(core.sizes[~free].sum())
    below = dive(rest, peak, missing, effort, found, prices[free[: len(prices)]])
    if below is None:
        return None
    owner[free] = np.where(below >= 0, left[below], -1)
    return owner
