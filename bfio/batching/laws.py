"""Distributions of random integers: tokens, delays, arrivals per slot, and sizes of tasks.

Each window of arrivals is drawn completely, so runs with the same seed and different horizons
start with the same draws.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import exp, log1p

import numpy as np

from formulations.arrays import IntArray, integer_vector
from formulations.errors import InputError
from formulations.problem_data import Validated, member
from formulations.scalars import exact_number

#: Maximum mean of a law [tokens or slots]: draws stay far within 64 bits.
_MAX_MEAN = 10**9
#: Upper bound of draws. A geometric law of the largest mean exceeds it with probability 10^-17.
_MAX_DRAW = 40 * _MAX_MEAN


class LawName(StrEnum):
    """Family of a distribution with given mean."""

    #: 1, 2, ... with ``P(X = x) = q(1 - q)^(x-1)``, where q is the inverse of the mean.
    GEOMETRIC = "geometric"
    #: Always equal to the mean, which is an integer.
    FIXED = "fixed"
    #: Poisson, with 0 replaced by 1: the smallest change of section 4.3 that satisfies (2.1).
    POISSON = "poisson"


@dataclass(frozen=True)
class Law(Validated):
    """A distribution of integers >= 1.

    Parameters
    ----------
    name : LawName
        Kind of the law.
    parameter : Fraction
        Mean of the law, at least 1; for ``poisson`` the mean before 0 is replaced by 1.

    Raises
    ------
    InputError
        If the mean is out of range, or not an integer for a fixed law.
    """

    name: LawName
    parameter: Fraction

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        name = member(LawName, self.name, "law")
        value = exact_number(self.parameter, "mean", positive=True)
        if not 1 <= value <= _MAX_MEAN:
            raise InputError("mean", f"{value} is out of range", f"use 1 to {_MAX_MEAN}")
        if name is LawName.FIXED and value.denominator != 1:
            what = f"the fixed number {float(value):.6g} is not whole"
            raise InputError("mean", what, "use a whole number or another law")
        self._set(name=name, parameter=value)

    @property
    def mean(self) -> float:
        """Mean of the distribution: the parameter, but ``m + exp(-m)`` for ``poisson``."""
        value = float(self.parameter)
        return value + exp(-value) if self.name is LawName.POISSON else value

    @property
    def least(self) -> int:
        """Smallest possible value."""
        return int(self.parameter) if self.name is LawName.FIXED else 1

    def draw(self, rng: np.random.Generator, count: int) -> IntArray:
        """Return independent draws, shape (count,)."""
        if self.name is LawName.FIXED:
            return np.full(count, int(self.parameter), dtype=np.int64)
        if self.name is LawName.POISSON:
            drawn = rng.poisson(float(self.parameter), count)
            return np.maximum(drawn, 1).astype(np.int64)
        if self.parameter == 1:
            return np.ones(count, dtype=np.int64)
        # An exponential number rounded up is geometric, and is drawn in half the time.
        scale = -1 / log1p(-float(1 / self.parameter))
        lengths = rng.standard_exponential(count)
        lengths *= scale
        np.ceil(lengths, out=lengths)
        return np.clip(lengths, 1, _MAX_DRAW, out=lengths).astype(np.int64)


#: Maximum mean number of arrivals in a slot.
_MAX_RATE = 10**6
#: From this rate on, each slot is drawn; below it, the slots of the arrivals.
_DENSE = 1 / 16
#: Below this number of slots per arrival, arrivals are sorted by counting per slot.
_SPARSE = 4
#: Latest allowed slot of an arrival.
MAX_SLOT = 2**60


class ArrivalName(StrEnum):
    """Family of the number of arrivals per slot."""

    #: Poisson, independent for each slot.
    POISSON = "poisson"
    #: 0 or 1.
    BERNOULLI = "bernoulli"


class ArrivalLaw(ABC):
    """Interface of the sequences of arrivals of this module, random or listed."""

    @property
    @abstractmethod
    def rate(self) -> float:
        """Mean number of arrivals per slot."""

    @abstractmethod
    def window(self, rng: np.random.Generator, first: int, length: int) -> IntArray:
        """Return the arrival slots in ``[first, first + length)``, sorted, one per arrival."""

    def is_over(self, slot: int) -> bool:
        """Return whether no request arrives in this slot or later."""
        return self.rate == 0


@dataclass(frozen=True)
class DrawnArrivals(ArrivalLaw, Validated):
    """Independent and identically distributed arrivals per slot, as (2.1) assumes.

    Parameters
    ----------
    name : ArrivalName
        Distribution of the arrivals in a slot.
    per_slot : Fraction
        Mean arrivals per slot; at most 1 for Bernoulli.

    Raises
    ------
    InputError
        If the rate is out of range.
    """

    name: ArrivalName
    per_slot: Fraction

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        rate = exact_number(self.per_slot, "rate")
        most = 1 if self.name is ArrivalName.BERNOULLI else _MAX_RATE
        if rate > most:
            what = f"{float(rate):.6g} arrivals per slot"
            raise InputError("rate", what, f"use at most {most} with {self.name} arrivals")
        self._set(per_slot=rate)

    @property
    def rate(self) -> float:
        """Mean number of arrivals per slot."""
        return float(self.per_slot)

    def window(self, rng: np.random.Generator, first: int, length: int) -> IntArray:
        """Return the arrival slots in ``[first, first + length)``, sorted, one per arrival."""
        if self.name is ArrivalName.POISSON:
            # Given their number, Poisson arrivals are uniform over the slots of the window.
            drawn = rng.integers(0, length, rng.poisson(self.rate * length))
            if len(drawn) * _SPARSE > length:
                # Counting takes a fifth of the time of sorting.
                return np.repeat(
                    np.arange(first, first + length), np.bincount(drawn, minlength=length)
                )
        elif self.rate > _DENSE:
            drawn = np.flatnonzero(rng.random(length) < self.rate)
        else:
            count = rng.binomial(length, self.rate)
            drawn = rng.choice(length, count, replace=False, shuffle=False)
        return np.sort(drawn).astype(np.int64) + first


@dataclass(frozen=True)
class ListedArrivals(ArrivalLaw, Validated):
    """Arrivals in given slots, such as those of a trace.

    Parameters
    ----------
    slots : IntArray
        Shape (n,), non-decreasing, >= 0.

    Raises
    ------
    InputError
        If slots are out of range or not sorted.
    """

    slots: IntArray

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        slots = integer_vector(self.slots, "slots", maximum=MAX_SLOT)
        if len(early := np.flatnonzero(np.diff(slots) < 0)):
            where = f"slots[{int(early[0]) + 1}]"
            raise InputError(where, "is earlier than the previous slot", "sort slots")
        self._set(slots=slots)

    @property
    def rate(self) -> float:
        """Mean arrivals per slot up to the last arrival."""
        return len(self.slots) / (int(self.slots[-1]) + 1) if len(self.slots) else 0.0

    def window(self, rng: np.random.Generator, first: int, length: int) -> IntArray:
        """Return the arrival slots in ``[first, first + length)``, sorted, one per arrival."""
        low, high = np.searchsorted(self.slots, [first, first + length])
        return self.slots[low:high]

    def is_over(self, slot: int) -> bool:
        """Return whether no request arrives in this slot or later."""
        return len(self.slots) == 0 or slot > int(self.slots[-1])


class SizeLaw(ABC):
    """Prefill and decode tokens of the successive tasks of one stage."""

    @property
    @abstractmethod
    def means(self) -> tuple[float, float]:
        """Mean prefill tokens ``m_p`` and mean decode tokens ``m_d``."""

    @property
    @abstractmethod
    def least_prefill(self) -> int:
        """Smallest possible number of prefill tokens."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, first: int, count: int) -> IntArray:
        """Return prefill and decode tokens of tasks from number ``first`` on, shape (count, 2)."""


@dataclass(frozen=True)
class DrawnSizes(SizeLaw):
    """Independent laws for prefill and decode.

    Parameters
    ----------
    prefill, decode : Law
        Laws of the two sizes.
    """

    prefill: Law
    decode: Law

    @property
    def means(self) -> tuple[float, float]:
        """Mean prefill tokens ``m_p`` and mean decode tokens ``m_d``."""
        return self.prefill.mean, self.decode.mean

    @property
    def least_prefill(self) -> int:
        """Smallest possible number of prefill tokens."""
        return self.prefill.least

    def draw(self, rng: np.random.Generator, first: int, count: int) -> IntArray:
        """Return prefill and decode tokens of tasks from number ``first`` on, shape (count, 2)."""
        return np.column_stack((self.prefill.draw(rng, count), self.decode.draw(rng, count)))


@dataclass(frozen=True)
class ListedSizes(SizeLaw, Validated):
    """Sizes of a trace: cyclic in its order, or drawn from it with replacement.

    Parameters
    ----------
    prefill, decode : IntArray
        Shape (n,), n >= 1 [tokens], >= 1. Drawn in pairs, which keeps the correlation of the
        trace.
    in_order : bool
        Whether tasks use the sizes in trace order; otherwise each uses a random request's sizes.

    Raises
    ------
    InputError
        If a value is out of range, or there are no values.
    """

    prefill: IntArray
    decode: IntArray
    in_order: bool = False

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        prefill = integer_vector(self.prefill, "prefill", minimum=1, maximum=10**9)
        decode = integer_vector(self.decode, "decode", minimum=1, maximum=10**9)
        if len(prefill) != len(decode) or not len(prefill):
            what = f"{len(prefill)} prefills and {len(decode)} decodes"
            raise InputError(
                "sizes", what, "give prompt and output lengths of at least one request"
            )
        self._set(prefill=prefill, decode=decode)

    @property
    def means(self) -> tuple[float, float]:
        """Mean prefill tokens ``m_p`` and mean decode tokens ``m_d``."""
        return float(self.prefill.mean()), float(self.decode.mean())

    @property
    def least_prefill(self) -> int:
        """Smallest possible number of prefill tokens."""
        return int(self.prefill.min())

    def draw(self, rng: np.random.Generator, first: int, count: int) -> IntArray:
        """Return prefill and decode tokens of tasks from number ``first`` on, shape (count, 2)."""
        num = len(self.prefill)
        which = np.arange(first, first + count) % num
        if not self.in_order:
            which = rng.integers(0, num, count)
        return np.column_stack((self.prefill[which], self.decode[which]))
