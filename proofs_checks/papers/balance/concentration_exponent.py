"""The exponent that the proof of Lemma 3 states at u_A."""

from itertools import product
from math import log, sqrt

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.balance.concentration import MARGIN
from proofs_checks.search import Domain

CLAIMS = Claims()


def exponents(
    envelope: int, workers: int, slots: int, tenths: int, factor: float = 8
) -> tuple[float, float, float]:
    """Both terms of Lemma 3's exponent at u = factor·Λ·max{√(p(1−p)Bα), α}, and α itself."""
    p = tenths / 10
    alpha = 3 * log(workers * slots)
    half = factor * envelope * max(sqrt(p * (1 - p) * slots * alpha), alpha) / 2
    return half**2 / (16 * p * (1 - p) * slots * envelope**2), 3 * half / (8 * envelope), alpha


def verify_exponent(data: Data) -> str | None:
    """Confirm that the exponent at u_A is below 2α_B."""
    workers, slots, tenths = data["workers"], data["slots"], data["tenths"]
    if workers < 2 or slots < 1 or not 1 <= tenths <= 9:
        return None
    quadratic, linear, alpha = exponents(1, workers, slots, tenths)
    # Smaller batches make u_A linear in α_B; the lemma is used where the square root is larger.
    if tenths * (10 - tenths) * slots < 100 * alpha:
        return None
    least = min(quadratic, linear)
    if least >= 2 * alpha * MARGIN:
        return None
    return (
        f"G = {workers}, B = {slots}, p = {tenths}/10: the exponent is {least / alpha:.4f}·α_B, "
        "not 2·α_B"
    )


@CLAIMS.step(
    "balance.lemma3-exponent",
    Mutation("12 in place of 8 in u_A", factor=12),
    Mutation("more than α_B in the correction", wanted=1.2),
    defect=Defect.MISPRINT,
    verify=verify_exponent,
)
def _exponent_check(context: Context, *, factor: float = 8, wanted: float = 1) -> Outcome:
    """The exponent at u_A.

    Source: BF-IO paper, proof of Lemma 3 (appendix C.2)
    Statement: With u = u_A both terms are at least α_B, so that the minimum in the exponent is at
        least 2α_B.
    Formula: min{(u_A/2)²/(16p(1−p)BΛ²), 3(u_A/2)/(8Λ)} ≥ 2α_B
    Assumes: u_A = 8Λ·max{√(p(1−p)Bα_B), α_B}
    Summary: With 8 in u_A the first term is exactly α_B where the square root is the larger.
    Reading: where p(1 − p)B ≥ α_B, so that the square root in u_A is the larger term.
    Correction: It is at least α_B: so the two displays before it say, and the bound 2G·e^{−α_B}
        after it uses no more. (2α_B would need 8√2 in u_A.)
    """
    slots = context.choose((1, 8, 256), (1, 8, 64, 256, 4096), (1, 8, 64, 256, 4096, 10**6))
    cases = list(product((2, 16), slots, (1, 5, 9)))
    domain = Domain(f"G = 2 and 16, B in {slots}, p = 1/10, 1/2, 9/10", cases)

    def reached(case: tuple[int, int, int], least: float) -> bool:
        quadratic, linear, alpha = exponents(1, *case, factor)
        return min(quadratic, linear) >= least * alpha * MARGIN

    printed = domain.refute(
        "the exponent is at least 2α_B",
        verify_exponent,
        lambda c: {"workers": c[0], "slots": c[1], "tenths": c[2]},
        holds=lambda c: reached(c, 2),
        applies=lambda c: c[2] * (10 - c[2]) * c[1] >= 100 * 3 * log(c[0] * c[1]),
    )
    corrected = domain.examine("it is at least α_B", lambda c: reached(c, wanted))
    return printed, corrected
