"""Lemmas 4 and 7: the long-run gap of BF-IO, and the batch sizes that meet condition (19)."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from math import ceil, log
from typing import TypeAlias

from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import (
    Evidence,
    Findings,
    Outcome,
    accepted,
    dismiss_if,
    verifier,
)
from proofs_checks.papers.balance.concentration import deviation_at
from proofs_checks.runs import (
    Admission,
    Cell,
    blind_sizes,
    gap,
    imbalance,
    level_sizes,
    mean_gaps,
    two_sizes,
)
from proofs_checks.search import examine
from proofs_checks.statistics import Bounded, bounded_mean, mean_estimate, room

CLAIMS = Claims()


TENTHS = (1, 3, 5, 9)


#: A setting, and a pool for which BF-IO's optimum has a closed form.
Pool: TypeAlias = tuple[Cell, Admission]
_POOLS: dict[Admission, str] = {
    level_sizes: "every size 1..s_max",
    two_sizes: "sizes 1 and s_max",
}


def described(c: Cell, admission: Admission) -> str:
    """Return a short text that names a setting and its pool of prompt sizes."""
    return (
        f"G = {c.workers}, B = {c.slots}, p = {c.completion}, s_max = {c.largest}, drift "
        f"{tuple(c.increments)}, {_POOLS.get(admission, 'independent sizes')} [tokens]"
    )


def pool_estimates(
    context: Context, pools: Sequence[Pool], share: float = 1, *, per_gap: bool = True
) -> tuple[Bounded, ...]:
    """Estimate BF-IO's mean gap, or mean imbalance, on each pool of prompt sizes.

    An estimate is accepted below ``share`` times s_max/p (for the imbalance, times G − 1).
    """
    name, bound = ("gap", "s_max/p") if per_gap else ("imbalance of BF-IO", "(G − 1)·s_max/p")
    effort = context.choose((10, 40) if per_gap else (8, 30), (30, 200), (60, 1000))
    estimates = []
    for cell, admission in pools:
        gaps, imbalances = mean_gaps(cell, *effort, context.rng, admission)
        estimates.append(
            bounded_mean(
                f"mean {name}, {described(cell, admission)}",
                gaps if per_gap else imbalances,
                bound if share == 1 else f"{share:g}·{bound}",
                share * (1 if per_gap else cell.workers - 1) * cell.largest / cell.completion,
            )
        )
    return tuple(estimates)


#: With two sizes the loads are fixed modulo s_max − 1 within a step. No harder pools are known.
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
    measured = pool_estimates(context, (*pools, *context.choose((), more, more)), share)
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

    def holds(tenths: int, x: int) -> bool:
        p = Fraction(tenths, 10)
        # E Σ_{r<o} (r+1−x)₊ from the law of o truncated at R, plus the exact remainder.
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


# The bound at a batch size used in practice.


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
    # One cluster of a size used in practice, and one with enough slots to level each step.
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
    """Return whether ``γBp ≥ 2U_B``: (19), or (32) with C_2 = 8 for increments up to δ_max."""
    gamma = 1 - (2 * largest - 1) / (4 * largest)
    envelope = largest + ceil(3 * log(workers * slots) / p) + increment
    return gamma * slots * p >= 2 * deviation_at(envelope, workers, slots, p)


def fails_up_to(limit: int, workers: int, largest: int) -> bool:
    """Return whether (19) fails for every B in 1..limit and every p in (0, 1).

    For all p, ``γBp ≤ γB`` and ``U_B ≥ 8(s_max + α_B)·α_B``. Both bounds grow with B, so the ends
    of a range of B decide the whole range.
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
    """Return the least power of two B that meets (19), found by doubling."""
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
        partial(fails_up_to, limit),
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


# Lemma 7: the long-run gap under drift, and the proof step that makes its remainder vanish.


#: Universal constant of eq. (32): the one that Bernstein's inequality gives (balance.lemma6).
_C2 = 8


# The lemma.


_FCFS_DRIFT: tuple[Pool, ...] = ((Cell(4, 64, 0.2, 10, (2,)), blind_sizes),)


_UNDER_DRIFT = (
    "overloaded pool (Definition 1)",
    "outputs geometric with p",
    "0 ≤ δ_k ≤ δ_max, one increment per step, δ_max independent of B and G",
    "B large enough, (32): γBp ≥ 2U_B",
)


@CLAIMS.result(
    "balance.lemma7",
    Mutation("FCFS in place of BF-IO", pools=_FCFS_DRIFT),
    Mutation("half of s_max/p", share=0.5),
    formula=AVERAGE,
    hypotheses=_UNDER_DRIFT,
    kind=Kind.STATISTICAL,
    proof="lemma4-smax",
)
def _lemma_check(
    context: Context, *, pools: Sequence[Pool] | None = None, share: float = 1
) -> Outcome:
    """Average gap of BF-IO under drift.

    Source: BF-IO paper, Lemma 7 (appendix C.3)
    Statement: Lemma 4 holds for increments up to δ_max: the long-run average of BF-IO's gap is at
        most s_max/p plus a vanishing term.
    Reading: tested where the proof's condition (32) is not met, at B of practice. One step of its
        proof fails as printed (balance.lemma7-step); mended, it gives the lemma. BF-IO as the
        minimiser of the gap; for (IO) see own.lemma4-smax.
    """
    more = ((1,), (2,), (2, 0, 1), (0, 3))
    drifts = context.choose(((2,), (0, 3)), more, more)
    every: list[Pool] = [(Cell(4, 64, 0.2, 10, drift), level_sizes) for drift in drifts]
    every += [(Cell(8, 64, 0.9, 11, drift), two_sizes) for drift in ((0,), *drifts)]
    every.append((Cell(8, 512, 0.2, 11, drifts[0]), two_sizes))
    measured = pool_estimates(context, every if pools is None else pools, share)
    return Findings(
        estimates=tuple(m.estimate for m in measured),
        summary="BF-IO's optimum in closed form, as for balance.lemma4, on pools of every size "
        "and of two sizes. The proof needs one more factor δ_max (balance.lemma7-step). "
        f"{room(measured)}",
    )


# The step of its proof.


def age_threshold(tenths: int, size: float, increment: int) -> int:
    """Return ``y* = ⌊x*/δ_max⌋`` with ``x* = ⌈(3/p)·log(GB)⌉``; size is log(GB)."""
    return ceil(30 / tenths * size) // increment


def small_enough(tenths: int, workers: int, slots: int, threshold: int) -> bool:
    """Return whether ``(1 − p)^threshold ≤ (GB)^{−3}``, in integers."""
    return bool((10 - tenths) ** threshold * (workers * slots) ** 3 <= 10**threshold)


@verifier
def verify_step(tenths: int, workers: int, doublings: int, largest: int, increment: int) -> str:
    """Confirm (32) and ``(1 − p)^{y*} > (GB)^{−3}``; the batch size is a power of two."""
    dismiss_if(
        not 1 <= tenths <= 9 or workers < 2 or doublings < 0 or largest < 2 or increment < 1
    )
    slots = 2**doublings
    threshold = age_threshold(tenths, log(workers * slots), increment)
    dismiss_if(not meets(slots, workers, tenths / 10, largest, increment))
    dismiss_if(small_enough(tenths, workers, slots, threshold))
    return (
        f"p = {tenths}/10, G = {workers}, B = 2^{doublings}, s_max = {largest}, δ_max = "
        f"{increment}: (32) holds with C_2 = {_C2}, y* = {threshold}, and (1 − p)^y* = "
        f"{float(Fraction(10 - tenths, 10) ** threshold):.3g} > (GB)^−3 = "
        f"{(workers * slots) ** -3.0:.3g}"
    )


def remainder(slots: int, increment: int, *, corrected: bool) -> float:
    """Return the remainder term in eq. (37) at G = 16, p = 1/2, s_max = 10."""
    x = ceil(6 * log(16 * slots))
    envelope, threshold = (increment * x, x) if corrected else (x, x // increment)
    scale = 16 * slots**2 * 4 * increment * (10 + envelope + increment)
    return float(scale * 0.5**threshold)


@CLAIMS.step(
    "balance.lemma7-step",
    Mutation("increments of at most 1", increments=(1,)),
    Mutation("x* not stretched in the correction", stretched=False),
    hypotheses=_UNDER_DRIFT[2:],
    defect=Defect.FORMULA,
    verify=verify_step,
)
def _step_check(
    context: Context, *, increments: Sequence[int] = (1, 2, 3), stretched: bool = True
) -> Outcome:
    """The remainder under drift.

    Source: BF-IO paper, proof of Lemma 7 (appendix C.3)
    Statement: With x* = ⌈(3/p)·log(GB)⌉ and y* = ⌊x*/δ_max⌋, (1 − p)^{y*} is at most exp(−p·y*),
        and that at most (GB)^{−3}, so that the remainder of eq. (37) vanishes.
    Formula: (1 − p)^{y*} ≤ exp(−p·y*) ≤ (GB)^{−3},  y* = ⌊⌈(3/p)·log(GB)⌉/δ_max⌋
    Summary: The printed power is about (GB)^{−3κ/δ_max} with κ = −log(1 − p)/p, which exceeds 1:
        the step holds up to δ_max = κ (1.39 at p = 1/2, 2.56 at p = 9/10), the argument given for
        it, exp(−p·y*) ≤ (GB)^{−3}, up to δ_max = 1. From δ_max = 3κ/2 on the remainder of eq. (37)
        grows with B. The corrected x* restores the lemma.
    Reading: C_2 = 8 in (32), which is enough for Lemma 6; the result fails for the left-hand side
        already, exp(−p·y*) is left out.
    Correction: With x* = δ_max·⌈(3/p)·log(GB)⌉ the step holds with y* = ⌈(3/p)·log(GB)⌉ and the
        remainder vanishes; U_B grows by the factor δ_max at most, and with it the B that (32) asks
        for. As printed the step holds for δ_max ≤ 1, and in the limit up to δ_max = −log(1 − p)/p.
        For 0 < δ_max < 1 the indicator of Λ > s_max + x* just before it needs a factor 1/δ_max on
        (Λ + δ_max − s_max − x*)₊; the order stays.
    """
    doublings = context.choose((20, 30, 40), (20, 30, 40, 50), tuple(range(10, 70, 5)))
    cases = list(product((1, 3, 5, 9), (2, 16), doublings, (2, 10), increments))
    domain = context.domain(
        f"p = 1/10, 3/10, 1/2, 9/10, G = 2 and 16, B = 2^k for k in {doublings}, s_max = 2 and 10,"
        f" δ_max in {tuple(increments)}; those that meet (32)",
        cases,
    )

    def applies(tenths: int, workers: int, k: int, largest: int, increment: int) -> bool:
        return meets(2**k, workers, tenths / 10, largest, increment)

    printed = domain.refute("(1 − p)^{y*} ≤ (GB)^{−3} with y* = ⌊x*/δ_max⌋", applies=applies)

    def corrected_holds(tenths: int, workers: int, k: int, _: int, increment: int) -> bool:
        size = log(workers * 2**k)
        threshold = age_threshold(tenths, size, 1 if stretched else increment)
        return small_enough(tenths, workers, 2**k, threshold)

    corrected = domain.examine(
        "the same with x* = δ_max·⌈(3/p)·log(GB)⌉, so y* = ⌈(3/p)·log(GB)⌉",
        corrected_holds, applies
    )  # fmt: skip
    return Findings(
        printed,
        corrected,
        numbers={
            "printed remainder at B = 100 (G = 16, p = 1/2, s_max = 10, δ_max = 3)": remainder(
                100, 3, corrected=False
            ),
            "at B = 10^6": remainder(10**6, 3, corrected=False),
            "corrected remainder at B = 100": remainder(100, 3, corrected=True),
            "at B = 10^6 as corrected": remainder(10**6, 3, corrected=True),
        },
    )


# Sentences in the proofs of Lemma 4 and Theorem 2 that claim more than is proven.


# "Nonnegative, so its Cesàro average is bounded."


@verifier
def verify_average(slope: int, bound: int, steps: int) -> str:
    """Confirm that the average of D(k) = slope·k exceeds a bound after the given steps."""
    dismiss_if(slope < 1 or bound < 1 or steps < 1)
    average = Fraction(slope * (steps - 1), 2)
    dismiss_if(average <= bound)
    return f"D(k) = {slope}·k ≥ 0: the average of {steps} steps is {average}, above {bound}"


@CLAIMS.step(
    "balance.lemma4-average",
    Mutation("a constant sequence", slopes=(0,)),
    Mutation("no contraction in the correction", keep=2),
    defect=Defect.SENTENCE,
    verify=verify_average,
)
def _average_check(context: Context, *, slopes: Sequence[int] = (1, 2), keep: int = 1) -> Outcome:
    """Nonnegative gaps have bounded averages.

    Source: BF-IO paper, proof of Lemma 4 (appendix C.2), below (24)
    Statement: The expected gaps are nonnegative, so their Cesàro average is bounded.
    Formula: E D(k) ≥ 0  ⇒  sup_K (1/K)·Σ_{k<K} E D(k) < ∞
    Assumes: nothing else of the sequence
    Summary: D(k) = k is nonnegative. The recursion itself bounds the sequence.
    Correction: By (23) E D(k) ≤ a_k + (1 − p)·E D(k − 1) with bounded a_k, so E D(k) ≤ max{E D(0),
        sup a_k/p}.
    """
    most = context.choose(10, 30, 100)
    printed = context.refute(
        "a nonnegative sequence has bounded averages",
        f"D(k) = a·k for a in {list(slopes)}, bounds up to {most}",
        product(slopes, range(1, most), (2 * most + 2,)),
    )

    def contracts(tenths: int, start: int, added: int) -> bool:
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


@verifier
def verify_remainder(loads: list[int], size: int) -> str:
    """Confirm that the imbalance exceeds (G − 1)·s + r although the gap is s + r."""
    dismiss_if(len(loads) < 3 or min(loads) < 0 or size < 1)
    rest = gap(loads) - size
    dismiss_if(rest < 1 or imbalance(loads) <= (len(loads) - 1) * size + rest)
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
    cases = [
        (loads, size)
        for G in workers
        for loads in product(range(largest + 1), repeat=G)
        for size in range(1, largest)
        if gap(loads) > size
    ]
    domain = context.domain(
        f"all loads up to {largest} of {' and '.join(map(str, workers))} workers", cases
    )
    printed = domain.refute("D = s + r implies Imb ≤ (G − 1)·s + r")
    corrected = domain.examine(
        "D = s + r implies Imb ≤ (G − 1)·(s + r)",
        lambda loads, _: factor * imbalance(loads) <= (len(loads) - 1) * gap(loads),
    )
    return printed, corrected
