"""No length information: nothing ends within the window."""

import numpy as np

from bfio.decode.predictor import LengthSource, PredictorSpec
from formulations.arrays import IntArray


class NoPredictor:
    """Predicts that every request outlives the window."""

    name = "none"

    def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
        """Return "beyond the window" (``H+1``) for every request, shape (n,)."""
        return np.full(len(requests), horizon + 1, dtype=np.int64)

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Learn nothing: this predictor keeps no history."""


PREDICTOR = PredictorSpec(
    "none", lambda task: NoPredictor(), lengths=LengthSource.UNKNOWN, draws=False
)
