"""What bounds leave of the ways to use each worker, and the levels that no peak is below then."""

from dataclasses import dataclass, replace

import numpy as np

from bfio.common.kernels import entry_point
from bfio.step.exact.windows.model import Goal, Modes, Split, WindowModel, Workers
from formulations.arrays import BoolArray, IntArray


@dataclass(frozen=True)
class Boxes:
    """Modes with the sums that may still beat the placement in hand.

    Parameters
    ----------
    model : WindowModel
        The problem.
    modes : Modes
        Those left, with what is left of their sums.
    floors : IntArray
        Shape (S,): levels that no peak is below.
    """

    model: WindowModel
    modes: Modes
    floors: IntArray

    @classmethod
    def of(cls, model: WindowModel) -> "Boxes":
        """Return all modes with all of their sums."""
        return cls(model, model.modes, model.goal.closed).raised()

    @property
    def is_empty(self) -> bool:
        """Whether a worker has nothing left."""
        return not np.bincount(self.modes.worker, minlength=len(self.model.open)).all()

    def copy(self) -> "Boxes":
        """Return the same with ends of sums of its own."""
        modes = self.modes._replace(low=self.modes.low.copy(), high=self.modes.high.copy())
        return replace(self, modes=modes)

    def without(self, kept: BoolArray) -> "Boxes":
        """Return the modes that are kept, with the same floors."""
        if kept.all():
            return self
        return replace(self, modes=Modes(*(part[kept] for part in self.modes)))

    def raised(self) -> "Boxes":
        """Return the same with floors of closed workers, and of what the modes leave."""
        if self.is_empty:
            return self
        model = self.model
        return replace(self, floors=raised_floors(self.modes, model.workers, model.goal.closed))

    def ceilings(self) -> IntArray:
        """Return levels that no column exceeds, shape (S,)."""
        modes = self.modes
        tau = self.model.workers.token_time[modes.worker][:, None]
        if len(tau) == 0:
            return self.floors + 1
        highest = ((modes.loads + modes.high[:, None]) * tau).max(axis=0)
        if len(self.floors) > len(highest):
            lowest = ((modes.loads + modes.low[:, None]) * tau).min(axis=0)
            highest = np.concatenate([highest, -lowest])
        ceilings: IntArray = np.maximum(highest, self.floors) + 1
        return ceilings

    def narrowed(self, value: int) -> "Boxes":
        """Return the same without sums at which one worker alone costs ``value``."""
        model = self.model
        if len(model.goal.pays) > self.modes.loads.shape[1]:
            return self
        most = value - 1 + model.goal.fixed + self._largest_total()
        modes = self.modes
        high = largest_sums(modes, model.workers, model.goal, self.floors, most)
        boxes = replace(self, modes=modes._replace(high=high))
        return boxes.without(modes.low <= high)

    def _largest_total(self) -> int:
        """Largest weighted total that any admission adds."""
        model = self.model
        worth = np.sort(model.requests.rows @ model.goal.weights)[::-1]
        times = np.sort(np.repeat(model.workers.token_time, model.workers.slots))[::-1]
        number = model.problem.num_admitted
        return int((worth[:number] * times[:number]).sum())

    def part(self, split: Split, *, high: bool) -> "Boxes":
        """Return a case: the load of a worker at a step above a level, or not above it."""
        boxes = self.copy()
        modes = boxes.modes
        of_worker = modes.worker == split.worker
        sums = split.level - modes.loads[:, split.step]
        if high:
            modes.low[of_worker] = np.maximum(modes.low, sums + 1)[of_worker]
        else:
            modes.high[of_worker] = np.minimum(modes.high, sums)[of_worker]
        return boxes.without(modes.low <= modes.high).raised()


@entry_point
def largest_sums(
    modes: Modes, workers: Workers, goal: Goal, floors: IntArray, most: int
) -> IntArray:
    """Largest sum of each mode at which one worker alone makes the peaks cost ``most`` at most.

    Shape (M,); below the mode's lowest sum if there is none.
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


@entry_point
def raised_floors(modes: Modes, workers: Workers, closed: IntArray) -> IntArray:
    """Largest least time of a worker at each step, ``closed`` at least.

    Parameters
    ----------
    modes, workers
        See there; every worker has a mode.
    closed : IntArray
        Shape (S,): largest time of closed workers, negated behind the window.
    """
    steps = modes.loads.shape[1]
    K, S = len(workers.slots), len(closed)
    least = np.full((K, S), 1 << 62, np.int64)
    for m in range(len(modes.low)):
        k = modes.worker[m]
        tau = workers.token_time[k]
        for h in range(S):
            if h < steps:
                time = tau * (modes.loads[m, h] + modes.low[m])
            else:
                time = -tau * (modes.loads[m, h - steps] + modes.high[m])
            least[k, h] = min(least[k, h], time)
    floors = closed.copy()
    for k in range(K):
        for h in range(S):
            floors[h] = max(floors[h], least[k, h])
    return floors
