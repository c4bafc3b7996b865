"""Laws of whole numbers of tokens and slots: geometric, fixed, and Poisson cut off at 1."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import exp, log1p

import numpy as np

from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.problem_data import Validated, member
from formulations.rationals import exact_number

#: Most tokens or slots that a law may have on average: draws stay far within 64 bits.
_MAX_MEAN = 10**9
#: Of a geometric law of the largest mean, one draw in 10^17 is larger.
_MAX_DRAW = 40 * _MAX_MEAN


class LawName(StrEnum):
    """How a number of tokens is distributed around its mean."""

    #: 1, 2, ... with ``P(X = x) = q(1 - q)^(x-1)``, q the inverse of the mean.
    GEOMETRIC = "geometric"
    #: Always the mean, a whole number.
    FIXED = "fixed"
    #: Poisson, and 1 in the place of 0: section 4.3 with the least change that (2.1) needs.
    POISSON = "poisson"


@dataclass(frozen=True)
class Law(Validated):
    """A law of integers >= 1.

    Parameters
    ----------
    name : LawName
        Its kind.
    parameter : Fraction
        Its mean; of ``poisson`` that of the law before 0 becomes 1. At least 1.

    Raises
    ------
    InputError
        If the mean is out of range, or no integer and fixed.
    """

    name: LawName
    parameter: Fraction

    def __post_init__(self) -> None:
        """Validate."""
        name = member(LawName, self.name, "law")
        value = exact_number(self.parameter, "mean", positive=True)
        if not 1 <= value <= _MAX_MEAN:
            raise InputError("mean", f"{value} is out of range", f"use 1 to {_MAX_MEAN}")
        if name is LawName.FIXED and value.denominator != 1:
            what = f"a fixed number of {float(value):.6g} is not whole"
            raise InputError("mean", what, "use a whole number or another law")
        self._set(name=name, parameter=value)

    @property
    def mean(self) -> float:
        """Its mean: the parameter, but ``m + exp(-m)`` of ``poisson``."""
        value = float(self.parameter)
        return value + exp(-value) if self.name is LawName.POISSON else value

    @property
    def least(self) -> int:
        """The least number that comes."""
        return int(self.parameter) if self.name is LawName.FIXED else 1

    def draw(self, rng: np.random.Generator, count: int) -> IntArray:
        """Return so many independent numbers, shape (count,)."""
        if self.name is LawName.FIXED:
            return np.full(count, int(self.parameter), dtype=np.int64)
        if self.name is LawName.POISSON:
            drawn = rng.poisson(float(self.parameter), count)
            return np.maximum(drawn, 1).astype(np.int64)
        if self.parameter == 1:
            return np.ones(count, dtype=np.int64)
        # An exponential number rounded up is geometric, and drawn in half the time.
        scale = -1 / log1p(-float(1 / self.parameter))
        lengths = rng.standard_exponential(count)
        lengths *= scale
        np.ceil(lengths, out=lengths)
        return np.clip(lengths, 1, _MAX_DRAW, out=lengths).astype(np.int64)
