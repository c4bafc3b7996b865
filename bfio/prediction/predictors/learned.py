"""Gradient-boosted trees, trained on the past (BalanceRoute, C.2.1; needs scikit-learn).

The features of a request are causal: its prompt and age, and statistics of finished requests.
These are exponentially weighted averages of their outputs, mean and quartiles of the last outputs,
and the mean of their prompts. Lengths of the request itself and of unfinished requests are not
used.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from bfio.common.options import CheckedOptions, option, whole
from bfio.common.statistics import evenly_spaced
from bfio.prediction.length_history import walk
from bfio.prediction.predictor import Estimates, PredictionTask, PredictorSpec
from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError


@dataclass(frozen=True)
class LearnedOptions(CheckedOptions):
    """Options of the learned predictor.

    With ``refit``, the trees are trained again on the most recently finished requests.
    """

    refresh: int = option(
        10, whole(1, 10**6), "Q", "tokens between two predictions of a request (10)"
    )
    refit: int = option(
        0, whole(), "N", "finished requests between two trainings (0: never again)"
    )
    trees: int = option(100, whole(1, 10**4), "N", "boosting rounds of each stage")
    depth: int = option(4, whole(1, 32), "N", "depth of a tree")


#: Weight of the latest output in the exponentially weighted averages.
EWMA_WEIGHTS = (0.1, 0.01)
#: Number of finished requests in the rolling statistics.
WINDOW = 100
#: Number of features in addition to prompt and age.
NUM_RECENT = len(EWMA_WEIGHTS) + 4


class RecentLengths:
    """Statistics of finished requests, in the order in which they finished.

    Parameters
    ----------
    window : int
        Number of requests in the rolling statistics.
    """

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._outputs: list[int] = []
        self._prompts: list[int] = []
        self._averages: FloatArray | None = None
        self._features = np.zeros(NUM_RECENT)

    def add(self, prompts: IntArray, outputs: IntArray) -> None:
        """Add finished requests, shape (n,) each [tokens]."""
        for output in outputs.tolist():
            if self._averages is None:
                self._averages = np.full(len(EWMA_WEIGHTS), float(output))
            self._averages += np.array(EWMA_WEIGHTS) * (output - self._averages)
        self._outputs = (self._outputs + outputs.tolist())[-self._window :]
        self._prompts = (self._prompts + prompts.tolist())[-self._window :]
        if self._averages is not None:
            last = np.array(self._outputs)
            low, high = np.quantile(last, (0.25, 0.75))
            rolling = (last.mean(), low, high, np.mean(self._prompts))
            self._features = np.append(self._averages, rolling)

    def features(self) -> FloatArray:
        """Return the statistics, shape (NUM_RECENT,); 0 before any request has finished."""
        return self._features


def walked_features(prompts: IntArray, outputs: IntArray) -> FloatArray:
    """Return the statistics at each request of a history, shape (n, NUM_RECENT).

    The statistics at request i use only the requests before it, as if finished in this order.
    """
    recent = RecentLengths()
    found = np.empty((len(outputs), NUM_RECENT))
    for i in range(len(outputs)):
        found[i] = recent.features()
        recent.add(prompts[i : i + 1], outputs[i : i + 1])
    return found


#: Tokens between two training points of a request, equal to those between two predictions.
EVERY = 10
#: Largest number of training points; if there are more, evenly spaced ones are used.
MOST_POINTS = 200_000
#: A leaf of a tree has at least the points of this many requests, on average.
LEAF_REQUESTS = 30


def require_library() -> None:
    """Raise InputError if scikit-learn is not installed."""
    if find_spec("sklearn") is None:
        what, remedy = "scikit-learn is not installed", "pip install 'bfio[learned]'"
        raise InputError("predictor learned", what, remedy)


class TwoStages:
    """A classifier of ``r <= H``, and a regressor of r for these r (BalanceRoute, C.2.1).

    Parameters
    ----------
    prompts, outputs : IntArray
        Shape (n,), n >= 1: past requests, in order of arrival [tokens].
    look_ahead : int
        ``H``.
    options : LearnedOptions
        Number and depth of trees.
    seed : int
        Seed of the training; equal seeds give equal models.
    """

    def __init__(
        self,
        prompts: IntArray,
        outputs: IntArray,
        look_ahead: int,
        options: LearnedOptions,
        seed: int,
    ) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        settings: dict[str, Any] = {
            "max_iter": options.trees,
            "max_depth": options.depth,
            "early_stopping": False,
            "random_state": seed % 2**32,
        }
        self._one_thread = _one_thread()
        inputs, remaining, requests = _training_points(prompts, outputs)
        positive = remaining <= look_ahead
        self._look_ahead = look_ahead
        self._share = float(positive.mean())
        self._classifier: Any = None
        self._regressor: Any = None

        def fitted(kind: Any, which: Any, targets: Any) -> Any:
            model = kind(min_samples_leaf=_points_of_a_leaf(requests[which]), **settings)
            return model.fit(inputs[which], targets[which])

        with self._one_thread():
            if 0 < self._share < 1:
                everyone = slice(None)
                self._classifier = fitted(HistGradientBoostingClassifier, everyone, positive)
            if self._share > 0:
                self._regressor = fitted(HistGradientBoostingRegressor, positive, remaining)

    def estimate(self, inputs: FloatArray) -> Estimates:
        """Return both stages for the points of `inputs_of`, in one pass through the trees."""
        probability, mean = np.full(len(inputs), self._share), np.full(len(inputs), 1.0)
        with self._one_thread():
            if len(inputs) and self._classifier is not None:
                probability = self._classifier.predict_proba(inputs)[:, 1]
            if len(inputs) and self._regressor is not None:
                mean = np.clip(self._regressor.predict(inputs), 1, self._look_ahead)
        return Estimates(probability, mean)


def _one_thread() -> Callable[[], AbstractContextManager[Any]]:
    """Return a context manager that limits the trees to one thread.

    Several threads wait for each other by spinning. On a busy machine a call then takes 100 ms
    instead of 1 ms.
    """
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController()
    return lambda: controller.limit(limits=1, user_api="openmp")


def _points_of_a_leaf(requests: IntArray) -> int:
    """Return the least number of points of a leaf: those of `LEAF_REQUESTS` requests on average.

    All points of a request have the same prompt and statistics of recent requests, so a tree can
    identify the request. A leaf with few requests would overfit to their lengths.
    """
    return LEAF_REQUESTS * len(requests) // len(np.unique(requests))


def _training_points(
    prompts: IntArray, outputs: IntArray
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return features, remaining steps and request of each point at ages 0, K, ...."""
    points = walk(outputs, EVERY)
    chosen = evenly_spaced(len(points.ages), MOST_POINTS)
    requests = points.requests[chosen]
    recent = walked_features(prompts, outputs)[requests]
    inputs = inputs_of(prompts[requests], points.ages[chosen], recent)
    return inputs, points.remaining[chosen], requests


def inputs_of(prompts: IntArray, ages: IntArray, recent: FloatArray) -> FloatArray:
    """Return the inputs of the trees, shape (m, 2 + NUM_RECENT): prompts, ages, recent lengths.

    ``recent`` has shape (m, NUM_RECENT), or (NUM_RECENT,) if equal for all points.
    """
    inputs = np.empty((len(prompts), 2 + recent.shape[-1]))
    inputs[:, 0], inputs[:, 1], inputs[:, 2:] = prompts, ages, recent
    return inputs


#: Largest number of past requests for training; the most recent ones are used.
_MOST_REQUESTS = 10_000


class LearnedPredictor:
    """A classifier and a regressor on prompt, age and statistics of finished requests.

    They are trained on the history at the first call. With ``refit=N`` they are trained again on
    the most recent requests whenever N more have finished; without a history this is the first
    training. Requests that are due together are predicted in one pass through the trees.

    Raises
    ------
    InputError
        If scikit-learn is not installed, or there are no requests to learn from.
    """

    def __init__(self, task: PredictionTask) -> None:
        require_library()
        self._options: LearnedOptions = task.options
        self.refresh = self._options.refresh
        self._seed = task.seed
        self._prompt_tokens = task.prompt_tokens
        self._prompts, self._outputs = _past(task)
        self._models: dict[int, TwoStages] = {}
        self._recent = RecentLengths()
        self._recent.add(self._prompts, self._outputs)
        self._since_fit = 0
        self._can_train = len(self._outputs) > 0

    def estimate(self, requests: IntArray, ages: IntArray, look_ahead: int) -> Estimates:
        """Return both stages; before the first training, no request ends within the window."""
        if not self._can_train:
            return Estimates(np.zeros(len(requests)), np.ones(len(requests)))
        if look_ahead not in self._models:
            self._models[look_ahead] = TwoStages(
                self._prompts, self._outputs, look_ahead, self._options, self._seed
            )
        inputs = inputs_of(self._prompt_tokens[requests], ages, self._recent.features())
        return self._models[look_ahead].estimate(inputs)

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Update the recent statistics, and drop the models when enough requests have finished."""
        prompts = self._prompt_tokens[requests]
        self._recent.add(prompts, outputs)
        if not self._options.refit:
            return
        self._prompts = np.append(self._prompts, prompts)[-_MOST_REQUESTS:]
        self._outputs = np.append(self._outputs, outputs)[-_MOST_REQUESTS:]
        self._since_fit += len(outputs)
        if self._since_fit >= self._options.refit:
            self._can_train = True
            self._models.clear()
            self._since_fit = 0


def _past(task: PredictionTask) -> tuple[IntArray, IntArray]:
    """Return prompts and outputs of the most recent past requests."""
    if task.history is not None and len(task.history):
        latest = slice(-_MOST_REQUESTS, None)
        return task.history.prompt_tokens[latest], task.history.output_tokens[latest]
    if not task.options.refit:
        remedy = "give a history of finished requests, or learned:refit=500 to learn on the way"
        raise InputError("predictor learned", "there is nothing to learn from", remedy)
    return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)


PREDICTOR = PredictorSpec("learned", LearnedPredictor, options=LearnedOptions(), needs="sklearn")
