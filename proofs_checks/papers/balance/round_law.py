"""Theorem 1, reduction to rounds: which sizes are admitted to a round."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.search import examine, refute
from proofs_checks.step_enumeration import (
    imbalance,
    multisets,
    reachable_loads,
)

CLAIMS = Claims()


def overloaded(counts: tuple[int, ...], free: int) -> bool:
    """Definition 1 for a pool with ``counts[v]`` requests of each size."""
    return sum(counts) - max(counts) >= free


def perfect(pool: Sequence[int], workers: int, slots: int) -> bool:
    """Whether some assignment of a pool to empty workers has no imbalance."""
    return 0 in map(imbalance, reachable_loads([0] * workers, [slots] * workers, pool))


def perfect_chances(workers: int, slots: int, values: int) -> tuple[Fraction, Fraction]:
    """Probability of a round without imbalance, under (IO) and for independent draws.

    Prompts are uniform on 1..values and arrive one by one until the pool is overloaded; (IO)
    chooses from the pool, arrival order takes the first G·B.
    """
    free = workers * slots

    def chosen(counts: tuple[int, ...]) -> Fraction:
        # G·B requests of one size stay in the pool and balance perfectly.
        if max(counts) >= free:
            return Fraction(1)
        if overloaded(counts, free):
            pool = [v + 1 for v, count in enumerate(counts) for _ in range(count)]
            return Fraction(int(perfect(pool, workers, slots)))
        after = [(*counts[:v], counts[v] + 1, *counts[v + 1 :]) for v in range(values)]
        return sum(map(chosen, after), Fraction(0)) / values

    rounds = list(product(range(1, values + 1), repeat=free))
    drawn = sum(perfect(sizes, workers, slots) for sizes in rounds)
    return chosen((0,) * values), Fraction(drawn, len(rounds))


def verify_selection(data: Data) -> str | None:
    """Compare rounds under (IO), from an overloaded pool, with rounds of independent draws."""
    workers, slots, values = data["workers"], data["slots"], data["values"]
    if workers < 2 or slots < 1 or values < 2 or values ** (workers * slots) > 10**4:
        return None
    program, independent = perfect_chances(workers, slots, values)
    if program == independent:
        return None
    return (
        f"prompts uniform on 1..{values}, {workers} workers with {slots} slot(s), arrivals until "
        f"the pool is overloaded: the {workers * slots} prompts that (IO) admits can be balanced "
        f"perfectly with probability {program}, independent draws with probability {independent}"
    )


@CLAIMS.step(
    "balance.round-law",
    Mutation("FCFS in place of BF-IO", by_program=False),
    Mutation("half the bound in the correction", factor=2),
    defect=Defect.SENTENCE,
    verify=verify_selection,
)
def _selection_check(context: Context, *, by_program: bool = True, factor: int = 1) -> Outcome:
    """A round holds independent draws.

    Source: BF-IO paper, proof of Theorem 1 (appendix C.1), reduction
    Statement: Given any overloaded instance, the multiset of prefill lengths entering each round
        consists of G·B independent draws, for each policy.
    Formula: multiset of a round ~ 𝒟_prefill^{G·B} under π ∈ {FCFS, BF-IO}
    Assumes: prompts independent; overloaded pool (Definition 1) at the beginning of each round
    Summary: With a pool to choose from (IO) prefers sets that divide evenly; an overloaded pool of
        two sizes always has one (own.overloaded-rounds). The bound needs no law.
    Reading: the adversary lets requests arrive until Definition 1 holds, as it may. Compared is
        how often the admitted prompts balance perfectly, which does not depend on ties.
    Correction: It is true of FCFS, which does not look at sizes. (IO) chooses from the pool, and
        what it leaves behind is not independent either. The theorem needs only Imb ≤ (G −
        1)·s_max, which holds for every realisation and whoever is admitted.
    """
    shapes = [(2, 1, 2), (2, 1, 3), (2, 2, 2), (3, 1, 2)]
    shapes += context.choose([], [(3, 1, 3), (2, 3, 2)], [(3, 1, 3), (2, 3, 2), (4, 1, 3)])
    printed = refute(
        "the sizes in a round are independent draws",
        f"exact probabilities for (workers, slots, largest prompt) in {shapes}; the pool holds "
        "the arrivals until it is overloaded",
        shapes,
        verify_selection,
        _selection_data,
        holds=lambda case: not by_program or verify_selection(_selection_data(case)) is None,
    )
    largest = context.choose(3, 4, 5)
    cases = [
        (slots, pool)
        for slots in ((1, 1), (1, 1, 1), (2, 2))
        for spare in range(3)
        for pool in multisets(sum(slots) + spare, largest)
    ]

    def bounded(case: tuple[tuple[int, ...], tuple[int, ...]]) -> bool:
        slots, pool = case
        reached = reachable_loads([0] * len(slots), slots, pool)
        return factor * min(map(imbalance, reached)) <= (len(slots) - 1) * max(pool)

    corrected = examine(
        "whoever (IO) admits, Imb ≤ (G − 1)·s_max",
        f"rounds with up to 2 requests to spare, sizes up to {largest}",
        cases,
        bounded,
    )
    return printed, corrected


def _selection_data(case: tuple[int, int, int]) -> Data:
    return dict(zip(("workers", "slots", "values"), case, strict=True))
