"""The true lengths: the bound on what any predictor can bring."""

import numpy as np

from bfio.decode.predictor import LengthSource, PredictionTask, PredictorSpec
from formulations.arrays import IntArray


class OraclePredictor:
    """Knows the output length of every request."""

    name = "oracle"

    def __init__(self, task: PredictionTask) -> None:
        assert task.output_tokens is not None
        self._outputs = task.output_tokens

    def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
        """Return ``o_i - a_i``, or ``H+1`` where that is more; shape (n,)."""
        left: IntArray = np.minimum(self._outputs[requests] - ages, horizon + 1)
        return left

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Learn nothing: the oracle knew."""


PREDICTOR = PredictorSpec(
    "oracle", OraclePredictor, knows_future=True, lengths=LengthSource.KNOWN, draws=False
)
