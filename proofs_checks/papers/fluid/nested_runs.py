"""Runs of Nested WAIT: their memory in terms of queues (appendix C), and runs that are alike."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

from bfio.wait.chains import nested_policy, queue_lengths
from bfio.wait.run import StageRun
from formulations.arrays import IntArray
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.exact_laws import binomial_chance, gathered
from proofs_checks.papers.fluid.full_batch import full_batch
from proofs_checks.papers.fluid.printed import printed_policy_memory
from proofs_checks.papers.fluid.runs import instance_of, random_setting, reference
from proofs_checks.papers.fluid.structure import waiting_at
from proofs_checks.search import Domain, examine

CLAIMS = Claims()


@dataclass(frozen=True)
class Load:
    """Requests for Nested WAIT: prompt, ends, thresholds, (time, output) pairs, engine times."""

    prompt: int
    ends: tuple[int, ...]
    thresholds: tuple[int, ...]
    requests: tuple[tuple[int, int], ...]
    fixed: int
    per_token: int

    def run(self) -> StageRun:
        """Serve them."""
        rows = [(t, self.prompt, output) for t, output in self.requests]
        policy = nested_policy(self.ends, self.thresholds)
        duration = max(t for t, _ in self.requests) + 40 * self.fixed
        return reference(instance_of(rows, self.fixed, self.per_token), policy, duration)

    def worst(self, full: Fraction | int) -> Fraction:
        """Largest ``memory − full − Σ_k W_k (l + l'_{k−1})`` over the batches."""
        run, policy = self.run(), nested_policy(self.ends, self.thresholds)
        if not len(run.batches):
            return Fraction(-1)
        queues = queue_lengths(run, policy).recorded[:, 1:]
        held = queues @ np.array([self.prompt + end for end in self.ends[:-1]], dtype=np.int64)
        return Fraction(int((run.batches.memory - held).max())) - full


def verify_memory(data: Data) -> str | None:
    """Confirm that a run exceeds M^π of (11) and its queues."""
    requests = tuple((t, o) for t, o in data["requests"])
    ends, thresholds = tuple(data["ends"]), tuple(data["thresholds"])
    load = Load(data["prompt"], ends, thresholds, requests, data["fixed"], data["per_token"])
    positive = (load.prompt, load.fixed, load.per_token, *load.ends, *load.thresholds)
    if not requests or min(positive) < 1 or min(min(r) for r in requests) < 0 or len(ends) < 2:
        return None
    # Prompts that end at ends of segments, as in section 5.
    if not {o for _, o in requests} <= set(load.ends) or len(load.ends) != len(load.thresholds):
        return None
    printed = printed_policy_memory(load.prompt, load.ends, load.thresholds)
    over = load.worst(printed)
    if over <= 0:
        return None
    return f"M^π of (11) is {printed}; a batch needs {over} more than that and the queues' tokens"


def _loads(context: Context) -> Iterator[Load]:
    rng = context.rng
    for _ in range(context.choose(40, 400, 4000)):
        setting = random_setting(rng, context.choose(25, 40, 100), equal_prompts=True)
        ends = tuple(sorted({max(1, output) for _, output in setting.classes}))
        thresholds = tuple(rng.integers(1, 4, len(ends)).tolist())
        requests = tuple((t, max(1, output)) for t, _, output in setting.requests)
        per_token = max(1, setting.per_token)
        if len(ends) > 1:
            yield Load(setting.classes[0][0], ends, thresholds, requests, setting.fixed, per_token)


@CLAIMS.step(
    "fluid.nested-memory",
    Mutation("no queues in the correction", queues=False),
    Mutation("the full batch as printed", printed=False),
    defect=Defect.FORMULA,
    verify=verify_memory,
)
def _memory_check(context: Context, *, queues: bool = True, printed: bool = True) -> Outcome:
    """Memory of a batch in terms of the queues.

    Source: fluid paper, proof of Theorem 2 ('Memory Consumption', appendix C)
    Statement: At batch s the memory is M^π of (11) and l + l'_{j−1} for each prompt that waits
        before segment j ≥ 2.
    Formula: Memory^s ≤ M^π + Σ_{j≥2} W_j^s·(l + l'_{j−1})
    Assumes: l'_1 < ... < l'_m, m ≥ 2; one prompt length l; W after the decision, at the last batch
        with segment j − 1
    Summary: At every batch, also where thresholds break (10); with equality in many.
    Reading: on a path of few arrivals; rates that satisfy (10) bring it with positive probability.
    Correction: It holds with the memory of a full batch in place of (11) (fluid.eq11), path by
        path and for any thresholds.
    """
    loads = list(_loads(context))
    domain = Domain("runs of Nested WAIT on random small engines, thresholds of any size", loads)

    def exact(load: Load) -> int:
        return full_batch((load.prompt, load.ends, load.thresholds))

    def within(load: Load) -> bool:
        if not queues:
            return load.run().peak_memory <= exact(load)
        return load.worst(exact(load)) <= 0

    as_printed = domain.refute(
        "memory ≤ M^π of (11) + Σ W_k(l + l'_{k−1})",
        verify_memory,
        lambda c: {
            "prompt": c.prompt,
            "ends": list(c.ends),
            "thresholds": list(c.thresholds),
            "requests": [list(r) for r in c.requests],
            "fixed": c.fixed,
            "per_token": c.per_token,
        },
        holds=lambda c: (
            c.worst(printed_policy_memory(c.prompt, c.ends, c.thresholds) if printed else exact(c))
            <= 0
        ),
    )
    corrected = domain.examine("the same with the memory of a full batch", within)
    return Findings(
        as_printed, corrected, numbers={"attained": sum(c.worst(exact(c)) == 0 for c in loads)}
    )


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


@CLAIMS.step("fluid.theorem2-transfers", Mutation("the first two prompts alike", together=True))
def _transfers_check(context: Context, *, together: bool = False) -> Outcome:
    """Transfers between segments.

    Source: fluid paper, proof of Theorem 2 (appendix C)
    Statement: The prompts that go on from segment k − 1 are independent Binomial(n_{k−1}, P_k).
    Formula: Y_k^s ~ Binomial(n_{k−1}, (λ_k + ... + λ_m)/(λ_{k−1} + ... + λ_m)), independent
    Assumes: types independent of one another and of the times
    Summary: No decision reads a type before it shows, so the next cohort's are fresh.
    """
    share = Fraction(1, 3)

    def holds(case: tuple[tuple[int, int], tuple[int, int], tuple[int, ...]]) -> bool:
        outputs, thresholds, times = case

        def weighed(types: tuple[int, ...]) -> tuple[tuple[int, ...], Fraction]:
            drawn = (types[0], types[0], *types[2:]) if together else types
            chance = prod((share if j else 1 - share for j in types), start=Fraction(1))
            return _transfers(outputs, drawn, times, thresholds), chance

        law = gathered(map(weighed, product((0, 1), repeat=len(times))))
        n = thresholds[0]
        return all(
            chance == prod((binomial_chance(n, share, y) for y in moved), start=Fraction(1))
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


@CLAIMS.own("fluid.nested-structure", Mutation("prompts that end within a segment", unequal=True))
def _structure_check(context: Context, *, unequal: bool = False) -> Outcome:
    """Cohorts of Nested WAIT.

    Source: Ours; Algorithm 2
    Statement: Each batch has exactly n_1 fresh prompts, and stages within segment i hold 0 or n_i.
    Formula: n_ik ∈ {0, n_i} beyond the first stage;  S ≤ N/n_1
    Assumes: prompts complete at ends of segments only; runs that begin empty
    Summary: Where prompts complete at ends of segments only.
    """
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
