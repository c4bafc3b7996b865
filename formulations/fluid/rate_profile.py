"""Time-varying arrival rates (fluid paper, section 7.1), and the suprema in condition (13).

Condition (13) ranges over all time windows. It needs the largest number of arrivals in a window of
a given length, and the largest share of requests that continue to a later segment. Arrivals in a
window are an integral of the rate. The share over a window is a rate-weighted average of the
shares at its times, so the largest share is attained at a single time.

`SinusoidalRates` rise and fall like a sine, all classes with one period: ``λ_j(t) = mean_j (1 +
amplitude_j sin(2π(t/period + phase_j)))``. A sum of them is again a mean plus one sine, ``r0 + |r|
sin(2πt/period + arg r)`` with the complex number ``r = Σ mean_j amplitude_j exp(2πi·phase_j)``.
The maximum of its integral over windows of length D is ``r0·D + |r| (period/π)·|sin(πD/period)|``.
"""

from bisect import bisect_left, bisect_right
from cmath import exp as complex_exp
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import cos, pi, sin
from typing import Any, TypeAlias

from formulations.errors import InputError
from formulations.problem_data import Validated, check_keys, check_list
from formulations.scalars import exact_number
from formulations.words import counted

_ZERO = Fraction(0)


@dataclass(frozen=True)
class StepRate:
    """A piecewise constant rate on ``[0, ∞)``; `RateProfile` validates the arguments.

    Parameters
    ----------
    breaks : tuple of Fraction
        Start times of the pieces, increasing from 0 [s].
    values : tuple of Fraction
        Rate of each piece [1/s].
    period : Fraction, optional
        Period of the rate [s]; without it, the last piece lasts forever.
    """

    breaks: tuple[Fraction, ...]
    values: tuple[Fraction, ...]
    period: Fraction | None

    @cached_property
    def _sums(self) -> tuple[Fraction, ...]:
        """Integral of the rate from 0 to each break."""
        lengths = (after - before for before, after in pairwise(self.breaks))
        pieces = (length * v for length, v in zip(lengths, self.values, strict=False))
        return tuple(accumulate(pieces, initial=_ZERO))

    @property
    def mean(self) -> Fraction:
        """The long-run mean of the rate [1/s]."""
        return self.values[-1] if self.period is None else self._within(self.period) / self.period

    @property
    def excess(self) -> Fraction:
        """Largest excess of the integral over a window over `mean` times the window's length."""
        # The difference is linear on each piece, and periodic or finally constant, so its extrema
        # are at breaks.
        ahead = [s - self.mean * t for s, t in zip(self._sums, self.breaks, strict=True)]
        return max(ahead) - min(ahead)

    def value_at(self, time: Fraction | float) -> Fraction:
        """Return the rate at a time >= 0; at a break, the rate of the new piece."""
        inside = time if self.period is None else Fraction(time) % self.period
        return self.values[bisect_right(self.breaks, inside) - 1]

    def integral(self, start: Fraction, end: Fraction) -> Fraction:
        """Return the integral of the rate from ``start`` >= 0 to ``end`` >= ``start``."""
        return self._from_zero(end) - self._from_zero(start)

    def largest_window(self, length: Fraction) -> Fraction:
        """Return the largest integral of the rate over any window of ``length`` [s], exactly.

        As a function of the start of the window, the integral is piecewise linear with kinks only
        where an end of the window meets a break. Its maximum is at a kink.
        """
        ending = [b - length for b in self.breaks]
        if self.period is None:
            starts = {*self.breaks, *(start for start in ending if start > 0)}
        else:
            starts = {*self.breaks, *(start % self.period for start in ending)}
        return max(self.integral(start, start + length) for start in starts)

    def _from_zero(self, time: Fraction) -> Fraction:
        if self.period is None:
            return self._within(time)
        rounds, rest = divmod(time, self.period)
        return rounds * self._within(self.period) + self._within(rest)

    def _within(self, time: Fraction) -> Fraction:
        """Return the integral of the rate from 0 to a time in the first period."""
        piece = bisect_right(self.breaks, time) - 1
        return self._sums[piece] + self.values[piece] * (time - self.breaks[piece])


@dataclass(frozen=True)
class RateProfile(Validated):
    """Piecewise constant rates with the same breaks for all classes.

    Parameters
    ----------
    breaks : tuple of Fraction
        Start times of the pieces, increasing from 0 [s].
    rates : tuple of tuple of Fraction
        ``rates[k][j]``: rate of class j in piece k, >= 0 and positive in some piece [1/s].
    period : Fraction, optional
        Period of the rates, larger than the last break [s]; without it, the last piece lasts
        forever.

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
                "breaks", "the first break is not 0", "let the first piece begin at 0"
            )
        for k, (before, after) in enumerate(pairwise(breaks), start=1):
            if after <= before:
                raise InputError(
                    f"breaks[{k}]", f"{after} does not exceed {before}", "write increasing times"
                )
        if self.period is not None:
            period = exact_number(self.period, "period", positive=True)
            if period <= breaks[-1]:
                raise InputError(
                    "period", f"{period} ends before the last piece begins", "give a longer period"
                )
            self._set(period=period)
        self._set(breaks=breaks, rates=self._checked_rates())

    def _checked_rates(self) -> tuple[tuple[Fraction, ...], ...]:
        rates = tuple(
            tuple(exact_number(rate, f"rates[{k}][{j}]") for j, rate in enumerate(row))
            for k, row in enumerate(self.rates)
        )
        if len(rates) != len(self.breaks):
            what = f"{counted(len(rates), 'row')} for {counted(len(self.breaks), 'break')}"
            raise InputError("rates", what, "give one row per break")
        for k, row in enumerate(rates):
            if len(row) != len(rates[0]) or not row:
                raise InputError(f"rates[{k}]", f"{len(row)} rates", "give one for each class")
        for j, column in enumerate(zip(*rates, strict=True)):
            if not any(column):
                raise InputError(
                    f"rates[0][{j}]", "the rate is 0 in all pieces", "leave out the class"
                )
        return rates

    @staticmethod
    def constant(rates: Sequence[Fraction]) -> "RateProfile":
        """Return a profile with constant rates, one per class [1/s]."""
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
        """Return the expected arrivals of class j between two times, ``0 <= start <= end``."""
        return self._steps[j].integral(start, end)

    def mean_rate(self, members: Iterable[int]) -> Fraction:
        """Return the long-run arrival rate of classes ``members`` together [1/s]."""
        return self._total(members).mean

    def largest_window(self, members: Iterable[int], length: Fraction) -> Fraction:
        """Return the largest expected arrivals of ``members`` in a window of ``length`` [s]."""
        return self._total(members).largest_window(length)

    def largest_excess(self, members: Iterable[int]) -> Fraction:
        """Return the largest excess of expected arrivals in a window over `mean_rate` × length."""
        return self._total(members).excess

    def largest_share(self, later: Sequence[int], own: Sequence[int]) -> Fraction:
        """Return the largest share over time of classes ``later`` among ``later`` and ``own``."""
        pairs = zip(self._total(later).values, self._total(own).values, strict=True)
        return max((a / (a + b) for a, b in pairs if a + b > 0), default=_ZERO)


#: Relative margin added to floats, so that they bound irrational numbers from above; sums of sines
#: in double precision have errors of about 1e-15 per class.
_SAFETY = 1e-9
#: Upper bounds on shares are multiples of ``1/_FINENESS``.
_FINENESS = 2**32


@dataclass(frozen=True)
class SinusoidalRates(Validated):
    """Rates that vary sinusoidally with a common period.

    Parameters
    ----------
    means : tuple of Fraction
        ``> 0`` [1/s].
    amplitudes : tuple of Fraction
        Amplitudes relative to the mean, 0 to 1.
    period : Fraction
        ``> 0`` [s].
    phases : tuple of Fraction, optional
        Phases as fractions of the period; 0 by default.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    means: tuple[Fraction, ...]
    amplitudes: tuple[Fraction, ...]
    period: Fraction
    phases: tuple[Fraction, ...] | None = None

    def __post_init__(self) -> None:
        """Validate."""
        phases = (_ZERO,) * len(self.means) if self.phases is None else self.phases
        given = {"means": self.means, "amplitudes": self.amplitudes, "phases": phases}
        for name, values in given.items():
            if len(values) != len(self.means) or not values:
                raise InputError(name, f"found {len(values)}", "give one for each class")
            positive = name == "means"
            exact = tuple(
                exact_number(v, f"{name}[{j}]", positive=positive) for j, v in enumerate(values)
            )
            self._set(**{name: exact})
        for j, amplitude in enumerate(self.amplitudes):
            if amplitude > 1:
                what = f"{amplitude} exceeds 1"
                raise InputError(f"amplitudes[{j}]", what, "use 1 at most, since rates are >= 0")
        self._set(period=exact_number(self.period, "period", positive=True))

    @property
    def largest_rates(self) -> tuple[Fraction, ...]:
        """The largest rate of each class [1/s]."""
        pairs = zip(self.means, self.amplitudes, strict=True)
        return tuple(mean * (1 + amplitude) for mean, amplitude in pairs)

    def rates_at(self, time: Fraction | float) -> tuple[float, ...]:
        """Return the rate of each class at a time [1/s], in float precision."""
        return tuple(
            float(mean) * (1 + float(amplitude) * sin(angle))
            for mean, amplitude, angle in zip(
                self.means, self.amplitudes, self._angles(time), strict=True
            )
        )

    def integral(self, j: int, start: Fraction | float, end: Fraction | float) -> float:
        """Return the expected arrivals of class j between two times, in float precision."""
        swing = float(self.amplitudes[j]) * float(self.period) / (2 * pi)
        turned = cos(self._angles(start)[j]) - cos(self._angles(end)[j])
        return float(self.means[j]) * (float(end - start) + swing * turned)

    def mean_rate(self, members: Iterable[int]) -> Fraction:
        """Return the mean arrival rate of classes ``members`` together [1/s]."""
        return sum((self.means[j] for j in members), _ZERO)

    def largest_window(self, members: Iterable[int], length: Fraction) -> Fraction:
        """Return a close upper bound on expected arrivals in a window of ``length`` [s]."""
        chosen = tuple(members)
        # Whole periods contribute the mean; reducing to the rest keeps the sine precise.
        rest = float(length % self.period / self.period)
        return self.mean_rate(chosen) * length + self._swing(chosen, abs(sin(pi * rest)))

    def largest_excess(self, members: Iterable[int]) -> Fraction:
        """Return an upper bound on the excess of a window's expected arrivals over the mean."""
        return self._swing(tuple(members), 1.0)

    def largest_share(self, later: Sequence[int], own: Sequence[int]) -> Fraction:
        """Return an upper bound, just above the supremum, on the share of classes ``later``.

        The share of L in S exceeds p at some time iff ``L − p·S`` is positive at some time, which
        holds iff its mean plus its amplitude is positive. The sum decreases in p, so bisection
        finds the smallest p that is never exceeded.
        """
        mean, all_mean = (float(self.mean_rate(s)) for s in (later, (*later, *own)))
        wave, all_wave = self._wave(later), self._wave((*later, *own))

        def is_bound(parts: int) -> bool:
            p = parts / _FINENESS
            return mean - p * all_mean + abs(wave - p * all_wave) < -_SAFETY * all_mean

        return Fraction(bisect_left(range(_FINENESS), True, lo=1, key=is_bound), _FINENESS)

    def _angles(self, time: Fraction | float) -> list[float]:
        assert self.phases is not None
        turns = Fraction(time) / self.period
        whole, parts = turns.numerator, turns.denominator
        # Equals float((turns + phase) % 1) without fractions, since engines call it often.
        return [
            2 * pi * ((whole * q.denominator + q.numerator * parts) % d / d)
            for q in self.phases
            for d in (parts * q.denominator,)
        ]

    def _wave(self, members: Iterable[int]) -> complex:
        """Return the complex amplitude of the summed rate of some classes."""
        assert self.phases is not None
        return sum(
            (
                float(self.means[j] * self.amplitudes[j])
                * complex_exp(2j * pi * float(self.phases[j]))
                for j in members
            ),
            0j,
        )

    def _swing(self, members: tuple[int, ...], part: float) -> Fraction:
        """Return an upper bound on the amplitude of the integral times ``part`` in [0, 1]."""
        wave = abs(self._wave(members)) + _SAFETY * float(self.mean_rate(members))
        return Fraction(wave * (part + _SAFETY) * float(self.period) / pi)


#: Rates of classes j = 0..m−1 over time ``t >= 0``. The suprema are exact for `RateProfile`. Those
#: of `SinusoidalRates` are irrational and replaced by upper bounds.
VaryingRates: TypeAlias = RateProfile | SinusoidalRates


def varying_rates(document: Any) -> VaryingRates:
    """Return the rates of a parsed JSON document.

    Parameters
    ----------
    document : mapping
        The fields of `RateProfile` (``breaks``, ``rates``, optional ``period``), or, if it has
        ``means``, of `SinusoidalRates` (``amplitudes``, ``period``, optional ``phases``).

    Raises
    ------
    InputError
        If a key is unknown or missing, or a value breaks its rule.
    """
    if isinstance(document, Mapping) and "means" in document:
        sines = ("means", "amplitudes")
        check_keys(document, "document", (*sines, "period"), ("phases",))
        for name in (*sines, *({"phases"} & document.keys())):
            check_list(document[name], name)
        return SinusoidalRates(**document)
    check_keys(document, "document", ("breaks", "rates"), ("period",))
    check_list(document["breaks"], "breaks")
    for k, row in enumerate(check_list(document["rates"], "rates")):
        check_list(row, f"rates[{k}]")
    return RateProfile(**document)
