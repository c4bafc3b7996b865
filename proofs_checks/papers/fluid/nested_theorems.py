"""Theorems 2 to 4: scaling of Nested WAIT, time-varying rates, and fewer segments than types."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from typing import TypeAlias

import numpy as np

from bfio.common.kernel_groups import Engine
from bfio.wait.arrivals import poisson_instance, varying_instance
from bfio.wait.chains import ThresholdPolicy, nested_policy, queue_lengths
from bfio.wait.policy import StageInstance
from bfio.wait.run import StageRun
from bfio.wait.simulation import serve
from formulations.arrays import FloatArray
from formulations.fluid import FluidWorker, RateProfile, SinusoidalRates, VaryingRates
from formulations.thresholds import (
    NestedProblem,
    ThresholdProblem,
    TimeVaryingProblem,
    policy_memory,
    safety_buffer,
    threshold_violations,
)
from formulations.thresholds.buffer import printed_segment_memory
from proofs_checks.claim import Claims, Context, Defect, Effort, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome, dismiss_if, verifier
from proofs_checks.papers.fluid.equilibrium import stage_sum
from proofs_checks.papers.fluid.memory import TwoSegments, buffer_suffices, full_batch
from proofs_checks.papers.fluid.queues import (
    MARGIN,
    binomial_law,
    mean_path,
    poisson_law,
    queue_laws,
)
from proofs_checks.papers.fluid.runs import exponent_estimate
from proofs_checks.papers.fluid.theorem1_proof import SingleClass, mean_queues
from proofs_checks.search import examine, plain

CLAIMS = Claims()

_GROUPS = 8
_WORKER = FluidWorker(Fraction(1, 2), Fraction(1, 18), 10**6)


@dataclass(frozen=True)
class Experiment:
    """Nested WAIT with given thresholds on random arrivals.

    Parameters
    ----------
    problem : NestedProblem or TimeVaryingProblem
        Conditions, whose buffer (12) is compared with the peaks.
    nested : NestedProblem
        Classes at their mean rates, and segments.
    thresholds : tuple of int
        One per segment.
    profile : VaryingRates, optional
        Rates over time; constant by default.
    """

    problem: ThresholdProblem
    nested: NestedProblem
    thresholds: tuple[int, ...]
    profile: VaryingRates | None = None

    @property
    def policy(self) -> ThresholdPolicy:
        """The Nested WAIT policy with the given thresholds."""
        return nested_policy(self.nested.group.ends, self.thresholds)

    def instance(self, seconds: int, seed: int) -> StageInstance:
        """Draw random arrivals over a duration [s]."""
        fluid = self.nested.fluid()
        if self.profile is None:
            return poisson_instance(fluid, seconds, seed)
        return varying_instance(fluid, self.profile, seconds, seed)

    def run(self, seconds: int, seed: int, engine: Engine) -> StageRun:
        """Return a run on random arrivals up to a duration [s]."""
        return serve(self.instance(seconds, seed), self.policy, horizon_s=seconds, engine=engine)


#: Makes an experiment.
Setup: TypeAlias = Callable[[], Experiment]


def by_horizon(run: StageRun, horizons: Sequence[int]) -> list[list[float]]:
    """Return gap, mean latency and mean TTFT of a run, observed up to each duration."""
    instance, unit = run.instance, run.instance.clock.units_per_second
    rows = []
    for h in horizons:
        done, first = (
            (times >= 0) & (times <= h * unit) for times in (run.completion, run.first_token)
        )
        open_ = (instance.arrival < h * unit) & ~done
        rows.append(
            [
                int(instance.iterations[open_].sum()) / h,
                float((run.completion - instance.arrival)[done].mean()) / unit,
                float((run.first_token - instance.arrival)[first].mean()) / unit,
            ]
        )
    return rows


def memory_is_bounded(run: StageRun, experiment: Experiment) -> bool:
    """Whether the memory at every batch is at most a full batch plus the tokens of the queues."""
    nested, queues = experiment.nested, queue_lengths(run, experiment.policy)
    held = np.array([nested.group.prompt + end for end in nested.group.ends[:-1]], dtype=np.int64)
    full = policy_memory(nested.weights, experiment.thresholds)
    return bool((run.batches.memory <= full + queues.recorded[:, 1:] @ held).all())


def scaling_check(context: Context, experiments: Sequence[Setup]) -> Findings:
    """Estimate the scaling exponents of experiments, and check the memory of their runs."""
    parts = [_scaling(context, make()) for make in experiments]
    return Findings(
        *(examination for part in parts for examination in part.seen),
        estimates=[estimate for part in parts for estimate in part.estimates],
        numbers={name: value for part in parts for name, value in part.numbers.items()},
        summary=" ".join(part.summary for part in parts)
        + " Memory never binds in the runs; their peaks keep within (12) with the memory of a "
        "full batch.",
    )


def _scaling(context: Context, setting: Experiment) -> Findings:
    name = f"n = {setting.thresholds}"
    meets = not threshold_violations(setting.problem, setting.thresholds)
    # For long runs the compiled engine is worth its loading time.
    engine = Engine.REFERENCE if context.effort is Effort.QUICK else Engine.COMPILED
    # Observation ends [s].
    seen = [h * context.choose(1, 10, 100) for h in (30, 60, 120)]
    seeds = context.rng.integers(10**9, size=context.choose(16, 24, 64)).tolist()
    runs = [setting.run(seen[-1], seed, engine) for seed in seeds]
    values: FloatArray = np.array([by_horizon(run, seen) for run in runs])
    # The gap is O(1/T) and the delays are O(1): exponents -1 and 0.
    limits = {"gap": -0.6, "latency": 0.2, "TTFT": 0.15}
    estimates = [
        exponent_estimate(
            f"exponent of the {what}, {name}", seen, values[:, :, k], _GROUPS,
            f"upper end at most {most}",
            lambda low, high, most=most: high <= most,  # type: ignore[misc]
        )
        for k, (what, most) in enumerate(limits.items())
    ]  # fmt: skip
    pathwise = examine(
        "memory ≤ full batch + Σ W_j(l + l'_{j−1}) at every batch",
        f"the same runs, {name}, T = {seen[-1]}", runs,
        lambda run: memory_is_bounded(run, setting),
    )  # fmt: skip
    examined = [pathwise]
    buffer = safety_buffer(
        setting.problem, setting.thresholds, duration=seen[-1], probability=Fraction(1, 1000)
    ).total
    if buffer is not None:
        what = "no peak above (12) with the full batch's memory and δ = 1/1000"
        made = f"the same runs, {name}"
        examined.append(examine(what, made, runs, lambda run: run.peak_memory <= buffer))
    return Findings(
        *examined,
        estimates=estimates,
        numbers={
            f"memory of (12), δ = 1/1000, {name}": str(buffer),
            f"largest peak, {name}": max(r.peak_memory for r in runs),
        },
        summary=f"Thresholds {setting.thresholds} {'meet' if meets else 'break'} the conditions.",
    )


def _constant(thresholds: tuple[int, ...] | None = None) -> Experiment:
    one = Fraction(1)
    problem = NestedProblem.single(1, (1, 2), (one, one), _WORKER)
    return Experiment(problem, problem, thresholds or (4, 3))


def _three_types() -> Experiment:
    """Three types with gaps of two stages, and an engine twice as fast."""
    worker = FluidWorker(Fraction(1, 4), Fraction(1, 300), 10**6)
    problem = NestedProblem.single(2, (1, 3, 5), (Fraction(1),) * 3, worker)
    return Experiment(problem, problem, (4, 3, 2))


def _opposite() -> Experiment:
    """Rates that oscillate in opposite phase, with a period of 4 s."""
    means, swings = (Fraction(1), Fraction(1)), (Fraction(1, 4), Fraction(1, 4))
    worker = FluidWorker(Fraction(1, 2), Fraction(1, 100), 10**6)
    profile = SinusoidalRates(means, swings, Fraction(4), (Fraction(0), Fraction(1, 2)))
    varying = TimeVaryingProblem(1, (1, 3), profile, worker)
    nested = NestedProblem.single(1, (1, 3), means, worker)
    return Experiment(varying, nested, (5, 4), profile)


def _varying(
    *, fixed: Fraction = Fraction(1, 2), thresholds: tuple[int, int] = (4, 3)
) -> Experiment:
    """Sinusoidal rates, for which n = (4, 3) satisfies (13) with d0 = 1/2."""
    means, swings = (Fraction(1), Fraction(5, 8)), (Fraction(1, 2), Fraction(3, 5))
    worker = FluidWorker(fixed, Fraction(1, 60), 10**6)
    profile = SinusoidalRates(means, swings, Fraction(10), (Fraction(0), Fraction(1, 4)))
    varying = TimeVaryingProblem(1, (1, 2), profile, worker)
    nested = NestedProblem.single(1, (1, 2), means, worker)
    return Experiment(varying, nested, thresholds, profile)


@CLAIMS.result(
    "fluid.theorem2",
    Mutation("(10) broken: n = (1, 1), ΔT above n_1/Λ", experiments=(partial(_constant, (1, 1)),)),
    kind=Kind.ASYMPTOTIC,
)
def _theorem2_check(
    context: Context, *, experiments: Sequence[Setup] = (_constant, _three_types)
) -> Outcome:
    """Nested WAIT in heavy traffic: throughput and latency.

    Source: fluid paper, Theorem 2 (section 5.2)
    Statement: With thresholds that satisfy (10) the throughput gap of Nested WAIT is O(1/(ζT)),
        latency and TTFT are O(1).
    Formula: Thr* − E[Thr] = O(1/(ζT)), E[Latency] = O(1), E[TTFT] = O(1)
    Assumes: Poisson arrivals, unknown types; (10); memory enough for all batches
    Reading: throughput and latency only, with memory that never binds; of the memory see
        fluid.theorem2-memory. Horizon ζT with unscaled rates.
    """
    return scaling_check(context, experiments)


@CLAIMS.result(
    "fluid.theorem3",
    Mutation(
        "an engine six times slower, which breaks (13)",
        experiments=(partial(_varying, fixed=Fraction(3)),),
    ),
    Mutation(
        "n = (8, 2), n_2/n_1 below p, which breaks (13)",
        experiments=(partial(_varying, thresholds=(8, 2)),),
    ),
    kind=Kind.ASYMPTOTIC,
)
def _theorem3_check(
    context: Context, *, experiments: Sequence[Setup] = (_varying, _opposite)
) -> Outcome:
    """Nested WAIT with time-varying rates: throughput and latency.

    Source: fluid paper, Theorem 3 and (13) (section 7.1)
    Statement: With static thresholds that satisfy (13) the throughput gap is O(1/(ζT)), latency
        and TTFT are O(1), for rates that vary in time.
    Formula: (13)  ⇒  Thr* − E[Thr] = O(1/(ζT)), E[Latency] = O(1), E[TTFT] = O(1)
    Assumes: rates continuous and bounded; (13) for all t and Δt ≤ ΔT(n); memory enough for all
        batches
    Reading: throughput and latency only, with memory that never binds; of the memory see
        fluid.theorem3-memory. Horizon ζT with unscaled rates. Thr* as the mean of Σ λ_j^t(l'_j +
        1) over time: the paper defines it for constant rates only. Rates are sinusoidal, with one
        period and two phases each. Thresholds fall, as (17), with which the peaks are compared,
        has a root for n_j < n_{j−1} only.
    """
    return scaling_check(context, experiments)


# Time-varying rates.


@CLAIMS.step("fluid.theorem3-queues", Mutation("the smallest share, and no n_k", largest=False))
def _varying_check(context: Context, *, largest: bool = True) -> Outcome:
    """Mean queues under time-varying rates.

    Source: fluid paper, proof of Theorem 3 (appendix D)
    Statement: The mean queues are bounded as with constant rates, with the busiest window Λ^π and
        the largest share p_k*.
    Formula: E[W_1] ≤ 2n_1 + Λ^π/(2(n_1−Λ^π)),  E[W_k] ≤ n_k + n_{k−1}p*(1−p*)/(2(n_k−n_{k−1}p*))
    Assumes: Λ^π < n_1; p_k(s) ≤ p_k* < n_k/n_{k−1}
    Reading: constant rates, as in the proof of Theorem 2, are the case p_k(s) = p_k*.
    Summary: p* need not maximise p(1 − p): the bound grows with p because its denominator falls.
    """
    steps = context.choose(60, 300, 2000)

    def segment(before: int, threshold: int, shares: tuple[Fraction, Fraction]) -> bool:
        star = max(shares) if largest else min(shares)
        laws = [binomial_law(before, float(p)) for p in shares]
        # Alternating high and low rates.
        arrivals = [laws[(s // 7) % 2] for s in range(steps)]
        drift = threshold - before * star
        bound = threshold * largest + float(before * star * (1 - star) / (2 * drift))
        return max(mean_path(queue_laws(arrivals, threshold))) <= bound + MARGIN

    def first(threshold: int, high: float, low: float) -> bool:
        laws = (poisson_law(high), poisson_law(low))
        means = mean_path(queue_laws([laws[(s // 7) % 2] for s in range(steps)], threshold))
        return max(means) <= 2 * threshold + high / (2 * (threshold - high)) + MARGIN

    pairs = [
        (before, n, (Fraction(a, 8), Fraction(b, 8)))
        for before in range(2, context.choose(7, 12, 20)) for n in range(1, before)
        for a in range(1, 8) for b in sorted({1, 3, a}) if n > before * Fraction(max(a, b), 8)
    ]  # fmt: skip
    later = examine(
        "E[W_k] ≤ n_k + n_{k−1}p*(1−p*)/(2(n_k − n_{k−1}p*))",
        "p(s) alternating between two values; laws by convolution",
        pairs[:: context.choose(2, 1, 1)], segment,
    )  # fmt: skip
    head = examine(
        "E[W_1] ≤ 2n_1 + Λ^π/(2(n_1 − Λ^π))", "rates alternating between two values",
        [(n, h * n, low * n) for n in (1, 2, 4) for h in (0.5, 0.9) for low in (0.1, 0.5)], first,
    )  # fmt: skip
    return later, head


@CLAIMS.formula("fluid.eq13", Mutation("the share at the window's begin", moments=False))
def _windows_check(context: Context, *, moments: bool = True) -> Outcome:
    """Shares and arrivals over windows.

    Source: fluid paper, eq. (13) (section 7.1); the reduction to moments is ours
    Statement: Arrivals of a window are at most those of a longer one; p_i over any window is at
        most its largest value at a moment, which short windows reach.
    Formula: Σ λ_j[t, t+Δt] ≤ Σ λ_j[t, t+ΔT];  sup_{t,Δt} p_i[t, t+Δt] = sup_t p_i(t)
    Assumes: rates constant in pieces
    Summary: A share over a window averages those of its moments, weighted by the rates.
    """
    rng = context.rng

    def profiles() -> Iterator[tuple[RateProfile, Fraction, Fraction]]:
        for _ in range(context.choose(40, 400, 4000)):
            number = int(rng.integers(1, 5))
            breaks = [0, *np.cumsum(rng.integers(1, 6, number - 1)).tolist()]
            rates = [[Fraction(int(x), 4) for x in rng.integers(1, 9, 2)] for _ in breaks]
            profile = RateProfile(
                tuple(map(Fraction, breaks)), tuple(map(tuple, rates)), Fraction(breaks[-1] + 3)
            )
            yield (
                profile,
                Fraction(int(rng.integers(0, 40)), 4),
                Fraction(int(rng.integers(1, 40)), 4),
            )

    def holds(profile: RateProfile, start: Fraction, length: Fraction) -> bool:
        stay, go = (profile.integral(j, start, start + length) for j in (0, 1))
        share = go / (stay + go)
        now = profile.rates_at(start)
        limit = profile.largest_share([1], [0]) if moments else now[1] / sum(now)
        # Within one piece the share is constant, so the supremum is attained.
        reached = max(row[1] / sum(row) for row in profile.rates)
        shorter = profile.integral(0, start, start + length / 2)
        return (
            share <= limit
            and (not moments or limit == reached)
            and shorter <= stay
            and stay + go <= profile.largest_window([0, 1], length)
        )

    return examine(
        "p over a window ≤ largest p of a moment; arrivals ≤ the largest window",
        "random rates in pieces, random windows; exactly",
        profiles(),
        holds,
    )


# Equality in (14).


def growth(single: SingleClass, batches: int) -> tuple[float, float]:
    """Return the mean queue in excess of n after S and after 16 S batches, with ``λ·ΔT = n``."""
    means = mean_queues(single, 16 * batches)
    return means[batches - 1] - single.threshold, means[-1] - single.threshold


@verifier
def verify_equality(data: Data) -> str:
    """Confirm that with equality in (14) the mean excess of the queue over n_1 grows threefold.

    The excess after S batches is compared with that after 16 S batches.
    """
    single, batches = SingleClass.of(data), data["batches"]
    dismiss_if(not single.output + 2 <= batches <= 64)
    early, late = growth(single, batches)
    dismiss_if(early <= 0 or late < 3 * early)
    return (
        f"m = L = 1, l = {single.prompt}, l' = {single.output}, n_1 = {single.threshold}, d0 = "
        f"{single.fixed}, d1 = {single.per_token}, ΔT = {single.longest} = n_1/λ_1: beyond n_1, "
        f"{early:.3f} wait on average after {batches} batches and {late:.3f} after "
        f"{16 * batches}; the mean grows as √S without bound, and with it the latency"
    )


@CLAIMS.result(
    "fluid.theorem4-equality",
    Mutation("equality in the correction", shares=(1.0,)),
    Mutation("four fifths of the load as printed", printed=0.8),
    defect=Defect.HYPOTHESIS,
    verify=verify_equality,
)
def _equality_check(
    context: Context, *, shares: tuple[float, ...] = (0.5, 0.8), printed: float = 1
) -> Outcome:
    """Equality in (14).

    Source: fluid paper, Theorem 4 and (14) (section 7.2)
    Statement: Thresholds that satisfy (14), ΔT ≤ n_1/Σλ'_j included, give O(1) latency.
    Formula: ΔT(n) ≤ n_1/Σ_j λ'_j  ⇒  E[Latency] = O(1)
    Assumes: L = 1, which 'any fixed number of segments' includes; ΔT of a full batch
    Summary: With one segment this is the critical case of Theorem 1, where latencies grow as
        √(ζT). (With two segments and d1 > 0 the second is not in every batch, so that batches are
        shorter than ΔT on average, and equality does no harm.)
    Correction: (14) must be strict, as (10) is.
    """
    steps = context.choose(200, 1000, 5000)
    singles = [SingleClass(1, 1, n, 10, 1) for n in (1, 2, 3)]
    cases = list(product(singles, context.choose((16,), (16, 32), (16, 32, 64))))

    def bounded(single: SingleClass, batches: int) -> bool:
        if printed == 1:
            early, late = growth(single, batches)
            return late < 3 * early
        n = single.threshold
        means = mean_path(queue_laws([poisson_law(printed * n)] * (16 * batches), n))
        return means[-1] < 3 * means[batches]

    def strict(case: tuple[SingleClass, float]) -> bool:
        n, share = case[0].threshold, case[1]
        means = mean_path(queue_laws([poisson_law(share * n)] * steps, n))
        room = n * (1 - share)
        if not room:
            return means[-1] < 3 * means[steps // 16]
        return max(means) <= 2 * n + share * n / (2 * room) + MARGIN

    as_printed = context.refute(
        "with ≤ in (14) the mean queue is O(1)",
        "equality, one segment of one type, n = 1, 2, 3, d0 = 10, d1 = 1; laws by convolution",
        cases,
        lambda single, batches: plain(single) | {"batches": batches},
        holds=bounded,
    )
    corrected = examine(
        "with < it stays below Kingman's bound",
        f"n = 1, 2, 3, ΔT·λ/n in {shares}; laws by convolution",
        list(product(singles, shares)),
        strict,
    )
    return as_printed, corrected


# Theorem 4: Nested WAIT with fewer segments than types; the conditions (14) and (15) are weak.


@dataclass(frozen=True)
class Merged:
    """Types with ``l'_j = j`` at rate 1 each, merged into segments of equal width.

    Parameters
    ----------
    prompt, width : int
        ``l`` and ``ΔL``.
    thresholds : tuple of int
        One per segment, at least two.
    fixed, inverse : int
        ``d0`` and ``1/d1``.
    """

    prompt: int
    width: int
    thresholds: tuple[int, ...]
    fixed: int
    inverse: int

    @property
    def number(self) -> int:
        """``m = L·ΔL``."""
        return self.width * len(self.thresholds)

    @property
    def work_rate(self) -> int:
        """``A``: arriving work per unit time."""
        return sum(stage_sum(self.prompt, j) for j in range(1, self.number + 1))

    def time(self, *, printed: bool) -> Fraction:
        """Return ``ΔT(n)`` with the M^π after (14), or that of a full batch."""
        ends = tuple(self.width * (i + 1) for i in range(len(self.thresholds)))
        memory = (
            printed_segment_memory(self.prompt, self.width, self.thresholds)
            if printed
            else Fraction(full_batch(self.prompt, ends, self.thresholds))
        )
        return self.fixed + memory / self.inverse

    def applies(self, *, printed: bool = True) -> bool:
        """Return whether (14) holds, strictly too, and ``n_1 > n_2 > ...``."""
        values = (self.prompt, self.width, self.fixed, self.inverse, *self.thresholds)
        if len(self.thresholds) < 2 or min(values) < 1:
            return False
        segments = len(self.thresholds)
        # p_i = (L − i)/(L − i + 1), since all rates are equal.
        drifts = all(
            before > after and after * (segments - i) > before * (segments - i - 1)
            for i, (before, after) in enumerate(pairwise(self.thresholds))
        )
        return drifts and self.time(printed=printed) * self.number < self.thresholds[0]

    @property
    def keeps_up(self) -> bool:
        """Whether the load ``d1·A`` is at most 1."""
        return self.work_rate <= self.inverse


@verifier
def verify(prompt: int, width: int, thresholds: list[int], fixed: int, inverse: int) -> str:
    """Confirm that thresholds satisfy (14) strictly although the load is above 1."""
    merged = Merged(prompt, width, tuple(thresholds), fixed, inverse)
    dismiss_if(not merged.applies() or merged.keeps_up)
    return (
        f"l = {merged.prompt}, l'_j = j ≤ {merged.number} at rate 1 each, L = "
        f"{len(merged.thresholds)}, d0 = {merged.fixed}, d1 = 1/{merged.inverse}: n = "
        f"{merged.thresholds} satisfies (14) with ΔT = {merged.time(printed=True)} < n_1/Σλ'_j = "
        f"{Fraction(merged.thresholds[0], merged.number)}, but the load d1·A = "
        f"{Fraction(merged.work_rate, merged.inverse)} exceeds 1: latency grows linearly "
        "(fluid.proposition1)"
    )


def _choices(context: Context) -> Iterator[Merged]:
    most = context.choose(60, 100, 200)
    for prompt, width, fixed in product((1, 2), (1, 2), (1, 2)):
        work = Merged(prompt, width, (1, 1), 1, 1).work_rate
        for first, inverse in product(range(3, most), (work - 1, work, 2 * work)):
            yield Merged(prompt, width, (first, first // 2 + 1), fixed, inverse)


def _merged(*, fixed: Fraction = Fraction(1, 2)) -> Experiment:
    rates = tuple(Fraction(k, 4) for k in (4, 3, 2, 1))
    worker = FluidWorker(fixed, Fraction(1, 300), 10**6)
    problem = NestedProblem.single(1, (1, 2, 3, 4), rates, worker, (2, 4))
    return Experiment(problem, problem, (4, 2))


def _three_segments() -> Experiment:
    """Six types at equal rates in three segments."""
    worker = FluidWorker(Fraction(1, 4), Fraction(1, 600), 10**6)
    rates = (Fraction(1, 2),) * 6
    problem = NestedProblem.single(2, (1, 2, 3, 4, 5, 6), rates, worker, (2, 4, 6))
    return Experiment(problem, problem, (4, 3, 2))


@CLAIMS.result(
    "fluid.theorem4",
    Mutation("the memory of a full batch as printed", printed=False),
    Mutation("an engine four times slower, which breaks (14)", fixed=Fraction(2)),
    kind=Kind.ASYMPTOTIC,
    defect=Defect.FORMULA,
    verify=verify,
)
def _check(context: Context, *, fixed: Fraction = Fraction(1, 2), printed: bool = True) -> Outcome:
    """Nested WAIT with fewer segments: throughput and latency.

    Source: fluid paper, Theorem 4 (section 7.2) and remark (iii) (section 5.2)
    Statement: For any fixed number of segments L and thresholds that satisfy (14) the throughput
        gap is O(1/(ζT)), latency and TTFT are O(1).
    Formula: (14)  ⇒  Thr* − E[Thr] = O(1/(ζT)), E[Latency] = O(1), E[TTFT] = O(1)
    Assumes: m output lengths in L ≤ m segments; (14), with the M^π after it; memory enough for all
        batches
    Reading: throughput and latency only, with memory that never binds; of the memory see
        fluid.theorem4-memory. Horizon ζT with unscaled rates. The refutation is of the sum for M^π
        after (14), which section 7.2 repeats for its figures. By the words before it, 'n_i at each
        stage', M^π is that of a full batch, and the statement with < in (14) is the corrected one.
    Correction: With M^π the memory of a full batch (fluid.eq14) and < in (14), as in (10)
        (fluid.theorem4-equality).
    """
    printed_bears = context.refute(
        "thresholds that satisfy (14) mean a load of 1 at most",
        "two segments of one or two types, equal rates, n_1 up to 60 and more, d1 around 1/A",
        _choices(context),
        holds=lambda m: m.keeps_up,
        applies=lambda m: m.applies(printed=printed),
    )
    runs = scaling_check(context, (partial(_merged, fixed=fixed), _three_segments))
    return Findings(
        printed_bears,
        *runs.seen,
        estimates=runs.estimates,
        numbers=runs.numbers,
        summary="The printed M^π is too small (fluid.eq14), so that (14) admits overloads. "
        f"{runs.summary}",
    )


_INVERSE = 10


def merged_case(prompt: int, width: int, thresholds: tuple[int, int], batches: int) -> TwoSegments:
    """Return two segments of ``width`` types each at equal total rates, δ = 1/10."""
    return TwoSegments(prompt, width, width, thresholds, ((1, 1),), batches, _INVERSE)


def merged_memory(case: TwoSegments, *, index: bool = False, full: bool = False) -> float:
    """Return the memory of (15) for two segments.

    Parameters
    ----------
    case : TwoSegments
        Segments.
    index : bool
        Whether ``l'_{(j−1)ΔL} = ΔL`` replaces ``l'_{j−1}``, which is ``l'_1 = 1``.
    full : bool
        Whether M^π is the memory of a full batch, as the text defines it, and not the sum.
    """
    width = case.output
    printed = printed_segment_memory(case.prompt, width, case.thresholds)
    held = case.prompt + (width if index else 1)
    # m = 2·ΔL types: ln(mS/δ).
    return float(case.full if full else printed) + held * case.allowance(2 * width)


def merged_chance(case: TwoSegments, often: int, memory: float) -> float:
    """Return a lower bound on the probability that a memory limit is exceeded.

    Types Δ and 2Δ each arrive ``often`` times as often as any other type. As long as only these
    arrive, no prompt completes within a segment, so batches are full.
    """
    width, (first, _) = case.output, case.thresholds
    # Segment 2 begins after l'_Δ = Δ.
    limit = (memory - case.full) / (case.prompt + width)
    only_two = (often / (often + width - 1)) ** (first * case.batches)
    return case.exceeds(limit, when_full=True) - (1 - only_two)


@verifier
def verify_merged(prompt: int, width: int, thresholds: list[int], batches: int, often: int) -> str:
    """Confirm that the memory of (15) is exceeded with probability above 2δ."""
    first, second = thresholds
    case = merged_case(prompt, width, (first, second), batches)
    dismiss_if(min(prompt, often, first, second) < 1 or width < 2)
    dismiss_if(not case.applies or case.batches > 400)
    memory = merged_memory(case)
    chance = merged_chance(case, often, memory)
    dismiss_if(chance <= 2 / case.inverse)
    return (
        f"l = {prompt}, l'_j = j ≤ {2 * width}, L = 2, types {width} and {2 * width} {often} "
        f"times as frequent as the others, n = {case.thresholds}, δ = 1/10: (15) gives "
        f"{memory:.2f}; a full batch alone has {case.full}, and within {case.batches} batches "
        f"more than the memory is needed with probability {chance:.3f} at least"
    )


@CLAIMS.result(
    "fluid.theorem4-memory",
    Mutation("an eighth of the deviation in the correction", buffer=0.125),
    Mutation("the corrected memory as printed", exact=True),
    defect=Defect.FORMULA,
    verify=verify_merged,
)
def _merged_check(context: Context, *, buffer: float = 1, exact: bool = False) -> Outcome:
    """Memory that suffices with merged segments.

    Source: fluid paper, Theorem 4 and (15) (section 7.2)
    Statement: With thresholds that satisfy (14) and the memory of (15), memory is not exceeded on
        [0, T] with probability at least 1 − δ.
    Formula: M ≥ M^π + Σ_{j=2}^L (l + l'_{j−1})(n_j + θ_j^{−1}·ln(mS/δ))
    Assumes: l'_j = j, L divides m; n_{j−1} > n_j > n_{j−1}p_{j−1}, so that (16) has a root; M^π
        after (14)
    Summary: Before segment j prompts hold l + l'_{(j−1)ΔL} tokens; (15) has l'_{j−1}, the length
        of type j − 1. And its M^π lacks much of a full batch (fluid.eq14). Either error alone is
        enough.
    Reading: S batches, few enough for [0, T]; arrivals slow enough for the first part of (14). M^π
        as the sum after (14), which the figures repeat. By the words before it, 'n_i at each
        stage', it is the memory of a full batch. Either error alone makes (15) fail: that sum,
        with l'_{(j−1)ΔL}; or a full batch, with l'_{j−1} as printed.
    Correction: Σ_j (l + l'_{(j−1)ΔL})(n_j + θ_j^{−1}·ln((L−1)S/δ)) and the memory of a full batch:
        before segment j a prompt has passed stage l'_{(j−1)ΔL}.
    """
    often = 10**6
    cases = [
        merged_case(prompt, width, thresholds, batches)
        for prompt, width, thresholds, batches in product(
            (1, 5),
            (2, 4),
            ((4, 3), (10, 9), (6, 4)),
            context.choose((30,), (30, 60), (30, 60, 200)),
        )
    ]
    domain = context.domain(
        "l = 1, 5, ΔL = 2, 4, three pairs of thresholds, P_2 = 1/2; by convolution", cases
    )

    def seldom(case: TwoSegments, *, index: bool = False, full: bool = False) -> bool:
        memory = merged_memory(case, index=index or exact, full=full or exact)
        return merged_chance(case, often, memory) <= 2 / case.inverse

    suffices = partial(buffer_suffices, buffer=buffer)
    single = [
        examine(
            what,
            "the same",
            cases,
            partial(seldom, index=index, full=not index),
            lambda c: c.applies,
        )
        for what, index in _MENDED.items()
    ]
    printed = domain.refute(
        "exceeded with probability at most δ, or even 2δ",
        lambda c: {
            "prompt": c.prompt,
            "width": c.output,
            "thresholds": list(c.thresholds),
            "batches": c.batches,
            "often": often,
        },
        holds=seldom,
        applies=lambda c: c.applies,
    )
    return Findings(
        printed,
        *single,
        domain.examine("with the corrected memory", suffices, lambda c: c.applies),
        numbers=_one_error_each(),
        printed=1 + len(single),
    )


#: Variants of (15) with one of its two errors corrected; True if the index is.
_MENDED = {
    "the same with l'_{(j−1)ΔL} in place of l'_{j−1}, M^π as printed": True,
    "the same with the memory of a full batch, l'_{j−1} as printed": False,
}


def _one_error_each() -> dict[str, float]:
    """Return two overflow probabilities above δ = 1/10, one for each error; l = 1, ΔL = 2."""
    sum_only, index_only = merged_case(1, 2, (3, 2), 20), merged_case(1, 2, (10, 9), 30)
    return {
        "l'_{(j−1)ΔL} and the sum, n = (3, 2), S = 20: P(exceeded)": merged_chance(
            sum_only, 10**9, merged_memory(sum_only, index=True)
        ),
        "l'_{j−1} and a full batch, n = (10, 9), S = 30: P(exceeded)": merged_chance(
            index_only, 10**9, merged_memory(index_only, full=True)
        ),
    }
