"""Lemma 4, the long-run gap of BF-IO, and where it says something: batch sizes, condition (19)."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import ceil, log
from typing import TypeAlias

from proofs_checks.ample_pool import (
    Admission,
    Cell,
    blind_sizes,
    level_sizes,
    mean_gaps,
    two_sizes,
)
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Evidence, Findings, Outcome, accepted
from proofs_checks.papers.balance.concentration import deviation_at
from proofs_checks.search import examine
from proofs_checks.statistics import Bounded, bounded_mean, mean_estimate, room

CLAIMS = Claims()


TENTHS = (1, 3, 5, 9)


#: A setting, and the pool from which BF-IO's optimum is known in closed form.
Pool: TypeAlias = tuple[Cell, Admission]
_POOLS: dict[Admission, str] = {
    level_sizes: "every size 1..s_max",
    two_sizes: "sizes 1 and s_max",
}


def described(pool: Pool) -> str:
    """Name a setting and its pool."""
    c, admission = pool
    return (
        f"G = {c.workers}, B = {c.slots}, p = {c.completion}, s_max = {c.largest}, drift "
        f"{tuple(c.increments)}, {_POOLS.get(admission, 'independent sizes')} [tokens]"
    )


def pool_estimates(
    context: Context,
    pools: Sequence[Pool],
    share: float,
    effort: tuple[int, int],
    *,
    per_gap: bool = True,
) -> tuple[Bounded, ...]:
    """Estimate the mean gap on each pool, or the mean imbalance.

    Accepted below this share of s_max/p, times G − 1 for the imbalance.
    """
    name, bound = ("gap", "s_max/p") if per_gap else ("imbalance of BF-IO", "(G − 1)·s_max/p")
    estimates = []
    for cell, admission in pools:
        gaps, imbalances = mean_gaps(cell, *effort, context.rng, admission)
        estimates.append(
            bounded_mean(
                f"mean {name}, {described((cell, admission))}",
                gaps if per_gap else imbalances,
                bound if share == 1 else f"{share:g}·{bound}",
                share * (1 if per_gap else cell.workers - 1) * cell.largest / cell.completion,
            )
        )
    return tuple(estimates)


def gap_estimates(
    context: Context, pools: Sequence[Pool], share: float = 1
) -> tuple[Bounded, ...]:
    """Estimate the mean gap on each pool; accepted if below this share of s_max/p."""
    return pool_estimates(context, pools, share, context.choose((10, 40), (30, 200), (60, 1000)))


#: With two sizes the loads are fixed modulo s_max − 1 in a step, which is as hard as it gets.
_PAIRS: tuple[Pool, ...] = (
    (Cell(4, 64, 0.2, 6), level_sizes),
    (Cell(8, 512, 0.2, 11), two_sizes),
    (Cell(8, 64, 0.9, 11), two_sizes),
)
_FCFS: tuple[Pool, ...] = ((Cell(4, 64, 0.2, 6), blind_sizes),)


#: The lemma's conclusion.
AVERAGE = "limsup_K (1/K)·Σ_k E[D(k)] ≤ s_max/p + o(1)"


@CLAIMS.result(
    "balance.lemma4",
    Mutation("FCFS in place of BF-IO", pools=_FCFS),
    Mutation("one slot, far from (19)", pools=((Cell(16, 1, 0.1, 1), level_sizes),)),
    Mutation("half of s_max/p", share=0.5),
    formula=AVERAGE,
    kind=Kind.STATISTICAL,
    proof="lemma4-smax",
)
def _lemma4_check(
    context: Context, *, pools: Sequence[Pool] = _PAIRS, share: float = 1
) -> Outcome:
    """Average gap of BF-IO.

    Source: BF-IO paper, Lemma 4 (appendix C.2)
    Statement: With geometric outputs and an overloaded pool the long-run average of BF-IO's gap is
        at most s_max/p plus a vanishing term.
    Assumes: outputs geometric with p; overloaded pool; B large enough, (19): γBp ≥ 2U_B
    Reading: BF-IO as the minimiser of the gap, as in the paper's proof; for (IO) the proof printed
        here bounds the imbalance and not the gap, if Bp also outweighs (G − 2)(s_max − s_min)
        (own.lemma4-smax): that is all that Theorem 2 needs. Tested where condition (19) is not
        met, at B of practice, on the easiest pools and on the hardest known.
    """
    more: tuple[Pool, ...] = (
        (Cell(16, 72, 0.05, 100), level_sizes),
        (Cell(32, 128, 0.3, 50), level_sizes),
        (Cell(8, 256, 0.2, 21), two_sizes),
    )
    measured = gap_estimates(context, (*pools, *context.choose((), more, more)), share)
    return Findings(
        estimates=tuple(m.estimate for m in measured),
        summary="BF-IO's optimum is computed in closed form, on pools with plenty of every size "
        "and of sizes 1 and s_max only, where loads can be mended in steps of s_max − 1. The gap "
        "stays below the bound at batch sizes of practice, although condition (19) asks for far "
        f"larger ones (own.condition19). {room(measured)} With two sizes it is about s_max for "
        "every p, so the 1/p is not needed (own.lemma4-smax).",
    )


@CLAIMS.step("balance.lemma4-tail", Mutation("1/p in place of 1/p²", power=1), kind=Kind.IDENTITY)
def _tail_check(context: Context, *, power: int = 2) -> Outcome:
    """Excess age of a geometric output.

    Source: BF-IO paper, proof of Lemma 4 (appendix C.2)
    Statement: For a geometric output o the expected sum of (r + 1 − x)₊ over its steps r < o is (1
        − p)^x/p².
    Formula: E[Σ_{r=0}^{o−1} (r + 1 − x)₊] = (1 − p)^x/p²
    Assumes: P(o = k) = p(1 − p)^{k−1}; x ≥ 0 integer
    Summary: An identity.
    """
    terms = context.choose(30, 100, 300)

    def holds(case: tuple[int, int]) -> bool:
        tenths, x = case
        p = Fraction(tenths, 10)
        # E Σ_{r<o} (r+1−x)₊ from the law of o, cut off at R, plus the exact rest.
        last = x + terms
        head = sum(
            (
                p * (1 - p) ** (o - 1) * Fraction((o - x) * (o - x + 1), 2)
                for o in range(x + 1, last + 1)
            ),
            Fraction(0),
        )
        # Given o > R, write o = R + j with j geometric: E[j] = 1/p, E[j²] = (2 − p)/p².
        n = last - x
        rest = (1 - p) ** last * (
            Fraction(n * (n + 1), 2) + (2 * n + 1) / (2 * p) + (2 - p) / (2 * p**2)
        )
        return head + rest == (1 - p) ** x / p**power

    return examine(
        "E Σ_{r<o} (r + 1 − x)₊ = (1 − p)^x/p²",
        "p = 1/10, 3/10, 1/2, 9/10 and x = 0..8; summed in fractions, the tail in closed form",
        product(TENTHS, range(9)),
        holds,
    )


# The bound at a batch size of practice.


@CLAIMS.own(
    "own.lemma4-small-batch",
    Mutation("prompts up to 100", largest=100),
    Mutation("FCFS in place of BF-IO", admission=blind_sizes),
    kind=Kind.STATISTICAL,
    defect=Defect.INFERENCE,
)
def _small_batch_check(
    context: Context, *, largest: int = 10, admission: Admission = level_sizes
) -> Evidence:
    """The bound s_max/p at a batch size of practice.

    Source: BF-IO paper, Lemma 4 without condition (19) (our question)
    Statement: The bound of Lemma 4 does not need its condition (19): on 16 workers of 72 slots,
        with prompts up to 10 and outputs of mean 10, BF-IO's average gap is at most s_max/p.
    Formula: limsup_K (1/K)·Σ_k E[D(k)] ≤ s_max/p at G = 16, B = 72, p = 1/10, s_max = 10
    Assumes: outputs geometric with p = 1/10; a pool with plenty of every size, so overloaded
    Reading: the lemma states (19) as a hypothesis: this is no defect of it, but the question
        whether it can do without. Evaluated at B = 72 and 512.
    Correction: At B = 512 it does hold, far below what (19) asks for (own.condition19). In
        between, what a worker can admit in a step, up to Bp·(s_max − 1) more or less, must
        outweigh the spread of what ends on it, of order √(Bp)/p: s_max·p·√(Bp) must be large.
    """
    replicas, steps = context.choose((8, 80), (30, 300), (60, 2000))
    bound = largest / 0.1
    # One cluster of practice, and one with enough slots to level each step.
    small, large = (
        mean_gaps(Cell(16, B, 0.1, largest), replicas, steps, context.rng, admission)[0]
        for B in (72, 512)
    )
    estimates = (
        mean_estimate(
            "mean gap at B = 72 [tokens]", small,
            f"not the whole interval above s_max/p = {bound:g}", lambda low, high: low <= bound,
        ),
        bounded_mean("mean gap at B = 512 [tokens]", large, "s_max/p", bound).estimate,
    )  # fmt: skip
    return Evidence(
        accepted(estimates[0]),
        accepted(estimates[1]),
        "Where prompts are no longer than outputs, a step's few admissions cannot make up for the "
        "completions of the same step: γBp must outweigh their spread.",
        estimates=estimates,
    )


# Condition (19).


def meets(slots: int, workers: int, p: float, largest: int, increment: int = 0) -> bool:
    """Whether ``γBp ≥ 2U_B``: (19), or (32) with C_2 = 8 for increments up to δ_max."""
    gamma = 1 - (2 * largest - 1) / (4 * largest)
    envelope = largest + ceil(3 * log(workers * slots) / p) + increment
    return gamma * slots * p >= 2 * deviation_at(envelope, workers, slots, p)


def fails_up_to(limit: int, workers: int, largest: int) -> bool:
    """Whether (19) fails for every B in 1..limit and every p in (0, 1).

    For all p, ``γBp ≤ γB`` and ``U_B ≥ 8(s_max + α_B)·α_B``; both grow with B, so that a block of
    B is settled by the ends of it.
    """
    gamma = 1 - (2 * largest - 1) / (4 * largest)
    low = 1
    while low <= limit:
        high = min(limit, low + low // 32)
        alpha = 3 * log(workers * low)
        if gamma * high >= 16 * (largest + alpha) * alpha:
            return False
        low = high + 1
    return True


def sufficient_slots(workers: int, p: float, largest: int) -> int:
    """Return a power of two that meets (19) although its half does not."""
    slots = 1
    while not meets(slots, workers, p, largest):
        slots *= 2
    return slots


@CLAIMS.own("own.condition19", Mutation("B up to 100,000", limit=100_000))
def _condition_check(context: Context, *, limit: int = 20_000) -> Outcome:
    """How large B must be for Lemma 4.

    Source: BF-IO paper, eq. (19) with the constants of Lemma 4 (our evaluation)
    Statement: No batch size up to 20,000 meets condition (19), whatever p, s_max and G ≥ 2.
    Formula: γBp < 2U_B for all B ≤ 20,000
    Assumes: constants as printed in Lemma 4
    Summary: Lemmas 4 and 7 say nothing about batches of 64 to 128: their constants ask for tens of
        thousands of slots at the very least, and at p = 1/2 for billions. What balance.lemma4
        measures is not what it proves.
    """
    del context
    seen = examine(
        f"(19) fails for every B up to {limit:,} and every p",
        "every B, in blocks on which both sides are bounded for all p; G = 2, 16 and 64, s_max = "
        "1, 10, 1000 (larger G and s_max only ask for more)",
        product((2, 16, 64), (1, 10, 1000)),
        lambda c: fails_up_to(limit, *c),
    )
    return Findings(
        seen,
        numbers={
            f"power of two that meets it at G = {G}, p = {p:g}, s_max = {s}": sufficient_slots(
                G, p, s
            )
            for G, p, s in ((2, 0.9, 1), (16, 0.5, 10), (16, 0.01, 1000))
        },
    )
