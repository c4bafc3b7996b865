"""Runs of Nested WAIT: memory, transfers, missing terms of gap, latency and TTFT (appendix C)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np

from bfio.wait.chains import nested_policy, queue_lengths
from bfio.wait.run import StageRun
from formulations.arrays import IntArray
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Findings, Outcome, dismiss_if, verifier
from proofs_checks.papers.fluid.equilibrium import printed_policy_memory
from proofs_checks.papers.fluid.memory import full_batch
from proofs_checks.papers.fluid.runs import (
    instance_of,
    outstanding,
    random_setting,
    reference,
    waiting_at,
)
from proofs_checks.search import examine
from proofs_checks.statistics import binomial_chance, gathered

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
        """Return the run of Nested WAIT on these requests."""
        rows = [(t, self.prompt, output) for t, output in self.requests]
        policy = nested_policy(self.ends, self.thresholds)
        duration = max(t for t, _ in self.requests) + 40 * self.fixed
        return reference(instance_of(rows, self.fixed, self.per_token), policy, duration)

    def worst(self, full: Fraction | int) -> Fraction:
        """Return the largest ``memory − full − Σ_k W_k (l + l'_{k−1})`` over the batches."""
        run, policy = self.run(), nested_policy(self.ends, self.thresholds)
        if not len(run.batches):
            return Fraction(-1)
        queues = queue_lengths(run, policy).recorded[:, 1:]
        held = queues @ np.array([self.prompt + end for end in self.ends[:-1]], dtype=np.int64)
        return Fraction(int((run.batches.memory - held).max())) - full


@verifier
def verify_memory(
    prompt: int,
    ends: list[int],
    thresholds: list[int],
    requests: list[list[int]],
    fixed: int,
    per_token: int,
) -> str:
    """Confirm that the memory of a run exceeds M^π of (11) plus the tokens of its queues."""
    pairs = tuple((t, o) for t, o in requests)
    load = Load(prompt, tuple(ends), tuple(thresholds), pairs, fixed, per_token)
    dismiss_if(not requests or min(prompt, fixed, per_token, *ends, *thresholds) < 1)
    dismiss_if(min(map(min, requests)) < 0 or len(ends) < 2 or len(ends) != len(thresholds))
    # Prompts that end at ends of segments, as in section 5.
    dismiss_if(not {o for _, o in requests} <= set(ends))
    printed = printed_policy_memory(load.prompt, load.ends, load.thresholds)
    over = load.worst(printed)
    dismiss_if(over <= 0)
    return f"M^π of (11) is {printed}; a batch needs {over} more than that and the queues' tokens"


def _loads(context: Context, number: int, most: int, *, least: int) -> Iterator[Load]:
    """Draw loads of up to ``most`` requests; outputs and time per token are ``least`` or more."""
    rng = context.rng
    for _ in range(number):
        setting = random_setting(rng, most, equal_prompts=True)
        ends = tuple(sorted({max(least, output) for _, output in setting.classes}))
        thresholds = tuple(rng.integers(1, 4, len(ends)).tolist())
        requests = tuple((t, max(least, output)) for t, _, output in setting.requests)
        per_token = max(least, setting.per_token)
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
    number, most = context.choose((40, 25), (400, 40), (4000, 100))
    loads = [load for load in _loads(context, number, most, least=1) if len(load.ends) > 1]
    domain = context.domain(
        "runs of Nested WAIT on random small engines, thresholds of any size", loads
    )

    def exact(load: Load) -> int:
        return full_batch(load.prompt, load.ends, load.thresholds)

    def within(load: Load) -> bool:
        if not queues:
            return load.run().peak_memory <= exact(load)
        return load.worst(exact(load)) <= 0

    as_printed = domain.refute(
        "memory ≤ M^π of (11) + Σ W_k(l + l'_{k−1})",
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
    """Return ``Y_2`` of the first batches of a run after the pipeline has filled."""
    requests = [(t, 1, outputs[j]) for t, j in zip(times, types, strict=True)]
    policy = nested_policy(outputs, thresholds)
    run = reference(instance_of(requests, 3, 1), policy, times[-1] + 200)
    moved = queue_lengths(run, policy).transfers(1).tolist()
    # The first l'_1 batches transfer no prompt, because segment 1 is still filling.
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
    """Count the prompts that wait for a stage and still have to pass it."""
    return waiting_at(run, np.flatnonzero(run.instance.output >= stage), stage)


# Gap, latency and TTFT in the proof of Theorem 2 omit prompts outside queues (appendix C).


@dataclass(frozen=True)
class Pair:
    """Two types at equal rates, ``l'_2 = l'_1 + 1``, on an engine with d1 > 0.

    Parameters
    ----------
    prompt, output : int
        ``l`` and ``l'_1`` [tokens].
    first, second : int
        ``n_1`` and ``n_2``.
    interval : int
        ``1/Λ``: clock units between arrivals on average.
    fixed, per_token : int
        ``d0`` and ``d1`` [clock units].
    """

    prompt: int
    output: int
    first: int
    second: int
    interval: int
    fixed: int
    per_token: int

    @property
    def longest(self) -> int:
        """``ΔT``, with the memory of a full batch."""
        full = full_batch(self.prompt, (self.output, self.output + 1), (self.first, self.second))
        return self.fixed + self.per_token * full

    @property
    def applies(self) -> bool:
        """Whether (10) holds, ``ΔT < n_1/Λ`` and ``n_2 > n_1/2``, and n_2 < n_1."""
        positive = min(vars(self).values()) >= 1
        return (
            positive
            and self.longest < self.first * self.interval
            and 2 * self.second > self.first > self.second
        )

    @property
    def first_queue(self) -> Fraction:
        """``2n_1 + ΔT·Λ/(2(n_1 − ΔT·Λ))``: the bound on ``E[W_1]``."""
        come = Fraction(self.longest, self.interval)
        return 2 * self.first + come / (2 * (self.first - come))

    @property
    def queues(self) -> Fraction:
        """The bound on ``E[W_1] + E[W_2]``."""
        moved = Fraction(self.first, 2)
        return self.first_queue + self.second + moved / 2 / (2 * (self.second - moved))


def _why_gap(case: Pair) -> str:
    return (
        f"T times the gap is to be {float(case.queues):.2f} prompts at most, but n_1·l'_1 = "
        f"{case.first * case.output} are always under way in segment 1, once so many have come"
    )


def _why_latency(case: Pair) -> str:
    return (
        f"the mean latency is to be {float(case.longest * case.queues):.2f} at most, but each "
        f"prompt waits for l'_1·n_1 = {case.output * case.first} further arrivals, "
        f"{case.output * case.first * case.interval} on average"
    )


def _why_ttft(case: Pair) -> str:
    waits = Fraction((case.first - 1) * case.interval, 2)
    return (
        f"the mean TTFT is to be {float(case.longest * case.first_queue):.2f} at most, but until "
        f"n_1 have come together, before any prefill, a prompt waits {float(waits):g} on average"
    )


# The statements that hold: queues plus pipelines.


def in_system_is_bounded(load: Load, stages: int) -> bool:
    """Return whether at most ``Σ W_k + Σ n_i·(stages of segment i)`` prompts are in the system."""
    run, policy = load.run(), nested_policy(load.ends, load.thresholds)
    waiting = queue_lengths(run, policy).waiting.sum(axis=1)
    there = outstanding(run.instance.arrival, run.completion, run.batches.start)
    lengths = [end - begin + 1 for begin, end, _ in policy.chains[0].segments]
    inside = sum(n * length * stages for n, length in zip(load.thresholds, lengths, strict=True))
    return bool((there <= waiting + inside).all())


def unanswered_are_bounded(load: Load, stages: int) -> bool:
    """Whether at most ``W_1 + 2n_1`` arrived prompts wait for their first token.

    With ``l'_1 = 0`` at most ``W_1 + W_2 + n_1 + n_2``.
    """
    run, policy = load.run(), nested_policy(load.ends, load.thresholds)
    waiting, under_way = queue_lengths(run, policy).waiting[:, 0], 2 * load.thresholds[0]
    if len(load.ends) > 1 and load.ends[0] == 0:
        # Stage 1 is the first stage of segment 2, so its queue also waits for the first token.
        waiting = queue_lengths(run, policy).waiting[:, :2].sum(axis=1)
        under_way = sum(load.thresholds[:2])
    there = outstanding(run.instance.arrival, run.first_token, run.batches.start)
    return bool((there <= waiting + stages * under_way).all())


#: Whether a printed bound is at least a lower bound that holds for every prompt.
Room: TypeAlias = Callable[[Pair], bool]


def _check(
    context: Context,
    *,
    room: Room,
    bounded: Callable[[Load, int], bool],
    what: str,
    outputs: tuple[int, ...] = (1, 5, 20),
    intervals: tuple[int, ...] = (1, 2, 20),
    stages: int = 1,
) -> Outcome:
    cases = [
        Pair(1, output, *pair, factor * Pair(1, output, *pair, 1, fixed, 1).longest, fixed, 1)
        for output, pair, fixed, factor in product(
            outputs, ((3, 2), (4, 3), (5, 3)), (10, 100), intervals
        )
    ]
    printed = context.refute(
        "the display leaves room for what a prompt needs",
        f"two segments, l'_1 in {outputs}, three pairs of thresholds, 1/Λ in {intervals} "
        "times ΔT; exactly",
        cases,
        holds=room,
        applies=lambda c: c.applies,
    )
    corrected = examine(
        what,
        "runs of Nested WAIT on random small engines",
        _loads(context, context.choose(20, 200, 2000), 25, least=0),
        lambda load: bounded(load, stages),
    )
    return Findings(
        printed,
        corrected,
        summary="As in Theorem 1, what is under way, or waits for its cohort, is forgotten; the "
        "orders O(1/T) and O(1) stay.",
    )


def _claim(
    claim_id: str,
    why: Callable[[Pair], str],
    broken: Mutation,
    what: str = "in the system are at most Σ W_k + Σ n_i·(stages of segment i)",
    bounded: Callable[[Load, int], bool] = in_system_is_bounded,
) -> Callable[[Room], Room]:
    """Decorate a printed bound: claim it; data that meet (10) and exceed the bound refute it."""

    def add(room: Room) -> Room:
        @verifier
        def verify(data: Data) -> str:
            case = Pair(*(data[field.name] for field in fields(Pair)))
            dismiss_if(not case.applies or room(case))
            return (
                f"d0 = {case.fixed}, d1 = {case.per_token}, l = {case.prompt}, l' = "
                f"({case.output}, {case.output + 1}), n = ({case.first}, {case.second}), Λ = "
                f"1/{case.interval}, P_2 = 1/2, ΔT = {case.longest}: {why(case)}"
            )

        return CLAIMS.step(
            claim_id,
            broken,
            Mutation("nobody under way", stages=0),
            check=partial(_check, room=room, bounded=bounded, what=what),
            hypotheses=("(10)", "d0, d1 > 0", "the bounds of appendix C on E[W_k]"),
            defect=Defect.FORMULA,
            verify=verify,
        )(room)

    return add


@_claim("fluid.theorem2-gap", _why_gap, Mutation("outputs of 1 only", outputs=(1,)))
def gap_leaves_room(case: Pair) -> bool:
    """Gap of Nested WAIT in terms of its queues.

    Source: fluid paper, proof of Theorem 2 (appendix C)
    Statement: The expected throughput gap is at most (1/S)·Σ_k E[W_k^S], with the bounds on
        queues.
    Formula: Thr* − E[Thr] ≤ (1/S)·Σ_k E[W_k^S]
    Reading: in steps of ΔT (S = T/ΔT), and counted in prompts, the most favourable unit. Read
        literally it could not be meant: halve the unit of time, and the throughput per unit of
        time halves, but neither S nor the queues change.
    Correction: Σ_i n_i·(stages of segment i) prompts under way must be added to the queues. The
        order stays.
    """
    # A factor of two for safety. A cohort of n_1 advances when n_1 more prompts have arrived, so
    # no prompt leaves segment 1 before l'_1 later cohorts have arrived.
    return case.first * case.output <= 2 * case.queues


@_claim(
    "fluid.theorem2-latency",
    _why_latency,
    Mutation("outputs of 1, full load", outputs=(1,), intervals=(1,)),
)
def latency_leaves_room(case: Pair) -> bool:
    """Latency of Nested WAIT in terms of its queues.

    Source: fluid paper, proof of Theorem 2 (appendix C)
    Statement: The expected latency is at most ΔT·Σ_k (1/S)·Σ_s E[W_k^s].
    Formula: E[Latency] ≤ ΔT·Σ_k (1/S)·Σ_s E[W_k^s]
    Reading: as T grows; the sum over 'T' as over the S batches.
    Correction: Λ·E[Latency] ≤ Σ_k E[W_k] + Σ_i n_i·(stages of segment i), by Little's law: a
        cohort advances when the next n_1 have come, after n_1/Λ > ΔT. The order stays.
    """
    return case.output * case.first * case.interval <= 2 * case.longest * case.queues


@_claim(
    "fluid.theorem2-ttft",
    _why_ttft,
    Mutation("at most ΔT between arrivals", intervals=(1,)),
    "without a first token are at most W_1 + 2n_1, or W_1 + W_2 + n_1 + n_2 where l'_1 = 0",
    unanswered_are_bounded,
)
def ttft_leaves_room(case: Pair) -> bool:
    """TTFT of Nested WAIT in terms of its first queue.

    Source: fluid paper, proof of Theorem 2 (appendix C)
    Statement: The expected TTFT is at most ΔT·(1/S)·Σ_s E[W_1^s].
    Formula: E[TTFT] ≤ ΔT·(1/S)·Σ_s E[W_1^s]
    Reading: as T grows; the first token at the end of the prefill, which favours the display (of
        stage 1 in the correction).
    Correction: Λ·E[TTFT] ≤ E[W_1] + 2n_1 for l'_1 ≥ 1, by Little's law: with few arrivals a prompt
        waits for its cohort, however short the queue. For l'_1 = 0 stage 1 is the first of segment
        2, and E[W_2] counts as well: Λ·E[TTFT] ≤ E[W_1] + E[W_2] + n_1 + n_2. The order stays.
    """
    # Prompt i of a cohort waits for n_1 − i arrivals before its prefill: (n_1 − 1)/2 on average.
    return Fraction((case.first - 1) * case.interval, 2) <= 2 * case.longest * case.first_queue
