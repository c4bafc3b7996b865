"""Projected loads over the look-ahead window (BF-IO section 4, BalanceRoute eq. 7).

Two independent choices make a projection:

* how a request's load moves: ``growing`` by the increments of the drift model (``+h`` for LLM
  decode), or held ``constant`` at its load now;
* when it ends: after the remaining steps that the predictor states, from when on it adds 0. A
  predictor without length information ends nothing within the window.
"""

from dataclasses import dataclass

import numpy as np

from bfio.decode.drift import Drift
from bfio.decode.options import Projection
from bfio.decode.predictor import Predictor
from formulations.arrays import IntArray
from formulations.errors import InputError


@dataclass(frozen=True)
class Projector:
    """Computes ``b_g(h)`` and ``v_i(h)`` for h = 0..H.

    Parameters
    ----------
    horizon : int
        ``H >= 0``.
    projection : Projection
        How loads move.
    predictor : Predictor
        When requests end.
    drift : Drift
        Increments of growing loads. They belong to the machine, not to the requests, so every
        policy may know them.
    """

    horizon: int
    projection: Projection
    predictor: Predictor
    drift: Drift

    def loads(
        self,
        requests: IntArray,
        workers: IntArray,
        weights: IntArray,
        ages: IntArray,
        step: int,
        num_workers: int,
    ) -> IntArray:
        """Return ``b_g(h)`` of the running requests, shape (G, H+1) [tokens].

        Parameters
        ----------
        requests, workers, weights, ages : IntArray
            Shape (n,): index, worker, load now [tokens] and tokens emitted of each.
        step : int
            The step now.
        num_workers : int
            ``G``.
        """
        remaining = self._remaining(requests, ages)
        growth = self._growth(step, ages)
        if growth.ndim == 1:
            return _loads_growing_alike(workers, weights, remaining, growth, num_workers)
        loads = np.zeros((num_workers, self.horizon + 1), dtype=np.int64)
        np.add.at(loads, workers, self._while_active(weights[:, None] + growth, remaining))
        return loads

    def contributions(self, requests: IntArray, sizes: IntArray, step: int) -> IntArray:
        """Return ``v_i(h)`` of waiting requests if admitted now, shape (N, H+1) [tokens]."""
        ages = np.zeros(len(requests), dtype=np.int64)
        remaining = self._remaining(requests, ages)
        return self._while_active(sizes[:, None] + self._growth(step, ages), remaining)

    def _growth(self, step: int, ages: IntArray) -> IntArray:
        if self.projection is Projection.CONSTANT:
            return np.zeros(self.horizon + 1, dtype=np.int64)
        return self.drift.growth(step, ages, self.horizon)

    def _remaining(self, requests: IntArray, ages: IntArray) -> IntArray:
        if self.horizon == 0:
            return np.ones(len(requests), dtype=np.int64)
        predicted = np.asarray(self.predictor.remaining(requests, ages, self.horizon))
        if predicted.shape != requests.shape or not np.issubdtype(predicted.dtype, np.integer):
            raise InputError(
                f"predictor {self.predictor.name}",
                f"returned an array of shape {predicted.shape} and type {predicted.dtype}",
                f"return {len(requests)} integers (round an expected length up)",
            )
        # The coming step is certain (remaining >= 1), whatever a learned predictor says.
        clipped: IntArray = np.clip(predicted, 1, self.horizon + 1).astype(np.int64)
        return clipped

    def _while_active(self, loads: IntArray, remaining: IntArray) -> IntArray:
        ahead = np.arange(self.horizon + 1, dtype=np.int64)
        return np.where(ahead < remaining[:, None], loads, 0)


def _loads_growing_alike(
    workers: IntArray, weights: IntArray, remaining: IntArray, growth: IntArray, num_workers: int
) -> IntArray:
    """Sum loads by worker from the requests that end after each step, in O(n + G·H)."""
    shape = (num_workers, len(growth) + 1)
    ending_weight = np.zeros(shape, dtype=np.int64)
    ending_count = np.zeros(shape, dtype=np.int64)
    np.add.at(ending_weight, (workers, remaining), weights)
    np.add.at(ending_count, (workers, remaining), 1)
    return _suffix_sums(ending_weight) + growth * _suffix_sums(ending_count)


def _suffix_sums(ending: IntArray) -> IntArray:
    """Return for each h the sum over ``ending[:, r]`` with r > h; drops one column."""
    sums: IntArray = np.cumsum(ending[:, :0:-1], axis=1)[:, ::-1]
    return sums
