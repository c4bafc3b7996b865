"""When requests arrive from outside, window of slots by window of slots.

A window is always drawn whole: runs of several horizons with the same seed begin alike.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np

from formulations.arrays import IntArray, integer_vector
from formulations.errors import InputError
from formulations.problem_data import Validated
from formulations.rationals import exact_number

#: Most arrivals that one slot may bring on average.
_MAX_RATE = 10**6
#: Rate from which a number is drawn for each slot rather than the slots of the arrivals.
_DENSE = 1 / 16
#: Slots per arrival up to which arrivals are counted slot by slot to put them in order.
_SPARSE = 4
#: Latest slot of an arrival.
MAX_SLOT = 2**60


class ArrivalName(StrEnum):
    """How many requests arrive in a slot."""

    #: A Poisson number, independent of all other slots.
    POISSON = "poisson"
    #: One or none.
    BERNOULLI = "bernoulli"


class ArrivalLaw(ABC):
    """A stream of arrivals."""

    @property
    @abstractmethod
    def rate(self) -> float:
        """Mean arrivals per slot."""

    @abstractmethod
    def window(self, rng: np.random.Generator, first: int, length: int) -> IntArray:
        """Return the slots ``first <= n < first + length`` of arrivals, in order, repeated."""

    def is_over(self, slot: int) -> bool:
        """Return whether nothing arrives in this slot or later."""
        del slot
        return self.rate == 0


@dataclass(frozen=True)
class DrawnArrivals(ArrivalLaw, Validated):
    """Independent and identically distributed slots, as (2.1) assumes.

    Parameters
    ----------
    name : ArrivalName
        The law of one slot.
    per_slot : Fraction
        Its mean; at most 1 for Bernoulli.

    Raises
    ------
    InputError
        If the rate is out of range.
    """

    name: ArrivalName
    per_slot: Fraction

    def __post_init__(self) -> None:
        """Validate."""
        rate = exact_number(self.per_slot, "rate")
        most = 1 if self.name is ArrivalName.BERNOULLI else _MAX_RATE
        if rate > most:
            what = f"{float(rate):.6g} arrivals per slot"
            raise InputError("rate", what, f"use at most {most} with {self.name} arrivals")
        self._set(per_slot=rate)

    @property
    def rate(self) -> float:
        """See `ArrivalLaw.rate`."""
        return float(self.per_slot)

    def window(self, rng: np.random.Generator, first: int, length: int) -> IntArray:
        """See `ArrivalLaw.window`."""
        if self.name is ArrivalName.POISSON:
            # Given their number, arrivals of a window are spread evenly over its slots.
            drawn = rng.integers(0, length, rng.poisson(self.rate * length))
            if len(drawn) * _SPARSE > length:
                # Counting is a fifth of the time of sorting.
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
    """Arrivals in given slots: those of a trace.

    Parameters
    ----------
    slots : IntArray
        Shape (n,), non-decreasing, >= 0.

    Raises
    ------
    InputError
        If they are out of range or order.
    """

    slots: IntArray

    def __post_init__(self) -> None:
        """Validate."""
        slots = integer_vector(self.slots, "slots", maximum=MAX_SLOT)
        if len(early := np.flatnonzero(np.diff(slots) < 0)):
            where = f"slots[{int(early[0]) + 1}]"
            raise InputError(where, "before the one before it", "sort by arrival")
        self._set(slots=slots)

    @property
    def rate(self) -> float:
        """Arrivals per slot up to the last."""
        return len(self.slots) / (int(self.slots[-1]) + 1) if len(self.slots) else 0.0

    def window(self, rng: np.random.Generator, first: int, length: int) -> IntArray:
        """See `ArrivalLaw.window`."""
        low, high = np.searchsorted(self.slots, [first, first + length])
        return self.slots[low:high]

    def is_over(self, slot: int) -> bool:
        """See `ArrivalLaw.is_over`."""
        return len(self.slots) == 0 or slot > int(self.slots[-1])
