"""Formulas of the fluid paper as it prints them where they are wrong."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from formulations.fluid import FluidWorker, RequestClass, equilibrium


def printed_balance(classes: Sequence[RequestClass], worker: FluidWorker) -> tuple[Fraction, ...]:
    """Return ``n_j = (d0 + d1·M*) λ_j`` of section 3.2: one stage's count, not all stages'."""
    return equilibrium(classes, worker).per_stage


def printed_active(classes: Sequence[RequestClass], worker: FluidWorker) -> tuple[Fraction, ...]:
    """Return ``n_j = ΔT λ_j (l'_j + 1)(l_j + l'_j/2)`` of appendix A.2: a memory, not a count."""
    state = equilibrium(classes, worker)
    pairs = zip(classes, state.active, strict=True)
    return tuple(kind.footprint * active for kind, active in pairs)


def printed_throughput(classes: Sequence[RequestClass], worker: FluidWorker) -> Fraction:
    """Return the middle of (8), ``(1/d0)(Σ n_j*)(1 − A)``: the load without its ``d1``."""
    state = equilibrium(classes, worker)
    return sum(state.active, Fraction(0)) * (1 - state.work_rate) / worker.d0


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


def printed_exponent_bound(before: int, threshold: int, share: Fraction) -> Fraction:
    """Return theorem 2's ``8 (n_k − n_{k−1} P)/n_k``, a "lower bound" on θ that θ can miss.

    Lemma 8 proves it with ``n_{k−1}`` in the denominator.
    """
    return 8 * (threshold - before * share) / threshold
