"""The relaxation of a step to sums per worker, and the shares and prices behind its bound.

Of the requests of each worker only their sum is kept. Workers A together take at most what the
``cap(A)`` largest requests sum to, and at least what the smallest do; of these inequalities those
that a solution breaks are added. Where workers have many slots hardly more binds, so peaks of
this program are peaks to aim at, and its duals are shares and prices to begin with.
"""

from typing import NamedTuple

import numpy as np

from bfio.step.exact.effort import CALL, Effort
from bfio.step.exact.windows.model import NO_LIMIT, WindowModel
from bfio.step.exact.windows.program import Duals
from bfio.step.exact.windows.shares import Cuts
from formulations.arrays import FloatArray, IntArray

#: Tokens to a unit of peaks and sums in the program.
_UNIT = 256.0
#: Rounds of inequalities of several workers, and how much one must be broken [tokens].
_ROUNDS = 12
_LEAST_EXCESS = 0.5
#: Dual from which on a share counts, as a part of what a level pays.
_LEAST_WEIGHT = 1e-9
#: Operations of a pivot per row.
_PIVOT = 100


class Aggregate(NamedTuple):
    """A solution of the relaxation.

    Parameters
    ----------
    peaks : FloatArray
        Shape (S,): peak of each look-ahead step [time].
    cuts : Cuts
        One for each share of a peak that a worker holds.
    duals : Duals
        Of the cuts and the requests.
    """

    peaks: FloatArray
    cuts: Cuts
    duals: Duals


class _Group(NamedTuple):
    """Workers whose sums together are at most, or at least, that of extreme requests."""

    workers: IntArray
    at_most: bool
    total: int
    threshold: int


def aggregate(
    model: WindowModel, floors: IntArray, ceilings: IntArray, effort: Effort
) -> Aggregate | None:
    """Solve the relaxation; None if slots stay empty or requests have rows of their own.

    Parameters
    ----------
    model : WindowModel
        The problem.
    floors, ceilings : IntArray
        Shape (S,): levels that no peak is below, and that no worker exceeds.
    effort : Effort
        Counts the work.
    """
    steps = model.requests.rows.shape[1]
    if not model.fills or len(model.requests.sizes) < len(model.order) or len(floors) > steps:
        return None
    return _Program(model, floors, effort).solved(ceilings)


class _Program:
    """The linear program: peaks, then sums of the open workers."""

    def __init__(self, model: WindowModel, floors: IntArray, effort: Effort) -> None:
        import highspy

        self._model, self._floors, self._effort = model, floors, effort
        sizes, workers = model.requests.sizes, model.workers
        self._below = np.concatenate([[0], np.cumsum(sizes)])
        growth = model.requests.rows[0] - sizes[0]
        self._loads = workers.base + workers.slots[:, None] * growth
        pays = model.goal.pays.astype(float)
        self._scale = max(1.0, float(pays.sum()) / len(pays))
        S, K = len(pays), len(workers.slots)
        tau = workers.token_time.astype(float)
        room = np.where(workers.limit == NO_LIMIT, NO_LIMIT, workers.limit - self._loads.max(axis=1))
        least = self._smallest(workers.slots)
        most = np.maximum(least, np.minimum(self._largest(workers.slots), room))
        self._highs = highspy.Highs()
        self._highs.setOptionValue("output_flag", False)
        self._highs.setOptionValue("presolve", "off")
        self._highs.setOptionValue("threads", 1)
        self._highs.setOptionValue("simplex_strategy", 1)
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = S + K, K * S
        worth = float(model.goal.weights.sum()) * tau
        program.col_cost_ = np.concatenate([pays, -worth]) / self._scale
        program.col_lower_ = np.concatenate([floors, least]) / _UNIT
        program.col_upper_ = np.concatenate([np.full(S, highspy.kHighsInf), most / _UNIT])
        times = self._loads * workers.token_time[:, None]
        program.row_lower_ = times.reshape(-1) / _UNIT
        program.row_upper_ = np.full(K * S, highspy.kHighsInf)
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        program.a_matrix_.start_ = np.arange(0, 2 * K * S + 1, 2).astype(np.int32)
        index = np.stack([np.tile(np.arange(S), K), S + np.repeat(np.arange(K), S)], axis=1)
        program.a_matrix_.index_ = index.reshape(-1).astype(np.int32)
        entries = np.stack([np.ones(K * S), -np.repeat(tau, S)], axis=1)
        program.a_matrix_.value_ = entries.reshape(-1)
        self._highs.passModel(program)
        self._inf = highspy.kHighsInf
        self._optimal = highspy.HighsModelStatus.kOptimal
        self._groups: list[_Group] = []

    def _largest(self, count: IntArray | int) -> IntArray:
        return self._below[-1] - self._below[len(self._below) - 1 - count]

    def _smallest(self, count: IntArray | int) -> IntArray:
        return self._below[count]

    def solved(self, ceilings: IntArray) -> Aggregate | None:
        """Solve and add broken inequalities in turn."""
        S = len(self._floors)
        for _ in range(_ROUNDS):
            self._highs.run()
            pivots = max(0, int(self._highs.getInfo().simplex_iteration_count))
            self._effort.spend(CALL + pivots * _PIVOT * self._highs.getNumRow())
            if self._highs.getModelStatus() != self._optimal or self._effort.is_over:
                return None
            solution = self._highs.getSolution()
            if not self._add_broken(np.array(solution.col_value)[S:] * _UNIT):
                break
        peaks = np.array(solution.col_value)[:S] * _UNIT
        return self._made(peaks, np.array(solution.row_dual) * self._scale, ceilings)

    def _add_broken(self, sums: FloatArray) -> bool:
        """Add the inequality broken most on either side, by workers sorted by their mean size."""
        slots, sizes = self._model.workers.slots, self._model.requests.sizes
        order = np.argsort(sums / slots, kind="stable")
        added = False
        for at_most in (True, False):
            prefix = order[::-1] if at_most else order
            count = np.cumsum(slots[prefix])
            reached = np.cumsum(sums[prefix])
            excess = reached - self._largest(count) if at_most else self._smallest(count) - reached
            # Ends of the runs in which the excess rises: each is the most of some workers.
            ends = np.flatnonzero(
                (excess > _LEAST_EXCESS)
                & (excess >= np.append(excess[1:], -np.inf))
                & (excess > np.append(-np.inf, excess[:-1]))
            )
            for end in ends.tolist():
                number = int(count[end])
                total = int(self._largest(number) if at_most else self._smallest(number))
                threshold = int(sizes[-number] if at_most else sizes[number - 1])
                self._add(_Group(prefix[: end + 1].copy(), at_most, total, threshold))
                added = True
        return added

    def _add(self, group: _Group) -> None:
        self._groups.append(group)
        index = (len(self._floors) + group.workers).astype(np.int32)
        total = group.total / _UNIT
        lower, upper = (-self._inf, total) if group.at_most else (total, self._inf)
        self._highs.addRow(lower, upper, len(index), index, np.ones(len(index)))

    def _made(self, peaks: FloatArray, duals: FloatArray, ceilings: IntArray) -> Aggregate:
        model = self._model
        S, K = len(peaks), len(model.open)
        flow = duals[: K * S].reshape(K, S)
        worker, step = np.nonzero(flow > _LEAST_WEIGHT * model.goal.pays)
        floors = self._floors[step]
        cuts = Cuts(step, np.arange(len(step) + 1), worker, floors, ceilings[step])
        sizes = model.requests.sizes
        prices = np.zeros(len(sizes))
        for group, dual in zip(self._groups, duals[K * S :].tolist(), strict=False):
            beyond = sizes - group.threshold if group.at_most else group.threshold - sizes
            prices += abs(dual) * np.maximum(0, beyond)
        by_kind = np.zeros(int(model.requests.kind.max()) + 1)
        by_kind[model.requests.kind] = prices
        return Aggregate(peaks, cuts, Duals(by_kind, flow[worker, step], 0.0))
