"""Sentences in the proofs of Lemma 4 and Theorem 2 that say more than what is known."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.search import Domain, examine, refute
from proofs_checks.step_enumeration import gap, imbalance

CLAIMS = Claims()


# "Nonnegative, so its Cesàro average is bounded."


def verify_average(data: Data) -> str | None:
    """Confirm that the average of D(k) = slope·k exceeds a bound after so many steps."""
    slope, bound, steps = data["slope"], data["bound"], data["steps"]
    if slope < 1 or bound < 1 or steps < 1:
        return None
    average = Fraction(slope * (steps - 1), 2)
    if average <= bound:
        return None
    return f"D(k) = {slope}·k ≥ 0: the average of {steps} steps is {average}, above {bound}"


@CLAIMS.step(
    "balance.lemma4-average",
    Mutation("a constant sequence", slopes=(0,)),
    Mutation("no contraction in the correction", keep=2),
    defect=Defect.SENTENCE,
    verify=verify_average,
)
def _average_check(context: Context, *, slopes: Sequence[int] = (1, 2), keep: int = 1) -> Outcome:
    """Nonnegative, so bounded averages.

    Source: BF-IO paper, proof of Lemma 4 (appendix C.2), below (24)
    Statement: The expected gaps are nonnegative, so their Cesàro average is bounded.
    Formula: E D(k) ≥ 0  ⇒  sup_K (1/K)·Σ_{k<K} E D(k) < ∞
    Assumes: nothing else of the sequence
    Summary: D(k) = k is nonnegative. The recursion itself bounds the sequence.
    Correction: By (23) E D(k) ≤ a_k + (1 − p)·E D(k − 1) with bounded a_k, so E D(k) ≤ max{E D(0),
        sup a_k/p}.
    """
    most = context.choose(10, 30, 100)
    printed = refute(
        "a nonnegative sequence has bounded averages",
        f"D(k) = a·k for a in {list(slopes)}, bounds up to {most}",
        [
            {"slope": a, "bound": b, "steps": n}
            for a, b, n in product(slopes, range(1, most), (2 * most + 2,))
        ],
        verify_average,
    )

    def contracts(case: tuple[int, int, int]) -> bool:
        tenths, start, added = case
        value, most_seen = Fraction(start), max(Fraction(start), Fraction(10 * added, tenths))
        for _ in range(context.choose(15, 60, 200)):
            value = (keep - Fraction(tenths, 10)) * value + added
            if value > most_seen:
                return False
        return True

    corrected = examine(
        "E D(k) ≤ a + (1 − p)·E D(k − 1) gives E D(k) ≤ max{D(0), a/p}",
        "p = 1/10, 1/2, 9/10, D(0) = 0..4, a = 0..4, in fractions",
        list(product((1, 5, 9), range(5), range(5))),
        contracts,
    )
    return printed, corrected


# "With the same o(1)."


def verify_remainder(data: Data) -> str | None:
    """Confirm that the imbalance exceeds (G − 1)·s + r although the gap is s + r."""
    loads, size = data["loads"], data["size"]
    if len(loads) < 3 or min(loads) < 0 or size < 1:
        return None
    rest = gap(loads) - size
    if rest < 1 or imbalance(loads) <= (len(loads) - 1) * size + rest:
        return None
    return (
        f"loads {loads}: the gap is {size} + {rest}, the imbalance {imbalance(loads)} > "
        f"{len(loads) - 1}·{size} + {rest}"
    )


@CLAIMS.step(
    "balance.theorem2-remainder",
    Mutation("two workers", workers=(2,)),
    Mutation("half the bound in the correction", factor=2),
    defect=Defect.FORMULA,
    verify=verify_remainder,
)
def _remainder_check(
    context: Context, *, workers: Sequence[int] = (2, 3), factor: int = 1
) -> Outcome:
    """The remainder of the imbalance.

    Source: BF-IO paper, proof of Theorem 2 (appendix C.2), part 3
    Statement: As D ≤ s_max/p + o(1) on average, the average imbalance is at most (G − 1)·s_max/p +
        o(1), "with the same" o(1).
    Formula: Imb ≤ (G − 1)·D, D ≤ s_max/p + r  ⇒  Imb ≤ (G − 1)·s_max/p + r
    Assumes: r > 0
    Summary: One worker above all others has Imb = (G − 1)·D.
    Correction: (G − 1)·(s_max/p + o(1)). The ratio divides by G − 1, so nothing else changes; and
        Lemma 4's remainder, of order log(GB)/(G²B) and less, vanishes even so.
    """
    largest = context.choose(4, 6, 8)
    cases: list[Data] = [
        {"loads": list(loads), "size": size}
        for G in workers
        for loads in product(range(largest + 1), repeat=G)
        for size in range(1, largest)
        if gap(loads) > size
    ]
    domain = Domain(
        f"all loads up to {largest} of {' and '.join(map(str, workers))} workers", cases
    )
    printed = domain.refute("D = s + r implies Imb ≤ (G − 1)·s + r", verify_remainder)
    corrected = domain.examine(
        "D = s + r implies Imb ≤ (G − 1)·(s + r)",
        lambda case: (
            factor * imbalance(case["loads"]) <= (len(case["loads"]) - 1) * gap(case["loads"])
        ),
    )
    return printed, corrected
