"""Lemma 8, the θ of equations (16) and (17), and the bound that Theorem 2 prints for it."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from math import exp, log

from formulations.thresholds import drift_exponent
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.papers.fluid.printed import printed_exponent_bound
from proofs_checks.search import Domain, examine

CLAIMS = Claims()


#: ``n_{k−1}``, ``n_k`` and ``P_k``.
Triple = tuple[int, int, Fraction]
#: What is surely no rounding error.
_DOUBT = 1e-9


def cumulant(triple: Triple, theta: float) -> float:
    """``g(θ) = −θ n_k + n_{k−1} ln(1 − P + P e^θ)``: (16) asks for its positive root."""
    before, threshold, share = triple
    p = float(share)
    # ln(1 − P + P e^θ) = θ + ln(P + (1 − P) e^{−θ}), which does not overflow.
    return before * (theta + log(p + (1 - p) * exp(-theta))) - theta * threshold


def triples(context: Context) -> Iterator[Triple]:
    """Yield every triple with ``n_{k−1} > n_k > n_{k−1} P`` up to a size, and random ones."""
    most = context.choose(7, 14, 30)
    shares = [Fraction(a, 8) for a in range(1, 8)]
    for before in range(2, most):
        for share in shares:
            yield from ((before, n, share) for n in range(1, before) if n > before * share)
    for _ in range(context.choose(20, 1000, 20_000)):
        before = int(context.rng.integers(2, 300))
        share = Fraction(int(context.rng.integers(1, 100)), 100)
        least = int(before * share) + 1
        if least < before:
            yield before, int(context.rng.integers(least, before)), share


def drift(triple: Triple) -> Fraction:
    """``D = n_k − n_{k−1} P``."""
    before, threshold, share = triple
    return threshold - before * share


def _made(context: Context) -> str:
    return (
        f"all with n_(k−1) < {context.choose(7, 14, 30)}, P = 1/8 .. 7/8, and random ones "
        "below 300"
    )


_DRIFT = ("n_{k−1} > n_k > n_{k−1}P_k", "0 < P_k < 1")


@CLAIMS.result(
    "fluid.lemma8",
    Mutation("9 in place of 8", factor=9),
    Mutation("n_k from 1 on, no drift", from_zero=True),
    hypotheses=_DRIFT,
)
def _lemma8_check(context: Context, *, factor: int = 8, from_zero: bool = False) -> Outcome:
    """The exponent of a queue between segments.

    Source: fluid paper, Lemma 8 and (16), (18) (appendices C and E.5)
    Statement: (16) has exactly one positive root θ_k; it increases with n_k − n_{k−1}P_k and is at
        least 8(n_k − n_{k−1}P_k)/n_{k−1}.
    Formula: e^{−θ n_k}(1 − P_k + P_k e^θ)^{n_{k−1}} = 1  ⇒  θ ≥ 8(n_k − n_{k−1}P_k)/n_{k−1}
    Summary: The sign of g decides, so that no root needs to be computed to many digits.
    """
    cases = list(triples(context))

    def has_one_root(triple: Triple) -> bool:
        theta = drift_exponent(*triple)
        below = all(cumulant(triple, theta * t) < 0 for t in (0.01, 0.3, 0.7, 0.99))
        return below and all(cumulant(triple, theta * t) > 0 for t in (1.01, 1.5, 3))

    def bounded(triple: Triple) -> bool:
        # θ exceeds a number iff g is not positive there.
        return cumulant(triple, float(factor * drift(triple) / triple[0])) <= _DOUBT

    def increases(case: tuple[int, Fraction]) -> bool:
        before, share = case
        least = 1 if from_zero else int(before * share) + 1
        some = range(least, before, max(1, (before - least) // 6))
        thetas = [drift_exponent(before, n, share) for n in some]
        return all(a < b for a, b in pairwise(thetas))

    domain = Domain(_made(context), cases)
    roots = domain.examine("(16) has one positive root", has_one_root)
    lower = domain.examine("θ ≥ 8(n_k − n_{k−1}P)/n_{k−1}, (18)", bounded)
    grows = examine(
        "θ increases with n_k", _made(context), sorted({(b, p) for b, _, p in cases}), increases
    )
    small = (1000, 501, Fraction(1, 2))
    approximate = 2 * float(drift(small)) / (1000 * 0.25)
    return Findings(
        roots,
        lower,
        grows,
        numbers={
            "θ at (4, 3, 1/2)": drift_exponent(4, 3, Fraction(1, 2)),
            "θ over 2D/(n_{k−1}P(1−P)) at (1000, 501, 1/2)": drift_exponent(*small) / approximate,
        },
    )


def verify_bound(data: Data) -> str | None:
    """Confirm that θ is below Theorem 2's bound."""
    triple: Triple = (data["before"], data["threshold"], Fraction(*data["share"]))
    before, threshold, share = triple
    if not 0 < share < 1 or not before > threshold > before * share:
        return None
    bound = printed_exponent_bound(before, threshold, share)
    if cumulant(triple, float(bound)) <= _DOUBT:
        return None
    return (
        f"n_(k−1) = {before}, n_k = {threshold}, P = {share}: g({float(bound):.4f}) > 0, so θ = "
        f"{drift_exponent(*triple):.4f} is below 8(n_k − n_(k−1)P)/n_k = {float(bound):.4f}"
    )


@CLAIMS.result(
    "fluid.theorem2-exponent",
    Mutation("both denominators swapped", swapped=True),
    hypotheses=_DRIFT,
    defect=Defect.MISPRINT,
    verify=verify_bound,
)
def _bound_check(context: Context, *, swapped: bool = False) -> Outcome:
    """Lower bound on θ in the theorems.

    Source: fluid paper, Theorems 2 and 4 (sections 5.2 and 7.2)
    Statement: θ_j is at least 8(n_j − n_{j−1}p_j)/n_j.
    Formula: θ_j ≥ 8(n_j − n_{j−1}p_j)/n_j
    Summary: A bound that is too large makes the memory of (12) too small.
    Correction: The denominator is n_{j−1}, as Lemma 8 and (18) have it.
    """
    cases = list(triples(context))

    def over(triple: Triple, denominator: int) -> bool:
        return cumulant(triple, float(8 * drift(triple) / denominator)) <= _DOUBT

    domain = Domain(_made(context), cases)
    printed = domain.refute(
        "θ_k ≥ 8(n_k − n_{k−1}P)/n_k",
        verify_bound,
        lambda t: {"before": t[0], "threshold": t[1], "share": list(t[2].as_integer_ratio())},
        holds=lambda t: over(t, t[0] if swapped else t[1]),
    )
    corrected = domain.examine(
        "θ_k ≥ 8(n_k − n_{k−1}P)/n_{k−1}", lambda t: over(t, t[1] if swapped else t[0])
    )
    return printed, corrected


@CLAIMS.step(
    "fluid.eq17", Mutation("the smallest p in place of it", largest=False), hypotheses=_DRIFT
)
def _eq17_check(context: Context, *, largest: bool = True) -> Outcome:
    """The exponent under time-varying rates.

    Source: fluid paper, eq. (17) and after it (appendix D)
    Statement: Of all p_j(s), the largest gives the smallest θ_j, which serves for all.
    Formula: p* = max_s p(s)  ⇒  θ(p*) = min_s θ(p(s)),  E[e^{θ(p*)X^s}] ≤ 1
    Summary: So e^{θS} is a supermartingale, which is all that Doob's inequality needs.
    Reading: the printed 'p* = argmin {n_j − p_j n_{j−1}}' means the largest p that occurs.
    """

    def holds(case: tuple[int, int, tuple[Fraction, ...]]) -> bool:
        before, threshold, shares = case
        star = drift_exponent(before, threshold, max(shares) if largest else min(shares))
        # With θ* every transfer's generating function is at most 1.
        return all(cumulant((before, threshold, p), star) <= _DOUBT for p in shares) and all(
            star <= drift_exponent(before, threshold, p) for p in shares
        )

    cases = [
        (before, threshold, tuple(share * Fraction(k, 4) for k in (1, 2, 3, 4)))
        for before, threshold, share in triples(context)
    ]
    return examine(
        "the largest p gives the smallest θ, and E[e^{θX}] ≤ 1 for all p",
        _made(context),
        cases,
        holds,
    )
