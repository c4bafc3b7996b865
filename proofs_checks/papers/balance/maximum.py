"""The inequality for the mean of a maximum, before equation (16)."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import product

from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Data, Evidence
from proofs_checks.search import corrected_evidence, examine

# The inequality behind the lower bound.


def _moments(
    values: Sequence[int], workers: int, t: Fraction
) -> tuple[Fraction, Fraction, Fraction]:
    """E max, P(max ≥ t) and the correction, for independent centred draws of ``values``."""
    centre = Fraction(sum(values), len(values))
    tops = [max(x) - centre for x in product(values, repeat=workers)]
    below = [centre - v for v in values if v < centre]
    # max⁻ ≤ X_1⁻ on the event that all others lie below their mean, and they are independent.
    correction = Fraction(sum(below, Fraction(0)), len(values)) * (
        Fraction(len(below), len(values)) ** (workers - 1)
    )
    share = Fraction(sum(top >= t for top in tops), len(tops))
    return Fraction(sum(tops, Fraction(0)), len(tops)), share, correction


def verify_maximum(data: Data) -> str | None:
    """Confirm ``E max_g X_g < t·P(max_g X_g ≥ t)`` for centred uniform draws, exactly."""
    values, workers, t = data["values"], data["workers"], data["t"]
    if len(values) < 2 or len(set(values)) < len(values) or workers < 2 or t < 1:
        return None
    if min(values) < 1 or len(values) ** workers > 10**6:
        return None
    expected, share, _ = _moments(values, workers, Fraction(t))
    if expected >= t * share:
        return None
    return (
        f"sizes uniform on {values}, {workers} workers with one slot: the mean of max_g X_g is "
        f"{expected}, but t·P(max_g X_g ≥ t) = {t}·{share} = {t * share}"
    )


def _maximum_check(
    context: Context, *, with_correction: bool = True, non_negative: bool = False
) -> Evidence:
    largest = context.choose(4, 6, 7)
    supports = [
        [v for v in range(1, largest + 1) if mask >> (v - 1) & 1] for mask in range(1, 2**largest)
    ]
    cases = [
        (values, workers, t)
        for values in supports
        if len(values) > 1
        for workers in (2, 3)
        for t in range(1, largest)
    ]
    made = f"prompts uniform on every set within 1..{largest}, 2 or 3 workers with one slot, all t"

    def printed_holds(case: tuple[list[int], int, int]) -> bool:
        expected, share, _ = _moments(*case[:2], Fraction(case[2]))
        if non_negative:
            # Without centring the draws are positive, and the inequality is Markov's.
            expected += Fraction(sum(case[0]), len(case[0]))
        return expected >= case[2] * share

    def corrected_holds(case: tuple[list[int], int, int]) -> bool:
        expected, share, correction = _moments(*case[:2], Fraction(case[2]))
        return expected >= case[2] * share - (correction if with_correction else 0)

    printed = examine("printed inequality", made, cases, printed_holds)
    corrected = examine("with the correction term", made, cases, corrected_holds)
    return corrected_evidence(
        printed, corrected, verify_maximum,
        lambda c: {"values": c[0], "workers": c[1], "t": c[2]},
        "The maximum may be negative, and the inequality leaves that part out; for one worker it "
        "would say 0 ≥ t·P(X ≥ t).",
    )  # fmt: skip


CLAIMS = (
    Claim(
        id="balance.maximum",
        source="BF-IO paper, before eq. (16) (appendix C.1), and in appendix C.2",
        title="The elementary inequality for the maximum",
        statement="For any t > 0 the mean of the largest centred load is at least t times the "
        "probability that it reaches t.",
        formula="E[max_g (S_g − μB)] ≥ t·P(max_g (S_g − μB) ≥ t)",
        hypotheses=("G ≥ 2 loads S_g, independent with mean μB",),
        kind=Kind.COUNTEREXAMPLE,
        check=_maximum_check,
        mutations=(
            Mutation(
                "loads not centred, so never negative", partial(_maximum_check, non_negative=True)
            ),
            Mutation(
                "the term left out of the correction",
                partial(_maximum_check, with_correction=False),
            ),
        ),
        correction="E[max] ≥ t·P(max ≥ t) − E[(S_1 − μB)⁻]·P(S_1 < μB)^{G−1}. The maximum is "
        "negative "
        "only if all loads lie below their mean, and they are independent, so the missing term is "
        "at "
        "most σ_s√B/2·P(S_1 < μB)^{G−1}: exponentially small in G. Eq. (16) survives with a "
        "smaller "
        "constant, and by exact computation (balance.eq16) with the printed one.",
        verify=verify_maximum,
    ),
)
