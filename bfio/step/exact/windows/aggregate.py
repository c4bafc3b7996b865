"""The relaxation of a step to request sums per worker, which gives peaks and prices.

For requests that differ in size only, the relaxation keeps the number and the sum per worker.
Other requests may be divided between workers. A set A of workers that takes n_A requests of the
first type gets at most

    θ·n_A + Σ_i max(0, s_i − θ)   and at least   θ·n_A − Σ_i max(0, θ − s_i)

tokens, for any size θ. Of these inequalities, those that a solution violates are added. If workers
have many slots, few other constraints bind. Therefore the peaks of the relaxation are good
targets, and its duals are good initial shares and prices.
"""

from typing import NamedTuple

import numpy as np

from bfio.step.exact.effort import Effort
from bfio.step.exact.simplex import Simplex
from bfio.step.exact.sums import sums_of_first
from bfio.step.exact.windows.model import NO_LIMIT, StepModel
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
#: Most nonzeros.
_MAX_ENTRIES = 40_000


class Aggregate(NamedTuple):
    """A solution of the relaxation to sums per worker.

    Parameters
    ----------
    peaks : FloatArray
        Shape (S,): peak of each look-ahead step [time].
    sums, numbers : FloatArray
        Shape (K,): sum [tokens] and number of the requests of each worker that differ in size
        only.
    cuts : Cuts
        One cut for each share of a peak that a worker holds.
    duals : Duals
        Dual values of the cuts and the requests.
    """

    peaks: FloatArray
    sums: FloatArray
    numbers: FloatArray
    cuts: Cuts
    duals: Duals


def aggregate(
    model: StepModel, floors: IntArray, ceilings: IntArray, effort: Effort
) -> Aggregate | None:
    """Solve the relaxation; None if it does not apply to the problem.

    It does not apply to the gap objective, nor to too many requests with individual load profiles.

    Parameters
    ----------
    floors, ceilings : IntArray
        Shape (S,): lower bounds on the peaks, and upper bounds on the loads of workers.
    """
    steps = model.requests.rows.shape[1]
    others = len(model.order) - len(model.requests.sizes)
    if len(floors) > steps or len(model.open) * steps * (others + 3) > _MAX_ENTRIES:
        return None
    return _Program(model, floors, effort).solved(ceilings)


class _Rows:
    """Rows of a linear program under construction."""

    def __init__(self) -> None:
        self.lower: list[FloatArray] = []
        self.upper: list[FloatArray] = []
        self._parts: list[tuple[IntArray, IntArray, FloatArray]] = []
        self.number = 0

    def add(
        self, lower: FloatArray, upper: FloatArray, *parts: tuple[IntArray, FloatArray]
    ) -> None:
        """Add rows with bounds; a part holds columns and values for each row."""
        rows = self.number + np.arange(len(lower))
        for columns, values in parts:
            shape = columns.shape
            of_row = np.broadcast_to(rows.reshape(-1, *[1] * (len(shape) - 1)), shape)
            values = np.broadcast_to(values, shape)
            self._parts.append((of_row.ravel(), columns.ravel(), values.ravel()))
        self.lower.append(lower)
        self.upper.append(upper)
        self.number += len(lower)

    def matrix(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Return start of each row, columns and values, without zeros."""
        row, column, value = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        order = np.argsort(row, kind="stable")
        order = order[value[order] != 0]
        start = np.searchsorted(row[order], np.arange(self.number + 1))
        return start, column[order], value[order]


class _Program:
    """The linear program: peaks, sums and numbers per worker, parts of other requests."""

    def __init__(self, model: StepModel, floors: IntArray, effort: Effort) -> None:
        import highspy

        self._model, self._floors, self._effort = model, floors, effort
        self._simplex = Simplex(effort)
        self._highs, self._inf = self._simplex.highs, self._simplex.infinity
        self._below = sums_of_first(model.requests.sizes)
        first = len(model.requests.sizes)
        self._kinds, at, self._counts = np.unique(
            model.requests.kind[first:], return_index=True, return_counts=True
        )
        self._others = model.requests.rows[first:][at]
        self._required = model.requests.required[first:][at]
        S, K, Q = len(floors), len(model.open), len(self._kinds)
        self._peak = np.arange(S)
        self._sum = S + np.arange(K)
        self._number = S + K + np.arange(K)
        self._part: IntArray = S + 2 * K + np.arange(K * Q).reshape(K, Q)
        self._scale = max(1.0, float(model.goal.pays.sum()) / S)
        program = highspy.HighsLp()
        program.num_col_ = S + 2 * K + K * Q
        program.col_cost_ = self._costs() / (self._scale * _UNIT)
        program.col_lower_, program.col_upper_ = self._bounds()
        rows = self._made_rows()
        self._fixed_rows = program.num_row_ = rows.number
        program.row_lower_ = np.concatenate(rows.lower)
        program.row_upper_ = np.concatenate(rows.upper)
        start, index, value = rows.matrix()
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        program.a_matrix_.start_ = start.astype(np.int32)
        program.a_matrix_.index_ = index.astype(np.int32)
        program.a_matrix_.value_ = value
        self._highs.passModel(program)
        # What each size is beyond that which bounds the sum of some workers.
        self._beyond: list[IntArray] = []
        for k, slots in enumerate(model.workers.slots.tolist() if first else ()):
            for at_most in (True, False):
                self._add(np.array([k]), at_most=at_most, number=min(slots, first))

    def _costs(self) -> FloatArray:
        model = self._model
        weights, tau = model.goal.weights, model.workers.token_time
        of_others = -np.outer(tau, self._others @ weights)
        numbers = -tau * int(model.requests.growth @ weights)
        sums = -tau * int(weights.sum()) * _UNIT
        return np.concatenate([model.goal.pays * _UNIT, sums, numbers, of_others.ravel()])

    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        model = self._model
        slots = np.minimum(model.workers.slots, len(model.requests.sizes)).astype(float)
        fixed = model.fills and len(self._kinds) == 0
        K, Q = self._part.shape
        sums = np.full(K, 0.0 if len(model.requests.sizes) == 0 else self._inf)
        lower = [self._floors / _UNIT, np.zeros(K), slots if fixed else 0 * slots, np.zeros(K * Q)]
        upper = [np.full(len(self._peak), self._inf), sums, slots, np.tile(self._counts, K)]
        return np.concatenate(lower), np.concatenate(upper)

    def _made_rows(self) -> _Rows:
        """Return all rows except those of groups: first the loads, by worker and step."""
        model, rows = self._model, _Rows()
        workers, S = model.workers, len(self._peak)
        K, Q = self._part.shape
        tau = workers.token_time[:, None]
        steps = np.tile(np.arange(S), K)
        who = np.repeat(np.arange(K), S)
        inf = np.full(K * S, self._inf)
        of_sum = (self._sum[who], -np.repeat(workers.token_time, S).astype(float))
        of_number = (self._number[who], -(tau * model.requests.growth / _UNIT).ravel())
        added = -tau[:, :, None] * (self._others.T / _UNIT)
        of_parts = (self._part[who], added.reshape(K * S, Q))
        base = (tau * workers.base / _UNIT).ravel()
        rows.add(base, inf, (self._peak[steps], np.ones(K * S)), of_sum, of_number, of_parts)
        slots = workers.slots.astype(float)
        least = slots if model.fills else np.zeros(K)
        ones = np.ones(K)
        rows.add(least, slots, (self._number, ones), (self._part, np.ones((K, Q))))
        counts = self._counts.astype(float)
        self._first_kind = rows.number
        least = np.where(self._required, counts, -self._inf)
        rows.add(least, counts, (self._part.T, np.ones((Q, K))))
        admitted = np.array([float(model.problem.num_admitted)])
        everything = np.concatenate([self._number, self._part.ravel()])[None]
        rows.add(admitted, admitted, (everything, np.ones(everything.shape)))
        limited = np.repeat(workers.limit != NO_LIMIT, S)
        if limited.any():
            room = np.repeat(workers.limit, S)[limited] * np.repeat(workers.token_time, S)[limited]
            parts = [(c[limited], v[limited]) for c, v in (of_sum, of_number, of_parts)]
            rows.add(base[limited] - room / _UNIT, inf[limited], *parts)
        return rows

    def solved(self, ceilings: IntArray) -> Aggregate | None:
        """Solve the program and add violated inequalities, alternately."""
        for _ in range(_ROUNDS):
            if not self._simplex.run() or self._effort.is_over:
                return None
            solution = self._highs.getSolution()
            values = np.array(solution.col_value)
            if not self._add_broken(values[self._sum] * _UNIT, values[self._number]):
                break
        duals = np.array(solution.row_dual) * (self._scale * _UNIT)
        return self._made(values, duals, ceilings)

    def _add_broken(self, sums: FloatArray, numbers: FloatArray) -> bool:
        """Add the most violated inequality of each direction; workers in order of mean size."""
        below, sizes = self._below, self._model.requests.sizes
        order = np.argsort(sums / np.maximum(numbers, 1e-6), kind="stable")
        order = order[numbers[order] > _LEAST_WEIGHT]
        places = np.arange(len(below))
        added = False
        for at_most in (True, False):
            prefix = order[::-1] if at_most else order
            count = np.cumsum(numbers[prefix])
            reached = np.cumsum(sums[prefix])
            if at_most:
                excess = reached - np.interp(count, places, below[-1] - below[::-1])
            else:
                excess = np.interp(count, places, below) - reached
            # Ends of the runs in which the excess rises: each is the most of some workers.
            following = np.append(excess[1:], -np.inf)
            rises = excess > np.append(-np.inf, excess[:-1])
            for end in np.flatnonzero((excess > _LEAST_EXCESS) & (excess >= following) & rises):
                number = min(max(1, int(np.ceil(count[end] - 1e-6))), len(sizes))
                self._add(prefix[: end + 1], at_most=at_most, number=number)
                added = True
        return added

    def _add(self, workers: IntArray, *, at_most: bool, number: int) -> None:
        """Bound the sum of some workers by the size of rank ``number``."""
        sizes = self._model.requests.sizes
        size = int(sizes[-number] if at_most else sizes[number - 1])
        beyond = np.maximum(0, sizes - size if at_most else size - sizes)
        self._beyond.append(beyond)
        rest = float(beyond.sum()) / _UNIT
        lower, upper = (-self._inf, rest) if at_most else (-rest, self._inf)
        index = np.concatenate([self._sum[workers], self._number[workers]]).astype(np.int32)
        values = np.repeat([1.0, -size / _UNIT], len(workers))
        self._highs.addRow(lower, upper, len(index), index, values)

    def _made(self, values: FloatArray, duals: FloatArray, ceilings: IntArray) -> Aggregate:
        model = self._model
        K, S = len(model.open), len(self._peak)
        flow = duals[: K * S].reshape(K, S) / _UNIT
        worker, step = np.nonzero(flow > _LEAST_WEIGHT * model.goal.pays)
        floors = self._floors[step]
        cuts = Cuts(step, np.arange(len(step) + 1), worker, floors, ceilings[step])
        prices = np.zeros(int(model.requests.kind.max()) + 1)
        of_sizes = np.zeros(len(model.requests.sizes))
        for beyond, dual in zip(self._beyond, duals[self._fixed_rows :].tolist(), strict=False):
            of_sizes += abs(dual) / _UNIT * beyond
        prices[model.requests.kind[: len(of_sizes)]] = of_sizes
        first = self._first_kind
        prices[self._kinds] = -duals[first : first + len(self._kinds)]
        admit = 0.0 if model.fills else -float(duals[first + len(self._kinds)])
        return Aggregate(
            values[self._peak] * _UNIT,
            values[self._sum] * _UNIT,
            values[self._number],
            cuts,
            Duals(prices, flow[worker, step], admit),
        )
