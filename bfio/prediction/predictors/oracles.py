"""Predictors with no information, with the true lengths, and with erroneous lengths."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from bfio.common.options import EXACT, CheckedOptions, one_of, option, rational, whole
from bfio.common.words import mixed_bits
from bfio.prediction.length_history import Prediction, predicted_by_draw
from bfio.prediction.predictor import (
    REFRESH,
    Estimates,
    LengthSource,
    PredictionTask,
    PredictorSpec,
)
from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError


class NoPredictor:
    """A predictor for which every request outlives the window."""

    name = "none"

    def remaining(self, requests: IntArray, ages: IntArray, look_ahead: int) -> IntArray:
        """Return "beyond the window" (``H+1``) for every request, shape (n,)."""
        return np.full(len(requests), look_ahead + 1, dtype=np.int64)


NONE = PredictorSpec("none", lambda task: NoPredictor(), lengths=LengthSource.UNKNOWN, draws=False)


class OraclePredictor:
    """A predictor that knows the output length of every request."""

    name = "oracle"

    def __init__(self, task: PredictionTask) -> None:
        assert task.output_tokens is not None
        self._outputs = task.output_tokens

    def remaining(self, requests: IntArray, ages: IntArray, look_ahead: int) -> IntArray:
        """Return ``o_i - a_i``, at most ``H+1``; shape (n,)."""
        left: IntArray = np.minimum(self._outputs[requests] - ages, look_ahead + 1)
        return left


ORACLE = PredictorSpec(
    "oracle", OraclePredictor, knows_future=True, lengths=LengthSource.KNOWN, draws=False
)


class _Factors(NamedTuple):
    """A function of number, error and rng that draws length factors, and the largest error."""

    drawn: Callable[[int, float, np.random.Generator], FloatArray]
    most: int


#: The error models with factors.
_FACTORS = {
    "uniform": _Factors(lambda n, e, rng: 1.0 - e + 2.0 * e * rng.random(n), 1),
    "lognormal": _Factors(lambda n, e, rng: np.exp(e * rng.standard_normal(n) - e**2 / 2), 3),
    "bias": _Factors(lambda n, e, rng: np.full(n, e), 10),
}
_MODELS = (*_FACTORS, "quantile", "shuffled")
#: Part of the seed that separates this random stream from those of workload and policy.
_STREAM = 0x6E6F697365
DEFAULT_ERROR = Fraction(1, 2)
_BUCKETS = 4
#: Largest predicted length [tokens].
_LONGEST = 2**52


@dataclass(frozen=True)
class NoisyOracleOptions(CheckedOptions):
    """The error model of a noisy oracle, and its size.

    Parameters
    ----------
    model : str
        ``uniform``: factors uniform on ``[1 - e, 1 + e)``; ``lognormal``: factors of mean 1 with
        standard deviation e of the logarithm; ``bias``: the factor e for all (1 is the oracle);
        ``quantile``: the lengths are sorted and cut into k parts, and the prediction is the mean
        of the part; ``shuffled``: the length of another request, drawn without repetition.
    error : Fraction
        ``e``; not used by ``quantile`` and ``shuffled``.
    of : str
        Whether factors apply to the ``total`` length or to the ``remaining`` one, so that the
        error shrinks with the age of a request.
    buckets : int
        ``k``, number of parts of ``quantile``.
    """

    model: str = option(
        "uniform", one_of(*_MODELS), "M", "uniform, lognormal, bias, quantile or shuffled"
    )
    error: Fraction = option(DEFAULT_ERROR, EXACT, "E", "size of the error (1/2)")
    of: str = option(
        "total",
        one_of("total", "remaining"),
        "W",
        "error of the total length, or the remaining one",
    )
    buckets: int = option(_BUCKETS, whole(1, 10**6), "K", "quantile: parts of the lengths (4)")

    def __post_init__(self) -> None:
        """Check each option, and their combination."""
        super().__post_init__()
        where, model = "predictor noisy-oracle", f"model {self.model}"
        most = _FACTORS[self.model].most if self.model in _FACTORS else 10
        if self.error > most:
            what = f"error {self.error} is out of range for {model}"
            raise InputError(where, what, f"use 0 to {most}, e.g. 0.5")
        if self.model not in _FACTORS and self.error != DEFAULT_ERROR:
            remedy = f"leave error out, or use one of {', '.join(_FACTORS)}"
            raise InputError(where, f"{model} does not use the option error", remedy)
        if self.model != "quantile" and self.buckets != _BUCKETS:
            what = f"{model} does not use the option buckets"
            raise InputError(where, what, "use model=quantile")
        if self.of == "remaining" and self.model not in _FACTORS:
            remedy = f"use of=total, or one of {', '.join(_FACTORS)}"
            raise InputError(where, f"{model} only has errors of the total length", remedy)


class NoisyOraclePredictor:
    """A predictor that knows output lengths up to an error, drawn once per request.

    With ``of=total``, the predicted length is the erroneous length, rounded up, and the prediction
    is this length minus the age. With ``of=remaining``, the prediction is the true remaining
    length times the factor of the request, rounded up. A prediction is at least 1: a request that
    outlives its predicted length is predicted at each step to end with the next one. Equal seeds
    give equal errors for every policy.

    ``noisy-oracle:0.25`` is short for ``noisy-oracle:error=0.25``; with 0 there is no error.
    """

    def __init__(self, task: PredictionTask) -> None:
        assert task.output_tokens is not None
        options: NoisyOracleOptions = task.options
        self.name = _name(options)
        outputs = task.output_tokens
        rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(_STREAM,)))
        self._outputs = outputs
        #: Shape (n,): factors of the remaining length, if the error applies to it.
        self._factors: FloatArray | None = None
        if options.of == "remaining":
            self._factors = _FACTORS[options.model].drawn(len(outputs), float(options.error), rng)
        self._predicted = _predicted(options, outputs, rng)

    def remaining(self, requests: IntArray, ages: IntArray, look_ahead: int) -> IntArray:
        """Return the predicted length minus the age, in ``1..H+1``; shape (n,)."""
        left = self._predicted[requests] - ages
        if self._factors is not None:
            true = self._outputs[requests] - ages
            left = _rounded_up(true * self._factors[requests])
        limited: IntArray = np.minimum(np.maximum(left, 1), look_ahead + 1)
        return limited

    def compiled(self, look_ahead: int) -> Prediction | None:
        """Return the lengths for compiled runs, unless errors apply to remaining lengths."""
        return (
            None if self._factors is not None else predicted_by_draw(self._predicted, look_ahead)
        )


def _predicted(
    options: NoisyOracleOptions, outputs: IntArray, rng: np.random.Generator
) -> IntArray:
    if options.model == "shuffled":
        return outputs[rng.permutation(len(outputs))]
    if options.model == "quantile":
        return _means_of_parts(outputs, options.buckets)
    factors = _FACTORS[options.model].drawn(len(outputs), float(options.error), rng)
    return _rounded_up(outputs * factors)


def _rounded_up(lengths: FloatArray) -> IntArray:
    return np.clip(np.ceil(lengths), 1, _LONGEST).astype(np.int64)


def _means_of_parts(outputs: IntArray, parts: int) -> IntArray:
    """Return the mean length of each request's part; equal lengths are in the same part."""
    predicted = np.empty_like(outputs)
    in_order = np.sort(outputs)
    edges = in_order[np.arange(1, parts) * len(outputs) // parts] if len(outputs) else in_order
    part = np.searchsorted(edges, outputs, side="right")
    for index in np.unique(part):
        lengths = outputs[part == index]
        predicted[part == index] = -(-int(lengths.sum()) // len(lengths))
    return predicted


def _name(options: NoisyOracleOptions) -> str:
    """Return the name with the options that its model uses."""
    error = f"{float(options.error):g}"
    if replace(options, error=DEFAULT_ERROR) == NoisyOracleOptions():
        return f"noisy-oracle:{error}"
    parts = [f"model={options.model}"]
    parts += [f"error={error}"] if options.model in _FACTORS else []
    parts += [f"buckets={options.buckets}"] if options.model == "quantile" else []
    parts += [f"of={options.of}"] if options.of != "total" else []
    return ":".join(["noisy-oracle", *parts])


NOISY_ORACLE = PredictorSpec(
    "noisy-oracle",
    NoisyOraclePredictor,
    knows_future=True,
    lengths=LengthSource.COMPILED,
    options=NoisyOracleOptions(),
    shorthand="error",
)


@dataclass(frozen=True)
class NoisyClassifierOptions(CheckedOptions):
    """Options of `noisy-classifier`; its error is drawn anew at each prediction."""

    auc: Fraction = option(
        Fraction(9, 10),
        rational(Fraction(1, 2), Fraction(9999, 10000)),
        "A",
        "area under the ROC curve (0.9)",
    )
    refresh: int = option(10, REFRESH, "Q", "tokens between two predictions of a request (10)")


class NoisyClassifier:
    """A predictor that observes with noise whether a request ends within the window.

    The observation is ``z = d·[ends] + ε``, with ε standard normal, drawn for each request and
    age, and ``d = √2·Φ⁻¹(AUC)``: a binormal classifier. ``p̂`` is the posterior probability. The
    prior is the share of the workload's tokens at most H steps before the end of their request, so
    ``p̂`` is calibrated. ``μ̂`` is the mean number of these steps, equal for all requests.
    """

    def __init__(self, task: PredictionTask) -> None:
        # Imported here, because this is slow and all commands with a predictor load this module.
        from scipy.special import ndtri

        assert task.output_tokens is not None
        options: NoisyClassifierOptions = task.options
        self.name = f"noisy-classifier:auc={float(options.auc):g}:refresh={options.refresh}"
        self.refresh = options.refresh
        self._outputs, self._seed = task.output_tokens, task.seed
        self._separation = float(np.sqrt(2.0) * ndtri(float(options.auc)))

    def estimate(self, requests: IntArray, ages: IntArray, look_ahead: int) -> Estimates:
        """Return both stages, see the docstring of the class."""
        from scipy.special import expit, logit

        ends = self._outputs[requests] - ages <= look_ahead
        seen = self._separation * ends + _normal(self._seed, requests, ages)
        late = np.minimum(self._outputs, look_ahead)
        share = late.sum() / self._outputs.sum()
        evidence = self._separation * seen - self._separation**2 / 2
        # The m tokens of a request within H of its end have 1, ..., m steps left.
        mean = (late * (late + 1) // 2).sum() / late.sum()
        return Estimates(expit(logit(share) + evidence), np.full(len(requests), mean))


def _normal(seed: int, requests: IntArray, ages: IntArray) -> FloatArray:
    """Return standard normal numbers that depend on seed, request and age only."""
    from scipy.special import ndtri

    state = mixed_bits(np.uint64(seed) + np.zeros(len(requests), dtype=np.uint64))
    for part in (requests, ages):
        state = mixed_bits(state ^ part.astype(np.uint64))
    normal: FloatArray = ndtri((state >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54)
    return normal


NOISY_CLASSIFIER = PredictorSpec(
    "noisy-classifier", NoisyClassifier, knows_future=True, options=NoisyClassifierOptions()
)

PREDICTORS = (NONE, ORACLE, NOISY_ORACLE, NOISY_CLASSIFIER)
