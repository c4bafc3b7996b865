"""Boxes: the ways to use each worker that bounds do not exclude."""

from dataclasses import dataclass, replace

import numpy as np

from bfio.common.kernels import entry_point
from bfio.step.exact.windows.model import Goal, Modes, Split, StepModel, Workers, modes_of
from formulations.arrays import BoolArray, IntArray


@dataclass(frozen=True)
class Boxes:
    """Modes and ranges of their sums that may still beat the incumbent.

    Parameters
    ----------
    model : StepModel
        The problem.
    modes : Modes
        The remaining modes, with the remaining ranges of their sums.
    floors : IntArray
        Shape (S,): lower bounds on the peaks.
    """

    model: StepModel
    modes: Modes
    floors: IntArray

    @classmethod
    def of(cls, model: StepModel) -> "Boxes | None":
        """Return all modes with all of their sums; None if there are too many modes."""
        modes = modes_of(model)
        return None if modes is None else cls(model, modes, model.goal.closed).raised()

    @property
    def is_empty(self) -> bool:
        """Whether some worker has no mode left."""
        return not np.bincount(self.modes.worker, minlength=len(self.model.open)).all()

    def without(self, kept: BoolArray) -> "Boxes":
        """Return boxes with the kept modes only, and the same floors."""
        if kept.all():
            return self
        return replace(self, modes=Modes(*(part[kept] for part in self.modes)))

    def raised(self) -> "Boxes":
        """Return boxes with floors raised to the largest of the workers' least times."""
        if self.is_empty:
            return self
        modes, closed = self.modes, self.model.goal.closed
        first = np.searchsorted(modes.worker, np.arange(len(self.model.open)))
        least = np.minimum.reduceat(self._times(modes.low, modes.high), first)
        return replace(self, floors=np.maximum(closed, least.max(axis=0)))

    def ceilings(self) -> IntArray:
        """Return upper bounds on the times of all columns, shape (S,)."""
        highest = self._times(self.modes.high, self.modes.low).max(axis=0)
        ceilings: IntArray = np.maximum(highest, self.floors) + 1
        return ceilings

    def _times(self, sums: IntArray, of_negated: IntArray) -> IntArray:
        """Return the times of modes at given sums, (M, S), the negated ones at other sums."""
        modes = self.modes
        tau = self.model.workers.token_time[modes.worker][:, None]
        times = tau * (modes.loads + sums[:, None])
        if len(self.floors) == modes.loads.shape[1]:
            return times
        return np.concatenate([times, -tau * (modes.loads + of_negated[:, None])], axis=1)

    def narrowed(self, value: int) -> "Boxes":
        """Return boxes without sums at which one worker alone costs ``value``."""
        model = self.model
        if len(model.goal.pays) > self.modes.loads.shape[1]:
            return self
        most = value - 1 + model.goal.fixed + self._largest_total()
        modes = self.modes
        high = largest_sums(modes, model.workers, model.goal, self.floors, most)
        boxes = replace(self, modes=modes._replace(high=high))
        return boxes.without(modes.low <= high)

    def _largest_total(self) -> int:
        """Return the largest weighted total that an admission can add."""
        model = self.model
        worth = np.sort(model.requests.rows @ model.goal.weights)[::-1]
        times = np.sort(np.repeat(model.workers.token_time, model.workers.slots))[::-1]
        number = model.problem.num_admitted
        return int((worth[:number] * times[:number]).sum())

    def part(self, split: Split, *, high: bool) -> "Boxes":
        """Return one of two cases: the load of a worker at a step is above a level, or not."""
        modes = self.modes
        of_worker = modes.worker == split.worker
        sums = split.level - modes.loads[:, split.step]
        if high:
            low = np.where(of_worker, np.maximum(modes.low, sums + 1), modes.low)
            modes = modes._replace(low=low)
        else:
            most = np.where(of_worker, np.minimum(modes.high, sums), modes.high)
            modes = modes._replace(high=most)
        return replace(self, modes=modes).without(modes.low <= modes.high).raised()


@entry_point
def largest_sums(
    modes: Modes, workers: Workers, goal: Goal, floors: IntArray, most: int
) -> IntArray:
    """Return the largest sum of each mode whose peaks alone cost at most ``most``.

    The result has shape (M,). It is below the lowest sum of the mode if no sum qualifies.
    """
    found = modes.high.copy()
    for m in range(len(found)):
        tau = workers.token_time[modes.worker[m]]
        x = found[m]
        while x >= modes.low[m]:
            cost = 0
            slope = 0
            for h in range(modes.loads.shape[1]):
                time = tau * (modes.loads[m, h] + x)
                cost += goal.pays[h] * max(time, floors[h])
                if time > floors[h]:
                    slope += goal.pays[h] * tau
            if cost <= most:
                break
            # The cost is convex: it falls no faster than here.
            x -= -((most - cost) // slope) if slope > 0 else x - modes.low[m] + 1
        found[m] = x
    return found
