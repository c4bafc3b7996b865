"""The linear program over sets of requests per worker, with share inequalities as cuts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bfio.step.exact.effort import Effort
from bfio.step.exact.simplex import Simplex
from bfio.step.exact.windows.model import Split, StepModel
from bfio.step.exact.windows.shares import Columns, Cuts, coefficients, joined
from formulations.arrays import BoolArray, FloatArray, IntArray
from formulations.step.share_bound import largest_objective

#: Tokens to a unit of the peaks in the program: its numbers stay near one.
_UNIT = 256.0
#: Weight from which on a column of a solution counts.
LEAST_WEIGHT = 1e-9
#: Reduced cost in the program from which on a column is worth adding.
_LEAST_GAIN = 1e-7
#: How many times as many pivots the primal simplex may take as the dual one before it.
_LONG = 10
#: Solutions in turn after which a cut without weight is dropped.
_PATIENCE = 12


class Duals(NamedTuple):
    """Duals of the linear program in units of the objective.

    Parameters
    ----------
    request_prices : FloatArray
        Shape (number of kinds,): prices of the kinds of requests.
    cut_weights : FloatArray
        Shape (R,): weights of the cuts, per level.
    admit_price : float
        Price of the number of requests; 0 if every slot is filled.
    """

    request_prices: FloatArray
    cut_weights: FloatArray
    admit_price: float

    def towards(self, other: "Duals", part: float) -> "Duals":
        """Return a mixture with other duals; ``part`` is the weight of the others."""
        weights = np.zeros_like(self.cut_weights)
        weights[: len(other.cut_weights)] = other.cut_weights
        return Duals(
            part * other.request_prices + (1 - part) * self.request_prices,
            part * weights + (1 - part) * self.cut_weights,
            part * other.admit_price + (1 - part) * self.admit_price,
        )


class Solution(NamedTuple):
    """A solution of the linear program in units of the problem.

    Parameters
    ----------
    value : float
        Objective, without the fixed part of the total.
    peaks : FloatArray
        Shape (S,): peaks of the look-ahead steps.
    weights : FloatArray
        Shape (J,): weights of the columns.
    duals : Duals
        Dual values.
    worker_duals : FloatArray
        Shape (K,): duals of the workers' rows.
    sets : list of (int, tuple of int)
        Worker and kinds of requests of each column.
    """

    value: float
    peaks: FloatArray
    weights: FloatArray
    duals: Duals
    worker_duals: FloatArray
    sets: list[tuple[int, tuple[int, ...]]]


class ShareProgram:
    """A linear program to which columns and cuts are added.

    Rows are the kinds of requests, the workers, the number of admitted requests and the cuts;
    columns are the peaks above ``floors`` and the sets of requests.

    Parameters
    ----------
    floors : IntArray
        Shape (S,): lower bounds on the peaks.

    Attributes
    ----------
    cuts : Cuts
        The cuts, in the order of the rows.
    behind : Duals or None
        The duals that have proven most; weights of the first cuts only.
    """

    def __init__(self, model: StepModel, floors: IntArray, effort: Effort) -> None:
        self._model = model
        self._origin = floors.copy()
        self._pays = model.goal.pays.astype(float)
        self._scale = max(1.0, float(self._pays.sum()) / max(1, model.problem.num_workers))
        kind = model.requests.kind
        self._kinds = int(kind.max(initial=-1)) + 1
        counts = np.bincount(kind, minlength=self._kinds).astype(float)
        required = np.zeros(self._kinds, dtype=np.bool_)
        required[kind] = model.requests.required
        self._fixed_rows = self._kinds + len(model.open) + 1
        nothing = np.empty(0, dtype=np.int64)
        self.cuts = Cuts(nothing, np.zeros(1, dtype=np.int64), nothing, nothing, nothing)
        self.behind: Duals | None = None
        self._cut_floors: IntArray = nothing
        # For how many solutions in turn each cut had no weight.
        self._idle: IntArray = nothing
        self._path: Sequence[tuple[Split, bool]] = ()
        # Worker and kinds of requests of each column, in order, with its times.
        self._sets: dict[tuple[int, tuple[int, ...]], IntArray] = {}
        self._simplex = Simplex(effort)
        self._highs, self._inf = self._simplex.highs, self._simplex.infinity
        lacking = np.flatnonzero(
            np.concatenate([required, np.ones(len(model.open), dtype=np.bool_)])
        )
        self._first_column = len(floors) + len(lacking)
        self._highs.passModel(self._without_sets(lacking, counts, required))

    def _without_sets(self, lacking: IntArray, counts: FloatArray, required: BoolArray) -> Any:
        """Return the program of the peaks, with artificial columns for uncovered rows.

        An artificial column, for a worker without a set or a required request without a worker,
        costs more than any solution.
        """
        import highspy

        model, inf = self._model, self._inf
        peaks = len(self._origin)
        program = highspy.HighsLp()
        program.num_col_ = self._first_column
        program.num_row_ = self._fixed_rows
        penalty = largest_objective(model.problem) / (self._scale * _UNIT)
        program.col_cost_ = np.concatenate(
            [self._pays / self._scale, np.full(len(lacking), penalty)]
        )
        program.col_lower_ = np.zeros(self._first_column)
        program.col_upper_ = np.full(self._first_column, inf)
        # Where every column of a worker fills its slots, their number says nothing new.
        admitted = float(model.problem.num_admitted)
        least, most = (-inf, inf) if model.fills else (admitted, admitted)
        ones = np.ones(len(model.open))
        program.row_lower_ = np.concatenate([np.where(required, counts, -inf), ones, [least]])
        program.row_upper_ = np.concatenate([counts, ones, [most]])
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        program.a_matrix_.start_ = np.concatenate(
            [np.zeros(peaks), np.arange(len(lacking) + 1)]
        ).astype(np.int32)
        program.a_matrix_.index_ = lacking.astype(np.int32)
        program.a_matrix_.value_ = np.ones(len(lacking))
        return program

    @property
    def columns(self) -> Columns:
        """The sets of requests found so far."""
        worker = np.array([k for k, _ in self._sets], dtype=np.int64)
        return Columns(worker, np.array(list(self._sets.values())))

    def solve(self) -> Solution | None:
        """Solve the program; None if the simplex method does not finish."""
        most = 400 + 2 * (self._fixed_rows + len(self.cuts.step))
        # Where the dual simplex cycles, the primal one goes on; alone it would cycle more often.
        if not self._simplex.run(most) and not self._simplex.run(_LONG * most, primal=True):
            return None
        solution = self._highs.getSolution()
        primal = np.array(solution.col_value)
        duals = np.array(solution.row_dual) * self._scale * _UNIT
        S, n, rows = len(self._origin), self._kinds, self._fixed_rows
        value = self._highs.getInfo().objective_function_value * self._scale * _UNIT
        self._idle = np.where(duals[rows:] > 0, 0, self._idle + 1)
        return Solution(
            value + float((self._pays * self._origin).sum()),
            primal[:S] * _UNIT + self._origin,
            primal[self._first_column :],
            Duals(-duals[:n], duals[rows:] / _UNIT, -float(duals[rows - 1])),
            duals[n : rows - 1],
            list(self._sets),
        )

    def raise_floors(self, floors: IntArray) -> None:
        """Raise the lower bounds of the peaks."""
        steps = np.arange(len(floors), dtype=np.int32)
        lower = (floors - self._origin) / _UNIT
        self._highs.changeColsBounds(len(steps), steps, lower, np.full(len(steps), self._inf))

    def restrict(self, path: Sequence[tuple[Split, bool]], floors: IntArray) -> None:
        """Restrict the program to a case: its columns, its floors, and its valid cuts."""
        self._path = path
        allowed = self._allowed(self.columns)
        first, number = self._first_column, len(self._sets)
        self._highs.changeColsBounds(
            number,
            np.arange(first, first + number, dtype=np.int32),
            np.zeros(number),
            np.where(allowed, self._inf, 0.0),
        )
        step = self.cuts.step
        lower = (np.minimum(self._cut_floors, floors[step]) - self._origin[step]) / _UNIT
        rows = np.arange(self._fixed_rows, self._fixed_rows + len(step), dtype=np.int32)
        self._highs.changeRowsBounds(len(step), rows, lower, np.full(len(step), self._inf))
        self.raise_floors(floors)

    def _allowed(self, columns: Columns) -> BoolArray:
        """Return whether each column belongs to the current case."""
        allowed = np.ones(len(columns.worker), dtype=np.bool_)
        for split, high in self._path:
            tau = int(self._model.workers.token_time[split.worker])
            above = columns.times[:, split.step] > split.level * tau
            allowed &= (columns.worker != split.worker) | (above == high)
        return allowed

    def add_columns(self, found: list[tuple[int, IntArray]], at: Solution | None = None) -> int:
        """Add sets of requests, each a worker and positions; return the number of new ones.

        If a solution is given, only sets with a negative reduced cost at its duals are added.
        """
        kinds = self._model.requests.kind
        new: dict[tuple[int, tuple[int, ...]], IntArray] = {}
        for k, members in found:
            key = (k, tuple(sorted(kinds[members].tolist())))
            if key not in self._sets:
                new.setdefault(key, members)
        if not new:
            return 0
        worker = np.array([k for k, _ in new])
        times, costs = self._times_and_costs(worker, list(new.values()))
        added = list(new)
        column, row, entries = self._entries(added, worker, times)
        if at is not None:
            prices, weights, admit = at.duals
            duals = np.concatenate([-prices, at.worker_duals, [-admit], weights * _UNIT])
            duals /= self._scale * _UNIT
            kept = costs - np.bincount(column, entries * duals[row], len(new)) < -_LEAST_GAIN
            if not kept.any():
                return 0
            inside = kept[column]
            column = (np.cumsum(kept) - 1)[column[inside]]
            row, entries = row[inside], entries[inside]
            added = [added[j] for j in np.flatnonzero(kept).tolist()]
            times, worker, costs = times[kept], worker[kept], costs[kept]
        self._highs.addCols(
            len(costs),
            costs,
            np.zeros(len(costs)),
            np.where(self._allowed(Columns(worker, times)), self._inf, 0.0),
            len(row),
            np.searchsorted(column, np.arange(len(costs))).astype(np.int32),
            row.astype(np.int32),
            entries,
        )
        self._sets.update(zip(added, times, strict=True))
        return len(added)

    def _times_and_costs(
        self, worker: IntArray, sets: list[IntArray]
    ) -> tuple[IntArray, FloatArray]:
        """Return the times and costs of workers with given sets of requests."""
        model = self._model
        rows, tau = model.requests.rows, model.workers.token_time[worker]
        added = np.zeros((len(sets), rows.shape[1]), dtype=np.int64)
        of_set = np.repeat(np.arange(len(sets)), [len(members) for members in sets])
        np.add.at(added, of_set, rows[np.concatenate(sets)])
        times = (model.workers.base[worker] + added) * tau[:, None]
        if len(self._origin) > times.shape[1]:
            times = np.concatenate([times, -times], axis=1)
        return times, -(tau * (added @ model.goal.weights)) / (self._scale * _UNIT)

    def _entries(
        self, sets: list[tuple[int, tuple[int, ...]]], worker: IntArray, times: IntArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return column, row and value of each entry, by column."""
        lengths, index, value = [], [], []
        for k, kind in sets:
            different = dict.fromkeys(kind)
            index += [*different, self._kinds + k, self._fixed_rows - 1]
            value += [*map(float, map(kind.count, different)), 1.0, float(len(kind))]
            lengths.append(len(different) + 2)
        levels = coefficients(self.cuts, Columns(worker, times))
        column, row = np.nonzero(levels.T)
        of_cuts = -levels[row, column] / _UNIT
        column = np.concatenate([np.repeat(np.arange(len(sets)), lengths), column])
        order = np.argsort(column, kind="stable")
        rows = np.concatenate([np.array(index), row + self._fixed_rows])
        return column[order], rows[order], np.concatenate([np.array(value), of_cuts])[order]

    def add_cuts(self, cuts: Cuts, floors: IntArray) -> None:
        """Add share inequalities, restricted to the levels above these floors."""
        if len(cuts.step) == 0:
            return
        cuts = cuts.above_floors(floors)
        levels = coefficients(cuts, self.columns)
        row, column = np.nonzero(levels)
        row = np.concatenate([np.arange(len(cuts.step)), row])
        order = np.argsort(row, kind="stable")
        index = np.concatenate([cuts.step, column + self._first_column])[order]
        entries = np.concatenate([np.ones(len(cuts.step)), -levels[np.nonzero(levels)] / _UNIT])
        lower = (floors[cuts.step] - self._origin[cuts.step]) / _UNIT
        self._highs.addRows(
            len(cuts.step),
            lower,
            np.full(len(cuts.step), self._inf),
            len(index),
            np.searchsorted(row[order], np.arange(len(cuts.step))).astype(np.int32),
            index.astype(np.int32),
            entries[order],
        )
        self.cuts = joined(self.cuts, cuts)
        self._cut_floors = np.concatenate([self._cut_floors, floors[cuts.step]])
        self._idle = np.concatenate([self._idle, np.zeros(len(cuts.step), dtype=np.int64)])

    def drop_cuts(self) -> None:
        """Drop cuts long without weight, except those with weight in the best duals."""
        kept = self._idle < _PATIENCE
        if self.behind is not None:
            weights = self.behind.cut_weights
            kept[: len(weights)] |= weights > 0
            self.behind = self.behind._replace(cut_weights=weights[kept[: len(weights)]])
        dropped = np.flatnonzero(~kept)
        if len(dropped):
            self._highs.deleteRows(len(dropped), (dropped + self._fixed_rows).astype(np.int32))
            self.cuts = self.cuts.taken(np.flatnonzero(kept))
            self._cut_floors, self._idle = self._cut_floors[kept], self._idle[kept]
