"""Arrival rates that vary in time (section 7.1), with what condition (13) asks of them.

Condition (13) is about all windows of time: about the most arrivals in windows of a length, and
about the largest share of requests that go on to a later segment. Arrivals in a window are an
integral. A share over a window is the average of the shares at its moments, weighted with their
rates, so the largest is that of a moment.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Protocol

from formulations.errors import InputError
from formulations.fluid.step_rate import StepRate
from formulations.problem_data import Validated
from formulations.rationals import exact_number

_ZERO = Fraction(0)


class VaryingRates(Protocol):
    """Rates of classes j = 0..m−1 over time ``t >= 0``.

    The suprema are exact for `RateProfile`; those of `SinusoidalRates`, which are irrational, are
    bounded from above.
    """

    @property
    def largest_rates(self) -> tuple[Fraction, ...]:
        """The largest rate of each class [1/s]: what arrivals can be thinned from."""

    def rates_at(self, time: float) -> Sequence[Fraction | float]:
        """Return the rate of each class at a time [1/s]."""

    def integral(self, j: int, start: Fraction, end: Fraction) -> Fraction | float:
        """Return the mean arrivals of class j between two times, ``0 <= start <= end``."""

    def mean_rate(self, members: Iterable[int]) -> Fraction:
        """Return the rate of some classes together, in the long run [1/s]."""

    def largest_window(self, members: Iterable[int], length: Fraction) -> Fraction:
        """Return the supremum of mean arrivals of some classes in windows of a length [s]."""

    def largest_excess(self, members: Iterable[int]) -> Fraction:
        """Return by how much a window's arrivals can exceed `mean_rate` times its length."""

    def largest_share(self, later: Sequence[int], own: Sequence[int]) -> Fraction:
        """Return the supremum, over time, of the share that some classes have with others."""


@dataclass(frozen=True)
class RateProfile(Validated):
    """Rates that are constant between breaks, the same breaks for all classes.

    Parameters
    ----------
    breaks : tuple of Fraction
        Where pieces begin, increasing from 0 [s].
    rates : tuple of tuple of Fraction
        ``rates[k][j]``, rate of class j in piece k, >= 0 and somewhere > 0 [1/s].
    period : Fraction, optional
        After which everything repeats, beyond the last break [s]; otherwise the last piece lasts
        for ever.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    breaks: tuple[Fraction, ...]
    rates: tuple[tuple[Fraction, ...], ...]
    period: Fraction | None = None

    def __post_init__(self) -> None:
        """Validate."""
        breaks = tuple(exact_number(b, f"breaks[{k}]") for k, b in enumerate(self.breaks))
        if not breaks or breaks[0] != 0:
            raise InputError(
                "breaks", "they do not begin with 0", "let the first piece begin at 0"
            )
        for k, (before, after) in enumerate(pairwise(breaks), start=1):
            if after <= before:
                raise InputError(f"breaks[{k}]", f"{after} does not exceed {before}", "sort them")
        if self.period is not None:
            period = exact_number(self.period, "period", positive=True)
            if period <= breaks[-1]:
                raise InputError(
                    "period", f"{period} ends before the last piece", "make it longer"
                )
            self._set(period=period)
        self._set(breaks=breaks, rates=self._checked_rates())

    def _checked_rates(self) -> tuple[tuple[Fraction, ...], ...]:
        rates = tuple(
            tuple(exact_number(rate, f"rates[{k}][{j}]") for j, rate in enumerate(row))
            for k, row in enumerate(self.rates)
        )
        if len(rates) != len(self.breaks):
            raise InputError("rates", f"{len(rates)} rows for {len(self.breaks)} breaks", "match")
        for k, row in enumerate(rates):
            if len(row) != len(rates[0]) or not row:
                raise InputError(f"rates[{k}]", f"{len(row)} rates", "give one for each class")
        for j, column in enumerate(zip(*rates, strict=True)):
            if not any(column):
                raise InputError(f"rates[0][{j}]", "a class never arrives", "leave it out")
        return rates

    @staticmethod
    def constant(rates: Sequence[Fraction]) -> "RateProfile":
        """Return the profile of rates that do not vary."""
        return RateProfile((_ZERO,), (tuple(rates),))

    @cached_property
    def _steps(self) -> tuple[StepRate, ...]:
        columns = zip(*self.rates, strict=True)
        return tuple(StepRate(self.breaks, column, self.period) for column in columns)

    def _total(self, members: Iterable[int]) -> StepRate:
        chosen = tuple(members)
        values = tuple(sum((row[j] for j in chosen), _ZERO) for row in self.rates)
        return StepRate(self.breaks, values, self.period)

    @property
    def largest_rates(self) -> tuple[Fraction, ...]:
        """The largest rate of each class [1/s]."""
        return tuple(max(column) for column in zip(*self.rates, strict=True))

    def rates_at(self, time: Fraction | float) -> tuple[Fraction, ...]:
        """Return the rate of each class at a time [1/s]."""
        return tuple(step.value_at(time) for step in self._steps)

    def integral(self, j: int, start: Fraction, end: Fraction) -> Fraction:
        """Return the mean arrivals of class j between two times, ``0 <= start <= end``."""
        return self._steps[j].integral(start, end)

    def mean_rate(self, members: Iterable[int]) -> Fraction:
        """Return the rate of some classes together, in the long run [1/s]."""
        return self._total(members).mean

    def largest_window(self, members: Iterable[int], length: Fraction) -> Fraction:
        """Return the largest mean arrivals of some classes in any window of a length [s]."""
        return self._total(members).largest_window(length)

    def largest_excess(self, members: Iterable[int]) -> Fraction:
        """Return by how much a window's arrivals can exceed `mean_rate` times its length."""
        return self._total(members).excess

    def largest_share(self, later: Sequence[int], own: Sequence[int]) -> Fraction:
        """Return the largest share that some classes have with others; pieces of none count 0."""
        pairs = zip(self._total(later).values, self._total(own).values, strict=True)
        return max((a / (a + b) for a, b in pairs if a + b > 0), default=_ZERO)
