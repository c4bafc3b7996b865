"""The costs and the ratio that the proof of Theorem 6.2 prints."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

from bfio.kvcache.lower_bounds import costs_6_2, long_and_short
from formulations.hindsight_latency import Convention, total_latency
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv.model import algorithm, jobs
from proofs_checks.search import Domain, examine

CLAIMS = Claims()


def program_costs(steps: int, prompt: int) -> tuple[int, int, int]:
    """Return the exact costs of keeping, pausing and waiting under the rule of appendix B.1.

    There a short request holds s tokens for one round, so 1/ε run at a time, as the proof has it.
    ``prompt`` must be a multiple of ``steps``.
    """
    memory = steps * prompt
    rounds = prompt // steps
    together = steps * rounds * (rounds + 1) // 2
    # At the release the long request holds (1 − ε)M: one short one still fits, in that round only.
    late = prompt - 1
    full, rest = divmod(late, steps)
    after = steps * full * (full + 1) // 2 + rest * (full + 1)
    keep = memory - prompt + 1 + late * prompt + after
    pause = prompt * (prompt + 1) // 2 + memory
    wait = together + 2 * memory - 3 * prompt + rounds
    return keep, pause, wait


def printed_costs(steps: int, prompt: int) -> tuple[Fraction, Fraction, Fraction]:
    """Return the three printed totals."""
    return costs_6_2(steps * prompt, Fraction(1, steps))


def verify_costs(data: Data) -> str | None:
    """Compare the printed costs with the exact ones; two lower bounds and an equality."""
    steps, multiple = data["steps"], data["multiple"]
    if steps < 3 or multiple < 1:
        return None
    prompt = steps * multiple
    exact, printed = program_costs(steps, prompt), printed_costs(steps, prompt)
    if exact[0] >= printed[0] and exact[1] >= printed[1] and exact[2] == printed[2]:
        return None
    return (
        f"ε = 1/{steps}, M = {steps * prompt}: keeping, pausing, waiting cost {exact}; printed "
        f"are {', '.join(map(str, printed))} (at least, at least, equal)"
    )


def _cost_cases(context: Context) -> Iterator[Data]:
    for steps in range(3, context.choose(8, 20, 60)):
        yield from ({"steps": steps, "multiple": m} for m in (1, 2, 10, 1000))


@CLAIMS.step(
    "kv.theorem6.2-costs",
    Mutation("M/2 in the correction", share=Fraction(1, 2)),
    Mutation("Equation (1) in place of B.1", rule=Convention.CLOSED),
    Mutation("B.1 in place of Equation (1) and section 3", others=(Convention.PRINTED,)),
    defect=Defect.FORMULA,
    verify=verify_costs,
)
def _costs_check(
    context: Context,
    *,
    share: Fraction = Fraction(1),
    rule: Convention = Convention.PRINTED,
    others: Sequence[Convention] = (Convention.CLOSED, Convention.HALF_OPEN),
) -> Outcome:
    """Costs of keeping, pausing, waiting.

    Source: KV-cache paper, proof of Theorem 6.2 (section 6)
    Statement: On the instance, keeping the long request costs at least (ε³/2 + ε²)M² + (1 − ε/2)M,
        pausing it at least ε²M²/2 + (2 − ε/2)M, and waiting with it ε³M²/2 + (2 − 3ε/2)M.
    Formula: TEL(A1) ≥ …, TEL(A2) ≥ …, TEL(A3) = ε³M²/2 + (2 − 3ε/2)M
    Assumes: s = εM; t′ = 0; 1/ε short requests at a time: the rule of appendix B.1
    Summary: One short request still fits in the round of the release; the long one, paused, ends
        at M; after waiting it takes (2 − 3ε)M + ε²M, not (2 − 2ε)M.
    Reading: with 1/ε short requests at a time, as the proof has it, only the rule of appendix B.1
        (B) is left. Under Equation (1) (A) and section 3 (C) keeping costs as much as printed, no
        short request fits beside the paused one, and the equality for waiting fails as well. The
        theorem does not suffer: it rests on the terms in M².
    Correction: Under the rule of B.1 the terms in M² are right, and the totals at most M off.
        Under Equation (1) or section 3 a short request holds εM + 1 tokens, so 1/ε − 1 run at a
        time, and for two rounds under (1): there the first inequality holds.
    """
    cases = list(_cost_cases(context))

    def leading(case: Data) -> bool:
        prompt = case["steps"] * case["multiple"]
        pairs = zip(
            program_costs(case["steps"], prompt), printed_costs(case["steps"], prompt), strict=True
        )
        return all(
            abs(exact - printed) <= share * case["steps"] * prompt for exact, printed in pairs
        )

    def kept(case: Data, convention: Convention) -> int:
        prompt = case["steps"] * case["multiple"]
        memory = case["steps"] * prompt
        problem = long_and_short(memory, prompt, prompt, memory - 2 * prompt, convention)
        return total_latency(problem, algorithm(jobs(problem)))

    def by_engine(case: Data) -> bool:
        prompt = case["steps"] * case["multiple"]
        return kept(case, rule) == program_costs(case["steps"], prompt)[0]

    def keeps_bound(pair: tuple[Data, Convention]) -> bool:
        case, convention = pair
        printed = printed_costs(case["steps"], case["steps"] * case["multiple"])[0]
        return kept(case, convention) >= printed

    domain = Domain("ε = 1/3, 1/4, ..., M = k/ε² for k = 1, 2, 10, 1000", cases)
    printed = domain.refute("TEL(A1) ≥, TEL(A2) ≥, TEL(A3) = the printed sums", verify_costs)
    corrected = domain.examine("they differ by at most M, so the terms in M² are right", leading)
    small = [c for c in cases if c["multiple"] == 1 and c["steps"] < 8]
    engine = examine("exact cost of keeping = Algorithm 2 under B.1", "k = 1", small, by_engine)
    first = examine(
        "under Equation (1) and section 3 keeping costs as much as printed at least",
        "k = 1, 1/ε below 8, by Algorithm 2",
        list(product(small, others)),
        keeps_bound,
    )
    return printed, corrected, engine, first


def printed_ratio(steps: int, prompt: int) -> Fraction:
    """Return the smaller of the printed costs over the printed bound on the optimum."""
    keep, pause, wait = printed_costs(steps, prompt)
    return min(keep, pause) / wait


def verify_ratio(data: Data) -> str | None:
    """Check that the printed ratio stays below 1/ε however large M is."""
    steps, prompt = data["steps"], data["prompt"]
    if steps < 3 or prompt < 1:
        return None
    ratios = [printed_ratio(steps, prompt * 10**power) for power in range(0, 13, 3)]
    if max(ratios) >= steps:
        return None
    shown = ", ".join(f"{float(ratio):.6f}" for ratio in ratios)
    return (
        f"ε = 1/{steps}, M = {steps * prompt}·10^(0, 3, 6, 9, 12): the ratio is {shown} < {steps}"
    )


@CLAIMS.step(
    "kv.theorem6.2-ratio",
    Mutation("1.01/ε in the correction", goal=Fraction(101, 100)),
    defect=Defect.FORMULA,
    verify=verify_ratio,
)
def _ratio_check(context: Context, *, goal: Fraction = Fraction(99, 100)) -> Outcome:
    """The ratio 1/ε.

    Source: KV-cache paper, end of the proof of Theorem 6.2
    Statement: For M large enough the ratio is at least min{2/ε, 1/ε} = 1/ε.
    Formula: min{TEL(A1), TEL(A2)}/TEL(A3) ≥ 1/ε
    Assumes: the printed formulas; 0 < ε < 1/2
    Summary: It tends to 1/ε from below, which is enough for the theorem.
    Correction: It tends to 1/ε from below as M grows: any smaller number is exceeded.
    """
    cases = [
        {"steps": n, "prompt": q} for n in range(3, context.choose(12, 60, 300)) for q in (1, 10)
    ]
    domain = Domain("ε = 1/3, 1/4, ..., printed formulas", cases)
    printed = domain.refute("the ratio reaches 1/ε for M large", verify_ratio)
    corrected = domain.examine(
        "the ratio exceeds 0.99/ε for M large",
        lambda c: printed_ratio(c["steps"], 10**9) > goal * c["steps"],
    )
    return printed, corrected
