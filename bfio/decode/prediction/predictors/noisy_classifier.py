"""A classifier of a chosen quality: what a better stage 1 of BalanceRoute's contract is worth."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bfio.common.options import RATIONAL, WHOLE, option
from bfio.decode.prediction.estimates import Estimates
from bfio.decode.predictor import PredictionTask, PredictorSpec
from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError
from formulations.keywords import known_fields
from formulations.rationals import exact_rational
from formulations.scalars import integer


@known_fields
@dataclass(frozen=True)
class NoisyClassifierOptions:
    """Options of `noisy-classifier`.

    Parameters
    ----------
    auc : Fraction
        Area under its ROC curve, 1/2 (chance) to 0.9999.
    refresh : int
        ``q``: tokens after which a request is asked about again, with a fresh error.

    Raises
    ------
    InputError
        If a value breaks its rule, naming it.
    """

    auc: Fraction = option(Fraction(9, 10), RATIONAL, "A", "area under the ROC curve (0.9)")
    refresh: int = option(10, WHOLE, "Q", "tokens between two predictions of a request (10)")

    def __post_init__(self) -> None:
        """Validate."""
        auc = exact_rational(self.auc, "auc")
        if not Fraction(1, 2) <= auc <= Fraction(9999, 10000):
            raise InputError("auc", f"{self.auc} is out of range", "use 0.5 to 0.9999")
        object.__setattr__(self, "auc", auc)
        integer(self.refresh, "refresh", minimum=1, maximum=10**7)


class NoisyClassifier:
    """Sees whether a request ends within the window through noise.

    What it sees is ``z = d·[ends] + ε`` with ε standard normal, drawn anew for each request and
    age, and ``d = √2·Φ⁻¹(AUC)``: a binormal classifier. Its ``p̂`` is the posterior probability
    under the share of all tokens of the workload that are within H of their end, so that it is
    calibrated; its ``μ̂`` is the mean of those, the same for every request.
    """

    def __init__(self, task: PredictionTask) -> None:
        # Slow to load, and every command that reads a predictor's name loads this module.
        from scipy.special import ndtri

        assert task.output_tokens is not None
        options: NoisyClassifierOptions = task.options
        self.name = f"noisy-classifier:auc={float(options.auc):g}:refresh={options.refresh}"
        self.refresh = options.refresh
        self._outputs, self._seed = task.output_tokens, task.seed
        self._separation = float(np.sqrt(2.0) * ndtri(float(options.auc)))

    def estimate(self, requests: IntArray, ages: IntArray, horizon: int) -> Estimates:
        """Return both stages, see the class."""
        from scipy.special import expit, logit

        ends = self._outputs[requests] - ages <= horizon
        seen = self._separation * ends + _normal(self._seed, requests, ages)
        late = np.minimum(self._outputs, horizon)
        share = late.sum() / self._outputs.sum()
        evidence = self._separation * seen - self._separation**2 / 2
        # Of a request with m late tokens these have 1, ..., m steps left.
        mean = (late * (late + 1) // 2).sum() / late.sum()
        return Estimates(expit(logit(share) + evidence), np.full(len(requests), mean))


def _normal(seed: int, requests: IntArray, ages: IntArray) -> FloatArray:
    """Return standard normal numbers that depend on seed, request and age alone."""
    from scipy.special import ndtri

    state = _mixed(np.uint64(seed) + np.zeros(len(requests), dtype=np.uint64))
    for part in (requests, ages):
        state = _mixed(state ^ part.astype(np.uint64))
    normal: FloatArray = ndtri((state >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54)
    return normal


def _mixed(
    values: "np.ndarray[tuple[int], np.dtype[np.uint64]]",
) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """Return SplitMix64 of each value (Steele, Lea and Flood, 2014)."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


PREDICTOR = PredictorSpec(
    "noisy-classifier",
    NoisyClassifier,
    knows_future=True,
    options=NoisyClassifierOptions(),
)
