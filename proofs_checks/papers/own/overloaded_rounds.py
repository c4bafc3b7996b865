"""Equal outputs and an overloaded pool: rounds with imbalance 0."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from proofs_checks.claim import Claims, Context, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.search import examine
from proofs_checks.step_enumeration import imbalance, reachable_loads

CLAIMS = Claims()


#: Workers, slots per worker, and numbers of requests of each size in the pool.
Round = tuple[int, int, tuple[int, ...]]


def threshold(sizes: int, workers: int) -> int:
    """``T(K, G)``: largest B at which K sizes can leave an imbalance; below 1 there is none."""
    return (sizes - 1) ** 2 + sizes * (-(sizes - 1) // workers)


def is_perfect(case: Round, sizes: Sequence[int] | None = None) -> bool:
    """Whether the least imbalance of the round is 0, for the given sizes or 1, 2, ..."""
    workers, slots, counts = case
    names = sizes or range(1, len(counts) + 1)
    pool = [v for v, count in zip(names, counts, strict=True) for _ in range(count)]
    return 0 in map(imbalance, reachable_loads([0] * workers, [slots] * workers, pool))


def has_layers(case: Round) -> bool:
    """Whether the pool has B layers of G equal requests, one per worker."""
    workers, slots, counts = case
    return sum(count // workers for count in counts) >= slots


def is_overloaded(case: Round) -> bool:
    """Definition 1: the pool still fills all slots if any one size is removed."""
    workers, slots, counts = case
    return sum(counts) - max(counts) >= workers * slots


def smallest_overloaded(workers: int, slots: int, sizes: int) -> Iterator[Round]:
    """Yield the overloaded pools that are no longer overloaded with one request less."""
    free = workers * slots
    for counts in product(range(free + 1), repeat=sizes):
        others = sum(counts) - max(counts)
        # With one request less, too few requests of other sizes than the most numerous remain.
        if others == free and counts.count(max(counts)) > 1:
            yield workers, slots, counts


def sharp_round(workers: int, sizes: int) -> Round:
    """Return the pool of K equally numerous sizes that has no layers at B = T(K, G)."""
    slots = threshold(sizes, workers)
    layers = (slots - 1) // sizes
    return workers, slots, (workers * layers + workers - 1,) * sizes


def _above(context: Context, slots: Callable[[int, int], int]) -> Iterator[Round]:
    shapes = context.choose(
        ((2, 2), (3, 2), (2, 3), (3, 3), (2, 4)),
        ((2, 2), (3, 2), (2, 3), (3, 3), (2, 4), (3, 4), (4, 4)),
        ((3, 4), (4, 4), (5, 4), (2, 5), (3, 5)),
    )
    for workers, sizes in shapes:
        yield from smallest_overloaded(workers, max(1, slots(sizes, workers)), sizes)


def _generic(case: Round) -> list[int]:
    """Return sizes for which all multisets of up to B have different sums."""
    _, slots, counts = case
    return [(slots + 1) ** j for j in range(len(counts))]


@CLAIMS.own(
    "own.overloaded-rounds",
    Mutation("one slot per worker", slots=lambda sizes, workers: 1),
    Mutation("B = T(K, G)", slots=threshold),
    Mutation("one slot more in the pool without layers", more=1),
    proof="overloaded-rounds",
)
def _check(
    context: Context,
    *,
    slots: Callable[[int, int], int] = lambda sizes, workers: threshold(sizes, workers) + 1,
    more: int = 0,
) -> Outcome:
    """Overloaded rounds balance perfectly.

    Source: BF-IO paper, Definition 1 and Theorem 1 (our consequence)
    Statement: With equal outputs and an overloaded pool the program (IO) has no imbalance in any
        round if B ≥ (s_max − 1)(s_max − 2); for pools of K sizes on G workers, if B > T(K, G) = (K
        − 1)² − K⌈(K − 1)/G⌉. In K and G this is sharp.
    Formula: B ≥ (s_max − 1)(s_max − 2)  ⇒  Imb(BF-IO) = 0, so IIR = ∞
    Assumes: equal outputs, so all slots are free at once; overloaded pool (Definition 1); B ≥
        (s_max − 1)(s_max − 2); prompt law of positive variance (for the ratio: FCFS then has an
        imbalance)
    Summary: Give G requests of one size to the G workers, one each, as often as it goes: what does
        not divide by G is less than G of each size, and the pool has that much to spare. At B =
        T(K, G) a pool of K equally numerous sizes is too small for it, and with sizes 1, B + 1, (B
        + 1)², ... nothing else balances.
    Reading: Theorem 1 is about IIR over overloaded pools; its proof is about a round of G·B given
        prompts. In the former sense its ratio is infinite from this B on.
    """
    layers = examine(
        "G requests of one size for the G workers, B times, so the least imbalance is 0",
        "all smallest overloaded pools of up to K sizes on G workers, K and G up to 3, K = 4 with "
        "G = 2 (normal to 4, deep 5), B = T(K, G) + 1",
        _above(context, slots),
        has_layers,
    )
    perfect = examine(
        "the least imbalance is 0",
        "the same for sizes 1, 2, ..., by all assignments, K = 2 and 3",
        [
            case
            for G, K in context.choose(((2, 2), (2, 3)), ((2, 2), (3, 2), (2, 3)), ((3, 3),))
            for case in smallest_overloaded(G, max(1, slots(K, G)), K)
        ],
        is_perfect,
    )
    shapes = [(G, K) for G, K in product(range(2, 9), range(3, 12)) if threshold(K, G) >= 1]

    def without_layers(shape: tuple[int, int]) -> bool:
        G, K = shape
        workers, B, counts = sharp_round(G, K)
        case = workers, B + more, counts
        return is_overloaded(case) and not has_layers(case)

    sharp = examine(
        "an overloaded pool of K sizes has no such layers at B = T(K, G)",
        "K equally numerous sizes, G = 2 to 8, K = 3 to 11 with T(K, G) ≥ 1",
        shapes,
        without_layers,
    )
    imbalanced = examine(
        "its least imbalance is positive for sizes 1, B + 1, (B + 1)², ...",
        "the same by all assignments, for the smallest (G, K)",
        [sharp_round(G, K) for G, K in ((2, 3), (3, 3), (2, 4), (4, 3))],
        lambda case: not is_perfect(case, _generic(case)),
    )
    return layers, perfect, sharp, imbalanced
