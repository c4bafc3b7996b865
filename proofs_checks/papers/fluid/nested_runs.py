"""What runs of Nested WAIT obey: transfers between segments, and cohorts."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import comb, prod

import numpy as np

from bfio.wait.chains import nested_policy
from bfio.wait.queues import queue_lengths
from bfio.wait.run import StageRun
from formulations.arrays import IntArray
from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.fluid.runs import instance_of, random_setting, reference
from proofs_checks.papers.fluid.structure import waiting_at
from proofs_checks.search import examine


def _transfers(
    outputs: Sequence[int], types: Sequence[int], times: Sequence[int], thresholds: Sequence[int]
) -> tuple[int, ...]:
    """Return ``Y_2`` of the first batches of a run, the pipeline filled."""
    requests = [(t, 1, outputs[j]) for t, j in zip(times, types, strict=True)]
    policy = nested_policy(outputs, thresholds)
    run = reference(instance_of(requests, 3, 1), policy, times[-1] + 200)
    moved = queue_lengths(run, policy).transfers(1).tolist()
    # The first l'_1 batches bring nothing: segment 1 is being filled.
    return tuple(moved[outputs[0] :])


def _transfers_check(context: Context, *, together: bool = False) -> Outcome:
    share = Fraction(1, 3)

    def holds(case: tuple[tuple[int, int], tuple[int, int], tuple[int, ...]]) -> bool:
        outputs, thresholds, times = case
        law: dict[tuple[int, ...], Fraction] = {}
        for types in product((0, 1), repeat=len(times)):
            drawn = (types[0], types[0], *types[2:]) if together else types
            chance = prod((share if j else 1 - share for j in types), start=Fraction(1))
            moved = _transfers(outputs, drawn, times, thresholds)
            law[moved] = law.get(moved, Fraction(0)) + chance
        n = thresholds[0]
        return all(
            chance
            == prod(
                (comb(n, y) * share**y * (1 - share) ** (n - y) for y in moved), start=Fraction(1)
            )
            for moved, chance in law.items()
        )

    cases = [
        (
            (first, first + 1),
            (2, n),
            tuple(np.sort(context.rng.choice(30, 6, replace=False)).tolist()),
        )
        for first, n in context.choose(
            [(0, 1)], [(0, 1), (1, 2), (0, 3)], [(0, 1), (1, 2), (2, 3)]
        )
    ]
    return examine(
        "transfers are independent Binomial(n_1, P_2)",
        "small instances, the types of 6 prompts in all 64 ways, weighed in fractions",
        cases,
        holds,
    )


def _structure_check(context: Context, *, unequal: bool = False) -> Outcome:
    rng = context.rng

    def holds(seed: int) -> bool:
        own = np.random.default_rng(seed)
        setting = random_setting(own, context.choose(25, 40, 100), equal_prompts=True)
        ends = [output for _, output in setting.classes]
        thresholds = own.integers(1, 4, len(ends)).tolist()
        if unequal:
            # Prompts may end within a segment.
            ends, thresholds = [ends[-1] + 1], [3]
        policy = nested_policy(ends, thresholds)
        run = reference(setting.instance(), policy, setting.requests[-1][0] + 60)
        events = run.log.events()
        fresh = np.bincount(events.batch[events.stage == 0], minlength=len(run.batches))
        inner = [
            (n, stage)
            for entry, end, n in policy.chains[0].segments
            for stage in range(entry + 1, end + 1)
        ]
        return (
            bool((fresh == thresholds[0]).all())
            and all(np.isin(_waiting(run, k), (0, n)).all() for n, k in inner)
            and len(run.batches) * thresholds[0] <= len(run.instance)
        )

    return examine(
        "each batch has n_1 fresh prompts; inner stages of segment i hold 0 or n_i; S ≤ N/n_1",
        "runs of Nested WAIT on random small engines",
        rng.integers(10**9, size=context.choose(25, 250, 2500)).tolist(),
        holds,
    )


def _waiting(run: StageRun, stage: int) -> IntArray:
    """Count those that wait for a stage and have it to pass."""
    return waiting_at(run, np.flatnonzero(run.instance.output >= stage), stage)


_APPENDIX = "fluid paper, proof of Theorem 2 (appendix C)"


CLAIMS = (
    Claim(
        id="fluid.theorem2-transfers",
        source=_APPENDIX,
        title="Transfers between segments",
        statement="The prompts that go on from segment k − 1 are independent Binomial(n_{k−1}, "
        "P_k).",
        formula="Y_k^s ~ Binomial(n_{k−1}, (λ_k + ... + λ_m)/(λ_{k−1} + ... + λ_m)), independent",
        hypotheses=("types independent of one another and of the times",),
        kind=Kind.FINITE,
        check=_transfers_check,
        summary="No decision reads a type before it shows, so the next cohort's are fresh.",
        mutations=(Mutation("the first two prompts alike", together=True),),
    ),
    Claim(
        id="fluid.nested-structure",
        source="Ours; Algorithm 2",
        title="Cohorts of Nested WAIT",
        statement="Each batch has exactly n_1 fresh prompts, and stages within segment i hold 0 "
        "or n_i.",
        formula="n_ik ∈ {0, n_i} beyond the first stage;  S ≤ N/n_1",
        hypotheses=("prompts complete at ends of segments only", "runs that begin empty"),
        kind=Kind.FINITE,
        check=_structure_check,
        summary="Where prompts complete at ends of segments only.",
        mutations=(Mutation("prompts that end within a segment", unequal=True),),
    ),
)
