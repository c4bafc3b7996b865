"""Thresholds from a limit B on the prompts of a batch, as the paper's experiments set them."""

from bisect import bisect_right
from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction
from math import ceil, floor

from formulations.arrays import integer
from formulations.errors import InputError
from formulations.fluid import RequestClass
from formulations.problem_data import member
from formulations.rationals import exact_number
from formulations.thresholds.problem import NestedProblem


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
    if member(BatchRule, rule, "rule") is BatchRule.PRINTED:
        total = sum((kind.rate for kind in classes), Fraction(0))
        return tuple(size * kind.rate / total / kind.iterations for kind in classes)
    rates = [kind.rate for kind in classes]
    return _proportional(size, rates, [kind.iterations for kind in classes])


def nested_batch_limit_thresholds(problem: NestedProblem, limit: int) -> tuple[Fraction, ...]:
    """Return ``n_i = B·Λ_i/Σ Λ_k·(stages of segment k)``: the ratios of section 6.2, of any size.

    They meet (10) with equality, or after `whole_thresholds` by chance: queues between segments
    have no drift and no bound. See `corrected_batch_limit_thresholds`.

    Parameters
    ----------
    problem : NestedProblem
        Data.
    limit : int
        ``B >= 1`` [prompts].

    Raises
    ------
    InputError
        If the limit is no positive integer.
    """
    size = integer(limit, "limit", minimum=1)
    stages = [number for chain in problem.conditions.chains for number in chain.stages]
    return _proportional(size, problem.arriving, stages)


def corrected_batch_limit_thresholds(
    problem: NestedProblem, limit: int, slack: object = 0
) -> tuple[int, ...]:
    """Return the largest thresholds within a limit that drift: the second part of (10), strictly.

    Each n_{i+1} is the least whole number above ``P n_i`` and at least ``(1 + slack) P n_i``, but
    not more than n_i needs it to be: with ``n_{i+1} = n_i`` no queue builds up. Whether a full
    batch is short enough for the first part of (10) is up to the worker (`nested_violations`).

    Parameters
    ----------
    problem : NestedProblem
        Data.
    limit : int
        ``B`` [prompts].
    slack : int, float, str or Fraction
        ``>= 0``; more of it makes queues between segments shorter.

    Raises
    ------
    InputError
        If no thresholds are within the limit.
    """
    size = integer(limit, "limit", minimum=1)
    factor = 1 + exact_number(slack, "slack")
    stages = problem.group.chain.stages

    def batch(first: int) -> int:
        pairs = zip(_drifting(problem.group.chain.passing, first, factor), stages, strict=True)
        return sum(n * number for n, number in pairs)

    if batch(1) > size:
        raise InputError("limit", f"{size} prompts", f"allow {batch(1)} at least")
    # Thresholds grow with n_1, and so does the batch.
    first = bisect_right(range(1, size + 1), size, key=batch)
    return _drifting(problem.group.chain.passing, first, factor)


def _drifting(passing: Sequence[Fraction], first: int, factor: Fraction) -> tuple[int, ...]:
    vector = [first]
    for share in passing:
        passed = share * vector[-1]
        vector.append(max(floor(passed) + 1, min(vector[-1], ceil(factor * passed))))
    return tuple(vector)


def _proportional(
    size: int, rates: Sequence[Fraction], stages: Sequence[int]
) -> tuple[Fraction, ...]:
    total = sum((rate * k for rate, k in zip(rates, stages, strict=True)), Fraction(0))
    return tuple(size * rate / total for rate in rates)


def whole_thresholds(thresholds: Sequence[Fraction]) -> tuple[int, ...]:
    """Round down, but to 1 at least; the paper does not say how it rounds.

    So the limit B is kept except where a class would otherwise never start.
    """
    return tuple(max(1, floor(n)) for n in thresholds)
