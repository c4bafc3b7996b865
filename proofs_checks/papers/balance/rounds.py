"""Appendix C.1, reduction to one round: equal outputs, lockstep, and who is in a round."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import product

from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Data, Evidence
from proofs_checks.runs import small_run, step_loads
from proofs_checks.search import corrected_evidence, evidence_of, examine
from proofs_checks.step_enumeration import imbalance, multisets, reachable_loads

#: Policies of the lockstep claim; it is one on the model, not on a policy.
_POLICIES = ("fcfs", "jsq-tokens", "longest-first")


def _lockstep_check(context: Context, *, equal: bool = True) -> Evidence:
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

    seen = examine(
        "every round lasts o steps of one imbalance",
        f"random runs of two rounds on 2 or 3 workers under {', '.join(_POLICIES)}",
        cases,
        holds,
    )
    return evidence_of(seen, "All loads of a round rise by B per step; their differences stay.")


# Who is admitted.


def law_of_pairs(values: int, count: int, by_program: bool) -> dict[bool, Fraction]:
    """Law of whether the pair that enters a round is of one size.

    Parameters
    ----------
    values, count : int
        Prompts are uniform on 1..values; the pool holds ``count`` of them.
    by_program : bool
        Whether (IO) chooses the pair for two workers of one slot, or arrival order.
    """
    pools = list(product(range(1, values + 1), repeat=count))

    def alike(pool: tuple[int, ...]) -> bool:
        if not by_program:
            return pool[0] == pool[1]
        return 0 in map(imbalance, reachable_loads([0, 0], [1, 1], pool))

    share = Fraction(sum(map(alike, pools)), len(pools))
    return {True: share, False: 1 - share}


def verify_selection(data: Data) -> str | None:
    """Compare the law of the admitted pair under (IO) with that of two independent draws."""
    values, count = data["values"], data["pool"]
    if values < 2 or count < 2:
        return None
    program = law_of_pairs(values, count, by_program=True)
    independent = law_of_pairs(values, count, by_program=False)
    if program == independent:
        return None
    return (
        f"prompts uniform on 1..{values}, {count} in the pool, two workers with one slot: (IO) "
        f"admits two equal prompts with probability {program[True]}, independent draws are equal "
        f"with probability {independent[True]}"
    )


def _selection_check(
    context: Context, *, pools: Sequence[int] = (2, 3, 4), factor: int = 1
) -> Evidence:
    largest = context.choose(3, 4, 5)
    printed = examine(
        "the sizes in a round are independent draws",
        f"exact laws for prompts uniform on 1..2 to 1..{largest} and pools of {tuple(pools)}",
        list(product(range(2, largest + 1), pools)),
        lambda case: verify_selection({"values": case[0], "pool": case[1]}) is None,
    )
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
    return corrected_evidence(
        printed,
        corrected,
        verify_selection,
        lambda case: {"values": case[0], "pool": case[1]},
        "With a pool to choose from (IO) prefers sets that divide evenly; the bound needs no law.",
    )


CLAIMS = (
    Claim(
        id="balance.lockstep",
        source="BF-IO paper, proof of Theorem 1 (appendix C.1), reduction",
        title="A round has one imbalance",
        statement="With equal outputs o, G·B requests are admitted together, end together after o "
        "steps, and the imbalance is the same at each of these steps.",
        formula="o_i = o  ⇒  Imbalance(k) constant over each round of o steps",
        hypotheses=(
            "all outputs equal",
            "full rounds of G·B requests",
            "any policy that fills slots",
        ),
        kind=Kind.FINITE,
        check=_lockstep_check,
        mutations=(Mutation("outputs that differ", partial(_lockstep_check, equal=False)),),
    ),
    Claim(
        id="balance.round-law",
        source="BF-IO paper, proof of Theorem 1 (appendix C.1), reduction",
        title="A round holds independent draws",
        statement="Given any overloaded instance, the multiset of prefill lengths entering each "
        "round "
        "consists of G·B independent draws, for each policy.",
        formula="multiset of a round ~ 𝒟_prefill^{G·B} under π ∈ {FCFS, BF-IO}",
        hypotheses=("prompts independent", "a pool with more requests than slots (Definition 1)"),
        kind=Kind.COUNTEREXAMPLE,
        check=_selection_check,
        mutations=(
            Mutation("a pool of exactly the round", partial(_selection_check, pools=(2,))),
            Mutation("half the bound in the correction", partial(_selection_check, factor=2)),
        ),
        correction="It is true of FCFS, which does not look at sizes. (IO) chooses from the pool, "
        "and "
        "what it leaves behind is not independent either. The theorem needs only Imb ≤ (G − "
        "1)·s_max, "
        "which holds for every realisation and whoever is admitted.",
        verify=verify_selection,
    ),
)
