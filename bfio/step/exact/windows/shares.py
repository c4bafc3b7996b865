"""Share inequalities of peaks: the cuts that a solution violates, and their costs."""

from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from formulations.arrays import FloatArray, IntArray

#: Part of a peak by which it must be above a solution's to count as broken.
_LEAST_EXCESS = 1e-6


class Cuts(NamedTuple):
    """Share inequalities: ``P(step) >= l(step) + Σ_j x_j · levels that column j reaches in them``.

    Parameters
    ----------
    step : IntArray
        Shape (R,): look-ahead step of each cut.
    first : IntArray
        Shape (R + 1,): segments ``first[r]`` to ``first[r + 1] - 1`` belong to cut r.
    worker, above, to : IntArray
        Shape (Q,): worker that holds the levels of a segment, ``above < level <= to``.
    """

    step: IntArray
    first: IntArray
    worker: IntArray
    above: IntArray
    to: IntArray

    def above_floors(self, floors: IntArray) -> "Cuts":
        """Return the inequalities restricted to the levels above risen floors, shape (S,)."""
        least = np.repeat(floors[self.step], np.diff(self.first))
        above = np.maximum(self.above, least)
        return self._replace(above=above, to=np.maximum(self.to, above))

    def taken(self, chosen: IntArray) -> "Cuts":
        """Return the chosen inequalities."""
        lengths = np.diff(self.first)[chosen]
        start = np.repeat(self.first[chosen] - np.cumsum(lengths) + lengths, lengths)
        parts = start + np.arange(int(lengths.sum()))
        first = np.concatenate([[0], np.cumsum(lengths)])
        return Cuts(self.step[chosen], first, *(part[parts] for part in self[2:]))


class WeightedShares(NamedTuple):
    """Segments of all cuts with the weights of their cuts, by worker.

    Parameters
    ----------
    first : IntArray
        Shape (K + 1,): segments ``first[k]`` to ``first[k + 1] - 1`` belong to worker k.
    step, above, to, weight : IntArray
        Shape (Q,): step, levels and weight of each segment.
    """

    first: IntArray
    step: IntArray
    above: IntArray
    to: IntArray
    weight: IntArray


class Columns(NamedTuple):
    """Sets of requests that a worker may take.

    Parameters
    ----------
    worker : IntArray
        Shape (J,): worker of each set.
    times : IntArray
        Shape (J, S): time, and for the gap negated time, of each look-ahead step.
    """

    worker: IntArray
    times: IntArray


def joined(first: Cuts, second: Cuts) -> Cuts:
    """Return the union of two sets of cuts."""
    return Cuts(
        np.concatenate([first.step, second.step]),
        np.concatenate([first.first, second.first[1:] + len(first.worker)]),
        *(np.concatenate([getattr(first, n), getattr(second, n)]) for n in Cuts._fields[2:]),
    )


def rounded_weights(cuts: Cuts, exact: FloatArray, whole: IntArray) -> IntArray:
    """Round the weights of cuts so that their sum is also rounded, and within limits.

    Parameters
    ----------
    exact : FloatArray
        Shape (R,): weights; those below 0 count as 0.
    whole : IntArray
        Shape (S,): limit on the sum of weights per step.
    """
    exact = np.maximum(exact, 0)
    weights = np.floor(exact).astype(np.int64)
    sums = np.rint(np.bincount(cuts.step, exact, len(whole))).astype(np.int64)
    missing = np.minimum(sums, whole) - np.bincount(cuts.step, weights, len(whole))
    for step in np.flatnonzero(missing).tolist():
        of_step = np.flatnonzero(cuts.step == step)
        order = of_step[np.argsort((weights - exact)[of_step], kind="stable")]
        rest = int(missing[step])
        if rest > 0:
            # Those that lost most get one more; there are more of them than units are missing.
            weights[order[:rest]] += 1
            continue
        for r in order[::-1].tolist():
            less = min(-rest, int(weights[r]))
            weights[r] -= less
            rest += less
    return weights


def weighted(cuts: Cuts, weights: IntArray, floors: IntArray, num_workers: int) -> WeightedShares:
    """Return the segments of cuts with positive weight above the floors, by worker."""
    lengths = np.diff(cuts.first)
    weight = np.repeat(weights, lengths)
    step = np.repeat(cuts.step, lengths)
    above = np.maximum(cuts.above, floors[step])
    order = np.lexsort((step, cuts.worker))
    order = order[(weight[order] > 0) & (cuts.to[order] > above[order])]
    first = np.searchsorted(cuts.worker[order], np.arange(num_workers + 1))
    return WeightedShares(first, step[order], above[order], cuts.to[order], weight[order])


@entry_point
def broken_cuts(
    columns: Columns,
    weights: FloatArray,
    peaks: FloatArray,
    floors: IntArray,
    ceilings: IntArray,
    num_workers: int,
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Return the fields of `Cuts` that a fractional solution violates most, one per step at most.

    Each level, from the highest down, is assigned to the worker most likely to be above it.

    Parameters
    ----------
    columns : Columns
        Columns with a positive weight.
    weights : FloatArray
        Shape (J,): weights of the columns.
    peaks : FloatArray
        Shape (S,): peaks of the solution.
    floors, ceilings : IntArray
        Shape (S,): lower bounds on the peaks, and upper bounds on the times of columns.
    num_workers : int
        Number of open workers, K.
    """
    found = 0
    used = 0
    # Worker, above and to of each segment.
    segments = np.empty((3, len(peaks) * len(weights) + 1), np.int64)
    step = np.empty(len(peaks), np.int64)
    first = np.zeros(len(peaks) + 1, np.int64)
    above = np.empty(num_workers)
    for h in range(len(peaks)):
        level = columns.times[:, h].copy()
        order = np.argsort(-level)
        above[:] = 0.0
        start = used
        holder = -1
        total = 0.0
        k = 0
        while k < len(order) and level[order[k]] > floors[h]:
            top = level[order[k]]
            while k < len(order) and level[order[k]] == top:
                above[columns.worker[order[k]]] += weights[order[k]]
                k += 1
            likely = holder if holder >= 0 else 0
            for g in range(num_workers):
                if above[g] > above[likely] + 1e-12:
                    likely = g
            following = floors[h]
            if k < len(order):
                following = max(following, level[order[k]])
            total += (top - following) * above[likely]
            if likely == holder:
                segments[1, used - 1] = following
            else:
                segments[0, used] = likely
                segments[1, used] = following
                segments[2, used] = top if used > start else ceilings[h]
                used += 1
            holder = likely
        if peaks[h] < floors[h] + total - 0.01 - _LEAST_EXCESS * (1.0 + total):
            step[found] = h
            found += 1
            first[found] = used
        else:
            used = start
    worker, low, high = segments[0, :used], segments[1, :used], segments[2, :used]
    return step[:found].copy(), first[: found + 1].copy(), worker.copy(), low.copy(), high.copy()


@entry_point
def coefficients(cuts: Cuts, columns: Columns) -> IntArray:
    """Return the number of levels of each cut that each column reaches, shape (R, J)."""
    levels = np.empty((len(cuts.step), len(columns.worker)), np.int64)
    for r in range(len(cuts.step)):
        step = cuts.step[r]
        for j in range(len(columns.worker)):
            reached = 0
            time = columns.times[j, step]
            for q in range(cuts.first[r], cuts.first[r + 1]):
                if cuts.worker[q] == columns.worker[j] and time > cuts.above[q]:
                    reached += min(time, cuts.to[q]) - cuts.above[q]
            levels[r, j] = reached
    return levels


@compilable
def _add_increments(increments: IntArray, start: int, stop: int, amount: int) -> None:
    """Raise the slope by ``amount`` in [start, stop), where inside the array."""
    start = max(start, 0)
    stop = min(stop, len(increments) - 1)
    if stop > start:
        increments[start] += amount
        increments[stop] -= amount


@compilable
def _add_share(
    load: int, token_time: int, above: int, to: int, weight: int, low: int, increments: IntArray
) -> int:
    """Add the slopes of ``weight·(clip(token_time·(load + x), above, to) - above)``.

    Return the value at ``x = low``, where ``increments`` begins.
    """
    last_below = above // token_time - load
    first_full = -(-to // token_time) - load
    full = to - above
    if token_time == 1:
        _add_increments(increments, last_below - low, first_full - low, weight)
    else:
        _add_increments(
            increments, last_below + 1 - low, first_full - 1 - low, weight * token_time
        )
        begins = min(full, token_time * (load + last_below + 1) - above)
        _add_increments(increments, last_below - low, last_below + 1 - low, weight * begins)
        if first_full - 1 > last_below:
            ends = to - token_time * (load + first_full - 1)
            _add_increments(increments, first_full - 1 - low, first_full - low, weight * ends)
    return weight * min(full, max(0, token_time * (load + low) - above))


@compilable
def share_costs(
    loads: IntArray,
    token_time: int,
    k: int,
    shares: WeightedShares,
    low: int,
    costs: IntArray,
    slopes: IntArray,
) -> None:
    """Write the costs by shares of the sums from ``low`` on for worker k with ``loads`` beside.

    ``slopes`` is a work array, one entry longer than ``costs``.
    """
    slopes[:] = 0
    value = 0
    for q in range(shares.first[k], shares.first[k + 1]):
        h = shares.step[q]
        above, to, weight = shares.above[q], shares.to[q], shares.weight[q]
        if h >= len(loads):
            # Levels of a negated time: all of them, less those of the time itself from below.
            value += weight * (to - above)
            h -= len(loads)
            above, to, weight = -to, -above, -weight
        value += _add_share(loads[h], token_time, above, to, weight, low, slopes)
    slope = 0
    for x in range(len(costs)):
        costs[x] = value
        slope += slopes[x]
        value += slope


@compilable
def least_share_cost(
    loads: IntArray, token_time: int, k: int, shares: WeightedShares, first: int, last: int
) -> int:
    """Return a lower bound on the share cost of the sums from ``first`` to ``last``."""
    value = 0
    for q in range(shares.first[k], shares.first[k + 1]):
        h = shares.step[q]
        if h < len(loads):
            time = token_time * (loads[h] + first)
        else:
            time = -token_time * (loads[h - len(loads)] + last)
        reached = min(max(time, shares.above[q]), shares.to[q]) - shares.above[q]
        value += shares.weight[q] * reached
    return int(value)
