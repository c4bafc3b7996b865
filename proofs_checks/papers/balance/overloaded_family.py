"""Section 5: the overloaded family (Definition 1), a generator of it, and Popoviciu's bound."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, pairwise

from bfio.workloads.lengths import Empirical, Geometric
from bfio.workloads.overload import overload_violations, overloaded
from proofs_checks.claim import Claims, Context, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.runs import small_run
from proofs_checks.search import Domain, examine
from proofs_checks.step_enumeration import multisets

CLAIMS = Claims()


def by_definition(pool: tuple[int, ...], free: int, largest: int) -> bool:
    """Definition 1 as printed: the minimum over all lengths 1..s_max."""
    return min(sum(s != length for s in pool) for length in range(1, largest + 1)) >= free


def in_words(pool: tuple[int, ...], free: int, skip: int = 1) -> bool:
    """Apply the sentence below it: remove the most numerous length (``skip`` of them)."""
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
    domain = Domain(
        f"all pools of up to {count} sizes in 1..{largest} and all numbers of free slots", cases
    )
    words = domain.examine(
        "formula and sentence agree",
        lambda c: by_definition(*c, largest) == in_words(*c, skip)
    )  # fmt: skip
    checker = domain.examine(
        "the toolkit's checker agrees",
        lambda c: by_definition(*c, largest) == (not overload_violations([c[0]], [c[1]]))
    )  # fmt: skip
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

    def holds(case: tuple[str, int, int, int]) -> bool:
        policy, G, B, steps = case
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
    # Where the bars stand among stars and bars.
    bars = combinations(range(total + largest - 1), largest - 1)
    cases = (
        tuple(b - a - 1 for a, b in pairwise((-1, *places, total + largest - 1)))
        for places in bars
    )

    def holds(weights: tuple[int, ...]) -> bool:
        first = Fraction(sum(w * s for s, w in enumerate(weights, 1)), total)
        second = Fraction(sum(w * s * s for s, w in enumerate(weights, 1)), total)
        # Ours is sharper: prompts start at 1, so the interval has length s_max − 1.
        bound = Fraction((largest - 1) ** 2, denominator)
        return second - first**2 <= bound <= Fraction(largest**2, 4)

    return examine(
        "σ_s² ≤ (s_max − 1)²/4 ≤ s_max²/4",
        f"all laws on 1..{largest} with probabilities in multiples of 1/{total}, in fractions",
        cases,
        holds,
    )
