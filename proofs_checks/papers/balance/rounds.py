"""Rounds of equal outputs: Lemma 1, the law of a round, and our own claims on rounds and steps."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np

from formulations.arrays import integer_matrix, integer_vector
from formulations.step import Objective, StepProblem, solve
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Findings, Outcome, dismiss_if, verifier
from proofs_checks.runs import (
    Loads,
    gap,
    groups_with_loads,
    imbalance,
    multisets,
    random_requests,
    reachable_loads,
    small_run,
    step_loads,
)
from proofs_checks.search import examine

CLAIMS = Claims()


#: Slots per worker, sizes of a round, and the loads of one assignment of it.
OptimalRound = tuple[tuple[int, ...], tuple[int, ...], Loads]
Rule = Callable[[Loads], tuple[int, ...]]
_EQUAL = ((2, 2, 2),)
_MORE = ((2, 2), (2, 2, 2), (3, 3), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3))


def least_maximum(loads: Loads) -> tuple[int, ...]:
    """Return the objective of Lemma 1: the maximum load [tokens]."""
    return (max(loads),)


def fewest_maximisers(loads: Loads) -> tuple[int, ...]:
    """Return the objective in the proof: maximum load, then the number of workers at it."""
    return max(loads), loads.count(max(loads))


def optimal_rounds(
    shapes: Sequence[tuple[int, ...]], largest: int, rule: Rule
) -> Iterator[OptimalRound]:
    """Yield every optimal assignment, up to equal loads, of every round with these slots."""
    for slots in shapes:
        for sizes in multisets(sum(slots), largest):
            # Workers are interchangeable: one order of the loads is enough.
            reached = {tuple(sorted(x)) for x in reachable_loads([0] * len(slots), slots, sizes)}
            best = min(map(rule, reached))
            for loads in sorted(reached):
                if rule(loads) == best:
                    yield slots, sizes, loads


def gap_within_largest(_: tuple[int, ...], sizes: tuple[int, ...], loads: Loads) -> bool:
    """Return ``M − m ≤ s_max`` with ``s_max`` the largest size in the round."""
    return gap(loads) <= max(sizes)


@verifier
def verify(groups: list[list[int]]) -> str:
    """Confirm that ``groups`` is an optimal assignment with too large a gap."""
    sizes = [size for group in groups for size in group]
    slots = [len(group) for group in groups]
    dismiss_if(len(set(slots)) != 1 or min(slots) < 1 or min(sizes) < 1)
    loads = [sum(group) for group in groups]
    least = min(max(x) for x in reachable_loads([0] * len(groups), slots, sizes))
    dismiss_if(max(loads) > least or gap(loads) <= max(sizes))
    return (
        f"loads {loads}: no assignment has a maximum below {least}, "
        f"yet M − m = {gap(loads)} > s_max = {max(sizes)}"
    )


def as_data(instance: OptimalRound) -> Data:
    """Return an instance as plain data, with an assignment that gives its loads."""
    slots, sizes, loads = instance
    groups = groups_with_loads([0] * len(slots), slots, sizes, loads)
    assert groups is not None
    return {"groups": groups}


def random_round(context: Context) -> StepProblem:
    """Draw a round of two sizes: it has many optima, where the lemma is most likely to fail."""
    G, B = (int(context.rng.integers(3, 5)), int(context.rng.integers(2, 4)))
    largest = int(context.rng.integers(4, 20))
    sizes = np.where(np.arange(G * B) < context.rng.integers(1, G * B), largest, 1)
    return StepProblem(
        integer_vector([B] * G, "capacity"),
        integer_matrix([[0]] * G, "base"),
        integer_matrix(sizes[:, None], "contribution"),
        objective=Objective.MAX_LOAD,
    )


def lemma_holds_by_program(problem: StepProblem) -> bool:
    """Return whether integer programs find no optimal assignment that breaks the lemma.

    Let M* be the least maximum. A violation exists iff the loads can stay within M* on all workers
    and within M* − s_max − 1 on the last. This is a step program with token capacities.
    """
    least, largest = solve(problem).objective, int(problem.contribution.max())
    if least is None or least <= largest:
        return True
    limits = [least] * (len(problem.capacity) - 1) + [least - largest - 1]
    tighter = replace(problem, token_capacity=integer_vector(limits, "token_capacity"))
    return solve(tighter).objective is None


def _rounds(
    context: Context, rule: Rule, shapes: Sequence[tuple[int, ...]]
) -> tuple[str, Iterator[OptimalRound]]:
    """Return optimal assignments, and how they were generated."""
    largest = context.choose(3, 5, 6)
    made = f"every optimal assignment of every round with sizes 1..{largest}, slots {shapes}"
    return made, optimal_rounds(shapes, largest, rule)


@CLAIMS.result(
    "balance.lemma1",
    Mutation("the tie-break dropped from the correction", corrected_rule=least_maximum),
    Mutation(
        "workers with different numbers of slots in the correction",
        corrected_shapes=((3, 1), (2, 1, 1)),
    ),
    Mutation("two workers only, where the lemma is true", shapes=((2, 2),)),
    defect=Defect.HYPOTHESIS,
    verify=verify,
)
def _lemma1_check(
    context: Context,
    *,
    shapes: Sequence[tuple[int, ...]] | None = None,
    corrected_rule: Rule = fewest_maximisers,
    corrected_shapes: Sequence[tuple[int, ...]] | None = None,
) -> Outcome:
    """Least maximum load is s_max-balanced.

    Source: BF-IO paper, Lemma 1 (appendix C.1)
    Statement: For any optimal assignment minimising the maximum load M of a round, the gap between
        the most and the least loaded worker is at most s_max.
    Formula: {S_g} ∈ argmin max_g L_g  ⇒  M − m ≤ s_max
    Assumes: G workers with B slots each; a round of G·B sizes in 1..s_max, all placed
    Summary: Several workers may share the maximum; then a light one can stay as light as it likes.
        Only the proof's own tie-break, fewest workers at the maximum, forces the gap down.
    Correction: It holds for every assignment that is lexicographically smallest in (maximum load,
        number of workers at the maximum); the printed proof uses this tie-break and then claims
        the bound for every optimum. What the theorem needs survives: balance.round-law.
    """
    default = context.choose(_EQUAL, _MORE, _MORE)
    printed = _rounds(context, least_maximum, shapes or default)
    corrected = _rounds(context, corrected_rule, corrected_shapes or default)
    searched = context.choose(0, 20, 200)
    programs = (
        examine(
            "printed statement, by integer programs",
            "random rounds of two sizes on 3 or 4 workers with 2 or 3 slots; CP-SAT looks for an "
            "optimal assignment with a gap above s_max",
            (random_round(context) for _ in range(searched)),
            lemma_holds_by_program,
        ),
    )
    as_printed = context.refute(
        "printed statement", *printed, as_data, holds=gap_within_largest, found="exhaustive search"
    )
    return Findings(
        as_printed,
        *(programs if searched else ()),
        examine("corrected statement", *corrected, gap_within_largest),
        printed=1 + bool(searched),
    )


#: Policies of the lockstep claim, which concerns the model and holds for every policy.
_POLICIES = ("fcfs", "jsq-tokens", "longest-first")


@CLAIMS.step("balance.lockstep", Mutation("outputs that differ", equal=False))
def _lockstep_check(context: Context, *, equal: bool = True) -> Outcome:
    """A round has one imbalance.

    Source: BF-IO paper, proof of Theorem 1 (appendix C.1), reduction
    Statement: With equal outputs o, G·B requests are admitted together, end together after o
        steps, and the imbalance is the same at each of these steps.
    Formula: o_i = o  ⇒  Imbalance(k) constant over each round of o steps
    Assumes: all outputs equal; full rounds of G·B requests; any policy that fills slots
    Summary: All loads of a round rise by B per step; their differences stay.
    """
    rng = context.rng
    cases = []
    for _ in range(context.choose(8, 60, 1000)):
        G, B, o = (int(rng.integers(2, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 5)))
        prompts = rng.integers(1, 9, 2 * G * B).tolist()
        outputs = [o if equal else int(rng.integers(1, 5)) for _ in prompts]
        cases.append((G, B, o, prompts, outputs))

    def holds(G: int, B: int, o: int, prompts: list[int], outputs: list[int]) -> bool:
        for policy in _POLICIES:
            loads = step_loads(small_run(prompts, outputs, policy, G, B)).tolist()
            values = [imbalance(row) for row in loads]
            rounds = [values[k : k + o] for k in range(0, len(values), o)]
            if len(rounds) != 2 or any(len(set(values)) != 1 for values in rounds):
                return False
        return True

    return examine(
        "every round lasts o steps of one imbalance",
        f"random runs of two rounds on 2 or 3 workers under {', '.join(_POLICIES)}",
        cases,
        holds,
    )


# Theorem 1, reduction to rounds: sizes admitted to a round.


def overloaded(counts: tuple[int, ...], free: int) -> bool:
    """Return whether a pool with ``counts[v]`` requests of size v is overloaded (Definition 1)."""
    return sum(counts) - max(counts) >= free


def perfect(pool: Sequence[int], workers: int, slots: int) -> bool:
    """Return whether some assignment of a pool to empty workers has imbalance 0."""
    return 0 in map(imbalance, reachable_loads([0] * workers, [slots] * workers, pool))


def perfect_chances(workers: int, slots: int, values: int) -> tuple[Fraction, Fraction]:
    """Return the probability of a round with imbalance 0, under (IO) and for independent draws.

    Prompts are uniform on 1..values and arrive one by one until the pool is overloaded. (IO)
    chooses from the pool; an independent draw is the first G·B arrivals.
    """
    free = workers * slots

    def chosen(counts: tuple[int, ...]) -> Fraction:
        # G·B requests of one size stay in the pool; they give imbalance 0.
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


@verifier
def verify_selection(workers: int, slots: int, values: int) -> str:
    """Confirm that rounds under (IO) and independent draws are perfect with unequal chances."""
    dismiss_if(workers < 2 or slots < 1 or values < 2 or values ** (workers * slots) > 10**4)
    program, independent = perfect_chances(workers, slots, values)
    dismiss_if(program == independent)
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
    printed = context.refute(
        "the sizes in a round are independent draws",
        f"exact probabilities for (workers, slots, largest prompt) in {shapes}; the pool holds "
        "the arrivals until it is overloaded",
        shapes,
        holds=None if by_program else (lambda _: True),
    )
    largest = context.choose(3, 4, 5)
    cases = [
        (slots, pool)
        for slots in ((1, 1), (1, 1, 1), (2, 2))
        for spare in range(3)
        for pool in multisets(sum(slots) + spare, largest)
    ]

    def bounded(slots: tuple[int, ...], pool: tuple[int, ...]) -> bool:
        reached = reachable_loads([0] * len(slots), slots, pool)
        return factor * min(map(imbalance, reached)) <= (len(slots) - 1) * max(pool)

    corrected = examine(
        "whoever (IO) admits, Imb ≤ (G − 1)·s_max",
        f"rounds with up to 2 requests to spare, sizes up to {largest}",
        cases,
        bounded,
    )
    return printed, corrected


#: Workers, slots per worker, and numbers of requests of each size in the pool.
Round = tuple[int, int, tuple[int, ...]]


def threshold(sizes: int, workers: int) -> int:
    """``T(K, G)``: largest B at which K sizes can leave an imbalance; below 1 there is none."""
    return (sizes - 1) ** 2 + sizes * (-(sizes - 1) // workers)


def is_perfect(
    workers: int, slots: int, counts: Sequence[int], sizes: Sequence[int] | None = None
) -> bool:
    """Return whether the least imbalance of the round is 0, for the given sizes or 1, 2, ..."""
    names = sizes or range(1, len(counts) + 1)
    pool = [v for v, count in zip(names, counts, strict=True) for _ in range(count)]
    return perfect(pool, workers, slots)


def has_layers(workers: int, slots: int, counts: Sequence[int]) -> bool:
    """Return whether the pool has B layers of G equal requests, one per worker."""
    return sum(count // workers for count in counts) >= slots


def is_overloaded(workers: int, slots: int, counts: tuple[int, ...]) -> bool:
    """Return whether the pool fills all slots without any one size (Definition 1)."""
    return overloaded(counts, workers * slots)


def smallest_overloaded(workers: int, slots: int, sizes: int) -> Iterator[Round]:
    """Yield the overloaded pools that lose this property if any request is removed."""
    free = workers * slots
    for counts in product(range(free + 1), repeat=sizes):
        others = sum(counts) - max(counts)
        # Without one request, too few requests remain of sizes other than the most numerous.
        if others == free and counts.count(max(counts)) > 1:
            yield workers, slots, counts


def sharp_round(workers: int, sizes: int) -> Round:
    """Return a round with B = T(K, G), K equally frequent sizes and no B layers."""
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


@CLAIMS.own(
    "own.overloaded-rounds",
    Mutation("one slot per worker", slots=lambda sizes, workers: 1),
    Mutation("B = T(K, G)", slots=threshold),
    Mutation("one slot more in the pool without layers", more=1),
    proof="overloaded-rounds",
)
def _perfect_check(
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

    def without_layers(G: int, K: int) -> bool:
        workers, B, counts = sharp_round(G, K)
        case = workers, B + more, counts
        return is_overloaded(*case) and not has_layers(*case)

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
        # Multisets of up to B of these sizes have different sums.
        lambda G, B, counts: (
            not is_perfect(G, B, counts, [(B + 1) ** j for j in range(len(counts))])
        ),
    )
    return layers, perfect, sharp, imbalanced


_ALL_POLICIES = ("fcfs", "jsq", "jsq-tokens", "round-robin", "longest-first", "br-0")


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
        for policy in _ALL_POLICIES
        for _ in range(context.choose(2, 30, 500))
    ]

    def holds(case: tuple[str, tuple[list[int], list[int]], int, int]) -> bool:
        policy, (prompts, outputs), G, B = case
        run = small_run(prompts, outputs, policy, G, B, steps=steps)
        work = sum(s * o + o * (o - 1) // 2 for s, o in zip(prompts, outputs, strict=True))
        return int(run.total_load.sum()) == work and run.tokens == sum(outputs)

    return examine(
        "Σ_k Σ_g L_g(k) = Σ_i Σ_j w_i(j), and one token per request and step",
        f"random runs of 15 requests under {', '.join(_ALL_POLICIES)}",
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
        lambda base, slots, pool: all(
            optimum(base, slots, (*pool, extra)) <= optimum(base, slots, pool)
            for extra in range(1, largest + 1)
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
        lambda _, sizes, loads: gap(loads) <= gap(sizes) - shift,
        lambda _, sizes, __: gap(sizes) >= shift,
    )
    bound = examine(
        "Imb ≤ (G − 1)·(s_max − s_min)",
        "the same",
        rounds,
        lambda slots, sizes, loads: imbalance(loads) <= (len(slots) - 1) * (gap(sizes) - shift),
        lambda _, sizes, __: gap(sizes) >= shift,
    )
    return spread, bound


# Checkpoints of the KV cache.
