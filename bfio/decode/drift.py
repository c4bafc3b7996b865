"""Growth of the load of a running request per step: the drift models of BF-IO, definition 2.

A request with prompt ``s`` that starts at step ``x`` has load ``w(1) = s`` at step ``x`` and gains
an increment per step. The paper indexes the increments in two ways. The two readings agree only if
all increments are equal, so both are supported under separate names:

* ``age`` (the printed definition): ``w(j) = s + δ_1 + ... + δ_{j-1}``;
* ``global-step`` (the proof of theorem 3): between steps ``k`` and ``k+1`` every running request
  gains the same ``δ_k``.

The increments of BF-IO are non-negative. Here, increments by age may also be negative (BF-IO,
section 7.3, leaves this case open). A cache that is compressed from time to time grows and
shrinks, as in ``age:8*1,-4``; no load may fall below the prompt.

Increments are whole tokens. A fractional rate, such as a cache compressed to 2/3, is a periodic
pattern of whole increments (`Drift.from_rate`).
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np

from formulations.arrays import IntArray, integer
from formulations.errors import InputError, use_one_of
from formulations.problem_data import member
from formulations.scalars import exact_rational
from formulations.words import counted

#: Largest increment; with it the cumulative drift of 9e12 steps still fits in 64 bits.
MAX_INCREMENT = 10**6
#: Longest period of an increment pattern.
MAX_PERIOD = 10**6


class DriftReading(StrEnum):
    """Index of the increments: the age of the request or the step of the cluster."""

    AGE = "age"
    GLOBAL_STEP = "global-step"


@dataclass(frozen=True)
class Drift:
    """A periodic sequence of load increments per step.

    Parameters
    ----------
    increments : tuple of int
        At least one increment [tokens], repeated periodically. ``increments[0]`` is gained after a
        request's first step (``age``), or between steps 0 and 1 of the run (``global-step``). With
        ``age``, increments may be negative if no partial sum is negative.
    reading : DriftReading
        Index of the increments.

    Raises
    ------
    InputError
        If there is no increment, if one is not an integer of at most `MAX_INCREMENT` in absolute
        value, or if loads would fall below the prompt.
    """

    increments: tuple[int, ...] = (1,)
    reading: DriftReading = DriftReading.AGE

    def __post_init__(self) -> None:
        """Validate the fields."""
        values = tuple(
            integer(value, f"drift[{t}]", minimum=-MAX_INCREMENT, maximum=MAX_INCREMENT)
            for t, value in enumerate(self.increments)
        )
        if not 1 <= len(values) <= MAX_PERIOD:
            what = f"{len(values)} increments are given"
            raise InputError("drift", what, f"give between 1 and {MAX_PERIOD} of them")
        object.__setattr__(self, "increments", values)
        object.__setattr__(self, "reading", member(DriftReading, self.reading, "drift reading"))
        self._check_falls()

    def _check_falls(self) -> None:
        if not self.may_fall:
            return
        if self.reading is DriftReading.GLOBAL_STEP:
            what = f"the negative increment {min(self.increments)} also applies to new requests"
            raise InputError("drift", what, "give negative increments by age, as in age:1,1,-1")
        below = np.flatnonzero(self._prefix < 0)
        if len(below):
            what = (
                f"after {counted(int(below[0]), 'step')} the load of a request is below its prompt"
            )
            raise InputError("drift", what, "keep all partial sums >= 0, as in age:1,1,-1")

    @classmethod
    def from_rate(cls, rate: Fraction) -> "Drift":
        """Return the drift of ``rate`` tokens per step, spread as evenly as integers allow.

        ``δ_t = floor(t·rate) - floor((t-1)·rate)`` for t = 1, 2, ...: the sums differ from the
        straight line by less than a token, and the period is the denominator.
        """
        if not 0 <= rate <= MAX_INCREMENT or rate.denominator > MAX_PERIOD:
            raise InputError(
                "drift",
                f"rate {rate} is out of range",
                f"use a fraction in [0, {MAX_INCREMENT}] with a denominator up to {MAX_PERIOD}",
            )
        sums = [t * rate.numerator // rate.denominator for t in range(rate.denominator + 1)]
        return cls(tuple(b - a for a, b in pairwise(sums)))

    @cached_property
    def is_uniform(self) -> bool:
        """Whether all increments are equal, so that both readings agree."""
        return min(self.increments) == max(self.increments)

    @property
    def is_by_age(self) -> bool:
        """Whether requests of different ages grow differently."""
        return self.reading is DriftReading.AGE and not self.is_uniform

    @cached_property
    def may_fall(self) -> bool:
        """Whether the load of a request may shrink."""
        return min(self.increments) < 0

    def cumulative(self, count: IntArray) -> IntArray:
        """Return ``D(n)``, the sum of the first ``n`` increments, for each ``n >= 0`` [tokens]."""
        if self.is_uniform:
            return count * self.increments[0]
        whole, rest = np.divmod(count, len(self.increments))
        total: IntArray = whole * self._prefix[-1] + self._prefix[rest]
        return total

    def weights(self, prompts: IntArray, starts: IntArray, step: int) -> IntArray:
        """Return the load at ``step`` of requests that started at ``starts <= step`` [tokens]."""
        if self.reading is DriftReading.AGE or self.is_uniform:
            return prompts + self.cumulative(step - starts)
        now = self.cumulative(np.asarray(step, dtype=np.int64))
        return prompts + (now - self.cumulative(starts))

    def growth(self, step: int, ages: IntArray, look_ahead: int) -> IntArray:
        """Return the gain in load of requests after h = 0..H further steps [tokens].

        Shape (H+1,) if all requests grow equally, otherwise (n, H+1). ``ages``, shape (n,), is the
        number of tokens that each request has emitted (0 for a waiting request).
        """
        ahead = np.arange(look_ahead + 1, dtype=np.int64)
        if self.is_uniform:
            return self.cumulative(ahead)
        if self.reading is DriftReading.GLOBAL_STEP:
            sums = self.cumulative(step + ahead)
            return sums - sums[:1]
        sums = self.cumulative(ages[:, None] + ahead)
        return sums - sums[:, :1]

    def largest_gain(self, steps: int) -> int:
        """Return an upper bound on the load gained in the first ``steps`` steps [tokens].

        If increments may be negative, the bound is attained. Otherwise the bound holds for any
        ``steps`` consecutive steps.
        """
        return int(self.largest_gains(np.array([steps], dtype=np.int64))[0])

    def largest_gains(self, steps: IntArray) -> IntArray:
        """Return `largest_gain` of each entry of ``steps``, shape (n,) [tokens]."""
        whole, rest = np.divmod(steps, len(self.increments))
        if self.may_fall:
            # A period never ends below its start, so the maximum is in the last one or two.
            highest = np.maximum.accumulate(self._prefix)
            before = (whole - 1) * self._prefix[-1] + highest[-1]
            now = whole * self._prefix[-1] + highest[rest]
            gains: IntArray = np.where(whole > 0, np.maximum(before, now), now)
        else:
            gains = np.minimum((whole + 1) * sum(self.increments), steps * max(self.increments))
        return gains

    @cached_property
    def _prefix(self) -> IntArray:
        return np.concatenate(([0], np.cumsum(self.increments, dtype=np.int64)))


#: LLM decode: one token of KV cache per step, ``w(j) = s + j - 1``.
LLM = Drift((1,))
#: Constant work: the load never changes.
CONSTANT = Drift((0,))


def parse_drift(text: str, where: str) -> Drift:
    """Parse a drift: ``llm``, ``constant``, a rate, or ``READING:increments``.

    Parameters
    ----------
    text : str
        For example ``2/3``, ``age:1,0``, ``global-step:2,1`` or ``age:8*1,-4``: eight times 1.
    where : str
        Place named in errors, such as the option.

    Raises
    ------
    InputError
        If the text has none of these forms.
    """
    named = {"llm": LLM, "constant": CONSTANT}
    if text in named:
        return named[text]
    if text.isalpha():
        remedy = use_one_of(text, named, "a rate such as 2/3, increments such as age:1,0")
        raise InputError(where, f"{text!r} is not a drift", remedy)
    if ":" not in text:
        return Drift.from_rate(exact_rational(text, where))
    reading, _, increments = text.partition(":")
    if reading not in tuple(DriftReading):
        what = f"{reading!r} is not an index of increments"
        raise InputError(where, what, f"use one of {', '.join(DriftReading)}")
    try:
        return Drift(_increments(increments), DriftReading(reading))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            where, f"{increments!r} is not a list of increments", "write e.g. age:1,0"
        ) from None


def _increments(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in text.split(","):
        times, star, value = part.rpartition("*")
        count = int(times) if star else 1
        if not 1 <= count <= MAX_PERIOD:
            raise ValueError(part)
        found += [int(value)] * count
    return tuple(found)
