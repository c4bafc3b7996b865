"""The true lengths: the bound on what any predictor can bring."""

import numpy as np

from bfio.workloads.workload import Workload
from formulations.arrays import IntArray


class OraclePredictor:
    """Knows the output length of every request.

    Parameters
    ----------
    workload : Workload
        The requests of the run.
    """

    name = "oracle"

    def __init__(self, workload: Workload) -> None:
        self._outputs = workload.output_tokens

    def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
        """Return ``o_i - a_i``, or ``H+1`` where that is more; shape (n,)."""
        left: IntArray = np.minimum(self._outputs[requests] - ages, horizon + 1)
        return left

    def finished(self, requests: IntArray) -> None:
        """Learn nothing: the oracle knew."""
