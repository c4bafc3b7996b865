"""Distributions of prompt and output lengths: integers >= 1 [tokens].

`read_pmf` reads published histograms (``tokens,probability``) as `Empirical` laws.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from bfio.common.files import file_path
from bfio.workloads.tables import open_table
from bfio.workloads.trace_format import Row, bad_cell, parse_decimal, token_count
from formulations.arrays import MAX_TOKENS, FloatArray, IntArray, frozen, integer, integer_vector
from formulations.errors import InputError, check_kind
from formulations.scalars import real

#: Maximum mean of a geometric law; samples then stay far below `MAX_TOKENS`.
MAX_GEOMETRIC_MEAN = 10**9
#: Maximum cut-off of a lognormal law; its mean is a sum of that many terms.
MAX_LOGNORMAL = 10**7
#: Allowed deviation of the sum of published (rounded) probabilities from 1.
PROBABILITY_TOLERANCE = 1e-3


class LengthDistribution(Protocol):
    """A distribution of lengths [tokens]."""

    @property
    def mean(self) -> float:
        """Exact mean of the samples [tokens], up to float rounding."""

    @property
    def label(self) -> str:
        """The distribution and its parameters as text, for tables and provenance."""

    def sample(self, num_samples: int, rng: np.random.Generator) -> IntArray:
        """Return independent samples, shape (num_samples,), each >= 1 [tokens]."""


class Labelled:
    """Base of laws whose label is a text with their parameters."""

    _text: ClassVar[str]

    @property
    def label(self) -> str:
        """The law and its parameters as text, for tables and provenance."""
        return self._text.format(self)


@dataclass(frozen=True)
class Geometric(Labelled):
    """Geometric lengths ``P(o = k) = p (1 - p)^(k - 1)``, k = 1, 2, ..., ``p = 1 / mean``.

    This is the output distribution of BF-IO, section 5: a request ends with probability p at each
    step.
    """

    mean: float
    _text = "geometric(mean={0.mean:g})"

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        in_range("mean", self.mean, 1.0, MAX_GEOMETRIC_MEAN)

    def sample(self, num_samples: int, rng: np.random.Generator) -> IntArray:
        """Return independent samples, shape (num_samples,), each >= 1 [tokens]."""
        return source(rng).geometric(1.0 / self.mean, _count(num_samples))


@dataclass(frozen=True)
class Lognormal(Labelled):
    """Rounded lognormal lengths, cut off: ``min(ceil(Y), maximum)`` with normal ``log Y``.

    Parameters
    ----------
    median : float
        Median of Y [tokens].
    sigma : float
        Standard deviation of ``log Y``.
    maximum : int
        Cut-off [tokens], like a context window; longer samples are set to it.
    """

    median: float
    sigma: float
    maximum: int = 1_000_000
    _text = "lognormal(median={0.median:g}, sigma={0.sigma:g}, maximum={0.maximum})"

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        integer(self.maximum, "maximum", minimum=1, maximum=MAX_LOGNORMAL)
        in_range("median", self.median, 1e-3, self.maximum)
        in_range("sigma", self.sigma, 0.0, 10.0)

    @classmethod
    def with_mean(cls, mean: float, sigma: float, maximum: int = 1_000_000) -> "Lognormal":
        """Return the distribution for which Y, before rounding and cut-off, has the given mean."""
        in_range("mean", mean, 1e-3, MAX_LOGNORMAL)
        in_range("sigma", sigma, 0.0, 10.0)
        return cls(mean * math.exp(-(sigma**2) / 2), sigma, maximum)

    @property
    def mean(self) -> float:
        """Exact mean of the samples: the sum of ``P(Y > k)`` over ``0 <= k < maximum``."""
        thresholds = np.arange(1, self.maximum, dtype=np.float64)
        return 1.0 + float(self._survival(thresholds).sum())

    def sample(self, num_samples: int, rng: np.random.Generator) -> IntArray:
        """Return independent samples, shape (num_samples,), each >= 1 [tokens]."""
        drawn = np.exp(
            math.log(self.median) + self.sigma * source(rng).standard_normal(_count(num_samples))
        )
        # Cut off before the conversion: the tail may not fit a 64-bit integer.
        return np.clip(np.ceil(np.minimum(drawn, self.maximum)), 1, None).astype(np.int64)

    def _survival(self, thresholds: FloatArray) -> FloatArray:
        if self.sigma == 0.0:
            return (self.median > thresholds).astype(np.float64)
        from scipy.special import ndtr

        scores = (math.log(self.median) - np.log(thresholds)) / self.sigma
        survival: FloatArray = ndtr(scores)
        return survival


@dataclass(frozen=True)
class Uniform(Labelled):
    """Uniform lengths on the integers of ``[lowest, highest]``."""

    lowest: int
    highest: int
    _text = "uniform({0.lowest}, {0.highest})"

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        integer(self.lowest, "lowest", minimum=1)
        integer(self.highest, "highest", minimum=self.lowest)

    @property
    def mean(self) -> float:
        """Exact mean of the samples [tokens], up to float rounding."""
        return (self.lowest + self.highest) / 2

    def sample(self, num_samples: int, rng: np.random.Generator) -> IntArray:
        """Return independent samples, shape (num_samples,), each >= 1 [tokens]."""
        return source(rng).integers(
            self.lowest, self.highest, size=_count(num_samples), endpoint=True
        )


@dataclass(frozen=True)
class Homogeneous(Labelled):
    """Constant length, as in the first setting that BF-IO analyses (Theorem 1)."""

    value: int
    _text = "homogeneous({0.value})"

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        integer(self.value, "value", minimum=1)

    @property
    def mean(self) -> float:
        """Exact mean of the samples [tokens], up to float rounding."""
        return float(self.value)

    def sample(self, num_samples: int, rng: np.random.Generator) -> IntArray:
        """Return the constant, shape (num_samples,) [tokens]; ``rng`` is not used."""
        return np.full(_count(num_samples), self.value, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Empirical:
    """A finite distribution of values, for example a published histogram.

    Parameters
    ----------
    values : sequence of int
        Shape (n,), distinct, >= 1 [tokens].
    probabilities : sequence of float
        Shape (n,), non-negative, summing to 1 within `PROBABILITY_TOLERANCE`; normalised.
    """

    values: IntArray
    probabilities: FloatArray
    _cumulative: FloatArray = field(init=False, repr=False)

    def __init__(self, values: Sequence[int] | IntArray, probabilities: ArrayLike) -> None:
        """Check and normalise the probabilities."""
        checked = integer_vector(values, "values", minimum=1)
        if len(checked) == 0:
            raise InputError("values", "the distribution has no values", "give at least one")
        if len(np.unique(checked)) < len(checked):
            raise InputError("values", "a value occurs twice", "add up its probabilities")
        weights = _probabilities(probabilities, len(checked))
        cumulative = np.cumsum(weights)
        object.__setattr__(self, "values", checked)
        object.__setattr__(self, "probabilities", frozen(weights / cumulative[-1]))
        object.__setattr__(self, "_cumulative", frozen(cumulative / cumulative[-1]))

    @classmethod
    def of(cls, lengths: IntArray) -> "Empirical":
        """Return the empirical distribution of ``lengths``."""
        checked = integer_vector(lengths, "lengths", minimum=1)
        if len(checked) == 0:
            raise InputError("lengths", "the list of lengths is empty", "give at least one")
        values, counts = np.unique(checked, return_counts=True)
        return cls(values, counts / len(checked))

    @property
    def mean(self) -> float:
        """Exact mean of the samples [tokens], up to float rounding."""
        return float(self.values @ self.probabilities)

    @property
    def label(self) -> str:
        """The distribution and its parameters as text, for tables and provenance."""
        return f"empirical({len(self.values)} values, mean={self.mean:.6g})"

    def sample(self, num_samples: int, rng: np.random.Generator) -> IntArray:
        """Return samples by inversion, one uniform number each, shape (num_samples,) [tokens]."""
        uniform = source(rng).random(_count(num_samples))
        # side="right" skips values of probability 0, whose interval is empty.
        return self.values[np.searchsorted(self._cumulative, uniform, side="right")]


def _probabilities(given: ArrayLike, expected: int) -> FloatArray:
    try:
        weights = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("probabilities", "is not a list of numbers", "give numbers") from None
    if weights.shape != (expected,):
        what = f"has shape {weights.shape} for {expected} values"
        raise InputError("probabilities", what, "give one per value")
    if not np.isfinite(weights).all() or (weights < 0).any():
        what = "has a negative or non-finite value"
        raise InputError("probabilities", what, "give numbers >= 0")
    total = float(weights.sum())
    if abs(total - 1.0) > PROBABILITY_TOLERANCE:
        raise InputError("probabilities", f"the sum is {total:.6g}", "make them sum to 1")
    return weights


def source(rng: np.random.Generator) -> np.random.Generator:
    """Return a source of randomness; raise an `InputError` if it is not numpy's."""
    check_kind(rng, np.random.Generator, "rng", "numpy.random.default_rng(SEED)")
    return rng


def _count(num_samples: int) -> int:
    return integer(num_samples, "num_samples", maximum=MAX_TOKENS)


def in_range(name: str, value: float, lowest: float, highest: float) -> None:
    """Raise an `InputError` for a parameter of a law that is out of its range."""
    if not lowest <= real(value, name) <= highest:
        raise InputError(name, f"{value} is out of range", f"use {lowest:g} to {highest:g}")


_COLUMNS = ("tokens", "probability")


def read_pmf(path: str | Path) -> Empirical:
    """Read a length distribution from a CSV file ``tokens,probability``, plain or gzip.

    Raises
    ------
    InputError
        If the file cannot be read, a row is bad, a value repeats, or the probabilities do not
        sum to 1 within rounding.
    """
    path = file_path(path)
    values: list[int] = []
    probabilities: list[float] = []
    with open_table(path) as table:
        if set(table.header) != set(_COLUMNS):
            what = f"expected the columns {','.join(_COLUMNS)}"
            raise InputError(f"{path} line 1", what, "give a CSV file of length probabilities")
        for line, row in table.records:
            try:
                value, probability = _entry(row)
            except InputError as error:
                where = f"{path} line {line} {error.where}".rstrip()
                raise InputError(where, error.what, "correct the row") from None
            values.append(value)
            probabilities.append(probability)
    try:
        return Empirical(values, probabilities)
    except InputError as error:
        raise InputError(f"{path} {error.where}", error.what, error.remedy) from None


def _entry(row: Row | InputError) -> tuple[int, float]:
    if isinstance(row, InputError):
        raise row
    probability = parse_decimal(str(row["probability"]).strip(), "column 'probability'")
    if not 0 <= probability <= 1:
        raise bad_cell("probability", f"{float(probability):g} is not a probability")
    return token_count(row, "tokens"), float(probability)
