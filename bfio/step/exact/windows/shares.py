"""Shares of peaks: inequalities a fractional solution breaks, and what it makes sums cost."""

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
        Shape (R,).
    first : IntArray
        Shape (R + 1,): segments ``first[r]`` to ``first[r + 1] - 1`` are those of cut r.
    worker, above, to : IntArray
        Shape (Q,): worker that holds the levels of a segment, ``above < level <= to``.
    """

    step: IntArray
    first: IntArray
    worker: IntArray
    above: IntArray
    to: IntArray

    def above_floors(self, floors: IntArray) -> "Cuts":
        """Return the inequalities for floors that may have risen: levels below them hold nothing.

        Parameters
        ----------
        floors : IntArray
            Shape (S,).
        """
        least = np.repeat(floors[self.step], np.diff(self.first))
        above = np.maximum(self.above, least)
        return self._replace(above=above, to=np.maximum(self.to, above))

    def taken(self, chosen: IntArray) -> "Cuts":
        """Return some of the inequalities."""
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
        Shape (K + 1,): segments ``first[k]`` to ``first[k + 1] - 1`` are those of worker k.
    step, above, to, weight : IntArray
        Shape (Q,).
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
        Shape (J,).
    times : IntArray
        Shape (J, S): time, and for the gap negated time, of each look-ahead step.
    """

    worker: IntArray
    times: IntArray


def no_cuts() -> Cuts:
    """Return no cuts."""
    nothing = np.empty(0, dtype=np.int64)
    return Cuts(nothing, np.zeros(1, dtype=np.int64), nothing, nothing, nothing)


def joined(first: Cuts, second: Cuts) -> Cuts:
    """Return the cuts of both."""
    return Cuts(
        np.concatenate([first.step, second.step]),
        np.concatenate([first.first, second.first[1:] + len(first.worker)]),
        *(np.concatenate([getattr(first, n), getattr(second, n)]) for n in Cuts._fields[2:]),
    )


def rounded_weights(cuts: Cuts, exact: FloatArray, whole: IntArray) -> IntArray:
    """Round the weights of cuts so that their sum is rounded too, and within the whole.

    Parameters
    ----------
    cuts : Cuts
        Cuts.
    exact : FloatArray
        Shape (R,): weights; those below 0 count as 0.
    whole : IntArray
        Shape (S,): most that the weights of a step sum to.
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
    """Return the segments above the floors of cuts with a weight, by worker."""
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
    segments: IntArray,
    step: IntArray,
    first: IntArray,
) -> int:
    """Find the inequality of each step that a fractional solution breaks most.

    From the highest level down, each is held by the worker most likely above it.

    Parameters
    ----------
    columns : Columns
        Those with a positive weight.
    weights : FloatArray
        Shape (J,).
    peaks : FloatArray
        Shape (S,).
    floors, ceilings : IntArray
        Shape (S,): levels that no peak is below, and that no column exceeds.
    num_workers : int
        K.
    segments : IntArray
        Shape (at least S·J, 3): filled with worker, above, to.
    step, first : IntArray
        Shape (S,) and (S + 1,): filled as in `Cuts`.

    Returns
    -------
    int
        Cuts found.
    """
    found = 0
    used = 0
    first[0] = 0
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
                segments[used - 1, 1] = following
            else:
                segments[used, 0] = likely
                segments[used, 1] = following
                segments[used, 2] = top if used > start else ceilings[h]
                used += 1
            holder = likely
        if peaks[h] < floors[h] + total - 0.01 - _LEAST_EXCESS * (1.0 + total):
            step[found] = h
            found += 1
            first[found] = used
        else:
            used = start
    return found


@entry_point
def coefficients(cuts: Cuts, columns: Columns, levels: IntArray) -> None:
    """Write into ``levels[r, j]`` how many levels of cut r column j reaches on its worker."""
    for r in range(len(cuts.step)):
        step = cuts.step[r]
        for j in range(len(columns.worker)):
            reached = 0
            time = columns.times[j, step]
            for q in range(cuts.first[r], cuts.first[r + 1]):
                if cuts.worker[q] == columns.worker[j] and time > cuts.above[q]:
                    reached += min(time, cuts.to[q]) - cuts.above[q]
            levels[r, j] = reached


@compilable
def _add_increments(increments: IntArray, start: int, stop: int, amount: int) -> None:
    """Raise the slope by ``amount`` from ``start`` to below ``stop``, where these are inside."""
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

    Returns the value at ``x = low``; ``increments`` begins there.
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
    """Write what the shares make sums from ``low`` on cost on worker k.

    Parameters
    ----------
    loads : IntArray
        Shape (H+1,): load but for the sum [tokens].
    token_time : int
        Time per token.
    k : int
        Position of the worker.
    shares : WeightedShares
        Of all workers.
    low : int
        First sum [tokens].
    costs : IntArray
        Filled.
    slopes : IntArray
        One longer; for use.
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
    """Lower bound on what the shares make any sum from ``first`` to ``last`` cost."""
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
