"""Exhaustive search through all sets that a bound does not exclude, if these are few."""

import numpy as np

from bfio.step.exact.effort import Effort
from bfio.step.exact.windows.bounds import SCANS, Bounded
from bfio.step.exact.windows.boxes import Boxes
from bfio.step.exact.windows.model import WindowModel
from bfio.step.exact.windows.near_best import NearBest, choose_disjoint, collect_near_best
from bfio.step.exact.windows.pricing import prefix_bests
from formulations.arrays import IntArray

#: Most sets that it starts from, and that it looks at.
_MAX_COLUMNS = 1 << 12
_MAX_LOOKS = 40_000


def search_left(
    boxes: Boxes, found: Bounded, value: int, scale: int, effort: Effort
) -> tuple[IntArray | None, int, bool]:
    """Search for disjoint sets, one per worker, with an objective below ``value``.

    Parameters
    ----------
    boxes : Boxes
        The modes and sums that the bound does not exclude.
    found : Bounded
        The bound, with costs of these boxes.
    value : int
        Objective to beat.
    scale : int
        Units of costs per unit of the objective.
    effort : Effort
        Counter of the work.

    Returns
    -------
    tuple of (IntArray or None, int, bool)
        The best placement below ``value``, None if there is none; its objective, or ``value``; and
        whether the search was exhaustive.
    """
    model, modes = boxes.model, boxes.modes
    budget = scale * (value - 1) - found.total
    most = max(1, int(modes.number.max()))
    worker = np.empty(_MAX_COLUMNS, dtype=np.int64)
    cost = np.empty(_MAX_COLUMNS, dtype=np.int64)
    members = np.empty((_MAX_COLUMNS, most + modes.own.shape[1]), dtype=np.int64)
    bests = np.stack([prefix_bests(values, most) for values in found.costs.priced.values])
    number = collect_near_best(
        found.costs, bests, found.least, budget, SCANS, worker, cost, members, effort.spent
    )
    if number < 0:
        return None, value, False
    near = _near_best(model, worker[:number], cost[:number], members[:number])
    chosen = np.full(len(model.open), -1, dtype=np.int64)
    best, complete = choose_disjoint(
        near,
        model.requests,
        model.goal,
        boxes.floors,
        len(model.open),
        model.problem.num_admitted,
        budget,
        scale,
        value,
        _MAX_LOOKS,
        chosen,
        effort.spent,
    )
    owner = _dealt(model, near, chosen) if best < value else None
    return owner, int(best), bool(complete)


def _near_best(
    model: WindowModel, worker: IntArray, cost: IntArray, members: IntArray
) -> NearBest:
    """Return sets with their times and weights, cheapest first."""
    order = np.argsort(cost, kind="stable")
    worker, cost, members = worker[order], cost[order], members[order]
    rows = np.concatenate([model.requests.rows, np.zeros_like(model.requests.rows[:1])])
    added = rows[members].sum(axis=1)
    tau = model.workers.token_time[worker]
    times = (model.workers.base[worker] + added) * tau[:, None]
    if len(model.goal.pays) > times.shape[1]:
        times = np.concatenate([times, -times], axis=1)
    return NearBest(worker, cost, tau * (added @ model.goal.weights), members, times)


def _dealt(model: WindowModel, near: NearBest, chosen: IntArray) -> IntArray:
    """Return the placement of chosen sets; equal requests go to different sets."""
    kinds = model.requests.kind
    left = model.positions()
    owner = np.full(len(kinds), -1, dtype=np.int64)
    for k, j in enumerate(chosen.tolist()):
        for position in near.members[j].tolist():
            if position >= 0:
                owner[left[int(kinds[position])].pop()] = k
    return owner
