"""Theorem 1: Lemma 1 on rounds of least maximum load, and the law of a round."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np

from formulations.arrays import integer_matrix, integer_vector
from formulations.errors import InputError
from formulations.step import Objective, StepProblem, solve
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.runs import small_run, step_loads
from proofs_checks.search import examine, named, refute
from proofs_checks.step_enumeration import (
    Loads,
    gap,
    groups_with_loads,
    imbalance,
    multisets,
    reachable_loads,
)

CLAIMS = Claims()


#: Slots per worker, sizes of a round, and the loads of one assignment of it.
OptimalRound = tuple[tuple[int, ...], tuple[int, ...], Loads]
Rule = Callable[[Loads], tuple[int, ...]]
_EQUAL = ((2, 2, 2),)
_MORE = ((2, 2), (2, 2, 2), (3, 3), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3))


def least_maximum(loads: Loads) -> tuple[int, ...]:
    """Return the lemma's criterion, the maximum load alone."""
    return (max(loads),)


def fewest_maximisers(loads: Loads) -> tuple[int, ...]:
    """Return the proof's criterion: maximum load, then the number of workers that have it."""
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


def gap_within_largest(instance: OptimalRound) -> bool:
    """``M − m ≤ s_max`` with ``s_max`` the largest size in the round."""
    _, sizes, loads = instance
    return gap(loads) <= max(sizes)


def verify(data: Data) -> str | None:
    """Confirm that ``groups`` is an optimal assignment with too large a gap."""
    groups: list[list[int]] = data["groups"]
    sizes = [size for group in groups for size in group]
    slots = [len(group) for group in groups]
    if len(set(slots)) != 1 or min(slots) < 1 or min(sizes) < 1:
        return None
    loads = [sum(group) for group in groups]
    least = min(max(x) for x in reachable_loads([0] * len(groups), slots, sizes))
    if max(loads) > least or gap(loads) <= max(sizes):
        return None
    return (
        f"loads {loads}: no assignment has a maximum below {least}, "
        f"yet M − m = {gap(loads)} > s_max = {max(sizes)}"
    )


def as_data(instance: OptimalRound) -> Data:
    """Return an instance as plain data, with an assignment that gives its loads."""
    slots, sizes, loads = instance
    groups = groups_with_loads([0] * len(slots), slots, sizes, loads)
    if groups is None:
        raise InputError("loads", "no assignment gives them", "mend the enumeration")
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
    """Whether integer programs find no optimal assignment that breaks the lemma.

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
def _check(
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
        the bound for every optimum. What the theorem needs survives: balance.eq12.
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
    as_printed = refute(
        "printed statement",
        *printed,
        verify,
        as_data,
        holds=gap_within_largest,
        found="exhaustive search",
    )
    return Findings(
        as_printed,
        *(programs if searched else ()),
        examine("corrected statement", *corrected, gap_within_largest),
        printed=1 + bool(searched),
    )


@CLAIMS.step(
    "balance.eq12", Mutation("the bound lowered to (G − 2)·s_max", bound=lambda G, s: (G - 2) * s)
)
def _imbalance_check(
    context: Context, *, bound: Callable[[int, int], int] = lambda G, s: (G - 1) * s
) -> Outcome:
    """Imbalance of a round under BF-IO.

    Source: BF-IO paper, eq. (12) (appendix C.1)
    Statement: The imbalance of an optimal assignment of a round is at most (G − 1)·s_max, for
        every realisation of the sizes.
    Formula: Imb(BF-IO) ≤ (G − 1)·s_max
    Assumes: G workers with B slots each; a round of G·B sizes in 1..s_max, all placed
    Summary: All optima of a round have the same imbalance, G·M less a fixed total, so the bound
        that holds for the tie-broken optimum holds for each: the theorem does not need Lemma 1 as
        printed.
    """
    largest = context.choose(3, 5, 6)
    shapes = context.choose(_EQUAL, _MORE, _MORE)
    return examine(
        "Imb ≤ (G − 1)·s_max",
        f"every assignment of least maximum of every round with sizes 1..{largest}, slots "
        f"{shapes}",
        optimal_rounds(shapes, largest, least_maximum),
        lambda i: imbalance(i[2]) <= bound(len(i[0]), max(i[1])),
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

    def holds(case: tuple[int, int, int, list[int], list[int]]) -> bool:
        G, B, o, prompts, outputs = case
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
    """Definition 1 for a pool with ``counts[v]`` requests of each size."""
    return sum(counts) - max(counts) >= free


def perfect(pool: Sequence[int], workers: int, slots: int) -> bool:
    """Whether some assignment of a pool to empty workers has imbalance 0."""
    return 0 in map(imbalance, reachable_loads([0] * workers, [slots] * workers, pool))


def perfect_chances(workers: int, slots: int, values: int) -> tuple[Fraction, Fraction]:
    """Probability of a round with imbalance 0, under (IO) and for independent draws.

    Prompts are uniform on 1..values and arrive one by one until the pool is overloaded; (IO)
    chooses from the pool, arrival order takes the first G·B.
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
    as_data = named("workers slots values")
    shapes = [(2, 1, 2), (2, 1, 3), (2, 2, 2), (3, 1, 2)]
    shapes += context.choose([], [(3, 1, 3), (2, 3, 2)], [(3, 1, 3), (2, 3, 2), (4, 1, 3)])
    printed = refute(
        "the sizes in a round are independent draws",
        f"exact probabilities for (workers, slots, largest prompt) in {shapes}; the pool holds "
        "the arrivals until it is overloaded",
        shapes,
        verify_selection,
        as_data,
        holds=lambda case: not by_program or verify_selection(as_data(case)) is None,
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
