"""Placements of a step with a window: their construction, and the best one so far."""

from collections.abc import Sequence

import numpy as np

from bfio.step.exact.effort import Effort
from bfio.step.exact.place import REFILLS, fewest_first, refill, spread_largest, with_first
from bfio.step.exact.windows.aggregate import Aggregate
from bfio.step.exact.windows.anneal import anneal
from bfio.step.exact.windows.costs import NEVER
from bfio.step.exact.windows.model import StepModel
from bfio.step.exact.windows.program import LEAST_WEIGHT, Solution
from bfio.step.exact.windows.refit import refit
from formulations.arrays import FloatArray, IntArray
from formulations.step.share_bound import largest_objective

#: Turns of the first placements per request, and their temperatures in parts of a mean request.
_FIRST_TURNS = 75
_FIRST_TEMPERATURES = (0.25, 0.02)
#: Turns of later ones, and temperatures that they have in turn.
_LATER_TURNS = 400
_LATER_TEMPERATURES = (0.02, 0.005, 0.05, 0.002)
_SEED = 88172645463325252


class Placements:
    """Placements of one problem, each improved by exchanges.

    Parameters
    ----------
    refits : bool, optional
        Whether requests of two workers are redistributed exactly.

    Attributes
    ----------
    owner : IntArray or None
        Shape (N,): worker of each position, -1 for none, in the best placement so far.
    value : int
        Objective of the best placement; larger than every objective if there is none.
    """

    def __init__(self, model: StepModel, effort: Effort, *, refits: bool = True) -> None:
        self._model, self._effort = model, effort
        self.owner: IntArray | None = None
        self.value = largest_objective(model.problem) + 1
        self._state = np.array([_SEED], dtype=np.uint64)
        self._turn = 0
        self._met: list[tuple[int, IntArray]] = []
        # Exchanges of two requests do as much where workers have one or two slots.
        self._refits = refits and bool(model.workers.slots.sum() > 2 * len(model.open))

    def rehearse(self) -> None:
        """Call every kernel once, so that it is compiled; the placement is not a good one."""
        self._refits = True
        self.begin(None)
        self.fill_margins(np.full(len(self._model.goal.pays), float(self.value)), 0)
        self.value += 1000

    def met(self) -> list[tuple[int, IntArray]]:
        """Return worker and positions of all sets of placements since the last call."""
        met, self._met = self._met, []
        return met

    def begin(self, start: Sequence[int | None] | None) -> None:
        """Make the first placement: from an assignment, or by filling slots in turn."""
        owner = self._dealt_in_turn() if start is None else self._model.owner_of(start)
        turns = _FIRST_TURNS * len(owner)
        for share in _FIRST_TEMPERATURES:
            self._improve(owner, share, turns)
            if self.owner is None:
                return
            owner = self.owner.copy()

    def improve(self, owner: IntArray) -> None:
        """Improve a placement by annealing at the next of several temperatures."""
        share = _LATER_TEMPERATURES[self._turn % len(_LATER_TEMPERATURES)]
        self._turn += 1
        self._improve(owner, share, _LATER_TURNS * len(owner))

    def aim(self, sums: Aggregate) -> None:
        """Make placements that approach the sums of the relaxation, if all requests are admitted.

        Requests are assigned largest first, by the missing sum per missing request.
        """
        model = self._model
        sizes, slots = model.requests.sizes, model.workers.slots
        if not model.admits_all or len(sizes) < len(model.order):
            return
        left = _rounded(sums.numbers, len(sizes), slots)
        lacking = sums.sums.copy()
        owner = np.empty(len(sizes), dtype=np.int64)
        for i in range(len(sizes) - 1, -1, -1):
            need = np.where(left > 0, lacking / np.maximum(left, 1), -np.inf)
            k = int(np.argmax(need))
            owner[i] = k
            left[k] -= 1
            lacking[k] -= sizes[i]
        # As it is, and after exchanges.
        self._improve(owner, 0.0, 0)
        self.improve(owner)

    def fill_margins(self, peaks: FloatArray, gap: int) -> None:
        """Fill workers up to given peaks, but for as many tokens as a better placement may lack.

        Such a placement is better by at most ``gap``. Numbers of requests are those of the best
        placement. A worker that cannot be filled comes first in the next turn.
        """
        assert self.owner is not None
        model, owner = self._model, self.owner.copy()
        sizes = model.requests.sizes
        if model.requests.required.any() and not model.admits_all:
            return
        number = np.bincount(owner[: len(sizes)] + 1, minlength=len(model.open) + 1)[1:]
        loads = model.workers.base + number[:, None] * model.requests.growth
        others = np.flatnonzero(owner[len(sizes) :] >= 0) + len(sizes)
        np.add.at(loads, owner[others], model.requests.rows[others])
        # Behind them, for the gap, are those of negated times.
        whole = np.floor(peaks[: loads.shape[1]] + 1e-6).astype(np.int64)
        margins = (whole // model.workers.token_time[:, None] - loads).min(axis=1)
        margins = np.minimum(margins, model.workers.limit - loads.max(axis=1))
        if not number.any():
            return
        placed = np.empty(len(sizes), dtype=np.int64)
        spread_largest(margins, number, sizes, placed)
        order = fewest_first(number)
        order = order[number[order] > 0]
        of_token = int(model.goal.weights.sum() * model.workers.token_time.min())
        most = gap // of_token if of_token > 0 else int(np.maximum(margins, 0).sum())
        for _ in range(REFILLS):
            failed = refill(margins, sizes, order, most, placed, self._effort.spent)
            if failed < 0 or failed == order[0]:
                break
            order = with_first(order, failed)
        owner[: len(sizes)] = placed
        self._improve(owner, _LATER_TEMPERATURES[-1], _LATER_TURNS * len(owner))

    def rounded(self, solution: Solution) -> IntArray:
        """Place disjoint columns, largest weight first, and other requests arbitrarily."""
        model, weights = self._model, solution.weights
        kinds = model.requests.kind
        left: dict[int, list[int]] = {}
        for position, kind in enumerate(kinds.tolist()):
            left.setdefault(kind, []).append(position)
        owner = np.full(len(kinds), -1, dtype=np.int64)
        done = np.zeros(len(model.open), dtype=np.bool_)
        for j in np.argsort(-weights, kind="stable").tolist():
            k, members = solution.sets[j]
            if weights[j] <= LEAST_WEIGHT or done.all():
                break
            if done[k] or any(len(left[c]) < members.count(c) for c in set(members)):
                continue
            for c in members:
                owner[left[c].pop()] = k
            done[k] = True
        return self._completed(owner)

    def _improve(self, owner: IntArray, share: float, turns: int) -> None:
        """Exchange requests at random; keep the best placement within token limits."""
        model, spent = self._model, self._effort.spent
        parts = model.requests, model.workers, model.goal
        mean, pays = float(model.requests.rows.mean()), float(model.goal.pays.sum())
        temperature = share * mean * pays / model.problem.num_workers
        value, excess = anneal(
            *parts, temperature, turns, not model.fills, owner, self._state, spent
        )
        if excess > 0:
            return
        if self._refits:
            value = refit(*parts, owner, model.admits_all, spent)
        self._met += model.sets_of(owner)
        if value < self.value:
            self.value, self.owner = int(value), owner.copy()

    def _dealt_in_turn(self) -> IntArray:
        """Fill slots in turn: required requests first, then the smallest."""
        model = self._model
        owner = np.full(len(model.order), -1, dtype=np.int64)
        load = model.workers.base.max(axis=1) * model.workers.token_time
        free = model.workers.slots.copy()
        weight = model.requests.rows.max(axis=1)
        order = np.lexsort((weight, ~model.requests.required))
        for i in order[: model.problem.num_admitted][::-1].tolist():
            k = int(np.argmin(np.where(free > 0, load, NEVER)))
            owner[i] = k
            free[k] -= 1
            load[k] += int(model.workers.token_time[k] * weight[i])
        return owner

    def _completed(self, owner: IntArray) -> IntArray:
        """Admit or remove requests until required ones are in and the number is right."""
        model = self._model
        required = model.requests.required
        excess = int((owner >= 0).sum() + (required & (owner < 0)).sum())
        excess -= model.problem.num_admitted
        dismissed = np.flatnonzero((owner >= 0) & ~required)[: max(0, excess)]
        owner[dismissed] = -1
        free = model.workers.slots - np.bincount(owner[owner >= 0], minlength=len(model.open))
        places = np.repeat(np.arange(len(free)), free)
        waiting = np.flatnonzero(owner < 0)
        waiting = waiting[np.argsort(~required[waiting], kind="stable")]
        missing = model.problem.num_admitted - int((owner >= 0).sum())
        owner[waiting[:missing]] = places[:missing]
        return owner


def _rounded(numbers: FloatArray, total: int, most: IntArray) -> IntArray:
    """Round numbers so that they sum to a total, each at most its limit."""
    whole = np.minimum(np.floor(numbers + 1e-6).astype(np.int64), most)
    order = np.argsort(whole - numbers, kind="stable")
    while whole.sum() < total:
        rest = total - int(whole.sum())
        whole[order[(whole < most)[order]][:rest]] += 1
    return whole
