"""Our own claims on steps, rounds and runs."""

from itertools import product

from proofs_checks.claim import Claims, Context, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.balance.rounds import fewest_maximisers, least_maximum, optimal_rounds
from proofs_checks.runs import random_requests, small_run
from proofs_checks.search import examine
from proofs_checks.step_enumeration import gap, imbalance, multisets, reachable_loads

CLAIMS = Claims()


_POLICIES = ("fcfs", "jsq", "jsq-tokens", "round-robin", "longest-first", "br-0")


# Work.


@CLAIMS.own("own.work", Mutation("runs stopped after three steps", steps=3))
def _work_check(context: Context, *, steps: int | None = None) -> Outcome:
    """Total work does not depend on the policy.

    Source: BF-IO paper, section 3 (our consequence)
    Statement: Summed over steps and workers, the load of a run that ends empty is the sum of the
        profiles of all requests.
    Formula: Σ_k Σ_g L_g(k) = Σ_i (s_i·o_i + o_i(o_i − 1)/2)
    Assumes: the run drains
    Summary: Exact in integers, whatever the policy.
    """
    rng = context.rng
    cases = [
        (policy, random_requests(rng, 15, 20, 6), int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        for policy in _POLICIES
        for _ in range(context.choose(2, 30, 500))
    ]

    def holds(case: tuple[str, tuple[list[int], list[int]], int, int]) -> bool:
        policy, (prompts, outputs), G, B = case
        run = small_run(prompts, outputs, policy, G, B, steps=steps)
        work = sum(s * o + o * (o - 1) // 2 for s, o in zip(prompts, outputs, strict=True))
        return int(run.total_load.sum()) == work and run.tokens == sum(outputs)

    return examine(
        "Σ_k Σ_g L_g(k) = Σ_i Σ_j w_i(j), and one token per request and step",
        f"random runs of 15 requests under {', '.join(_POLICIES)}",
        cases,
        holds,
    )


# Monotonicity.


@CLAIMS.own("own.pool-monotone", Mutation("pools that leave slots empty", saturated=False))
def _monotone_check(context: Context, *, saturated: bool = True) -> Outcome:
    """A larger pool never hurts a step.

    Source: BF-IO paper, (IO) (our consequence)
    Statement: If the pool already fills all slots, one more waiting request does not raise the
        optimum of (IO).
    Formula: R ⊆ R′, |R| ≥ Σ cap_g  ⇒  J*(R′) ≤ J*(R)
    Assumes: |R| ≥ Σ_g cap_g
    Summary: With fewer requests than slots it is false: one more request must then be admitted.
    """
    largest, spread = context.choose((3, 2), (4, 3), (5, 4))
    pools = [
        (base, slots, pool)
        for slots in ((1, 1), (2, 1))
        for base in product(range(spread + 1), repeat=2)
        for n in range(sum(slots) if saturated else 0, sum(slots) + 2)
        for pool in multisets(n, largest)
    ]

    def optimum(base: tuple[int, ...], slots: tuple[int, ...], pool: tuple[int, ...]) -> int:
        return min(map(imbalance, reachable_loads(base, slots, pool)))

    return examine(
        "one more waiting request does not raise the optimum",
        f"two workers with 1 or 2 slots, loads up to {spread}, sizes up to {largest}, pools that "
        "fill all slots",
        pools,
        lambda c: all(
            optimum(c[0], c[1], (*c[2], extra)) <= optimum(*c) for extra in range(1, largest + 1)
        ),
    )


# Lemma 1, sharper.


@CLAIMS.own(
    "own.sharp-balance",
    Mutation("the tie-break dropped", tie_break=False),
    Mutation("one token less", shift=1),
)
def _sharp_check(context: Context, *, tie_break: bool = True, shift: int = 0) -> Outcome:
    """The spread of sizes bounds the gap.

    Source: BF-IO paper, Lemma 1 (our sharpening)
    Statement: For the optimum that is lexicographically smallest in (maximum load, number of
        workers at it) the gap is at most s_max − s_min, and every optimum's imbalance at most G −
        1 times that.
    Formula: M − m ≤ s_max − s_min,  Imb ≤ (G − 1)(s_max − s_min)
    Assumes: G workers with B slots each; a round of G·B sizes in s_min..s_max
    Summary: A swap moves the difference of two sizes, so the spread of sizes takes the place of
        the largest. Equal sizes give perfect balance.
    """
    largest = context.choose(4, 5, 6)
    shapes = context.choose(
        ((2, 2), (2, 2, 2)), ((2, 2), (2, 2, 2), (3, 3)), ((2, 2, 2), (3, 3, 3))
    )
    rounds = list(
        optimal_rounds(shapes, largest, fewest_maximisers if tie_break else least_maximum)
    )
    spread = examine(
        "M − m ≤ s_max − s_min for the tie-broken optimum",
        f"every round with sizes 1..{largest}, slots {shapes}",
        rounds,
        lambda i: gap(i[2]) <= max(i[1]) - min(i[1]) - shift,
        lambda i: max(i[1]) - min(i[1]) >= shift,
    )
    bound = examine(
        "Imb ≤ (G − 1)·(s_max − s_min)",
        "the same",
        rounds,
        lambda i: imbalance(i[2]) <= (len(i[0]) - 1) * (max(i[1]) - min(i[1]) - shift),
        lambda i: max(i[1]) - min(i[1]) >= shift,
    )
    return spread, bound


# Checkpoints of the KV cache.
