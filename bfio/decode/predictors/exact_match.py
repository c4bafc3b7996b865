"""What past outputs of like requests tell: per-prompt memorisation (BalanceRoute, C.2.1)."""

from dataclasses import dataclass

import numpy as np

from bfio.common.options import WHOLE, option
from bfio.decode.predictor import LengthSource, PredictionTask, PredictorSpec
from bfio.decode.predictors.survival import SurvivalOptions, SurvivalPredictor
from formulations.arrays import IntArray
from formulations.keywords import known_fields
from formulations.scalars import integer


@known_fields
@dataclass(frozen=True)
class ExactMatchOptions(SurvivalOptions):
    """Options of `exact-match`.

    Parameters
    ----------
    buckets : int
        Classes of prompts by their length, where a trace does not tell which prompts are equal.
    least : int
        Past outputs that a class must have; with fewer it is predicted as `survival` does.

    Raises
    ------
    InputError
        If a value breaks its rule, naming it.
    """

    buckets: int = option(8, WHOLE, "N", "classes of prompts by length (8)")
    least: int = option(20, WHOLE, "N", "outputs from which on a class counts (20)")

    def __post_init__(self) -> None:
        """Validate."""
        super().__post_init__()
        integer(self.buckets, "buckets", minimum=1, maximum=64)
        integer(self.least, "least", minimum=1)


def exact_match(task: PredictionTask) -> SurvivalPredictor:
    """Return a predictor that looks at past requests of the same class only.

    Equal prompts are a class where the trace has keys of them; elsewhere prompts between two
    quantiles of the history's are, or between two powers of two if there is no history.
    """
    options: ExactMatchOptions = task.options
    return SurvivalPredictor(task, _classes(task, options.buckets), options.least)


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
