"""Choice of the load by which a case is split: pseudo-costs of workers, learnt in the search."""

import numpy as np

from bfio.step.exact.windows.model import Split, StepModel
from bfio.step.exact.windows.program import LEAST_WEIGHT, Solution
from bfio.step.exact.windows.shares import Columns
from formulations.arrays import FloatArray

#: Difference of loads in a solution from which on a case can be split there [tokens].
_LEAST_SPREAD = 1e-3
#: Weight of the part whose bound rises more, in the score of a split.
_BETTER_PART = 1 / 6
#: Splits that the mean of all workers counts as, in the pseudo-cost of one.
_PRIOR = 0.3


class Splits:
    """Splits of one problem by the load of a worker at a step, and their effects."""

    def __init__(self, model: StepModel) -> None:
        self._model = model
        # Rise of the bound per spread of load: sums and numbers, of parts not above and above.
        self._gains = np.zeros((len(model.open), 2))
        self._numbers = np.zeros((len(model.open), 2))

    def choose(self, columns: Columns, solution: Solution) -> tuple[Split, float] | None:
        """Return the split of best score and its spread; None if all loads are integral.

        The load of each worker is split where its spread, priced as peaks are, is largest.
        """
        spread, mean = self._spread(columns, solution)
        workers = np.arange(len(spread))
        steps = np.argmax(spread, axis=1)
        spread, mean = spread[workers, steps], mean[workers, steps]
        # Pseudo-costs: equal as long as none is known.
        number = self._numbers.sum()
        usual = self._gains.sum() / number if number else 1.0
        rises = (self._gains + _PRIOR * usual) / (self._numbers + _PRIOR) * spread[:, None]
        score = (1 - _BETTER_PART) * rises.min(axis=1) + _BETTER_PART * rises.max(axis=1)
        tau, pays = self._model.workers.token_time, self._model.goal.pays[steps]
        settled = spread <= _LEAST_SPREAD * pays * tau
        if settled.all():
            return None
        k = int(np.argmax(np.where(settled, -1, score)))
        return Split(k, int(steps[k]), int(np.floor(mean[k]))), float(spread[k])

    def learn(self, split: Split, *, high: bool, spread: float, rise: int) -> None:
        """Record the rise of the bound by a split."""
        self._gains[split.worker, int(high)] += rise / spread
        self._numbers[split.worker, int(high)] += 1

    def _spread(self, columns: Columns, solution: Solution) -> tuple[FloatArray, FloatArray]:
        """Return mean deviation, priced, and mean of the loads in a solution, each (K, H+1)."""
        model = self._model
        token_time = model.workers.token_time
        used = np.flatnonzero(solution.weights > LEAST_WEIGHT)
        weights, worker = solution.weights[used], columns.worker[used]
        steps = model.workers.base.shape[1]
        loads = columns.times[used, :steps] // token_time[worker][:, None]
        mean = np.zeros(model.workers.base.shape)
        np.add.at(mean, worker, weights[:, None] * loads)
        spread = np.zeros_like(mean)
        np.add.at(spread, worker, weights[:, None] * np.abs(loads - mean[worker]))
        return spread * model.goal.pays[:steps] * token_time[:, None], mean
