"""No information about lengths, the true ones, and the true ones with an error."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from bfio.common.options import RATIONAL, TEXT, WHOLE, option
from bfio.decode.machine.prediction import Prediction, predicted_by_draw
from bfio.decode.prediction.estimates import Estimates
from bfio.decode.predictor import LengthSource, PredictionTask, PredictorSpec
from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError, use_one_of
from formulations.keywords import known_fields
from formulations.rationals import exact_rational
from formulations.scalars import integer


class NoPredictor:
    """Predicts that every request outlives the window."""

    name = "none"

    def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
        """Return "beyond the window" (``H+1``) for every request, shape (n,)."""
        return np.full(len(requests), horizon + 1, dtype=np.int64)


NONE = PredictorSpec("none", lambda task: NoPredictor(), lengths=LengthSource.UNKNOWN, draws=False)


class OraclePredictor:
    """Knows the output length of every request."""

    name = "oracle"

    def __init__(self, task: PredictionTask) -> None:
        assert task.output_tokens is not None
        self._outputs = task.output_tokens

    def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
        """Return ``o_i - a_i``, or ``H+1`` where that is more; shape (n,)."""
        left: IntArray = np.minimum(self._outputs[requests] - ages, horizon + 1)
        return left


ORACLE = PredictorSpec(
    "oracle", OraclePredictor, knows_future=True, lengths=LengthSource.KNOWN, draws=False
)


#: Sets this stream apart from those that draw the requests and the policy's choices.
_STREAM = 0x6E6F697365
DEFAULT_ERROR = Fraction(1, 2)
_BUCKETS = 4
#: Lengths are predicted up to this many tokens.
_LONGEST = 2**52


@known_fields
@dataclass(frozen=True)
class NoisyOracleOptions:
    """What a noisy oracle is wrong about, and by how much.

    Parameters
    ----------
    model : str
        ``uniform``: factors uniform on ``[1 - e, 1 + e)``; ``lognormal``: factors of mean 1 whose
        logarithm has standard deviation e; ``bias``: the factor e for all (1 is the oracle);
        ``quantile``: the mean of the k-th part of all lengths, sorted, that a length belongs to;
        ``shuffled``: the length of another request, drawn without repetition.
    error : Fraction
        ``e``; not read by the last two models.
    of : str
        Whether factors are of the ``total`` length, or of the ``remaining`` one, so that the error
        shrinks as a request ages.
    buckets : int
        ``k``.

    Raises
    ------
    InputError
        If a value breaks its rule, naming it.
    """

    model: str = option("uniform", TEXT, "M", "uniform, lognormal, bias, quantile or shuffled")
    error: Fraction = option(DEFAULT_ERROR, RATIONAL, "E", "size of the error (1/2)")
    of: str = option("total", TEXT, "W", "error of the total length, or the remaining one")
    buckets: int = option(_BUCKETS, WHOLE, "K", "quantile: parts of the lengths (4)")

    def __post_init__(self) -> None:
        """Validate."""
        where = "predictor noisy-oracle"
        if self.model not in _MODELS:
            remedy = use_one_of(str(self.model), _MODELS)
            raise InputError(where, f"model {self.model!r} is unknown", remedy)
        error = exact_rational(self.error, where)
        lowest, highest = _DOMAINS.get(self.model, (Fraction(0), Fraction(10)))
        if not lowest <= error <= highest:
            remedy = f"use {lowest} to {highest}, e.g. 0.5"
            raise InputError(where, f"error {error} of model {self.model}", remedy)
        object.__setattr__(self, "error", error)
        if self.model not in _FACTORS and error != DEFAULT_ERROR:
            remedy = f"leave error out, or use one of {', '.join(_FACTORS)}"
            raise InputError(where, f"model {self.model} reads no error", remedy)
        if self.model != "quantile" and self.buckets != _BUCKETS:
            raise InputError(where, f"model {self.model} has no buckets", "use model=quantile")
        if self.of not in ("total", "remaining"):
            raise InputError(where, f"of {self.of!r} is unknown", "use total or remaining")
        if self.of == "remaining" and self.model not in _FACTORS:
            what = f"model {self.model} has no factors"
            raise InputError(where, what, f"use of=total, or one of {', '.join(_FACTORS)}")
        integer(self.buckets, "buckets", minimum=1, maximum=10**6)


class NoisyOraclePredictor:
    """Knows output lengths up to an error drawn once per request.

    A request is predicted its wrong length, rounded up and at least 1, less its age; one that
    outlives that is predicted to end with the coming step, again and again until it does. Equal
    seeds give equal errors, whatever the policy.

    The error may follow the name alone: ``noisy-oracle:0.25``; 0 is the oracle.
    """

    def __init__(self, task: PredictionTask) -> None:
        assert task.output_tokens is not None
        options: NoisyOracleOptions = task.options
        self.name = _name(options)
        outputs = task.output_tokens
        rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(_STREAM,)))
        self._outputs = outputs
        #: Shape (n,): factors of the remaining length, if they are of that.
        self._factors: FloatArray | None = None
        if options.of == "remaining":
            self._factors = _FACTORS[options.model](len(outputs), float(options.error), rng)
        self._predicted = _predicted(options, outputs, rng)

    def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
        """Return the predicted length less the age, in ``1..H+1``; shape (n,)."""
        left = self._predicted[requests] - ages
        if self._factors is not None:
            true = self._outputs[requests] - ages
            left = _rounded_up(true * self._factors[requests])
        limited: IntArray = np.minimum(np.maximum(left, 1), horizon + 1)
        return limited

    def compiled(self, horizon: int) -> Prediction | None:
        """Return the lengths for compiled runs, unless errors are of the remaining ones."""
        return None if self._factors is not None else predicted_by_draw(self._predicted, horizon)


def _predicted(
    options: NoisyOracleOptions, outputs: IntArray, rng: np.random.Generator
) -> IntArray:
    if options.model == "shuffled":
        return outputs[rng.permutation(len(outputs))]
    if options.model == "quantile":
        return _means_of_parts(outputs, options.buckets)
    factors = _FACTORS[options.model](len(outputs), float(options.error), rng)
    return _rounded_up(outputs * factors)


def _rounded_up(lengths: FloatArray) -> IntArray:
    return np.clip(np.ceil(lengths), 1, _LONGEST).astype(np.int64)


def _means_of_parts(outputs: IntArray, parts: int) -> IntArray:
    """Return the mean length of the part that each belongs to; equal lengths are in one part."""
    predicted = np.empty_like(outputs)
    in_order = np.sort(outputs)
    edges = in_order[np.arange(1, parts) * len(outputs) // parts] if len(outputs) else in_order
    part = np.searchsorted(edges, outputs, side="right")
    for index in np.unique(part):
        lengths = outputs[part == index]
        predicted[part == index] = -(-int(lengths.sum()) // len(lengths))
    return predicted


def _uniform(count: int, error: float, rng: np.random.Generator) -> FloatArray:
    return 1.0 - error + 2.0 * error * rng.random(count)


def _lognormal(count: int, error: float, rng: np.random.Generator) -> FloatArray:
    return np.exp(error * rng.standard_normal(count) - error**2 / 2)


def _bias(count: int, error: float, rng: np.random.Generator) -> FloatArray:
    return np.full(count, error)


_FACTORS: dict[str, Callable[[int, float, np.random.Generator], FloatArray]] = {
    "uniform": _uniform,
    "lognormal": _lognormal,
    "bias": _bias,
}
_MODELS = (*_FACTORS, "quantile", "shuffled")
_DOMAINS = {
    "uniform": (Fraction(0), Fraction(1)),
    "lognormal": (Fraction(0), Fraction(3)),
    "bias": (Fraction(0), Fraction(10)),
}


def _name(options: NoisyOracleOptions) -> str:
    """Return the name with all that matters."""
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


NOISY_CLASSIFIER = PredictorSpec(
    "noisy-classifier",
    NoisyClassifier,
    knows_future=True,
    options=NoisyClassifierOptions(),
)

PREDICTORS = (NONE, ORACLE, NOISY_ORACLE, NOISY_CLASSIFIER)
