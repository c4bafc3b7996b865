"""Section 5: the overloaded family (Definition 1), its generator, and its use in Lemma 2."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise, product

from bfio.workloads.lengths import Empirical, Geometric
from bfio.workloads.overload import overload_violations, overloaded
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Outcome, dismiss_if, verifier
from proofs_checks.runs import multisets, small_run
from proofs_checks.search import examine

CLAIMS = Claims()


def by_definition(pool: Sequence[int], free: int, largest: int) -> bool:
    """Return whether a pool is overloaded by Definition 1 as printed, over lengths 1..s_max."""
    return min(sum(s != length for s in pool) for length in range(1, largest + 1)) >= free


def in_words(pool: tuple[int, ...], free: int, skip: int = 1) -> bool:
    """Return whether a pool without its ``skip`` most numerous lengths fills all free slots."""
    removed = sum(count for _, count in Counter(pool).most_common(skip))
    return len(pool) - removed >= free


@CLAIMS.formula(
    "balance.definition1",
    Mutation("the two most numerous lengths removed", skip=2),
    formula="min_l |R_k \\ R_k(l)| ≥ C_k",
)
def _definition_check(context: Context, *, skip: int = 1) -> Outcome:
    """Overloaded instances.

    Source: BF-IO paper, Definition 1 (section 5)
    Statement: The pool without the requests of any one length holds at least C_k requests; in
        words: even without the most numerous length it can fill all free slots.
    Assumes: lengths in 1..s_max
    Summary: The family is what the sentence says.
    """
    count, largest = context.choose((5, 3), (7, 4), (9, 5))
    cases = [
        (pool, free)
        for n in range(count + 1)
        for pool in multisets(n, largest)
        for free in range(1, count + 2)
    ]
    domain = context.domain(
        f"all pools of up to {count} sizes in 1..{largest} and all numbers of free slots", cases
    )
    words = domain.examine(
        "formula and sentence agree",
        lambda pool, free: by_definition(pool, free, largest) == in_words(pool, free, skip)
    )  # fmt: skip
    checker = domain.examine(
        "the toolkit's checker agrees",
        lambda pool, free: (
            by_definition(pool, free, largest) == (not overload_violations([pool], [free]))
        ),
    )
    return words, checker


@CLAIMS.own(
    "own.overloaded-generator",
    Mutation("a workload certified for one step only", spare=lambda steps: 1),
)
def _generator_check(
    context: Context, *, spare: Callable[[int], int] = lambda steps: steps
) -> Outcome:
    """A generator of overloaded instances.

    Source: BF-IO paper, Definition 1 (our generator)
    Statement: The toolkit's generator gives workloads that are overloaded for the promised number
        of steps under every policy.
    Formula: n − max_l n_l ≥ A_k + C_k for k < K
    Assumes: the whole workload in the pool from the start
    Summary: Runs of other claims on overloaded instances rest on this generator or on the checker.
    """
    rng = context.rng
    policies = ("fcfs", "longest-first")
    cases = [
        (policy, int(rng.integers(2, 4)), int(rng.integers(1, 4)), int(rng.integers(2, 6)))
        for policy in policies
        for _ in range(context.choose(3, 20, 200))
    ]

    def holds(policy: str, G: int, B: int, steps: int) -> bool:
        law = Empirical([1, 2, 5], [0.5, 0.3, 0.2])
        workload = overloaded(spare(steps), G * B, law, Geometric(2.0), rng=rng)
        prompts, outputs = workload.prompt_tokens.tolist(), workload.output_tokens.tolist()
        run = small_run(prompts, outputs, policy, G, B, steps=steps)
        started = run.start_step
        pending = [
            [s for s, k in zip(prompts, started, strict=True) if k < 0 or k >= step]
            for step in range(run.steps)
        ]
        return run.steps == steps and not overload_violations(pending, run.admitted.tolist())

    return examine(
        "every step of the run is overloaded",
        f"random machines and workloads of the generator, run under {', '.join(policies)}",
        cases,
        holds,
    )


@CLAIMS.remark("balance.popoviciu", Mutation("1/5 in place of 1/4", denominator=5))
def _popoviciu_check(context: Context, *, denominator: int = 4) -> Outcome:
    """Popoviciu's inequality for prompts.

    Source: BF-IO paper, section 5, non-degeneracy condition
    Statement: For every law of prompts on 1..s_max the deviation is at most s_max/2.
    Formula: σ_s/s_max ≤ 1/2
    Assumes: prompts in 1..s_max
    Summary: Since prompts are at least 1, κ_0 = 1/2 itself is out of reach: σ_s/s_max ≤ (1 −
        1/s_max)/2.
    """
    largest, total = context.choose((5, 6), (7, 8), (9, 10))
    # Positions of the bars in a stars-and-bars enumeration.
    bars = combinations(range(total + largest - 1), largest - 1)
    cases = (
        tuple(b - a - 1 for a, b in pairwise((-1, *places, total + largest - 1)))
        for places in bars
    )

    def holds(weights: tuple[int, ...]) -> bool:
        first = Fraction(sum(w * s for s, w in enumerate(weights, 1)), total)
        second = Fraction(sum(w * s * s for s, w in enumerate(weights, 1)), total)
        # Our bound is sharper: prompts start at 1, so the interval has length s_max − 1.
        bound = Fraction((largest - 1) ** 2, denominator)
        return second - first**2 <= bound <= Fraction(largest**2, 4)

    return examine(
        "σ_s² ≤ (s_max − 1)²/4 ≤ s_max²/4",
        f"all laws on 1..{largest} with probabilities in multiples of 1/{total}, in fractions",
        cases,
        holds,
    )


# Sentences in the proof of Lemma 2 that claim more than is proven.


# "The pool contains sufficiently many jobs of each size."


@verifier
def verify_pool(pool: list[int], free: int, largest: int) -> str:
    """Confirm that Definition 1 holds and that the pool lacks some size entirely."""
    dismiss_if(free < 1 or largest < 2 or not pool or min(pool) < 1 or max(pool) > largest)
    dismiss_if(not by_definition(pool, free, largest))
    missing = sorted(set(range(1, largest + 1)) - set(pool))
    dismiss_if(not missing)
    return (
        f"s_max = {largest}, {free} free slot(s), sizes {pool} wait: overloaded, and there "
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
        (pool, free, largest)
        for n in range(2, count + 1)
        for pool in multisets(n, largest)
        for free in range(1, n)
        if by_definition(pool, free, largest)
        and (not plenty or set(pool) == set(range(1, largest + 1)))
    ]
    printed = context.refute(
        "an overloaded pool has jobs of each size",
        f"all overloaded pools of up to {count} sizes in 1..{largest}",
        cases,
    )

    def exchange(pool: tuple[int, ...], free: int, _: int) -> bool:
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
    """Return a vector with first and last entries swapped, or (broken variant) one copied."""
    return [chosen[-1], *chosen[1:-1], chosen[-1] if outside else chosen[0]]


# "Then there exist x and y with x > y."


def separated(heavy: Sequence[int], light: Sequence[int], largest: int) -> bool:
    """Return whether some θ in 0..s_max − 1 has heavy ≤ θ < light."""
    return any(max(heavy) <= theta < min(light) for theta in range(largest))


@verifier
def verify_strict(heavy: list[int], light: list[int], largest: int) -> str:
    """Confirm that there is no θ, and no x in S_p above some y in S_q."""
    dismiss_if(not heavy or not light or min(*heavy, *light) < 1 or max(*heavy, *light) > largest)
    dismiss_if(separated(heavy, light, largest) or max(heavy) > min(light))
    return f"s_max = {largest}, S_p = {heavy}, S_q = {light}: no θ, and no x > y either"


#: Requests in a pool and largest size: quick, normal, deep.
_POOLS = ((5, 3), (6, 4), (8, 5))


def _equal_steps(
    context: Context, *, overloaded: bool
) -> Iterator[tuple[tuple[int, ...], int, int, int]]:
    """Yield pools, free slots, and a size that both p and q may admit."""
    count, largest = context.choose(*_POOLS)
    for n in range(2, count + 1):
        for pool in multisets(n, largest):
            for free in range(2, n + 1):
                if by_definition(pool, free, largest) or not overloaded:
                    for common in {size for size in pool if pool.count(size) > 1}:
                        yield pool, free, common, largest


def _another(pool: tuple[int, ...], free: int, common: int, _: int) -> bool:
    """Whether a request of another size is left whenever two of the common size are admitted."""
    others = len(pool) - pool.count(common)
    # At most free − 2 of the admitted requests have another size.
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
    pairs = list(product(groups, groups, (largest,)))
    domain = context.domain(f"all groups S_p, S_q of up to {longest} sizes in 1..{largest}", pairs)

    def stands(heavy: tuple[int, ...], light: tuple[int, ...], largest: int) -> bool:
        if separated(heavy, light, largest):
            return True
        return max(heavy) >= min(light) if weak else max(heavy) > min(light)

    printed = domain.refute("no θ: then some x in S_p exceeds some y in S_q", holds=stands)
    loose = domain.examine(
        "no θ: then some x in S_p is at least some y in S_q",
        lambda heavy, light, top: separated(heavy, light, top) or max(heavy) >= min(light),
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
