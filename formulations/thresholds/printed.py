"""Formulas of Nested WAIT as the paper prints them where they are wrong.

For the audit of the paper and to reproduce its figures; nothing else uses them.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from formulations.errors import InputError
from formulations.thresholds.nested_problem import NestedProblem


def printed_policy_memory(
    prompt: int, outputs: Sequence[int], thresholds: Sequence[int]
) -> Fraction:
    """Return (11), ``Σ n_j (l + L'_j/2)(l'_j − l'_{j−1})`` with ``L'_j = l'_1 + ... + l'_j``.

    The sum over stages has ``l'_{j−1} + 1 + l'_j`` in place of L'_j, and one stage more in the
    first segment.
    """
    rows = zip(thresholds, accumulate(outputs), outputs, (0, *outputs), strict=False)
    return sum(
        (n * (prompt + Fraction(total, 2)) * (end - before) for n, total, end, before in rows),
        Fraction(0),
    )


def printed_segment_memory(prompt: int, width: int, thresholds: Sequence[int]) -> Fraction:
    """Return the M of (14), ``Σ n_i (l + i·Δ/2)·Δ`` for segments of Δ stages each.

    Segment i ends at stage ``iΔ``; its mean stage is ``(i − 1/2)Δ + 1/2``, not ``iΔ/2``.
    """
    return sum(
        (n * (prompt + Fraction(i * width, 2)) * width for i, n in enumerate(thresholds, 1)),
        Fraction(0),
    )


def printed_exponent_bound(before: int, threshold: int, share: Fraction) -> Fraction:
    """Return theorem 2's ``8 (n_k − n_{k−1} P)/n_k``, a "lower bound" on θ that θ can miss.

    Lemma 8 proves it with ``n_{k−1}`` in the denominator.
    """
    return 8 * (threshold - before * share) / threshold


def proportional_thresholds(problem: NestedProblem, first: int) -> tuple[int, ...]:
    """Return ``n_i = n_1·Λ_i/Λ_1``, the thresholds of the experiments of section 6.2.

    They meet (10) with equality: queues between segments have no drift, θ is 0 and the memory of
    (12) infinite.

    Raises
    ------
    InputError
        If they are not whole.
    """
    rates = problem.arriving
    exact = [first * rate / rates[0] for rate in rates]
    if any(n.denominator != 1 for n in exact):
        raise InputError("first", f"{first} gives fractions", "use a multiple that divides")
    return tuple(int(n) for n in exact)
