"""Exact probability laws: mappings from values to positive probabilities, as fractions."""

from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from itertools import product
from math import comb, lcm
from typing import TypeVar

V = TypeVar("V", bound=Hashable)
#: Law of an integer.
ExactLaw = dict[int, Fraction]


def gathered(weighed: Iterable[tuple[V, Fraction]]) -> dict[V, Fraction]:
    """Return the law of (value, probability) pairs; probabilities of equal values are added."""
    law: dict[V, Fraction] = {}
    for value, chance in weighed:
        if chance:
            law[value] = law.get(value, Fraction(0)) + chance
    return law


def in_whole_numbers(law: ExactLaw) -> tuple[dict[int, int], int]:
    """Return a law as integer weights over a common denominator, which are fast to add."""
    whole = lcm(*(chance.denominator for chance in law.values()))
    return {v: c.numerator * (whole // c.denominator) for v, c in law.items()}, whole


def uniform(values: Sequence[int]) -> ExactLaw:
    """Law of one of ``values``."""
    return {v: Fraction(1, len(values)) for v in values}


def binomial(trials: int, chance: Fraction) -> ExactLaw:
    """Law of the number of successes in ``trials`` trials."""
    return gathered((k, binomial_chance(trials, chance, k)) for k in range(trials + 1))


def binomial_chance(trials: int, chance: Fraction, successes: int) -> Fraction:
    """Probability of a given number of successes in 0..``trials``."""
    return comb(trials, successes) * chance**successes * (1 - chance) ** (trials - successes)


def binomial_tail(trials: int, chance: Fraction, outside: range) -> Fraction:
    """Return ``P(X not in outside)`` of a binomial; ``outside`` are the values kept."""
    kept = (binomial_chance(trials, chance, k) for k in outside if 0 <= k <= trials)
    return 1 - sum(kept, Fraction(0))


def of_sum(one: ExactLaw, other: ExactLaw) -> ExactLaw:
    """Law of the sum of two independent draws."""
    pairs = product(one.items(), other.items())
    return gathered((a + b, p * q) for (a, p), (b, q) in pairs)


def mean(law: ExactLaw) -> Fraction:
    """Mean."""
    weights, whole = in_whole_numbers(law)
    return Fraction(sum(v * w for v, w in weights.items()), whole)


def variance(law: ExactLaw) -> Fraction:
    """Variance."""
    weights, whole = in_whole_numbers(law)
    first = sum(v * w for v, w in weights.items())
    total = sum(weights.values())
    # Σ w(v − first/whole)², multiplied by whole² to stay in integers.
    second = sum(v * v * w for v, w in weights.items())
    return Fraction(second * whole**2 - 2 * first**2 * whole + first**2 * total, whole**3)
