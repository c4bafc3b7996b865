"""Gap and latency in the proof of Theorem 1: queues, and prompts in progress (appendix B)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from math import sqrt

import numpy as np

from proofs_checks.claim import C, Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.fluid.queues import poisson_law
from proofs_checks.papers.fluid.runs import Setting, random_setting, reference, waiting_at
from proofs_checks.papers.fluid.theorem1_bounds import SingleClass, strict_bound
from proofs_checks.search import examine, plain, refute

CLAIMS = Claims()


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

    @property
    def data(self) -> Data:
        """The parameters as plain data."""
        own = {"interval": self.interval, "steps": self.steps}
        whole: Data = plain(self.single) | own
        return whole


def gap_leaves_room(case: Display) -> bool:
    """Whether twice the printed gap, times T, is at least the prompts in progress."""
    return case.least_under_way <= 2 * case.queue


def latency_leaves_room(case: Display) -> bool:
    """Whether the printed latency is at least the duration of a prompt's batches."""
    return case.least_latency <= case.single.longest * case.queue / case.steps


def _read(data: Data, *, critical: bool) -> Display | None:
    single = SingleClass.of(data)
    if single is None or critical != (data["interval"] == 0) or data["interval"] < 0:
        return None
    case = Display(single, data["interval"], data["steps"])
    return case if case.applies and case.steps <= 1000 else None


def _setting(case: Display) -> str:
    single = case.single
    return (
        f"d0 = {single.fixed}, d1 = {single.per_token}, l = {single.prompt}, l' = "
        f"{single.output}, n = {single.threshold}: ΔT = {single.longest}, λ·ΔT = {case.come}"
    )


def verify_gap(data: Data, *, critical: bool) -> str | None:
    """Confirm that even twice the printed gap is too small for the prompts in progress."""
    case = _read(data, critical=critical)
    if case is None or gap_leaves_room(case):
        return None
    return (
        f"{_setting(case)}; T times the gap is to be {case.queue:.2f} prompts at most, but "
        f"n·l' = {case.single.under_way} are always under way, once so many have come "
        f"({case.least_under_way:.2f} on average at T = {case.steps}·ΔT)"
    )


def verify_latency(data: Data, *, critical: bool) -> str | None:
    """Confirm that the printed latency is less than the duration of a prompt's batches."""
    case = _read(data, critical=critical)
    if case is None or latency_leaves_room(case):
        return None
    printed = case.single.longest * case.queue / case.steps
    return (
        f"{_setting(case)}; after {case.steps} batches the mean latency is to be {printed:.2f} at "
        f"most, but l' + 1 = {case.single.output + 1} batches take {case.least_latency} at least"
    )


# The statement that holds: queue plus pipeline.


@dataclass(frozen=True)
class ServedByWait:
    """A random small engine and thresholds, served by WAIT."""

    setting: Setting
    thresholds: tuple[int, ...]

    def holds(self, *, spare: int = 0) -> bool:
        """Whether the prompts in progress are within ``min(N_j, n_j·l'_j)`` and ``n_j·l'_j``.

        The lower bound is on prompts that have arrived and not completed. The upper bound is on
        prompts that wait for a stage beyond the first.
        """
        policy = self.setting.wait(self.thresholds)
        run = reference(self.setting.instance(), policy, self.setting.requests[-1][0] + 60)
        instance, ends = run.instance, run.batches.end
        for (prompt, output), n in zip(self.setting.classes, self.thresholds, strict=True):
            mine = (instance.prompt == prompt) & (instance.output == output)
            done = np.sort(run.completion[mine & (run.completion >= 0)])
            come = np.searchsorted(instance.arrival[mine], ends, side="right")
            open_ = come - np.searchsorted(done, ends, side="right")
            members = np.flatnonzero(mine)
            there = sum(
                (waiting_at(run, members, k) for k in range(1, output + 1)),
                start=np.zeros(len(ends), dtype=np.int64),
            )
            if (open_ < np.minimum(come, n * output)).any() or (
                there > n * (output - spare)
            ).any():
                return False
        return True


def _loads(context: Context) -> Iterator[ServedByWait]:
    for _ in range(context.choose(15, 150, 1500)):
        setting = random_setting(context.rng, 25)
        yield ServedByWait(
            setting, tuple(context.rng.integers(1, 4, len(setting.classes)).tolist())
        )


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
    verify = partial(verify_gap if room is gap_leaves_room else verify_latency, critical=critical)
    printed = refute(
        "the display leaves room for what a prompt needs",
        f"one class, l' in {outputs}, n = 1..3, d0 = 10, 100, d1 = 1; exactly",
        cases,
        verify,
        lambda c: c.data,
        holds=room,
        applies=lambda c: c.applies,
    )
    corrected = examine(
        "from min(N_j, n_j·l'_j) on, and at most n_j·l'_j beyond stage 0, are under way",
        "runs of WAIT on random small engines, at every end of a batch",
        _loads(context),
        lambda load: load.holds(spare=spare),
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
    """Claim the bound on gap or latency, with equality or strict inequality in (9)."""
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
        verify=partial(verify_latency if latency else verify_gap, critical=critical),
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
