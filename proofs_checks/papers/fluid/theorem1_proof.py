"""The proof of Theorem 1 (appendix B): queues of one class, and prompts in progress."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from itertools import product
from math import sqrt

import numpy as np

from proofs_checks.claim import C, Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome, dismiss_if, verifier
from proofs_checks.papers.fluid.equilibrium import stage_sum
from proofs_checks.papers.fluid.queues import (
    MARGIN,
    mean_path,
    poisson_law,
    queue_laws,
    reflected_laws,
)
from proofs_checks.papers.fluid.runs import (
    Setting,
    outstanding,
    random_setting,
    reference,
    waiting_at,
)
from proofs_checks.search import examine, plain

CLAIMS = Claims()


@dataclass(frozen=True)
class SingleClass:
    """One class of requests and an engine with d1 > 0; integer clock.

    Parameters
    ----------
    prompt, output : int
        ``l`` and ``l'`` [tokens].
    threshold : int
        ``n`` [prompts].
    fixed, per_token : int
        ``d0`` and ``d1`` [clock units].
    """

    prompt: int
    output: int
    threshold: int
    fixed: int
    per_token: int

    @staticmethod
    def of(data: Data) -> "SingleClass":
        """Return the class that plain data describe; dismiss entries below 1."""
        values = [data[field.name] for field in fields(SingleClass)]
        dismiss_if(min(values) < 1)
        return SingleClass(*values)

    def duration(self, batch: int) -> int:
        """Duration of batch number ``batch`` (from 1), which has at most ``batch`` cohorts."""
        last = min(batch - 1, self.output)
        return self.fixed + self.per_token * self.threshold * stage_sum(self.prompt, last)

    @property
    def longest(self) -> int:
        """``ΔT(n)``: the time of a full batch."""
        return self.duration(self.output + 1)

    @property
    def under_way(self) -> int:
        """``n·l'``: number of incomplete prompts, once this many have arrived.

        A cohort advances when n more prompts have arrived, so it completes with the l'-th later
        cohort.
        """
        return self.threshold * self.output


def mean_queues(single: SingleClass, batches: int) -> list[float]:
    """Return the mean queue at the end of each batch, with ``λ = n/ΔT`` (equality in (9)).

    A batch starts at once if n prompts wait. Otherwise it starts when the n-th arrives, and the
    queue is then empty. Hence ``W' = max(W, n) − n + X`` with X Poisson(λ·τ).
    """
    n = single.threshold
    laws = [poisson_law(n * single.duration(s) / single.longest) for s in range(1, batches + 1)]
    # The excess of the walk over n before each batch, plus the arrivals during the batch.
    walks = mean_path(reflected_laws(laws, n))
    return [
        walk + n * single.duration(s) / single.longest for s, walk in enumerate(walks[:batches], 1)
    ]


def strict_bound(threshold: int, come: Fraction) -> Fraction:
    """Return ``2n + λΔT/(2(n − λΔT))``: the bound on the mean queue with strict (9)."""
    return 2 * threshold + come / (2 * (threshold - come))


# The critical case.


def critical_bound(single: SingleClass, batches: int, *, printed: bool) -> float:
    """Return ``λ + √(λS)`` with ``λ = n/ΔT`` as printed, ``2n + √(nS)`` as corrected."""
    n = single.threshold
    if printed:
        rate = n / single.longest
        return rate + sqrt(rate * batches)
    return 2 * n + sqrt(n * batches)


@verifier
def verify_critical(data: Data) -> str:
    """Confirm that the mean queue after so many batches exceeds ``λ + √(λS)``."""
    single, batches = SingleClass.of(data), data["batches"]
    dismiss_if(not 1 <= batches <= 1000)
    mean = mean_queues(single, batches)[-1]
    bound = critical_bound(single, batches, printed=True)
    dismiss_if(mean <= bound + MARGIN)
    return (
        f"one class, ΔT = {single.longest}, n = {single.threshold}, λ = "
        f"{Fraction(single.threshold, single.longest)}: after {batches} batches {mean:.4f} wait "
        f"on average, more than {bound:.4f} (a full batch sees λ·ΔT = {single.threshold} come)"
    )


@CLAIMS.step(
    "fluid.theorem1-critical",
    Mutation("steps of length 1, λ = n", unit=True),
    Mutation("no buffer in the correction", base=0),
    defect=Defect.FORMULA,
    verify=verify_critical,
)
def _critical_check(
    context: Context, *, fixed: tuple[int, ...] = (1, 20, 100), unit: bool = False, base: int = 2
) -> Outcome:
    """Queue with equality in (9).

    Source: fluid paper, proof of Theorem 1 (appendix B.0.2)
    Statement: If ΔT = n_j/λ_j then the mean queue of type j after S batches is at most λ_j + √(λ_j
        S).
    Formula: E[W_j^S] ≤ λ_j + √(λ_j·S)
    Assumes: ΔT = n_j/λ_j; d0, d1 > 0
    Summary: Lemma 5 counts steps of length 1 with λ served; the theorem has steps of ΔT with n =
        λ·ΔT. Laws by convolution; the first l' batches are shorter than ΔT.
    Reading: at the end of the S-th batch; one class is an instance. The display states the same
        of W̃, which is at least W.
    Correction: With steps of ΔT the walk serves n_j, so that Lemma 5 gives 2n_j + √(n_j S), for W
        and W̃.
    """
    batches = context.choose(40, 200, 1000)
    cases = [
        SingleClass(1, output, n, d0, 1) for output, n, d0 in product((1, 2), (1, 2, 3, 5), fixed)
    ]
    domain = context.domain(
        f"one class, l' = 1, 2, n = 1, 2, 3, 5, d0 in {fixed}, d1 = 1, S up to {batches}", cases
    )

    def bound(single: SingleClass, s: int) -> float:
        if unit:
            return single.threshold + sqrt(single.threshold * s)
        return critical_bound(single, s, printed=True)

    def first_failure(single: SingleClass) -> int | None:
        means = mean_queues(single, batches)
        return next((s for s, m in enumerate(means, 1) if m > bound(single, s) + MARGIN), None)

    def corrected(single: SingleClass) -> bool:
        missing = (2 - base) * single.threshold
        walk = mean_path(
            reflected_laws([poisson_law(single.threshold)] * batches, single.threshold)
        )
        return all(
            max(queue, 2 * single.threshold + above)
            <= critical_bound(single, s, printed=False) - missing + MARGIN
            for s, (queue, above) in enumerate(
                zip(mean_queues(single, batches), walk[1:], strict=True), 1
            )
        )

    printed = domain.refute(
        "E[W^S] ≤ λ + √(λS)",
        lambda c: plain(c) | {"batches": first_failure(c)},
        holds=lambda c: first_failure(c) is None,
    )
    as_corrected = domain.examine("E[W^S] and E[W̃^S] ≤ 2n + √(nS)", corrected)
    return printed, as_corrected


# The strict case.


@CLAIMS.step(
    "fluid.theorem1-strict",
    Mutation("half of Kingman's term", part=0.5),
    Mutation("no slack: λ·ΔT = n, any constant", shares=(1.0,)),
)
def _kingman_check(
    context: Context, *, shares: tuple[float, ...] = (0.3, 0.6, 0.9), part: float = 1
) -> Outcome:
    """Queue with strict (9).

    Source: fluid paper, proof of Theorem 1 (appendix B.0.2)
    Statement: If ΔT < n_j/λ_j then the mean queue of type j is bounded by Kingman's inequality.
    Formula: E[W_j^S] ≤ E[W̃_j^S] ≤ 2n_j + λ_jΔT/(2(n_j − λ_jΔT))
    Assumes: λ_j·ΔT < n_j; steps of ΔT
    Summary: Kingman's bound; the mean of W̃ only grows towards its limit.
    Reading: W with a batch in every step of ΔT; WAIT's own batches follow by Lemma 6
        (fluid.lemma6).
    """
    steps = context.choose(150, 2000, 20_000)

    def holds(threshold: int, share: float) -> bool:
        arrival = poisson_law(share * threshold)
        room = threshold * (1 - share)
        bound = part * share * threshold / (2 * room) if room else share * threshold
        walk = mean_path(reflected_laws([arrival] * steps, threshold))[-1]
        queue = mean_path(queue_laws([arrival] * steps, threshold))[-1]
        return walk <= bound + MARGIN and queue <= 2 * threshold + bound + MARGIN

    return examine(
        "E[W], E[W̃] ≤ 2n + λΔT/(2(n − λΔT))",
        f"n = 1, 2, 3, 5, λΔT/n in {shares}, after {steps} steps; laws by convolution",
        list(product((1, 2, 3, 5), shares)),
        holds,
    )


# Scaling of the bound on the gap in heavy traffic (appendix B.0.1).


@verifier
def verify_scaled(rate: int, duration: int, scale: int) -> str:
    """Confirm that ``E[W^{ζT}]/(ζT)`` exceeds the printed bound with powers of ζ."""
    dismiss_if(min(rate, scale) < 1 or duration <= rate or scale * duration > 400)
    mean, printed = scaled_gap(rate, duration, scale), power_bound(rate, duration, scale)
    dismiss_if(mean <= printed + MARGIN)
    return (
        f"λ = {rate}, T = {duration}, ζ = {scale}: E[W^(ζT)]/(ζT) = {mean:.4f}, more than "
        f"(λ/T)^ζ + λ^(ζ/2)·T^(−ζ/2) = {printed:.4f}"
    )


def scaled_gap(rate: int, duration: int, scale: int) -> float:
    """Return ``E[W^{ζT}]/(ζT)`` of Lemma 1's queue."""
    steps = scale * duration
    return mean_path(queue_laws([poisson_law(rate)] * steps, rate))[-1] / steps


def power_bound(rate: int, duration: int, scale: int) -> float:
    """Return ``(λ/T)^ζ + λ^{ζ/2}·T^{−ζ/2}``."""
    return float((rate / duration) ** scale + (rate / duration) ** (scale / 2))


@CLAIMS.step(
    "fluid.appendix-b-scaling",
    Mutation("factors as printed", power=False),
    Mutation("a quarter of the correction", part=0.25),
    defect=Defect.MISPRINT,
    verify=verify_scaled,
)
def _scaled_check(context: Context, *, power: bool = True, part: float = 1) -> Outcome:
    """Gap of one class under the scaling.

    Source: fluid paper, last display of appendix B.0.1
    Statement: In conventional heavy traffic the gap is at most (λ/T)^ζ + λ^{ζ/2}·T^{−ζ/2}.
    Formula: E[W^{T,ζ}]/T^ζ = (λ/T)^ζ + λ^{ζ/2}·T^{−ζ/2}
    Assumes: W^0 = 0, W' = W + X − λ·1{W + X ≥ λ}; λ < T integers, X^t Poisson(λ)
    Summary: A gap that fell as a power of ζ in the exponent would contradict Lemma 5's √T.
    Reading: '=' as '≤', and the left side at the time ζT.
    Correction: λ/(ζT) + √(λ/(ζT)): ζ is a factor of T, as in the display of appendix B.0.2. It
        tends to 0 as ζ^{−1/2}.
    """
    cases = list(product((1, 2), (4, 16), context.choose((2, 4), (2, 4, 8), (2, 4, 8, 16))))

    def linear(rate: int, duration: int, scale: int) -> float:
        return part * (rate / (scale * duration) + sqrt(rate / (scale * duration)))

    def printed(case: tuple[int, int, int]) -> bool:
        bound = power_bound(*case) if power else linear(*case)
        return scaled_gap(*case) <= bound + MARGIN

    as_printed = context.refute(
        "with powers of ζ", "λ = 1, 2, T = 4, 16; laws by convolution", cases, holds=printed
    )
    corrected = examine(
        "with factors ζ", "the same", cases, lambda *c: scaled_gap(*c) <= linear(*c) + MARGIN
    )
    return as_printed, corrected


@dataclass(frozen=True)
class Display:
    """Parameters of a printed bound: one class, its arrival rate, and the number of steps.

    Parameters
    ----------
    single : SingleClass
        Class and engine.
    interval : int
        Clock units between arrivals on average, ``1/λ``; 0 for equality in (9), ``λ = n/ΔT``.
    steps : int
        ``S = T/ΔT``.
    """

    single: SingleClass
    interval: int
    steps: int

    @property
    def come(self) -> Fraction:
        """``λ·ΔT``: mean arrivals in a step."""
        if not self.interval:
            return Fraction(self.single.threshold)
        return Fraction(self.single.longest, self.interval)

    @property
    def applies(self) -> bool:
        """Whether (9) holds, strictly if ``interval`` > 0, and prompts have time to complete."""
        n, stages = self.single.threshold, self.single.output + 1
        return (not self.interval or self.come < n) and self.steps >= 2 * stages

    @property
    def queue(self) -> float:
        """Return the printed bound on ``E[W^S]``, λ counted in steps of ΔT."""
        n = self.single.threshold
        if self.interval:
            return float(strict_bound(n, self.come))
        return n + sqrt(n * self.steps)

    @property
    def least_under_way(self) -> float:
        """``E[min(N, n·l')]``, N Poisson(λT): lower bound on the mean of incomplete prompts."""
        law = poisson_law(float(self.come * self.steps))
        return float(law @ np.minimum(np.arange(len(law)), self.single.under_way))

    @property
    def least_latency(self) -> int:
        """Duration of ``l' + 1`` batches, each with at least n fresh prompts [clock units]."""
        single = self.single
        return (single.output + 1) * single.duration(1)


def gap_leaves_room(case: Display) -> bool:
    """Return whether twice the printed gap, times T, is at least the prompts in progress."""
    return case.least_under_way <= 2 * case.queue


def latency_leaves_room(case: Display) -> bool:
    """Return whether the printed latency is at least the duration of a prompt's batches."""
    return case.least_latency <= case.single.longest * case.queue / case.steps


def _read(data: Data, *, critical: bool) -> Display:
    case = Display(SingleClass.of(data), data["interval"], data["steps"])
    dismiss_if(critical != (case.interval == 0) or case.interval < 0)
    dismiss_if(not case.applies or case.steps > 1000)
    return case


def _setting(case: Display) -> str:
    single = case.single
    return (
        f"d0 = {single.fixed}, d1 = {single.per_token}, l = {single.prompt}, l' = "
        f"{single.output}, n = {single.threshold}: ΔT = {single.longest}, λ·ΔT = {case.come}"
    )


def verify_gap(data: Data, *, critical: bool) -> str:
    """Confirm that even twice the printed gap is too small for the prompts in progress."""
    case = _read(data, critical=critical)
    dismiss_if(gap_leaves_room(case))
    return (
        f"{_setting(case)}; T times the gap is to be {case.queue:.2f} prompts at most, but "
        f"n·l' = {case.single.under_way} are always under way, once so many have come "
        f"({case.least_under_way:.2f} on average at T = {case.steps}·ΔT)"
    )


def verify_latency(data: Data, *, critical: bool) -> str:
    """Confirm that the printed latency is less than the duration of a prompt's batches."""
    case = _read(data, critical=critical)
    dismiss_if(latency_leaves_room(case))
    printed = case.single.longest * case.queue / case.steps
    return (
        f"{_setting(case)}; after {case.steps} batches the mean latency is to be {printed:.2f} at "
        f"most, but l' + 1 = {case.single.output + 1} batches take {case.least_latency} at least"
    )


# The statement that holds: queue plus pipeline.


def under_way_is_bounded(setting: Setting, thresholds: list[int], *, spare: int = 0) -> bool:
    """Whether the prompts in progress are within ``min(N_j, n_j·l'_j)`` and ``n_j·l'_j``.

    The lower bound is on prompts that have arrived and not completed. The upper bound is on
    prompts that wait for a stage beyond the first.
    """
    run = reference(setting.instance(), setting.wait(thresholds), setting.requests[-1][0] + 60)
    instance, ends = run.instance, run.batches.end
    for (prompt, output), n in zip(setting.classes, thresholds, strict=True):
        mine = (instance.prompt == prompt) & (instance.output == output)
        arrival, members = instance.arrival[mine], np.flatnonzero(mine)
        open_ = outstanding(arrival, run.completion[mine], ends)
        come = np.searchsorted(arrival, ends, side="right")
        there = sum(
            (waiting_at(run, members, k) for k in range(1, output + 1)),
            start=np.zeros(len(ends), dtype=np.int64),
        )
        too_few, too_many = open_ < np.minimum(come, n * output), there > n * (output - spare)
        if (too_few | too_many).any():
            return False
    return True


def _loads(context: Context) -> Iterator[tuple[Setting, list[int]]]:
    """Draw small engines and thresholds."""
    for _ in range(context.choose(15, 150, 1500)):
        setting = random_setting(context.rng, 25)
        yield setting, context.rng.integers(1, 4, len(setting.classes)).tolist()


def _check(
    context: Context,
    *,
    critical: bool,
    room: Callable[[Display], bool],
    outputs: tuple[int, ...] = (1, 5, 10, 20),
    spare: int = 0,
) -> Outcome:
    cases = [
        Display(single, factor * single.longest if factor else 0, steps)
        for output, n, fixed in product(outputs, (1, 2, 3), (10, 100))
        for single in (SingleClass(1, output, n, fixed, 1),)
        for factor in ((0,) if critical else (1, 2, 4))
        for steps in context.choose((50, 200), (50, 100, 200), (50, 100, 200, 500))
    ]
    printed = context.refute(
        "the display leaves room for what a prompt needs",
        f"one class, l' in {outputs}, n = 1..3, d0 = 10, 100, d1 = 1; exactly",
        cases,
        holds=room,
        applies=lambda c: c.applies,
    )
    corrected = examine(
        "from min(N_j, n_j·l'_j) on, and at most n_j·l'_j beyond stage 0, are under way",
        "runs of WAIT on random small engines, at every end of a batch",
        _loads(context),
        partial(under_way_is_bounded, spare=spare),
    )
    return printed, corrected


_COUNTS = (
    "in steps of ΔT (S = T/ΔT), as in appendix B.0.1, where the step is the unit of time; "
    "counted in prompts, the most favourable unit."
)
_UNITS = (
    " Read literally it could not be meant: halve the unit of time, and the throughput per unit "
    "of time halves, but neither S nor the queues change."
)


def _claim(claim_id: str, room: Callable[[Display], bool], *, critical: bool) -> Callable[[C], C]:
    """Decorate a printed bound on gap or latency: claim it, with (9) strict or an equality."""
    latency = room is latency_leaves_room
    mutations = [Mutation("one stage less in the correction", spare=1)]
    if not latency:
        mutations.append(Mutation("outputs of 1 only", outputs=(1,)))
    return CLAIMS.step(
        claim_id,
        *mutations,
        check=partial(_check, critical=critical, room=room),
        source="fluid paper, proof of Theorem 1 (appendix B.0.2)",
        hypotheses=("λ_j·ΔT = n_j" if critical else "λ_j·ΔT < n_j for all j", "d0, d1 > 0"),
        summary="The display counts the prompts that wait for their prefill and forgets those "
        "under way.",
        correction="λ_j·E[Latency_j] ≤ E[W_j] + n_j(l'_j + 1), by Little's law: the mean over "
        "time of those in the system. It does not fall with S; Theorem 1's orders are right."
        if latency
        else "Prompts under way must be added: T·gap ≤ Σ_j (l'_j + 1)(E[W_j] + n_j(l'_j + 1)) in "
        "stage tokens, since at most n_j prompts are at each stage. The order stays.",
        defect=Defect.FORMULA,
        reading="'Ω' as the 'O' of an upper bound; " + _COUNTS if latency else _COUNTS + _UNITS,
        verify=verifier(partial(verify_latency if latency else verify_gap, critical=critical)),
    )


@_claim("fluid.theorem1-gap", gap_leaves_room, critical=False)
def _theorem1_gap() -> None:
    """Gap of WAIT in terms of its queues.

    Statement: If (9) is strict for all types, the expected throughput gap is at most (1/S)·Σ_j
        E[W_j^S], with Kingman's bound.
    Formula: Thr* − E[Thr] ≤ (1/S)·Σ_j (2n_j + λ_jΔT/(2(n_j − λ_jΔT)))
    """


@_claim("fluid.theorem1-gap-critical", gap_leaves_room, critical=True)
def _theorem1_gap_critical() -> None:
    """Gap of WAIT with equality in (9).

    Statement: With equality in (9) the expected throughput gap is at most (1/S)·Σ_j E[W_j^S], with
        Lemma 5's bound.
    Formula: Thr* − E[Thr] ≤ (1/S)·Σ_j λ_j + Σ_j √(λ_j/S)
    """


@_claim("fluid.theorem1-latency", latency_leaves_room, critical=False)
def _theorem1_latency() -> None:
    """Latency of WAIT in the proof.

    Statement: If (9) is strict for all types, the expected end-to-end latency is ΔT·(1/S)·Σ_j
        E[W_j^S], of order 1/S.
    Formula: E[Latency] ≤ ΔT·(1/S)·Σ_j (2n_j + λ_jΔT/(2(n_j − λ_jΔT))) ~ Ω(1/S)
    """


@_claim("fluid.theorem1-latency-critical", latency_leaves_room, critical=True)
def _theorem1_latency_critical() -> None:
    """Latency of WAIT with equality in (9).

    Statement: With equality in (9) the expected end-to-end latency is (1/S)·ΔT·Σ_j (λ_j + √(λ_j
        S)), of order √(1/S).
    Formula: E[Latency] ≤ (1/S)·ΔT·(Σ_j λ_j + Σ_j √(λ_j·S)) ~ Ω(√(1/S))
    """
