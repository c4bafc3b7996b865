"""A rate that is constant between breaks, with exact integrals and largest windows."""

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise

_ZERO = Fraction(0)


@dataclass(frozen=True)
class StepRate:
    """A rate on ``[0, ∞)``; `RateProfile` validates.

    Parameters
    ----------
    breaks : tuple of Fraction
        Where pieces begin, increasing from 0 [s].
    values : tuple of Fraction
        Rate of each piece [1/s].
    period : Fraction, optional
        After which everything repeats [s]; otherwise the last piece lasts for ever.
    """

    breaks: tuple[Fraction, ...]
    values: tuple[Fraction, ...]
    period: Fraction | None

    @cached_property
    def _sums(self) -> tuple[Fraction, ...]:
        """The integral from 0 to each break."""
        lengths = (after - before for before, after in pairwise(self.breaks))
        pieces = (length * v for length, v in zip(lengths, self.values, strict=False))
        return tuple(accumulate(pieces, initial=_ZERO))

    @property
    def mean(self) -> Fraction:
        """The rate in the long run [1/s]."""
        return self.values[-1] if self.period is None else self._within(self.period) / self.period

    @property
    def excess(self) -> Fraction:
        """By how much an integral can exceed `mean` times its length, at most."""
        # The difference of the two grows along pieces, and is periodic or constant at last.
        ahead = [s - self.mean * t for s, t in zip(self._sums, self.breaks, strict=True)]
        return max(ahead) - min(ahead)

    def value_at(self, time: Fraction | float) -> Fraction:
        """Return the rate at a time >= 0; at a break, that of the piece which begins."""
        inside = time if self.period is None else Fraction(time) % self.period
        return self.values[bisect_right(self.breaks, inside) - 1]

    def integral(self, start: Fraction, end: Fraction) -> Fraction:
        """Return the integral from a time >= 0 to a later one."""
        return self._from_zero(end) - self._from_zero(start)

    def largest_window(self, length: Fraction) -> Fraction:
        """Return the largest integral over any window of a length, exactly.

        As a function of where the window begins, the integral bends only where one of its ends
        meets a break. So it is largest at such a point.
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
        """Return the integral from 0 to a time in the first period."""
        piece = bisect_right(self.breaks, time) - 1
        return self._sums[piece] + self.values[piece] * (time - self.breaks[piece])
