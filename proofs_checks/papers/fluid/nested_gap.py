"""Gap, latency and TTFT in the proof of Theorem 2: queues are not all (appendix C)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from bfio.wait.chains import nested_policy, queue_lengths
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation, Scope
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.papers.fluid.full_batch import full_batch
from proofs_checks.papers.fluid.nested_runs import Load
from proofs_checks.papers.fluid.runs import random_setting
from proofs_checks.papers.fluid.wait_gap import UNITS
from proofs_checks.search import examine, refute


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
        full = full_batch((self.prompt, (self.output, self.output + 1), (self.first, self.second)))
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


def gap_leaves_room(case: Pair) -> bool:
    """Whether twice the printed gap times T leaves room for ``n_1·l'_1`` prompts under way.

    A cohort of n_1 advances when n_1 more have arrived, so that none leaves segment 1 before l'_1
    cohorts have come after its own.
    """
    return case.first * case.output <= 2 * case.queues


def latency_leaves_room(case: Pair) -> bool:
    """Whether twice the printed latency leaves room for ``l'_1`` times n_1 further arrivals."""
    return case.output * case.first * case.interval <= 2 * case.longest * case.queues


def ttft_leaves_room(case: Pair) -> bool:
    """Whether twice the printed TTFT leaves room for the wait for n_1 to come together.

    The i-th of a cohort waits for n_1 − i more before its prefill: (n_1 − 1)/2 on average.
    """
    return Fraction((case.first - 1) * case.interval, 2) <= 2 * case.longest * case.first_queue


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


@dataclass(frozen=True)
class DisplayVerifier:
    """Tells whether data are a case that meets (10) and has no room in a display."""

    room: Callable[[Pair], bool]
    why: Callable[[Pair], str]

    def __call__(self, data: Data) -> str | None:
        """Say why, or None."""
        case = Pair(*(data[field.name] for field in fields(Pair)))
        if not case.applies or self.room(case):
            return None
        return (
            f"d0 = {case.fixed}, d1 = {case.per_token}, l = {case.prompt}, l' = ({case.output}, "
            f"{case.output + 1}), n = ({case.first}, {case.second}), Λ = 1/{case.interval}, P_2 = "
            f"1/2, ΔT = {case.longest}: {self.why(case)}"
        )


# What holds: queues and pipelines.


def _loads(context: Context) -> Iterator[Load]:
    rng = context.rng
    for _ in range(context.choose(20, 200, 2000)):
        setting = random_setting(rng, 25, equal_prompts=True)
        ends = tuple(output for _, output in setting.classes)
        thresholds = tuple(rng.integers(1, 4, len(ends)).tolist())
        requests = tuple((t, output) for t, _, output in setting.requests)
        yield Load(
            setting.classes[0][0], ends, thresholds, requests, setting.fixed, setting.per_token
        )


def in_system_is_bounded(load: Load, stages: int) -> bool:
    """Whether at most ``Σ W_k + Σ n_i·(stages of segment i)`` are in the system."""
    run, policy = load.run(), nested_policy(load.ends, load.thresholds)
    waiting = queue_lengths(run, policy).waiting.sum(axis=1)
    ended = np.sort(run.completion[run.completion >= 0])
    start = run.batches.start
    there = np.searchsorted(run.instance.arrival, start, side="right")
    there = there - np.searchsorted(ended, start, side="right")
    lengths = [end - begin + 1 for begin, end, _ in policy.chains[0].segments]
    inside = sum(n * length * stages for n, length in zip(load.thresholds, lengths, strict=True))
    return bool((there <= waiting + inside).all())


def unanswered_are_bounded(load: Load, stages: int) -> bool:
    """Whether at most ``W_1 + 2n_1`` have arrived and not passed stage 1 (or their last)."""
    run, policy = load.run(), nested_policy(load.ends, load.thresholds)
    waiting, under_way = queue_lengths(run, policy).waiting[:, 0], 2 * load.thresholds[0]
    if len(load.ends) > 1 and load.ends[0] == 0:
        # Stage 1 is the first of segment 2: its queue waits for the first token too.
        waiting = queue_lengths(run, policy).waiting[:, :2].sum(axis=1)
        under_way = sum(load.thresholds[:2])
    answered = np.sort(run.first_token[run.first_token >= 0])
    start = run.batches.start
    there = np.searchsorted(run.instance.arrival, start, side="right")
    there = there - np.searchsorted(answered, start, side="right")
    return bool((there <= waiting + stages * under_way).all())


def _check(
    context: Context,
    *,
    room: Callable[[Pair], bool],
    verify: DisplayVerifier,
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
    printed = refute(
        "the display leaves room for what a prompt needs",
        f"two segments, l'_1 in {outputs}, three pairs of thresholds, 1/Λ in {intervals} "
        "times ΔT; exactly",
        cases,
        verify,
        lambda c: dict(vars(c)),
        holds=room,
        applies=lambda c: c.applies,
    )
    corrected = examine(
        what,
        "runs of Nested WAIT on random small engines",
        _loads(context),
        lambda load: bounded(load, stages),
    )
    return Findings(
        printed,
        corrected,
        summary="As in Theorem 1, what is under way, or waits for its cohort, is forgotten; the "
        "orders O(1/T) and O(1) stay.",
    )


_STEPS = "(1/S)·Σ_s E[W_{}^s]"


def _claim(*, broken: Mutation, **texts: Any) -> Claim:
    return Claim(
        scope=Scope.STEP,
        source="fluid paper, proof of Theorem 2 (appendix C)",
        hypotheses=("(10)", "d0, d1 > 0", "the bounds of appendix C on E[W_k]"),
        kind=Kind.COUNTEREXAMPLE,
        mutations=(broken, Mutation("nobody under way", stages=0)),
        defect=Defect.FORMULA,
        **texts,
    )


_GAP = DisplayVerifier(gap_leaves_room, _why_gap)
_LATENCY = DisplayVerifier(latency_leaves_room, _why_latency)
_TTFT = DisplayVerifier(ttft_leaves_room, _why_ttft)
_system_check = partial(
    _check, bounded=in_system_is_bounded,
    what="in the system are at most Σ W_k + Σ n_i·(stages of segment i)",
)  # fmt: skip
_gap_check = partial(_system_check, room=gap_leaves_room, verify=_GAP)
_latency_check = partial(_system_check, room=latency_leaves_room, verify=_LATENCY)
_ttft_check = partial(
    _check, room=ttft_leaves_room, verify=_TTFT, bounded=unanswered_are_bounded,
    what="without a first token are at most W_1 + 2n_1",
)  # fmt: skip

CLAIMS = (
    _claim(
        id="fluid.theorem2-gap",
        title="Gap of Nested WAIT in terms of its queues",
        statement="The expected throughput gap is at most (1/S)·Σ_k E[W_k^S], with the bounds on "
        "queues.",
        formula="Thr* − E[Thr] ≤ (1/S)·Σ_k E[W_k^S]",
        correction="Σ_i n_i·(stages of segment i) prompts under way must be added to the queues. "
        "The order stays.",
        reading="in steps of ΔT (S = T/ΔT), and counted in prompts, the most favourable unit."
        + UNITS,
        check=_gap_check,
        verify=_GAP,
        broken=Mutation("outputs of 1 only", outputs=(1,)),
    ),
    _claim(
        id="fluid.theorem2-latency",
        title="Latency of Nested WAIT in terms of its queues",
        statement="The expected latency is at most ΔT·Σ_k (1/S)·Σ_s E[W_k^s].",
        formula=f"E[Latency] ≤ ΔT·Σ_k {_STEPS.format('k')}",
        correction="Λ·E[Latency] ≤ Σ_k E[W_k] + Σ_i n_i·(stages of segment i), by Little's law: a "
        "cohort advances when the next n_1 have come, after n_1/Λ > ΔT. The order stays.",
        reading="as T grows; the sum over 'T' as over the S batches.",
        check=_latency_check,
        verify=_LATENCY,
        broken=Mutation("outputs of 1, full load", outputs=(1,), intervals=(1,)),
    ),
    _claim(
        id="fluid.theorem2-ttft",
        title="TTFT of Nested WAIT in terms of its first queue",
        statement="The expected TTFT is at most ΔT·(1/S)·Σ_s E[W_1^s].",
        formula=f"E[TTFT] ≤ ΔT·{_STEPS.format('1')}",
        correction="Λ·E[TTFT] ≤ E[W_1] + 2n_1, by Little's law: with few arrivals a prompt waits "
        "for its cohort, however short the queue. The order stays.",
        reading="as T grows; the first token at the end of the prefill, which favours the display "
        "(of stage 1 in the correction).",
        check=_ttft_check,
        verify=_TTFT,
        broken=Mutation("at most ΔT between arrivals", intervals=(1,)),
    ),
)
