"""The true lengths with an error: what look-ahead is worth when predictions are off."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from bfio.common.options import RATIONAL, TEXT, WHOLE, option
from bfio.decode.machine.prediction import Prediction, predicted_by_draw
from bfio.decode.predictor import LengthSource, PredictionTask, PredictorSpec
from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError, use_one_of
from formulations.keywords import known_fields
from formulations.rationals import exact_rational
from formulations.scalars import integer

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


PREDICTOR = PredictorSpec(
    "noisy-oracle",
    NoisyOraclePredictor,
    knows_future=True,
    lengths=LengthSource.COMPILED,
    options=NoisyOracleOptions(),
    shorthand="error",
)
