"""What past outputs of like requests tell: per-prompt memorisation (BalanceRoute, C.2.1)."""

from bisect import bisect_right, insort
from dataclasses import dataclass

import numpy as np

from bfio.common.options import WHOLE, option
from bfio.decode.prediction.estimates import Estimates
from bfio.decode.prediction.length_history import gated_steps
from bfio.decode.prediction.predictors.survival import SurvivalOptions, SurvivalPredictor
from bfio.decode.predictor import LengthSource, PredictionTask, PredictorSpec
from formulations.arrays import BoolArray, IntArray
from formulations.keywords import known_fields
from formulations.scalars import integer

#: Outputs from which on a class of prompts by length counts.
_ENOUGH = 20


@known_fields
@dataclass(frozen=True)
class ExactMatchOptions(SurvivalOptions):
    """Options of `exact-match`.

    Parameters
    ----------
    buckets : int
        Classes of prompts by their length, where a trace does not tell which prompts are equal.
    least : int, optional
        Past outputs that a class must have; with fewer it is predicted as `survival` does. By
        default 20 of a class by length, and 1 of equal prompts.

    Raises
    ------
    InputError
        If a value breaks its rule, naming it.
    """

    buckets: int = option(8, WHOLE, "N", "classes of prompts by length (8)")
    least: int | None = option(
        None, WHOLE, "N", "outputs from which on a class counts (20; 1 of equal prompts)"
    )

    def __post_init__(self) -> None:
        """Validate."""
        super().__post_init__()
        integer(self.buckets, "buckets", minimum=1, maximum=64)
        if self.least is not None:
            integer(self.least, "least", minimum=1)


def exact_match(task: PredictionTask) -> "SurvivalPredictor | PromptMemory":
    """Return a predictor that looks at past requests of the same class only.

    Equal prompts are a class where the trace tells them; elsewhere prompts between two quantiles
    of the history's are, or between two powers of two if there is no history.
    """
    options: ExactMatchOptions = task.options
    if task.prompt_keys is not None:
        return PromptMemory(task, task.prompt_keys, options.least or 1)
    return SurvivalPredictor(task, _classes(task, options.buckets), options.least or _ENOUGH)


class PromptMemory:
    """Predicts from the outputs that the same prompt had, and as `survival` where there are none.

    Parameters
    ----------
    task : PredictionTask
        What is known.
    keys : IntArray
        Shape (n,): keys of the prompts of the run; those of the history count alike.
    least : int
        Outputs from which on those of a prompt are trusted.
    """

    def __init__(self, task: PredictionTask, keys: IntArray, least: int) -> None:
        self._everyone = SurvivalPredictor(task)
        self.refresh = self._everyone.refresh
        self.counts_down = self._everyone.counts_down
        self._keys, self._least = keys, least
        #: Outputs of each key, sorted.
        self._past: dict[int, list[int]] = {}
        if task.history is not None and task.history.prompt_keys is not None:
            self._keep(task.history.prompt_keys, task.history.output_tokens)

    def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
        """Return the composite estimate, rounded up, in ``1..H+1``; shape (n,)."""
        known, sums = self._sums(requests, ages, horizon)
        own = gated_steps(*sums, horizon, self._everyone.history.gate)
        steps: IntArray = np.where(known, own, self._everyone.remaining(requests, ages, horizon))
        return steps

    def estimate(self, requests: IntArray, ages: IntArray, horizon: int) -> Estimates:
        """Return both stages."""
        known, (longer, ended, left) = self._sums(requests, ages, horizon)
        everyone = self._everyone.estimate(requests, ages, horizon)
        return Estimates(
            np.where(known, ended / np.maximum(longer, 1), everyone.probability),
            np.where(known, left / np.maximum(ended, 1), everyone.mean),
        )

    def compiled(self, horizon: int) -> None:
        """Say that compiled runs have no memory of prompts."""

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Remember the outputs at once; what all have had is fitted as `survival` does."""
        self._keep(self._keys[requests], outputs)
        self._everyone.finished(requests, outputs)

    def _keep(self, keys: IntArray, outputs: IntArray) -> None:
        for key, length in zip(keys.tolist(), outputs.tolist(), strict=True):
            insort(self._past.setdefault(key, []), length)

    def _sums(
        self, requests: IntArray, ages: IntArray, horizon: int
    ) -> tuple[BoolArray, tuple[IntArray, IntArray, IntArray]]:
        """Return which prompts are known, and their n, c and s (see `length_history`)."""
        known = np.zeros(len(requests), dtype=np.bool_)
        sums = np.zeros((3, len(requests)), dtype=np.int64)
        for k, (request, age) in enumerate(zip(requests.tolist(), ages.tolist(), strict=True)):
            past = self._past.get(int(self._keys[request]), [])
            longer = past[bisect_right(past, age) :]
            # A request that outlives all that its prompt has had is one of everyone's.
            if len(past) >= self._least and longer:
                within = longer[: bisect_right(longer, age + horizon)]
                known[k] = True
                sums[:, k] = len(longer), len(within), sum(within) - age * len(within)
        return known, (sums[0], sums[1], sums[2])


def _classes(task: PredictionTask, buckets: int) -> tuple[IntArray, IntArray]:
    """Return the classes of the requests of the run and of the history."""
    past = task.history
    prompts = task.prompt_tokens
    if past is None or len(past) == 0:
        return np.log2(prompts).astype(np.int64), np.zeros(0, dtype=np.int64)
    shares = np.arange(1, buckets) / buckets
    edges = np.quantile(past.prompt_tokens, shares, method="lower")
    return np.searchsorted(edges, prompts), np.searchsorted(edges, past.prompt_tokens)


PREDICTOR = PredictorSpec(
    "exact-match",
    exact_match,
    lengths=LengthSource.COMPILED,
    draws=False,
    options=ExactMatchOptions(),
)
