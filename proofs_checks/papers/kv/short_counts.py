"""Remark 6.3: how the ratio of Theorem 6.2 depends on the number of short requests."""

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv.adversary import ADVERSARY, Attack
from proofs_checks.search import Domain, examine, refute

CLAIMS = Claims()


def attack(steps: int, prompt: int, num: int) -> Attack:
    """Return the instance for a long request started at 0; ``ε = 1/steps``, ``s = εM``."""
    return Attack(steps * prompt, prompt, num, steps * prompt - 2 * prompt)


def ratio(steps: int, prompt: int, num: int) -> Fraction:
    """Return what keeping the long request costs over what waiting with it does.

    Nothing fits beside the long request after the release, so both are sums.
    """
    case = attack(steps, prompt, num)
    long_output, short = case.memory - prompt, case.batches(num)
    keep = long_output + num * prompt + short
    wait = case.release - (-num // case.together) + long_output + short
    return Fraction(keep, min(keep, wait))


# The ends.
_READING = (
    "the rule of section 3 (C), Algorithm 2, which starts at once and is the best answer here: "
    "after the release no short request fits beside the long one, paused or not."
)


@CLAIMS.remark(
    "kv.remark6.3",
    Mutation("M/5 for far more", far=Fraction(1, 5)),
    Mutation("√M for far fewer", few=isqrt),
    hypotheses=ADVERSARY,
    reading="the remark gives no figures; too few: one; too many: 1000·M, for which 1.01 is "
    f"near enough to 1; {_READING}",
)
def _ends_check(
    context: Context, *, far: Fraction = Fraction(1000), few: Callable[[int], int] = lambda M: 1
) -> Outcome:
    """Too few or too many short requests.

    Source: KV-cache paper, Remark 6.3 (section 6)
    Statement: If the number of short requests is too small, the total delay is negligible; if it
        is too large, the delay is dominated by the processing time and the ratio goes to 1.
    Formula: ratio(1) ≤ 1 + 2ε,  ratio(m) → 1 as m/M → ∞
    Summary: Both ends are as the remark says. How few is too few is another matter: with √M of
        them the ratio is large (kv.remark6.3-balance, kv.square-root).
    """
    sizes = context.choose((5, 10, 100), (5, 10, 20, 50, 100), range(3, 201))

    def negligible(steps: int) -> bool:
        # At ε = 1/3 the long request alone takes 2s rounds of the s that the short one waits.
        return ratio(steps, 10**6, few(steps * 10**6)) <= 1 + Fraction(2, steps)

    def near_one(steps: int) -> bool:
        return ratio(steps, 10**6, int(far * steps * 10**6)) <= Fraction(101, 100)

    def by_attack(steps: int) -> bool:
        cases = [attack(steps, prompt, num) for prompt in (2, 7) for num in (1, 3, 20)]
        return all(
            ratio(steps, case.prompt, case.num) == Fraction(case.with_long_at(0), case.best())
            for case in cases
        )

    made = f"1/ε in {list(sizes)}"
    domain = Domain(f"{made}, M = 10^6/ε", sizes)
    least = domain.examine("one short request: ratio at most 1 + 2ε", negligible)
    many = domain.examine(f"{far}·M short requests: ratio at most 1.01", near_one)
    sums = examine("the sums are those of the runs", f"{made}, small M", sizes, by_attack)
    return least, many, sums


# Between them.
def verify_balance(data: Data) -> str | None:
    """Compare the ratio at εM with that at half and twice the number."""
    steps, half = data["steps"], data["half"]
    if steps < 3 or half < 1:
        return None
    less, same, more = (ratio(steps, 2 * half, half * times) for times in (1, 2, 4))
    if 2 * less < 3 * same or 2 * more < same:
        return None
    return (
        f"ε = 1/{steps}, M = {2 * half * steps}: with εM/2, εM, 2εM = {half}, {2 * half}, "
        f"{4 * half} short requests the ratio is "
        f"{', '.join(f'{float(value):.3f}' for value in (less, same, more))}"
    )


@CLAIMS.remark(
    "kv.remark6.3-balance",
    Mutation("1/x² in the correction", power=2),
    hypotheses=(*ADVERSARY, "M large, ε < 1/2"),
    defect=Defect.SENTENCE,
    reading="the remark gives no figure for `precisely balanced`; the thresholds are ours: "
    "refuted where half the number gives at least 3/2 of the ratio, and twice the number at "
    f"least half of it. {_READING[0].upper()}{_READING[1:]}",
    verify=verify_balance,
)
def _balance_check(
    context: Context, *, largest: Fraction = Fraction(10), power: int = 1
) -> Outcome:
    """Precise balance of the number.

    Source: KV-cache paper, Remark 6.3 (section 6)
    Statement: The choice of εM is crucial, as the number of short requests must be precisely
        balanced: with too few of them the long one can go first at a negligible total delay, as
        only few are put off.
    Formula: ratio(m) is large for m ≈ εM only
    Summary: The fewer short requests, the greater the ratio, down to some √M of them; there it
        grows without bound in M even for a fixed ε (kv.square-root).
    Correction: The number matters at its ends (kv.remark6.3), not in between. For M large, with
        x·εM short requests the ratio tends to 1 + 2(1/ε − 1)/x: it is of order 1/ε for every fixed
        x, and greater for fewer short requests.
    """
    cases = [
        {"steps": n, "half": h}
        for n in range(5, context.choose(12, 40, 200))
        for h in (10, 1000, 10**5)
    ]
    shares = [Fraction(k, 10) for k in (1, 2, 5, 10, 20, 50)] + [largest]

    def formula(case: tuple[int, Fraction]) -> bool:
        steps, share = case
        exact = ratio(steps, 10**10, int(share * 10**10))
        expected = 1 + Fraction(2 * (steps - 1)) / share**power
        return abs(exact - expected) <= expected / 50

    printed = refute(
        "at εM/2 the ratio is below 3/2, or at 2εM below 1/2, of that at εM",
        "1/ε = 5, 6, ..., M = 2h/ε for h = 10, 1000, 10^5",
        cases,
        verify_balance,
    )
    corrected = examine(
        "with x·εM short requests the ratio is 1 + 2(1/ε − 1)/x within 2 %",
        f"the same ε, x = {', '.join(map(str, shares))}, M = 10^10/ε",
        [(n, share) for n in range(5, context.choose(12, 40, 200)) for share in shares],
        formula,
    )
    return printed, corrected
