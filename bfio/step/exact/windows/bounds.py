"""Bounds by shares and prices: duals rounded to integers, and sets of least cost."""

from dataclasses import dataclass, replace

import numpy as np

from bfio.step.exact.effort import CALL, Effort
from bfio.step.exact.subsets import prefix_values, with_parts
from bfio.step.exact.windows.boxes import Boxes
from bfio.step.exact.windows.costs import NEVER, Costs, price_workers, shrink_modes
from bfio.step.exact.windows.model import StepModel
from bfio.step.exact.windows.pricing import BLOCK, MOST_UNITS, Priced, collect_best, fill_tables
from bfio.step.exact.windows.program import Duals
from bfio.step.exact.windows.shares import Cuts, rounded_weights, weighted
from formulations.arrays import IntArray
from formulations.step.share_bound import MAX_VALUE, ShareRound, largest_objective

#: Most units of duals to one of the objective.
_MAX_SCALE = 1 << 20
#: Most cells of all tables, and most that one price after the other is filled into.
_MAX_CELLS = 1 << 25
_MAX_FILLING = 1 << 29
#: Most modes whose sums are looked at one by one.
_FEW_MODES = 2048
#: Sums of each worker that sets are made of.
_SUMS = 4


@dataclass(frozen=True)
class Bounded:
    """A lower bound that shares and prices prove, with its data.

    Parameters
    ----------
    total : int
        The scaled lower bound.
    least : IntArray
        Shape (K,): least cost of each worker in the bound.
    of_modes : IntArray
        Shape (M,): lower bound on the cost of each mode.
    costs : Costs
        Components of the costs.
    prices : IntArray
        Shape (N,): integer price of the request at each position.
    admit_price : int
        Integer price of the number of admitted requests.
    sets : list of (int, IntArray)
        Worker and positions of the sets of least cost.
    """

    total: int
    least: IntArray
    of_modes: IntArray
    costs: Costs
    prices: IntArray
    admit_price: int
    sets: list[tuple[int, IntArray]]


class Bounds:
    """Lower bounds on one problem by integer duals.

    Attributes
    ----------
    scale : int
        Units of shares and prices per unit of the objective.
    fine : bool
        Whether tables have 64 bits.
    lost : int
        Largest loss of the last bound by rounding values up in tables of 32 bits.
    """

    def __init__(self, model: StepModel, effort: Effort) -> None:
        self._model, self._effort = model, effort
        fitting = MAX_VALUE // max(1, largest_objective(model.problem))
        self.scale = min(_MAX_SCALE, 1 << max(0, fitting.bit_length() - 1))
        _, speed = np.unique(model.workers.token_time, return_inverse=True)
        self._speed = speed.reshape(-1).astype(np.int64)
        self.fine = False
        self.lost = 0

    def fit(self, boxes: Boxes) -> bool:
        """Return whether the tables are small enough and quick to fill."""
        modes = boxes.modes
        cells = (int(modes.number.max()) + 1) * (int(modes.high.max()) + 1)
        cells *= int(self._speed.max()) + 1
        return cells <= _MAX_CELLS and cells * len(self._model.requests.sizes) <= _MAX_FILLING

    def of(self, boxes: Boxes, duals: Duals, cuts: Cuts, number: int = _SUMS) -> Bounded:
        """Return the bound that duals prove for these boxes.

        The result includes sets for ``number`` of the best sums of each worker.
        """
        model, goal, scale = self._model, self._model.goal, self.scale
        weights = rounded_weights(cuts, duals.cut_weights * scale, goal.pays * scale)
        shares = weighted(cuts, weights, boxes.floors, len(model.open))
        prices = np.rint(duals.request_prices * scale).astype(np.int64)[model.requests.kind]
        prices = np.where(model.requests.required, prices, np.maximum(prices, 0))
        admit = 0 if model.fills else round(duals.admit_price * scale)
        fixed = self._fixed(boxes, prices, admit)
        costs = Costs(boxes.modes, model.workers, shares, self._priced(boxes, prices), fixed)
        mode, sums, least, of_modes = price_workers(costs, number, self._effort.spent)
        constant = scale * int((goal.pays * boxes.floors).sum() - goal.fixed)
        constant -= int(prices.sum()) + admit * model.problem.num_admitted
        # A worker without any set left proves everything.
        nothing = bool((mode[:, 0] < 0).any())
        total = NEVER if nothing else constant + int(least[:, 0].sum())
        sets = self._sets(costs, mode, sums)
        return Bounded(total, least[:, 0], of_modes, costs, prices, admit, sets)

    def left(self, boxes: Boxes, found: Bounded, value: int) -> Boxes:
        """Return the part of the boxes with objectives below ``value`` by a bound.

        If there are many modes, most are excluded at once; sums are examined only for the
        remaining modes.
        """
        most = found.least + (self.scale * (value - 1) - found.total)
        kept = found.of_modes <= most[boxes.modes.worker]
        boxes = boxes.without(kept)
        if len(boxes.modes.low) <= _FEW_MODES:
            modes = boxes.modes
            modes = modes._replace(low=modes.low.copy(), high=modes.high.copy())
            costs = found.costs._replace(modes=modes, fixed=found.costs.fixed[kept])
            shrink_modes(costs, most, self._effort.spent)
            boxes = replace(boxes, modes=modes).without(modes.low <= modes.high)
        return boxes.raised()

    def round_of(self, found: Bounded) -> ShareRound:
        """Return shares and prices in the form of a certificate."""
        model, shares = self._model, found.costs.shares
        worker = np.repeat(model.open, np.diff(shares.first))
        rows = np.stack([shares.step, worker, shares.above, shares.to, shares.weight], axis=1)
        parts = tuple(map(tuple, rows.tolist()))
        return ShareRound(parts, model.by_request(found.prices), found.admit_price)

    def _fixed(self, boxes: Boxes, prices: IntArray, admit_price: int) -> IntArray:
        """Return the part of each mode's cost that does not depend on its sum."""
        modes = boxes.modes
        own = np.where(modes.own >= 0, prices[np.maximum(modes.own, 0)], 0).sum(axis=1)
        number = modes.number + (modes.own >= 0).sum(axis=1)
        fixed: IntArray = own - self.scale * modes.weight + admit_price * number
        return fixed

    def _priced(self, boxes: Boxes, prices: IntArray) -> Priced:
        """Return the requests that differ in size only, with filled tables."""
        model, modes = self._model, boxes.modes
        sizes = model.requests.sizes
        times = np.unique(model.workers.token_time)
        weight = self.scale * int(model.goal.weights.sum()) * times[:, None]
        values = weight * sizes - prices[: len(sizes)]
        most = int(modes.number.max(initial=0))
        reach = np.zeros(most + 1, dtype=np.int64)
        np.maximum.at(reach, modes.number, modes.high)
        reach = with_parts(reach)
        last = int(reach.max())
        width = np.dtype(np.int64 if self.fine else np.int32)
        largest = most * int(np.abs(values).max(initial=0))
        shift = (largest // MOST_UNITS[width.itemsize]).bit_length()
        self.lost = len(model.open) * most << shift if shift else 0
        units = (-(-values >> shift)).astype(width)
        shape = (len(times), most + 1)
        tables = np.empty((*shape, last + 1), dtype=width)
        blocks = last // BLOCK + 1
        highest = np.empty((*shape, blocks.bit_length(), blocks), dtype=width)
        priced = Priced(sizes, values, units, shift, tables, highest, self._speed)
        self._effort.spend(CALL)
        fill_tables(priced, reach, self._effort.spent)
        return priced

    def _sets(self, costs: Costs, modes: IntArray, sums: IntArray) -> list[tuple[int, IntArray]]:
        """Return the sets of requests for modes and sums of each worker."""
        priced, number = costs.priced, costs.modes.number
        most = int(number.max(initial=1))
        bests = np.stack([prefix_values(values, most) for values in priced.values])
        ks, ranks = np.nonzero(modes >= 0)
        chosen, totals = modes[ks, ranks], sums[ks, ranks]
        is_found, rows = collect_best(
            priced, self._speed[ks], bests, number[chosen], totals, self._effort.spent
        )
        counts, own = number[chosen].tolist(), costs.modes.own[chosen]
        others = (own >= 0).sum(axis=1).tolist()
        found = []
        for j in np.flatnonzero(is_found).tolist():
            members = np.concatenate([rows[j, : counts[j]], own[j, : others[j]]])
            found.append((int(ks[j]), members))
        return found
