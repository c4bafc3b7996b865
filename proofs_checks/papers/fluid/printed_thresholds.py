"""The thresholds that sections 6.1 and 6.2 print or prescribe, against (9) and (10)."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import floor

from formulations.thresholds import (
    BatchRule,
    batch_limit_thresholds,
    drift_exponent,
)
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.fluid.cases import Case, all_cases, random_cases
from proofs_checks.papers.fluid.thresholds import STABLE, meets_condition9
from proofs_checks.search import Domain, examine, refute

CLAIMS = Claims()


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


@CLAIMS.remark(
    "fluid.section61",
    Mutation("the printed rule as correction", corrected=BatchRule.PRINTED),
    Mutation("the balanced rule as printed", printed=BatchRule.BALANCED),
    hypotheses=STABLE,
    defect=Defect.FORMULA,
    verify=verify_section61,
)
def _section61_check(
    context: Context,
    *,
    printed: BatchRule = BatchRule.PRINTED,
    corrected: BatchRule = BatchRule.BALANCED,
) -> Outcome:
    """Thresholds from a batch-size limit.

    Source: fluid paper, section 6.1
    Statement: n_j = B·ρ_j/(l'_j + 1) with ρ_j = λ_j/Σλ aligns with Algorithm 1, whose thresholds
        satisfy (9).
    Formula: n_j = B·(λ_j/Σλ)/(l'_j+1) satisfies (9) for some B
    Summary: The printed rule gives each class n_j/λ_j in inverse proportion to its stages, while
        (9) asks the same of all: the longest class starves first.
    Reading: real thresholds and the most favourable B.
    Correction: n_j = B·λ_j/Σ_i λ_i(l'_i + 1), which also fills B prompts, satisfies (9) for large
        B whenever the load is below 1.
    """
    longest = context.choose(2, 3, 4)
    cases = [
        *all_cases(1, longest, 2),
        *random_cases(context.rng, context.choose(10, 300, 3000)),
    ]
    domain = Domain(
        f"every case of 1 or 2 classes with rate 1, prompts 1 and 2, outputs up to {longest}, at "
        "three loads, random stable cases; limits 1, 4, 16, ...",
        cases,
    )
    as_printed = domain.refute(
        "some limit B meets (9)",
        verify_section61,
        lambda case: case.data,
        holds=lambda c: _suits(c, printed),
    )
    as_corrected = domain.examine("some limit B meets (9)", lambda c: _suits(c, corrected))
    return as_printed, as_corrected


#: Rates of the ten bins and the thresholds that "follow (10)".
_PRINTED = [([23, 11, 8, 7, 6, 4, 3, 2, 1, 1], [66, 43, 32, 24, 17, 11, 7, 4, 2, 1])]


def drifts_before(rates: Sequence[int], thresholds: Sequence[int], i: int) -> bool:
    """Whether ``n_{i+1}/n_i > p_i`` (i from 1 on)."""
    reach = suffix_sums(rates)
    return thresholds[i] * reach[i - 1] > thresholds[i - 1] * reach[i]


def drifts(rates: Sequence[int], thresholds: Sequence[int]) -> bool:
    """Tell whether the second part of (10) holds: ``n_{i+1}/n_i > Λ_{i+1}/Λ_i``."""
    return all(drifts_before(rates, thresholds, i) for i in range(1, len(rates)))


def suffix_sums(rates: Sequence[int]) -> list[int]:
    """``Λ_1 .. Λ_m``."""
    return list(accumulate(reversed(rates)))[::-1]


def verify_section62(data: Data) -> str | None:
    """Confirm that the printed thresholds are in the ratio of the rates and break (10)."""
    rates, thresholds = data["rates"], data["thresholds"]
    if (rates, thresholds) not in _PRINTED or drifts(rates, thresholds):
        return None
    i = next(i for i in range(1, len(rates)) if not drifts_before(rates, thresholds, i))
    share = Fraction(thresholds[i], thresholds[i - 1])
    exponent = drift_exponent(thresholds[i - 1], thresholds[i], share)
    return (
        f"rates {':'.join(map(str, rates))}, thresholds {':'.join(map(str, thresholds))}: "
        f"n_{i + 1}/n_{i} = {share} = p_{i}, not more, at any scale; θ_{i + 1} = {exponent:g}, "
        "and (12) is infinite"
    )


def raised(rates: Sequence[int], extra: int) -> list[int]:
    """Return ``n_1 = Λ_1`` and the least ``n_{i+1} >= p_i n_i``, or one more than it."""
    reach = suffix_sums(rates)
    thresholds = [reach[0]]
    for before, after in pairwise(reach):
        least = Fraction(thresholds[-1] * after, before)
        thresholds.append(max(after, floor(least) + extra))
    return thresholds


@CLAIMS.experiment(
    "fluid.section62",
    Mutation("nothing added in the correction", more=0),
    Mutation("one added as printed", raise_printed=1),
    defect=Defect.FORMULA,
    verify=verify_section62,
)
def _section62_check(context: Context, *, more: int = 1, raise_printed: int = 0) -> Outcome:
    """Thresholds of the Nested WAIT experiments.

    Source: fluid paper, section 6.2
    Statement: With rates proportional to 23:11:8:7:6:4:3:2:1:1, thresholds in the ratio
        66:43:32:24:17:11:7:4:2:1 follow (10).
    Formula: n = 66:43:32:24:17:11:7:4:2:1  ⇒  n_{i+1}/n_i > p_i
    Assumes: the rates of the ten bins of section 6.2
    Summary: 66:43:32:24:17:11:7:4:2:1 are the segments' rates exactly, so that the queues between
        segments have no drift. (So are 15:14:12:8 at 20:40:80:160, of which (10) is not claimed.)
    Reading: thresholds that are exactly in this ratio; their scale, which rounding would blur, is
        not printed.
    Correction: They meet it with equality: no drift, θ = 0, and no finite memory by Theorem 2. One
        more than p_i·n_i, rounded down, is the least that follows (10).
    """
    rng = context.rng
    drawn = [
        rng.integers(1, 50, rng.integers(2, 9)).tolist()
        for _ in range(context.choose(30, 300, 3000))
    ]
    published = [rates for rates, _ in _PRINTED]
    printed = refute(
        "66:43:32:24:17:11:7:4:2:1 at rates 23:11:...:1",
        "the paper's thresholds; they are the segments' rates",
        _PRINTED,
        verify_section62,
        lambda case: {"rates": case[0], "thresholds": case[1]},
        holds=lambda case: drifts(
            case[0], raised(case[0], raise_printed) if raise_printed else case[1]
        ),
        applies=lambda case: case[1] == suffix_sums(case[0]),
    )
    corrected = examine(
        "n_{i+1} = ⌊p_i n_i⌋ + 1", "the paper's rates and random ones", published + drawn,
        lambda rates: drifts(rates, raised(rates, more)),
    )  # fmt: skip
    return printed, corrected
