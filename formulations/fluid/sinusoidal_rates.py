"""Arrival rates that rise and fall like a sine, all classes with one period.

Rates are ``λ_j(t) = mean_j (1 + amplitude_j sin(2π(t/period + phase_j)))``. A sum of them is again
a mean plus one sine, ``r0 + |r| sin(2πt/period + arg r)`` with the complex number ``r = Σ mean_j
amplitude_j exp(2πi·phase_j)``. Over a window of length D its integral is at most ``r0·D + |r|
(period/π)·|sin(πD/period)|``, for some window exactly so.
"""

from bisect import bisect_left
from cmath import exp as complex_exp
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import cos, pi, sin

from formulations.errors import InputError
from formulations.problem_data import Validated
from formulations.rationals import exact_number

_ZERO = Fraction(0)
#: What floats are raised by, relatively, so that they bound the irrational numbers they stand for;
#: sums of sines in double precision are good to some 1e-15 per class.
_SAFETY = 1e-9
#: Shares are bounded by multiples of this.
_FINENESS = 2**32


@dataclass(frozen=True)
class SinusoidalRates(Validated):
    """Rates that vary like a sine.

    Parameters
    ----------
    means : tuple of Fraction
        ``> 0`` [1/s].
    amplitudes : tuple of Fraction
        Relative to the mean, 0 to 1.
    period : Fraction
        ``> 0`` [s].
    phases : tuple of Fraction, optional
        In periods; 0 by default.

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
                raise InputError(name, f"{len(values)} of them", "give one for each class")
            positive = name == "means"
            exact = tuple(
                exact_number(v, f"{name}[{j}]", positive=positive) for j, v in enumerate(values)
            )
            self._set(**{name: exact})
        for j, amplitude in enumerate(self.amplitudes):
            if amplitude > 1:
                raise InputError(f"amplitudes[{j}]", f"{amplitude} exceeds 1", "rates are >= 0")
        self._set(period=exact_number(self.period, "period", positive=True))

    @property
    def largest_rates(self) -> tuple[Fraction, ...]:
        """The largest rate of each class [1/s]."""
        pairs = zip(self.means, self.amplitudes, strict=True)
        return tuple(mean * (1 + amplitude) for mean, amplitude in pairs)

    def rates_at(self, time: Fraction | float) -> tuple[float, ...]:
        """Return the rate of each class at a time [1/s], to the precision of floats."""
        return tuple(
            float(mean) * (1 + float(amplitude) * sin(angle))
            for mean, amplitude, angle in zip(
                self.means, self.amplitudes, self._angles(time), strict=True
            )
        )

    def integral(self, j: int, start: Fraction | float, end: Fraction | float) -> float:
        """Return the mean arrivals of class j between two times, to the precision of floats."""
        swing = float(self.amplitudes[j]) * float(self.period) / (2 * pi)
        turned = cos(self._angles(start)[j]) - cos(self._angles(end)[j])
        return float(self.means[j]) * (float(end - start) + swing * turned)

    def mean_rate(self, members: Iterable[int]) -> Fraction:
        """Return the mean of some classes together [1/s]."""
        return sum((self.means[j] for j in members), _ZERO)

    def largest_window(self, members: Iterable[int], length: Fraction) -> Fraction:
        """Return a bound, a hair above the supremum, on arrivals in windows of a length."""
        chosen = tuple(members)
        # Whole periods bring the mean; only the rest matters, and it keeps the sine precise.
        rest = float(length % self.period / self.period)
        return self.mean_rate(chosen) * length + self._swing(chosen, abs(sin(pi * rest)))

    def largest_excess(self, members: Iterable[int]) -> Fraction:
        """Return by how much a window's arrivals can exceed the mean, or a hair more."""
        return self._swing(tuple(members), 1.0)

    def largest_share(self, later: Sequence[int], own: Sequence[int]) -> Fraction:
        """Return a bound, a hair above the supremum, on the share of some classes with others.

        The share of L in S exceeds p at some moment iff ``L − p·S`` is positive there: iff its
        mean plus its amplitude is. That falls with p, so bisection finds the least p without.
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
        # float((turns + phase) % 1) without fractions: engines ask at every iteration.
        return [
            2 * pi * ((whole * q.denominator + q.numerator * parts) % d / d)
            for q in self.phases
            for d in (parts * q.denominator,)
        ]

    def _wave(self, members: Iterable[int]) -> complex:
        """Return the complex amplitude of some classes together."""
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
        """Return a bound on the amplitude of the integral, times a part of 0 to 1."""
        wave = abs(self._wave(members)) + _SAFETY * float(self.mean_rate(members))
        return Fraction(wave * (part + _SAFETY) * float(self.period) / pi)
