"""The rules by which the experiments of section 6 set their thresholds."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate
from math import floor

from formulations.thresholds import (
    BatchRule,
    batch_limit_thresholds,
    drift_exponent,
)
from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Data, Evidence
from proofs_checks.papers.fluid.cases import Case, all_cases, random_cases
from proofs_checks.papers.fluid.thresholds import meets_condition9
from proofs_checks.search import corrected_evidence, examine


def _longest_fails(case: Case) -> bool:
    """Whether the rule of section 6.1 breaks (9) for the longest class whatever B is.

    With ``n_j = B·λ_j/(Λ·(l'_j + 1))`` it asks ``d0 + d1·B·X <= B/(Λ·(l' + 1))``.
    """
    longest = max(kind.iterations for kind in case.classes)
    needed = sum(
        kind.rate * kind.work * Fraction(longest, kind.iterations) for kind in case.classes
    )
    return case.d1 * needed >= 1


def _suits(case: Case, rule: BatchRule) -> bool:
    """Whether some limit makes the rule's real thresholds meet (9)."""
    limit = 1
    while limit < 10**12:
        thresholds = batch_limit_thresholds(case.classes, limit, rule)
        total = sum(n * k.iterations for n, k in zip(thresholds, case.classes, strict=True))
        if total != limit:
            return False
        if meets_condition9(case.classes, case.worker(), thresholds):
            return True
        limit *= 4
    return False


def verify_section61(data: Data) -> str | None:
    """Confirm that a stable case has no limit with which the rule meets (9)."""
    case = Case.of(data)
    if case is None or not _longest_fails(case):
        return None
    return (
        f"the load is {float(case.d1 * case.work_rate):.3f} < 1, but no batch-size limit gives "
        "the longest class a threshold that meets (9)"
    )


def _section61_check(
    context: Context,
    *,
    printed: BatchRule = BatchRule.PRINTED,
    corrected: BatchRule = BatchRule.BALANCED,
) -> Evidence:
    cases = [
        *all_cases(1, context.choose(2, 3, 4), 2),
        *random_cases(context.rng, context.choose(10, 300, 3000)),
    ]
    made = "every pair of small classes at three loads, random stable cases; limits 1, 4, 16, ..."
    return corrected_evidence(
        examine("some limit B meets (9)", made, cases, lambda c: _suits(c, printed)),
        examine("some limit B meets (9)", made, cases, lambda c: _suits(c, corrected)),
        verify_section61,
        lambda case: case.data,
        "The printed rule gives each class n_j/λ_j in inverse proportion to its stages, while "
        "(9) asks the same of all: the longest class starves first.",
    )


def drifts(rates: Sequence[int], thresholds: Sequence[int]) -> bool:
    """Tell whether the second part of (10) holds: ``n_{i+1}/n_i > Λ_{i+1}/Λ_i``."""
    reach = suffix_sums(rates)
    return all(
        thresholds[i + 1] * reach[i] > thresholds[i] * reach[i + 1] for i in range(len(rates) - 1)
    )


def suffix_sums(rates: Sequence[int]) -> list[int]:
    """``Λ_1 .. Λ_m``."""
    return list(accumulate(reversed(rates)))[::-1]


def verify_section62(data: Data) -> str | None:
    """Confirm that thresholds in the ratio of the segments' rates break (10)."""
    rates = data["rates"]
    if len(rates) < 2 or min(rates) < 1 or drifts(rates, suffix_sums(rates)):
        return None
    reach = suffix_sums(rates)
    exponent = drift_exponent(reach[0], reach[1], Fraction(reach[1], reach[0]))
    return (
        f"thresholds {reach}: n_2/n_1 = {Fraction(reach[1], reach[0])} = p_1, not more; θ_2 = "
        f"{exponent:g} and (12) is infinite"
    )


def _section62_check(context: Context, *, more: int = 1, printed_more: int = 0) -> Evidence:
    rng = context.rng
    published = [[20, 40, 80, 160], [23, 11, 8, 7, 6, 4, 3, 2, 1, 1]]
    drawn = [
        rng.integers(1, 50, rng.integers(2, 9)).tolist()
        for _ in range(context.choose(30, 300, 3000))
    ]

    def raised(rates: Sequence[int], extra: int) -> list[int]:
        reach = suffix_sums(rates)
        found = [reach[0]]
        for i in range(1, len(reach)):
            found.append(
                max(reach[i], floor(Fraction(found[-1] * reach[i], reach[i - 1])) + extra)
            )
        return found

    made = "the paper's two lists of rates (20:40:80:160 and 23:11:...:1) and random ones"
    return corrected_evidence(
        examine(
            "n_i in the ratio of Λ_i",
            made,
            published + drawn,
            lambda r: drifts(r, raised(r, printed_more)),
        ),
        examine(
            "n_{i+1} = ⌊p_i n_i⌋ + 1",
            made,
            published + drawn,
            lambda r: drifts(r, raised(r, more)),
        ),
        verify_section62,
        lambda rates: {"rates": rates},
        "15:14:12:8 and 66:43:32:24:17:11:7:4:2:1 are the segments' rates exactly, so that the "
        "queues between segments have no drift.",
    )


_STABLE = ("d1·A < 1",)


CLAIMS = (
    Claim(
        id="fluid.section61",
        source="WAIT paper, section 6.1",
        title="Thresholds from a batch-size limit",
        statement="n_j = B·ρ_j/(l'_j + 1) with ρ_j = λ_j/Σλ aligns with Algorithm 1, whose "
        "thresholds satisfy (9).",
        formula="n_j = B·(λ_j/Σλ)/(l'_j+1) satisfies (9) for some B",
        hypotheses=_STABLE,
        kind=Kind.COUNTEREXAMPLE,
        check=_section61_check,
        mutations=(
            Mutation(
                "the printed rule as correction",
                partial(_section61_check, corrected=BatchRule.PRINTED),
            ),
            Mutation(
                "the balanced rule as printed",
                partial(_section61_check, printed=BatchRule.BALANCED),
            ),
        ),
        correction="n_j = B·λ_j/Σ_i λ_i(l'_i + 1), which also fills B prompts, satisfies (9) "
        "for large B whenever the load is below 1.",
        reading="real thresholds and the most favourable B.",
        verify=verify_section61,
    ),
    Claim(
        id="fluid.section62",
        source="WAIT paper, section 6.2",
        title="Thresholds of the Nested WAIT experiments",
        statement="Thresholds proportional to the arrival rates of the segments, 15:14:12:8 and "
        "66:43:...:1, follow (10).",
        formula="n_i ∝ Λ_i  ⇒  n_{i+1}/n_i > p_i",
        hypotheses=("rates are positive",),
        kind=Kind.COUNTEREXAMPLE,
        check=_section62_check,
        mutations=(
            Mutation("nothing added in the correction", partial(_section62_check, more=0)),
            Mutation("one added as printed", partial(_section62_check, printed_more=1)),
        ),
        correction="They meet it with equality: no drift, θ = 0, and no finite memory by "
        "Theorem 2. One more than p_i·n_i, rounded down, is the least that follows (10).",
        verify=verify_section62,
    ),
)
