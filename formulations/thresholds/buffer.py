"""The safety buffer of Nested WAIT: memory for requests that wait between segments.

Before segment k, more than c requests wait with probability at most ``exp(−θ_k (c − n_k))`` at any
one batch. With S batches at most, all queues together stay within

    (12)  M(n) + Σ_{k=2..L} (l + b_{k−1}) (n_k + ln(argument/δ)/θ_k)

with probability 1 − δ. ``θ_k > 0`` is the root of (16). These are floats: θ is rounded down, so
that the buffer errs to the safe side, and totals are rounded up to whole tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import ceil, expm1, inf, isfinite, log, log1p

from formulations.errors import InputError
from formulations.fluid.rates import exact_number
from formulations.thresholds.nested_problem import NestedProblem
from formulations.thresholds.wait_problem import policy_memory

_HALVINGS = 200


class LogArgument(StrEnum):
    """What the logarithm of (12) counts, in its four printed forms; m classes, L segments."""

    #: ``(L − 1)·S``: the union bound of the proof in appendix C, the least that is proven.
    PROOF = "proof"
    #: ``m·S``: theorems 2 and 4.
    THEOREM = "theorem"
    #: ``(L − 1)·(T + 1)``: figures 16 to 18, with the horizon [s] in place of batches.
    FIGURES = "figures"
    #: ``(L − 1)·(S + 1)``: appendix D.
    TIME_VARYING = "time-varying"


@dataclass(frozen=True)
class SafetyBuffer:
    """The memory of (12) and its three parts, in whole tokens; None where it is unbounded.

    Parameters
    ----------
    exponents : tuple of float
        ``θ_2 .. θ_L``; infinite where no queue builds up, 0 where it has no drift.
    policy_memory : int
        ``M(n)``, the full batch.
    waiting : int
        ``Σ (l + b_{k−1}) n_k``, rests of cohorts between segments.
    deviation : int, optional
        ``Σ (l + b_{k−1}) ln(argument/δ)/θ_k``, rounded up.
    """

    exponents: tuple[float, ...]
    policy_memory: int
    waiting: int
    deviation: int | None

    @property
    def total(self) -> int | None:
        """The memory that suffices with probability ``1 − δ`` [tokens]."""
        if self.deviation is None:
            return None
        return self.policy_memory + self.waiting + self.deviation


def drift_exponent(before: int, threshold: int, share: Fraction) -> float:
    """Return θ > 0 with ``exp(−θ n_k) (1 − P + P e^θ)^{n_{k−1}} = 1``, equation (16).

    Parameters
    ----------
    before, threshold : int
        ``n_{k−1}`` and ``n_k``.
    share : Fraction
        ``P_k``, the chance to go on, in (0, 1].

    Returns
    -------
    float
        Not above the root. Infinite if ``n_k >= n_{k−1}``, where fewer than n_k ever wait; 0 if
        ``n_k <= n_{k−1} P``, where the queue drifts nowhere or away.
    """
    if threshold >= before:
        return inf
    if threshold <= before * share:
        return 0.0
    p = float(share)
    # (18): the root is at least 8 (n_k − n_{k−1} P)/n_{k−1}; g is negative from 0 to the root.
    low = float(4 * (threshold - before * share) / before)
    high = 2 * low
    while _cumulant(before, threshold, p, high) <= 0:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if _cumulant(before, threshold, p, middle) < 0:
            low = middle
        else:
            high = middle
    return low


def _cumulant(before: int, threshold: int, share: float, theta: float) -> float:
    """Return ``g(θ) = −θ n_k + n_{k−1} ln(1 − P + P e^θ)``."""
    if theta < 1:
        # Near 0 both terms are small and all but cancel.
        return before * log1p(share * expm1(theta)) - theta * threshold
    rest = log(share + (1 - share) * _exp_minus(theta))
    return before * rest + theta * (before - threshold)


def _exp_minus(theta: float) -> float:
    return expm1(-theta) + 1


def largest_batch_count(problem: NestedProblem, first: int, horizon: Fraction) -> int:
    """Return ``⌈T/(d0 + d1 n_1 l)⌉``, more batches than which no run of T seconds has.

    Every batch holds n_1 fresh prompts; the printed S is random and depends on the run.
    """
    worker = problem.worker
    shortest = worker.d0 + worker.d1 * first * problem.prompt
    return max(1, ceil(horizon / shortest))


def safety_buffer(
    problem: NestedProblem,
    thresholds: Sequence[int],
    *,
    horizon: object,
    probability: object,
    argument: LogArgument = LogArgument.PROOF,
) -> SafetyBuffer:
    """Return the memory of (12).

    Parameters
    ----------
    problem : NestedProblem
        Data.
    thresholds : sequence of int
        One per segment.
    horizon : int, float, str or Fraction
        T > 0 [s] (with the paper's scaling, ζT).
    probability : int, float, str or Fraction
        ``δ`` in (0, 1), of ever exceeding the memory.
    argument : LogArgument
        What the logarithm counts.

    Raises
    ------
    InputError
        If horizon or probability are out of range.
    """
    logarithm = buffer_logarithm(problem, thresholds[0], horizon, probability, argument)
    exponents = tuple(
        drift_exponent(before, after, share)
        for before, after, share in zip(thresholds, thresholds[1:], problem.passing, strict=False)
    )
    held = [problem.prompt + end for end in problem.ends[:-1]]
    deviation = sum(
        tokens * logarithm / theta if theta else inf
        for tokens, theta in zip(held, exponents, strict=True)
    )
    return SafetyBuffer(
        exponents=exponents,
        policy_memory=policy_memory(problem.weights, thresholds),
        waiting=sum(t * n for t, n in zip(held, thresholds[1:], strict=True)),
        deviation=ceil(deviation) if isfinite(deviation) else None,
    )


def buffer_logarithm(
    problem: NestedProblem, first: int, horizon: object, probability: object, argument: LogArgument
) -> float:
    """Return ``ln(argument/δ)`` of (12) for a threshold n_1; see `safety_buffer`."""
    seconds = exact_number(horizon, "horizon", positive=True)
    delta = exact_number(probability, "probability", positive=True)
    if delta >= 1:
        raise InputError("probability", f"{delta} is not below 1", "use 0 < probability < 1")
    count = _argument(problem, first, seconds, argument)
    # δ may be smaller than any float.
    return log(count) + log(delta.denominator) - log(delta.numerator)


def _argument(
    problem: NestedProblem, first: int, horizon: Fraction, argument: LogArgument
) -> Fraction:
    between = max(1, len(problem.ends) - 1)
    batches = largest_batch_count(problem, first, horizon)
    if argument is LogArgument.THEOREM:
        return Fraction(len(problem.outputs) * batches)
    if argument is LogArgument.FIGURES:
        return between * (horizon + 1)
    return Fraction(between * (batches + (argument is LogArgument.TIME_VARYING)))
