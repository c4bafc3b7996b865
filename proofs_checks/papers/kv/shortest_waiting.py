"""Proof of Lemma 5.6: the shortest waiting request."""

from fractions import Fraction
from itertools import product

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.exact_laws import gathered
from proofs_checks.papers.kv.arrivals import ARRIVALS
from proofs_checks.papers.kv.model import Jobs, algorithm
from proofs_checks.search import examine, refute

CLAIMS = Claims()


# The shortest waiting request.
def waiting_law(
    memory: int, longest: int, per_round: int, now: int
) -> dict[tuple[int, int], Fraction]:
    """Return the joint law of ``|R(t)|`` and ``o_min`` under Algorithm 2, by all output sequences.

    Prompts of 1, outputs uniform on 1..``longest``, ``per_round`` arrivals in each round.
    """
    arrivals = tuple(r for r in range(now + 1) for _ in range(per_round))
    share = Fraction(1, longest ** len(arrivals))

    def number_and_shortest(outputs: tuple[int, ...]) -> tuple[int, int]:
        data = Jobs(memory, arrivals, (1,) * len(arrivals), tuple(o + 1 for o in outputs))
        waiting = [o for o, p in zip(outputs, algorithm(data), strict=True) if p >= now]
        return len(waiting), min(waiting)

    sequences = product(range(1, longest + 1), repeat=len(arrivals))
    return gathered((number_and_shortest(outputs), share) for outputs in sequences)


def formula_fails(law: dict[tuple[int, int], Fraction], longest: int) -> str | None:
    """Compare ``Pr(o_min ≤ x)`` given ``|R|`` with ``1 − (1 − F(x))^|R|``."""
    for size in sorted({r for r, _ in law}):
        total = sum(p for (r, _), p in law.items() if r == size)
        for x in range(1, longest):
            share = (
                sum((p for (r, o), p in law.items() if r == size and o <= x), Fraction(0)) / total
            )
            formula = 1 - (1 - Fraction(x, longest)) ** size
            if share != formula:
                return f"|R| = {size}: Pr(o_min ≤ {x}) = {share}, the formula gives {formula}"
    return None


def verify_minimum(data: Data) -> str | None:
    """Compute the law of the shortest waiting output and compare it with the formula."""
    memory, longest, per_round, now = (
        data[key] for key in ("memory", "longest", "per_round", "now")
    )
    if not 2 <= longest < memory or per_round < 1 or now < 0:
        return None
    if longest ** (per_round * (now + 1)) > 1000:
        return None
    why = formula_fails(waiting_law(memory, longest, per_round, now), longest)
    if why is None:
        return None
    return (
        f"convention A, M = {memory}, s = 1, {per_round} arrivals a round, outputs uniform on "
        f"1..{longest}, t = {now}: given {why}"
    )


@CLAIMS.step(
    "kv.lemma5.6-minimum",
    Mutation("round 0 only, when all are fresh", nows=(0,)),
    Mutation("one draw more in the correction", shift=1),
    hypotheses=ARRIVALS,
    defect=Defect.SENTENCE,
    verify=verify_minimum,
)
def _minimum_check(
    context: Context, *, nows: tuple[int, ...] = (0, 1, 2), shift: int = 0
) -> Outcome:
    """The shortest waiting request.

    Source: KV-cache paper, proof of Lemma 5.6 (appendix B.4)
    Statement: The shortest of the waiting requests R(t) has output at most x with probability 1 −
        (1 − F(x))^{|R(t)|}.
    Formula: Pr(o_min^{(t)} ≤ x) = 1 − (1 − F(x))^{|R(t)|}
    Summary: Algorithm 2 takes the shortest first, so those left over are longer than fresh draws.
    Reading: given |R(t)|.
    Correction: It holds for independent draws, so in the first round. Those that Algorithm 2
        leaves over are longer; where short ones are served as they come, the shortest does not get
        shorter as the queue grows.
    """
    largest = context.choose(5, 8, 12)
    cases = [
        {"memory": m, "longest": k, "per_round": a, "now": t}
        for m, k, a, t in product(range(3, largest), (2, 3), (1, 2), nows)
        if k < m and k ** (a * (t + 1)) <= context.choose(100, 1000, 1000)
    ]

    def independent(case: tuple[int, int]) -> bool:
        longest, size = case
        draws = list(product(range(1, longest + 1), repeat=size))
        law = {
            (size + shift, o): Fraction(sum(min(d) == o for d in draws), len(draws))
            for o in range(1, longest + 1)
        }
        return formula_fails(law, longest) is None

    printed = refute(
        "Pr(o_min ≤ x) = 1 − (1 − F(x))^{|R|} for R(t) of Algorithm 2",
        "small M, all output sequences of the first rounds",
        cases,
        verify_minimum,
    )
    corrected = examine(
        "the same for |R| independent draws",
        "up to 4 draws from 1..4, enumerated",
        product(range(2, 5), range(1, 5)),
        independent,
    )
    return printed, corrected
