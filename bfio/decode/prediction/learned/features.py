"""What a learned predictor sees of a request: causal features (BalanceRoute, C.2.1).

Prompt and age of the request itself, and statistics of requests that have finished: averages of
their outputs whose weights fall off exponentially, mean and quartiles of the last few outputs, and
the mean of their prompts. The request's own length, and those of requests not yet finished, occur
in none of them.
"""

import numpy as np

from formulations.arrays import FloatArray, IntArray

#: Weight of the latest output in the exponentially weighted averages.
EWMA_WEIGHTS = (0.1, 0.01)
#: Finished requests whose outputs and prompts the rolling statistics are of.
WINDOW = 100
#: Features besides prompt and age.
NUM_RECENT = len(EWMA_WEIGHTS) + 4


class RecentLengths:
    """Statistics of requests that have finished, in the order in which they did.

    Parameters
    ----------
    window : int
        Requests that the rolling statistics are of.
    """

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._outputs: list[int] = []
        self._prompts: list[int] = []
        self._averages: FloatArray | None = None
        self._features = np.zeros(NUM_RECENT)

    def add(self, prompts: IntArray, outputs: IntArray) -> None:
        """Take in requests that have finished, shape (n,) each [tokens]."""
        for output in outputs.tolist():
            self._average(output)
        self._outputs = (self._outputs + outputs.tolist())[-self._window :]
        self._prompts = (self._prompts + prompts.tolist())[-self._window :]
        if self._averages is not None:
            last = np.array(self._outputs)
            low, high = np.quantile(last, (0.25, 0.75))
            rolling = (last.mean(), low, high, np.mean(self._prompts))
            self._features = np.append(self._averages, rolling)

    def features(self) -> FloatArray:
        """Return the statistics, shape (NUM_RECENT,); 0 before anything has finished."""
        return self._features

    def _average(self, output: int) -> None:
        if self._averages is None:
            self._averages = np.full(len(EWMA_WEIGHTS), float(output))
        self._averages += np.array(EWMA_WEIGHTS) * (output - self._averages)


def walked_features(prompts: IntArray, outputs: IntArray) -> FloatArray:
    """Return the statistics that each request of a history found, shape (n, NUM_RECENT).

    Those of request i are of requests before it alone, taken as finished in their order.
    """
    recent = RecentLengths()
    found = np.empty((len(outputs), NUM_RECENT))
    for i in range(len(outputs)):
        found[i] = recent.features()
        recent.add(prompts[i : i + 1], outputs[i : i + 1])
    return found
