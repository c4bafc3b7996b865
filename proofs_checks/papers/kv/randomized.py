"""The proof of Theorem 6.4: Yao's inequality, the distribution, the memory left."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv.adversary import Attack
from proofs_checks.search import examine, refute

CLAIMS = Claims()


# Yao's inequality.
def _mixtures(size: int, parts: int) -> Iterator[tuple[Fraction, ...]]:
    """Yield all laws on ``size`` points with chances in multiples of ``1/parts``."""
    for counts in product(range(parts + 1), repeat=size - 1):
        if sum(counts) <= parts:
            yield tuple(Fraction(c, parts) for c in (*counts, parts - sum(counts)))


@CLAIMS.step("kv.eq8", Mutation("the worst deterministic one on the right", pick="worst"))
def _yao_check(context: Context, *, pick: str = "least") -> Outcome:
    """Yao's inequality for ratios.

    Source: KV-cache paper, proof of Theorem 6.4 (section 6), Equation (8)
    Statement: The worst ratio of any randomized algorithm is at least the least ratio of
        expectations of a deterministic one under any law of instances.
    Formula: inf_R sup_I E[TEL]/OPT ≥ sup_D inf_A E_D[TEL]/E_D[OPT]
    Assumes: finitely many algorithms and instances
    Summary: Exact fractions.
    """
    size, parts = context.choose((2, 4), (3, 6), (3, 12))
    games = []
    for _ in range(context.choose(30, 100, 300)):
        best = context.rng.integers(1, 10, size)
        rows = best + context.rng.integers(0, 12, (size, size))
        games.append((rows.tolist(), best.tolist()))

    def inequality(game: tuple[list[list[int]], list[int]]) -> bool:
        rows, best = game
        laws = list(_mixtures(size, parts))
        left = min(_worst_instance(rows, best, mixture) for mixture in laws)
        right = max(_by_law(rows, best, law, pick) for law in laws)
        return left >= right

    return examine(
        "worst ratio of every mixture of algorithms ≥ least ratio of expectations under every law",
        f"random cost tables, {size} algorithms and instances, chances in multiples of 1/{parts}",
        games,
        inequality,
    )


def _worst_instance(
    rows: Sequence[Sequence[int]], best: Sequence[int], mixture: Sequence[Fraction]
) -> Fraction:
    return max(
        sum((chance * row[i] for chance, row in zip(mixture, rows, strict=True)), Fraction(0))
        / opt
        for i, opt in enumerate(best)
    )


def _by_law(
    rows: Sequence[Sequence[int]], best: Sequence[int], law: Sequence[Fraction], pick: str
) -> Fraction:
    mean = sum((p * opt for p, opt in zip(law, best, strict=True)), Fraction(0))
    ratios = [
        sum((p * c for p, c in zip(law, row, strict=True)), Fraction(0)) / mean for row in rows
    ]
    return min(ratios) if pick == "least" else max(ratios)


# The distribution.
def printed_values(steps: int, constant: int) -> list[Fraction]:
    """Return ``k = 1 − 2ε, 1 − ε, ..., c + 1 − 2ε`` for ε = 1/steps."""
    epsilon = Fraction(1, steps)
    last = constant + 1 - 2 * epsilon
    values = [1 - 2 * epsilon]
    while values[-1] < last:
        values.append(values[-1] + epsilon)
    return values


def hit(steps: int, start: Fraction) -> list[Fraction]:
    """Return ``k′ + ε, k′ + 2ε, ..., k′ + (1 − 2ε)``."""
    return [start + Fraction(j, steps) for j in range(1, steps - 1)]


def law_cases(context: Context) -> list[Data]:
    """Return values of 1/ε and c."""
    steps, constants = context.choose((8, 4), (16, 6), (30, 8))
    return [{"steps": n, "constant": c} for n in range(3, steps) for c in range(1, constants)]


def read_law(data: Data) -> tuple[int, int]:
    """Read 1/ε and c."""
    if data["steps"] < 3 or data["constant"] < 1:
        raise ValueError("no distribution")
    return data["steps"], data["constant"]


def verify_distribution(data: Data) -> str | None:
    """Add up the printed probabilities."""
    steps, constant = read_law(data)
    total = len(printed_values(steps, constant)) * Fraction(1, steps * constant)
    return None if total == 1 else f"ε = 1/{steps}, c = {constant}: they add up to {total}"


_LAW = ("ε = 1/3, 1/4, ...", "c a positive integer")


@CLAIMS.step(
    "kv.theorem6.4-distribution",
    Mutation("ε/c in the correction", extra=0),
    hypotheses=_LAW,
    defect=Defect.FORMULA,
    verify=verify_distribution,
)
def _distribution_check(context: Context, *, extra: int = 1) -> Outcome:
    """The distribution of instances.

    Source: KV-cache paper, proof of Theorem 6.4 (section 6)
    Statement: Instance I_k comes with probability ε/c for k = 1 − 2ε, 1 − ε, ..., c + 1 − 2ε; this
        is a probability distribution.
    Formula: Σ_k ε/c = 1
    Summary: Both ends count: there are c/ε + 1 values of k.
    Correction: There are c/ε + 1 values, so each needs probability ε/(c + ε).
    """
    cases = law_cases(context)

    def one(case: Data) -> bool:
        steps, constant = read_law(case)
        chance = Fraction(1, steps * constant + extra)
        return len(printed_values(steps, constant)) * chance == 1

    printed = refute(
        "ε/c for each k adds up to 1",
        "ε = 1/3, 1/4, ..., c = 1, 2, ...",
        cases,
        verify_distribution,
    )
    corrected = examine("ε/(c + ε) for each k does", "the same", cases, one)
    return printed, corrected


def verify_conditional(data: Data) -> str | None:
    """Count the instances that hit a start k′, and weigh them with ε/c."""
    steps, constant = read_law(data)
    start = printed_values(steps, constant)[0]
    chance = len(hit(steps, start)) * Fraction(1, steps * constant)
    if chance == Fraction(1, constant):
        return None
    return f"ε = 1/{steps}, c = {constant}: {len(hit(steps, start))} values, probability {chance}"


@CLAIMS.step(
    "kv.theorem6.4-conditional",
    Mutation("one value missing only", missing=1),
    hypotheses=_LAW,
    defect=Defect.FORMULA,
    verify=verify_conditional,
)
def _conditional_check(context: Context, *, missing: int = 2) -> Outcome:
    """Probability of a bad instance.

    Source: KV-cache paper, proof of Theorem 6.4 (section 6)
    Statement: One of the instances k = k′ + ε, ..., k′ + (1 − 2ε) comes with probability
        (1/ε)·(ε/c) = 1/c.
    Formula: Pr(k ∈ {k′+ε, …, k′+1−2ε}) = 1/c
    Summary: There are 1/ε − 2 values, not 1/ε; for the last k′ fewer, since k ends at c + 1 − 2ε.
    Correction: (1 − 2ε)/c, and less for k′ near the end.
    """
    cases = law_cases(context)

    def corrected(case: Data) -> bool:
        steps, constant = read_law(case)
        values = printed_values(steps, constant)
        inside = [start for start in values if hit(steps, start)[-1] <= values[-1]]
        weight = Fraction(steps - missing, steps * constant)
        return all(len(hit(steps, k)) * Fraction(1, steps * constant) == weight for k in inside)

    printed = refute(
        "one of k = k′ + ε..k′ + 1 − 2ε comes with probability 1/c",
        "ε = 1/3, 1/4, ..., c = 1, 2, ...",
        cases,
        verify_conditional,
    )
    as_corrected = examine(
        "with probability (1 − 2ε)/c",
        "the same, every k′ with all of them in range",
        cases,
        corrected,
    )
    return printed, as_corrected


# The memory that is left.
def verify_room(data: Data) -> str | None:
    """Compute what the long request leaves at the release and compare with (k − k′)M."""
    steps, prompt, later = data["steps"], data["prompt"], data["later"]
    if steps < 3 or prompt < 1 or not 1 <= later <= steps - 2:
        return None
    memory, age = steps * prompt, later * prompt
    room = memory - (prompt + age)
    if room == age:
        return None
    return (
        f"ε = 1/{steps}, M = {memory}, k − k′ = {later}·ε: {room} tokens are left, "
        f"(k − k′)M = {age}"
    )


@CLAIMS.step(
    "kv.theorem6.4-room",
    Mutation("without the prompt", prompts=0),
    defect=Defect.MISPRINT,
    verify=verify_room,
)
def _room_check(context: Context, *, prompts: int = 1) -> Outcome:
    """Memory left beside the long request.

    Source: KV-cache paper, proof of Theorem 6.4 (section 6)
    Statement: At time kM the remaining memory is (k − k′)M.
    Formula: M − (s + (k − k′)M) = (k − k′)M
    Assumes: s = εM; the long request started at k′M
    Summary: (k − k′)M is what it has generated. The later steps of the proof use (k′ + 1 − k)M.
    Correction: (k′ + 1 − k)M − s. The next paragraphs of the proof have (k′ + 1 − k)M, which is a
        safe bound, so that is what is meant.
    """
    cases = [
        {"steps": n, "prompt": q, "later": j}
        for n in range(3, context.choose(9, 30, 80))
        for q in (1, 4)
        for j in range(1, n - 1)
    ]

    def corrected(case: Data) -> bool:
        steps, prompt, later = case["steps"], case["prompt"], case["later"]
        problem = Attack(steps * prompt, prompt, 0, 0).problem()
        held: int = problem.prompt.tolist()[0] + later * prompt
        left: int = (steps - later - prompts) * prompt
        return problem.memory - held == left

    printed = refute(
        "(k − k′)M tokens are left at kM", "ε = 1/3, 1/4, ..., all k − k′", cases, verify_room
    )
    as_corrected = examine("(k′ + 1 − k)M − s are", "the same", cases, corrected)
    return printed, as_corrected


PROOF = "KV-cache paper, proof of Theorem 6.4 (section 6)"
