"""The two stages as gradient-boosted trees of scikit-learn, fitted to requests of the past."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any

import numpy as np

from bfio.decode.prediction.estimates import Estimates
from bfio.decode.prediction.learned.features import walked_features
from bfio.decode.prediction.learned.options import LearnedOptions
from bfio.decode.prediction.walks import walk
from formulations.arrays import BoolArray, FloatArray, IntArray
from formulations.errors import InputError

#: Training points come at every so many tokens of a request, as the predictor is asked.
EVERY = 10
#: Training points at most; of more, evenly spaced ones.
MOST_POINTS = 200_000
#: Requests whose points a leaf of a tree has at least, on average.
LEAF_REQUESTS = 30


def require_library() -> None:
    """Refuse to go on without scikit-learn.

    Raises
    ------
    InputError
        If it is not installed.
    """
    if find_spec("sklearn") is None:
        what, remedy = "scikit-learn is not installed", "pip install 'bfio[learned]'"
        raise InputError("predictor learned", what, remedy)


class TwoStages:
    """A classifier of ``r <= H`` and a regressor of r where that holds (BalanceRoute, C.2.1).

    Parameters
    ----------
    prompts, outputs : IntArray
        Shape (n,), n >= 1: requests of the past, in the order in which they came [tokens].
    horizon : int
        ``H``.
    options : LearnedOptions
        Trees and their depth.
    seed : int
        Seed of the training; equal ones give equal models.
    """

    def __init__(
        self,
        prompts: IntArray,
        outputs: IntArray,
        horizon: int,
        options: LearnedOptions,
        seed: int,
    ) -> None:
        from sklearn.ensemble import (
            HistGradientBoostingClassifier,
            HistGradientBoostingRegressor,
        )

        settings: dict[str, Any] = {
            "max_iter": options.trees,
            "max_depth": options.depth,
            "early_stopping": False,
            "random_state": seed % 2**32,
        }
        self._one_thread = _one_thread()
        inputs, remaining, requests = _training_points(prompts, outputs)
        positive = remaining <= horizon
        self._horizon = horizon
        self._share = float(positive.mean())
        self._classifier: Any = None
        self._regressor: Any = None
        with self._one_thread():
            if 0 < self._share < 1:
                leaf = _points_of_a_leaf(requests)
                self._classifier = HistGradientBoostingClassifier(
                    min_samples_leaf=leaf, **settings
                )
                self._classifier.fit(inputs, positive)
            if self._share > 0:
                leaf = _points_of_a_leaf(requests[positive])
                self._regressor = HistGradientBoostingRegressor(min_samples_leaf=leaf, **settings)
                self._regressor.fit(inputs[positive], remaining[positive])

    def estimate(self, inputs: FloatArray) -> Estimates:
        """Return both stages for some points, in one pass through the trees.

        Parameters
        ----------
        inputs : FloatArray
            Shape (m, 2 + NUM_RECENT): prompt, age, statistics of finished requests.
        """
        probability, mean = np.full(len(inputs), self._share), np.full(len(inputs), 1.0)
        with self._one_thread():
            if len(inputs) and self._classifier is not None:
                probability = self._classifier.predict_proba(inputs)[:, 1]
            if len(inputs) and self._regressor is not None:
                mean = np.clip(self._regressor.predict(inputs), 1, self._horizon)
        return Estimates(probability, mean)


def _one_thread() -> Callable[[], AbstractContextManager[Any]]:
    """Return what keeps the trees to one thread.

    Several wait for each other by spinning: a call of a millisecond takes a hundred on a busy
    machine.
    """
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController()
    return lambda: controller.limit(limits=1, user_api="openmp")


def _points_of_a_leaf(requests: IntArray) -> int:
    """Return how many points a leaf has at least: those of `LEAF_REQUESTS` requests on average.

    All points of a request have the same prompt and statistics of others, by which trees could
    tell it from all others: a leaf that holds few requests learns their lengths by heart.
    """
    return LEAF_REQUESTS * len(requests) // len(np.unique(requests))


def _training_points(
    prompts: IntArray, outputs: IntArray
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return features and remaining steps of requests walked at ages 0, K, ..., and which."""
    points = walk(outputs, EVERY)
    chosen: IntArray | BoolArray = np.arange(len(points.ages))
    if len(chosen) > MOST_POINTS:
        chosen = np.linspace(0, len(chosen) - 1, MOST_POINTS).astype(np.int64)
    requests = points.requests[chosen]
    recent = walked_features(prompts, outputs)[requests]
    inputs = inputs_of(prompts[requests], points.ages[chosen], recent)
    return inputs, points.remaining[chosen], requests


def inputs_of(prompts: IntArray, ages: IntArray, recent: FloatArray) -> FloatArray:
    """Return what the trees take: shape (m, 2 + NUM_RECENT).

    Parameters
    ----------
    prompts, ages : IntArray
        Shape (m,) [tokens].
    recent : FloatArray
        Shape (m, NUM_RECENT), or (NUM_RECENT,) where all points have the same.
    """
    inputs = np.empty((len(prompts), 2 + recent.shape[-1]))
    inputs[:, 0], inputs[:, 1], inputs[:, 2:] = prompts, ages, recent
    return inputs
