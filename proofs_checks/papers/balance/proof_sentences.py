"""Sentences in the proof of Lemma 2 that say more than what is known."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.balance.overloaded_family import by_definition
from proofs_checks.search import Domain, examine, refute
from proofs_checks.step_enumeration import multisets

CLAIMS = Claims()


# "The pool contains sufficiently many jobs of each size."


def verify_pool(data: Data) -> str | None:
    """Confirm that Definition 1 holds and that the pool has not one job of some size."""
    pool, free, largest = tuple(data["pool"]), data["free"], data["largest"]
    if free < 1 or largest < 2 or not pool or min(pool) < 1 or max(pool) > largest:
        return None
    if not by_definition(pool, free, largest):
        return None
    missing = sorted(set(range(1, largest + 1)) - set(pool))
    if not missing:
        return None
    return (
        f"s_max = {largest}, {free} free slot(s), sizes {list(pool)} wait: overloaded, and there "
        f"is no job of size {missing[0]}"
    )


@CLAIMS.step(
    "balance.lemma2-pool",
    Mutation("pools with every size only", plenty=True),
    Mutation("a job from outside in the correction", outside=True),
    formula="min_l |R_k \\ R_k(l)| ≥ C_k  ⇒  |R_k(l)| > 0 for every l in 1..s_max",
    defect=Defect.SENTENCE,
    verify=verify_pool,
)
def _pool_check(context: Context, *, plenty: bool = False, outside: bool = False) -> Outcome:
    """Jobs of each size in the pool.

    Source: BF-IO paper, proof of Lemma 2 (appendix C.2), separation
    Statement: By Definition 1 the pool contains sufficiently many jobs of each size to support
        such exchanges.
    Assumes: overloaded pool (Definition 1)
    Summary: Definition 1 bounds what is left without a size, not what there is of one; the
        exchange needs neither.
    Correction: The swap exchanges two jobs that are both admitted, which any pool supports. The
        sentence can go.
    """
    count, largest = context.choose((5, 3), (6, 4), (8, 5))
    cases = [
        (pool, free)
        for n in range(2, count + 1)
        for pool in multisets(n, largest)
        for free in range(1, n)
        if by_definition(pool, free, largest)
        and (not plenty or set(pool) == set(range(1, largest + 1)))
    ]
    printed = refute(
        "an overloaded pool has jobs of each size",
        f"all overloaded pools of up to {count} sizes in 1..{largest}",
        cases,
        verify_pool,
        lambda case: {"pool": list(case[0]), "free": case[1], "largest": largest},
    )

    def exchange(case: tuple[tuple[int, ...], int]) -> bool:
        pool, free = case
        return all(
            Counter(_swapped(chosen, outside)) <= Counter(pool)
            for chosen in combinations(pool, min(free, len(pool)))
            if len(chosen) > 1
        )

    corrected = examine(
        "what is exchanged is admitted already, so the exchange asks nothing of the pool",
        f"every choice of jobs from all overloaded pools of up to {count} sizes in 1..{largest}",
        cases,
        exchange,
    )
    return printed, corrected


def _swapped(chosen: Sequence[int], outside: bool) -> list[int]:
    """Exchange the first and the last; broken, the last is replaced by one more of the first."""
    return [chosen[-1], *chosen[1:-1], chosen[-1] if outside else chosen[0]]


# "Then there exist x and y with x > y."

_Pair = tuple[tuple[int, ...], tuple[int, ...]]


def separated(heavy: Sequence[int], light: Sequence[int], largest: int) -> bool:
    """Whether some θ in 0..s_max − 1 has heavy ≤ θ < light."""
    return any(max(heavy) <= theta < min(light) for theta in range(largest))


def verify_strict(data: Data) -> str | None:
    """Confirm that there is no θ, and no x in S_p above some y in S_q."""
    heavy, light, largest = data["heavy"], data["light"], data["largest"]
    if not heavy or not light or min(*heavy, *light) < 1 or max(*heavy, *light) > largest:
        return None
    if separated(heavy, light, largest) or max(heavy) > min(light):
        return None
    return f"s_max = {largest}, S_p = {heavy}, S_q = {light}: no θ, and no x > y either"


#: Requests in a pool and largest size: quick, normal, deep.
_POOLS = ((5, 3), (6, 4), (8, 5))


def _equal_steps(
    context: Context, *, overloaded: bool
) -> Iterator[tuple[tuple[int, ...], int, int, int]]:
    """Yield pools, the sizes that p and q hold in common and how many slots are free."""
    count, largest = context.choose(*_POOLS)
    for n in range(2, count + 1):
        for pool in multisets(n, largest):
            for free in range(2, n + 1):
                if by_definition(pool, free, largest) or not overloaded:
                    for common in {size for size in pool if pool.count(size) > 1}:
                        yield pool, free, common, largest


def _another(case: tuple[tuple[int, ...], int, int, int]) -> bool:
    """Whether of all admitted sets with two of the common size another size is always left."""
    pool, free, common, _ = case
    others = len(pool) - pool.count(common)
    # At most free − 2 of the admitted have another size.
    return others - (free - 2) >= 1


@CLAIMS.step(
    "balance.lemma2-strict",
    Mutation("x ≥ y", weak=True),
    Mutation("pools that are not overloaded in the correction", overloaded=False),
    defect=Defect.FORMULA,
    verify=verify_strict,
)
def _strict_check(context: Context, *, weak: bool = False, overloaded: bool = True) -> Outcome:
    """Not separated, so x > y.

    Source: BF-IO paper, proof of Lemma 2 (appendix C.2), separation
    Statement: If no θ has S_p ≤ θ < S_q, there are x in S_p and y in S_q with x > y.
    Formula: ¬(∃θ: max S_p ≤ θ < min S_q)  ⇒  ∃x ∈ S_p, y ∈ S_q: x > y
    Assumes: sizes in 1..s_max; both groups non-empty
    Summary: x = y is left out, and exchanging equal jobs changes nothing.
    Correction: x ≥ y. If x = y, p and q hold two jobs of that size, so at most C_k − 2 of other
        sizes are admitted, and an overloaded pool has another left: it takes the place of x if
        smaller, of y if larger. Here Definition 1 is needed, and the lemma stands.
    """
    longest, largest = context.choose((2, 3), (3, 4), (4, 5))
    groups = [g for n in range(1, longest + 1) for g in multisets(n, largest)]
    pairs: list[_Pair] = [(heavy, light) for heavy in groups for light in groups]
    domain = Domain(f"all groups S_p, S_q of up to {longest} sizes in 1..{largest}", pairs)

    def stands(pair: _Pair) -> bool:
        heavy, light = pair
        if separated(heavy, light, largest):
            return True
        return max(heavy) >= min(light) if weak else max(heavy) > min(light)

    printed = domain.refute(
        "no θ: then some x in S_p exceeds some y in S_q",
        verify_strict,
        lambda pair: {"heavy": list(pair[0]), "light": list(pair[1]), "largest": largest},
        holds=stands,
    )
    loose = domain.examine(
        "no θ: then some x in S_p is at least some y in S_q",
        lambda pair: separated(*pair, largest) or max(pair[0]) >= min(pair[1]),
    )
    count, top = context.choose(*_POOLS)
    helped = examine(
        "if x = y, an overloaded pool has a job of another size left, which takes the place of x "
        "on p if smaller, of y on q if larger",
        f"all pools of up to {count} sizes in 1..{top}, every common size, every number of free "
        "slots",
        _equal_steps(context, overloaded=overloaded),
        _another,
    )
    return printed, loose, helped
