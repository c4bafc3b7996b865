"""Rounds on empty workers from an overloaded pool: how well (IO) balances them."""

from collections.abc import Iterator
from itertools import product

from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.search import examine
from proofs_checks.step_enumeration import imbalance, reachable_loads

#: Workers, slots per worker, and how many requests of each size are in the pool.
Round = tuple[int, int, tuple[int, ...]]


def is_perfect(case: Round) -> bool:
    """Whether the least imbalance of the round is 0."""
    workers, slots, counts = case
    pool = [v for v, count in enumerate(counts, 1) for _ in range(count)]
    return 0 in map(imbalance, reachable_loads([0] * workers, [slots] * workers, pool))


def has_layers(case: Round) -> bool:
    """Whether B times G requests of one size can be given to the G workers, one each."""
    workers, slots, counts = case
    return sum(count // workers for count in counts) >= slots


def smallest_overloaded(workers: int, slots: int, sizes: int) -> Iterator[Round]:
    """Yield the overloaded pools that are not so with one request less."""
    free = workers * slots
    for counts in product(range(free + 1), repeat=sizes):
        others = sum(counts) - max(counts)
        # One request less of any size: then too few are left beside the most numerous size.
        if others == free and counts.count(max(counts)) > 1:
            yield workers, slots, counts


def _check(context: Context, *, slots: int | None = None) -> Outcome:
    shapes = context.choose(
        ((2, 2), (3, 2), (2, 3)), ((2, 2), (3, 2), (2, 3), (3, 3)), ((2, 3), (4, 3), (2, 4))
    )
    cases = [
        case
        for workers, sizes in shapes
        for case in smallest_overloaded(workers, slots or sizes * (sizes - 1), sizes)
    ]
    return examine(
        "the least imbalance is 0",
        f"all smallest overloaded pools for (workers, s_max) in {shapes} and B = s_max(s_max − 1)",
        cases,
        lambda case: has_layers(case) or is_perfect(case),
    )


CLAIMS = (
    Claim(
        id="own.overloaded-rounds",
        source="BF-IO paper, Definition 1 and Theorem 1 (our consequence)",
        title="Overloaded rounds balance perfectly",
        statement="With equal outputs and an overloaded pool the program (IO) has no imbalance in "
        "any round if B ≥ s_max(s_max − 1).",
        formula="B ≥ s_max(s_max − 1)  ⇒  Imb(BF-IO) = 0, so IIR = ∞",
        hypotheses=(
            "equal outputs, so all slots are free at once",
            "overloaded pool (Definition 1)",
            "B ≥ s_max(s_max − 1)",
        ),
        kind=Kind.FINITE,
        check=_check,
        summary="Give G requests of one size to the G workers, one each, as often as it goes: "
        "what does not divide by G is less than G of each size, and the pool has that much to "
        "spare.",
        mutations=(Mutation("one slot per worker", slots=1),),
        reading="Theorem 1 is about IIR over overloaded pools; its proof is about a round of "
        "G·B given prompts. In the former sense its ratio is infinite from this B on.",
    ),
)
