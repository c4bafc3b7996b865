"""Equation (6) of the KV-cache paper: latency counted round by round instead of per request."""

from collections.abc import Sequence

import numpy as np

from formulations.arrays import IntArray
from formulations.hindsight_latency import LatencyProblem


def pending_per_round(problem: LatencyProblem, starts: Sequence[int]) -> IntArray:
    """Return how many requests have arrived and not completed, for rounds 0 to the last.

    Each pending request costs one per round, so the sum is the total latency.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    starts : sequence of int
        Start round of each request.
    """
    completion = np.asarray(starts, dtype=np.int64) + problem.output
    change = np.zeros(int(completion.max(initial=0)) + 1, dtype=np.int64)
    np.add.at(change, problem.arrival, 1)
    np.add.at(change, completion, -1)
    return np.cumsum(change)[:-1]
