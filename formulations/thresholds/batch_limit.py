"""Thresholds from a limit B on the prompts of a batch, as in the paper's experiments."""

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
    """How the limit is divided among classes; ``Σ n_j (l'_j + 1) = B`` before rounding."""

    #: ``n_j = B·(λ_j/Σλ)/(l'_j + 1)``, section 6.1: prompts in proportion to rates. ``n_j/λ_j`` is
    #: then smallest for the longest outputs, although (9) has the same bound for all classes.
    PRINTED = "printed"
    #: ``n_j = B·λ_j/Σ λ_i (l'_i + 1)``: ``n_j/λ_j`` is equal for all classes.
    BALANCED = "balanced"


def batch_limit_thresholds(
    classes: Sequence[RequestClass], limit: int, rule: BatchRule = BatchRule.BALANCED
) -> tuple[Fraction, ...]:
    """Return the real-valued thresholds of a rule.

    Parameters
    ----------
    classes : sequence of RequestClass
        The arriving classes.
    limit : int
        ``B >= 1`` [prompts].
    rule : BatchRule
        How B is divided.

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

    They satisfy (10) only with equality, and after `whole_thresholds` only by chance. Queues
    between segments then have no drift and are unbounded; see `corrected_batch_limit_thresholds`.

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
    """Return the largest thresholds within a limit that satisfy the second part of (10) strictly.

    Each n_{i+1} is the least integer above ``P n_i`` and at least ``(1 + slack) P n_i``, but at
    most n_i, since no queue builds up with ``n_{i+1} = n_i``. The first part of (10), a bound on
    the time of a full batch, depends on the worker and is not enforced (`nested_violations`).

    Parameters
    ----------
    problem : NestedProblem
        Data.
    limit : int
        ``B`` [prompts].
    slack : int, float, str or Fraction
        ``>= 0``; larger values shorten the queues between segments.

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
    # Thresholds and batch size increase with n_1, so bisect over n_1.
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
    """Round down, but to at least 1; the paper does not specify its rounding.

    The limit B is exceeded only if a class would otherwise never start.
    """
    return tuple(max(1, floor(n)) for n in thresholds)
