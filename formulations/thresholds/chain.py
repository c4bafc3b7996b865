"""A chain of segments: the stages of requests of one prompt length, cut in pieces."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate


@dataclass(frozen=True)
class SegmentChain:
    """Segments 1..L of stages, what a request holds in them, and how many requests reach them.

    Segment i ends with stage ``b_i``: the first is stages ``0..b_1``, the others
    ``b_{i−1}+1..b_i``. A class that WAIT knows the output length of is a chain of one segment.

    Parameters
    ----------
    prompt : int
        ``l`` [tokens].
    ends : tuple of int
        ``b_1 < ... < b_L``.
    rate : Fraction
        ``Λ_1``, the rate of arrivals in the long run [1/s].
    passing : tuple of Fraction
        ``P_2 .. P_L``: share of the requests of a segment that go on to the next, the largest one
        where it varies.
    num_classes : int
        Output lengths in the chain.
    """

    prompt: int
    ends: tuple[int, ...]
    rate: Fraction
    passing: tuple[Fraction, ...]
    num_classes: int

    @property
    def entries(self) -> tuple[int, ...]:
        """``e_i``: the first stage of each segment."""
        return first_stages(self.ends)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """``s_i = Σ (l + k)`` over the stages k of each segment [tokens]."""
        return tuple(
            (end - entry + 1) * (2 * self.prompt + entry + end) // 2
            for entry, end in zip(self.entries, self.ends, strict=True)
        )

    @property
    def stages(self) -> tuple[int, ...]:
        """Number of stages of each segment."""
        pairs = zip(self.entries, self.ends, strict=True)
        return tuple(end - entry + 1 for entry, end in pairs)

    @property
    def held(self) -> tuple[int, ...]:
        """``l + b_{k−1}`` for k = 2..L: what a request holds that waits before segment k."""
        return tuple(self.prompt + end for end in self.ends[:-1])

    @property
    def arriving(self) -> tuple[Fraction, ...]:
        """``Λ_i``: rate of the requests that reach each segment [1/s]."""
        return tuple(accumulate(self.passing, lambda rate, p: rate * p, initial=self.rate))

    def thresholds_from(self, first: int, *, strict: bool) -> tuple[int, ...]:
        """Return the least thresholds after a given n_1: ``n_{i+1} >= P_{i+1} n_i``, or ``>``."""
        vector = [first]
        for share in self.passing:
            passed = share.numerator * vector[-1]
            vector.append(least_quotient(passed, share.denominator, strict=strict))
        return tuple(vector)

    def rounding(self, first: Fraction) -> tuple[Fraction, ...]:
        """Return by how much `thresholds_from` can exceed the ray ``Λ_i τ``, if n_1 does by first.

        ``n_{i+1} <= P n_i + 1``, hence ``c_{i+1} = 1 + P_{i+1} c_i``.
        """
        return tuple(accumulate(self.passing, lambda c, share: 1 + share * c, initial=first))


def first_stages(ends: tuple[int, ...]) -> tuple[int, ...]:
    """Return ``e_1 = 0``, ``e_i = b_{i−1} + 1``: where segments with these ends begin."""
    return (0, *(end + 1 for end in ends[:-1]))


def least_integer(bound: Fraction, *, strict: bool) -> int:
    """Return the least positive integer that is at least, or more than, a number."""
    return least_quotient(bound.numerator, bound.denominator, strict=strict)


def least_quotient(numerator: int, denominator: int, *, strict: bool) -> int:
    """Return the least positive integer that is at least, or more than, a quotient."""
    return max(1, numerator // denominator + 1 if strict else -(-numerator // denominator))
