"""Gradient-boosted trees, trained on the past (BalanceRoute, C.2.1; needs scikit-learn)."""

import numpy as np

from bfio.decode.prediction.estimates import Estimates
from bfio.decode.prediction.learned.features import RecentLengths
from bfio.decode.prediction.learned.model import TwoStages, inputs_of, require_library
from bfio.decode.prediction.learned.options import LearnedOptions
from bfio.decode.predictor import PredictionTask, PredictorSpec
from formulations.arrays import IntArray
from formulations.errors import InputError

#: Requests of the past that are trained on at most, the latest.
_MOST_REQUESTS = 10_000


class LearnedPredictor:
    """A classifier and a regressor on prompt, age and statistics of finished requests.

    They are trained when first asked, on the history; with ``refit=N``, anew after each N requests
    that finish, on the latest of all, and for the first time then if there is no history. Requests
    that are due together are one pass through the trees.

    Raises
    ------
    InputError
        If scikit-learn is not installed, or there is nothing to learn from.
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

    def estimate(self, requests: IntArray, ages: IntArray, horizon: int) -> Estimates:
        """Return both stages; without a history, that nothing ends before ``refit`` have."""
        if not self._can_train:
            return Estimates(np.zeros(len(requests)), np.ones(len(requests)))
        if horizon not in self._models:
            self._models[horizon] = TwoStages(
                self._prompts, self._outputs, horizon, self._options, self._seed
            )
        inputs = inputs_of(self._prompt_tokens[requests], ages, self._recent.features())
        return self._models[horizon].estimate(inputs)

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Follow recent lengths, and forget what was trained when enough have finished."""
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
    """Return prompts and outputs of the latest requests of the past."""
    if task.history is not None and len(task.history):
        latest = slice(-_MOST_REQUESTS, None)
        return task.history.prompt_tokens[latest], task.history.output_tokens[latest]
    if not task.options.refit:
        remedy = "give a history of finished requests, or learned:refit=500 to learn on the way"
        raise InputError("predictor learned", "there is nothing to learn from", remedy)
    return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)


PREDICTOR = PredictorSpec("learned", LearnedPredictor, options=LearnedOptions(), needs="sklearn")
