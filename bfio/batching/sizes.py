"""How many prefill and decode tokens the tasks of a stage have."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from bfio.batching.laws import Law
from formulations.arrays import IntArray, integer_vector
from formulations.errors import InputError
from formulations.problem_data import Validated


class SizeLaw(ABC):
    """Sizes of successive tasks of one stage."""

    @property
    @abstractmethod
    def means(self) -> tuple[float, float]:
        """``m_p`` and ``m_d`` [tokens]."""

    @property
    @abstractmethod
    def least_prefill(self) -> int:
        """The least prefill that comes [tokens]."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, first: int, count: int) -> IntArray:
        """Return prefill and decode of tasks ``first, first + 1, ...``, shape (count, 2)."""


@dataclass(frozen=True)
class DrawnSizes(SizeLaw):
    """Independent prefill and decode.

    Parameters
    ----------
    prefill, decode : Law
        Their laws.
    """

    prefill: Law
    decode: Law

    @property
    def means(self) -> tuple[float, float]:
        """See `SizeLaw.means`."""
        return self.prefill.mean, self.decode.mean

    @property
    def least_prefill(self) -> int:
        """See `SizeLaw.least_prefill`."""
        return self.prefill.least

    def draw(self, rng: np.random.Generator, first: int, count: int) -> IntArray:
        """See `SizeLaw.draw`."""
        del first
        return np.column_stack((self.prefill.draw(rng, count), self.decode.draw(rng, count)))


@dataclass(frozen=True)
class ListedSizes(SizeLaw, Validated):
    """Sizes of a trace: in its order, again and again, or drawn from it with replacement.

    Parameters
    ----------
    prefill, decode : IntArray
        Shape (n,), n >= 1 [tokens], >= 1: pairs, so that they are correlated as in the trace.
    in_order : bool
        Whether tasks have them in order; otherwise each has those of a random request.

    Raises
    ------
    InputError
        If a value is out of range, or there is none.
    """

    prefill: IntArray
    decode: IntArray
    in_order: bool = False

    def __post_init__(self) -> None:
        """Validate."""
        prefill = integer_vector(self.prefill, "prefill", minimum=1, maximum=10**9)
        decode = integer_vector(self.decode, "decode", minimum=1, maximum=10**9)
        if len(prefill) != len(decode) or not len(prefill):
            what = f"{len(prefill)} prefills and {len(decode)} decodes"
            raise InputError("sizes", what, "give both for at least one request")
        self._set(prefill=prefill, decode=decode)

    @property
    def means(self) -> tuple[float, float]:
        """See `SizeLaw.means`."""
        return float(self.prefill.mean()), float(self.decode.mean())

    @property
    def least_prefill(self) -> int:
        """See `SizeLaw.least_prefill`."""
        return int(self.prefill.min())

    def draw(self, rng: np.random.Generator, first: int, count: int) -> IntArray:
        """See `SizeLaw.draw`."""
        num = len(self.prefill)
        which = np.arange(first, first + count) % num
        if not self.in_order:
            which = rng.integers(0, num, count)
        return np.column_stack((self.prefill[which], self.decode[which]))
