"""Thresholds from a limit B on the prompts of a batch, as the paper's experiments set them."""

from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction
from math import floor

from formulations.arrays import integer
from formulations.fluid import RequestClass


class BatchRule(StrEnum):
    """How the limit is shared; either way ``Σ n_j (l'_j + 1) = B`` before rounding."""

    #: ``n_j = B·(λ_j/Σλ)/(l'_j + 1)``, section 6.1: each class as many prompts as its rate. Its
    #: ``n_j/λ_j`` is least for the longest outputs, while (9) asks it to be alike for all.
    PRINTED = "printed"
    #: ``n_j = B·λ_j/Σ λ_i (l'_i + 1)``: ``n_j/λ_j`` is alike for all.
    BALANCED = "balanced"


def batch_limit_thresholds(
    classes: Sequence[RequestClass], limit: int, rule: BatchRule = BatchRule.BALANCED
) -> tuple[Fraction, ...]:
    """Return the real thresholds of a rule.

    Parameters
    ----------
    classes : sequence of RequestClass
        What arrives.
    limit : int
        ``B >= 1`` [prompts].
    rule : BatchRule
        How B is shared.

    Raises
    ------
    InputError
        If the limit is no positive integer.
    """
    size = integer(limit, "limit", minimum=1)
    if rule is BatchRule.PRINTED:
        total = sum((kind.rate for kind in classes), Fraction(0))
        return tuple(size * kind.rate / total / kind.iterations for kind in classes)
    total = sum((kind.rate * kind.iterations for kind in classes), Fraction(0))
    return tuple(size * kind.rate / total for kind in classes)


def whole_thresholds(thresholds: Sequence[Fraction]) -> tuple[int, ...]:
    """Round down, but to 1 at least; the paper does not say how it rounds.

    So the limit B is kept except where a class would otherwise never start.
    """
    return tuple(max(1, floor(n)) for n in thresholds)
