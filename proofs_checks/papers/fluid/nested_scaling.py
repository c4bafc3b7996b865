"""Theorems 2 to 4: scaling of gap, latency and TTFT of Nested WAIT, and bounds on its memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TypeAlias

import numpy as np

from bfio.common.engine_choice import Engine
from bfio.wait.arrivals import poisson_instance, varying_instance
from bfio.wait.chains import ThresholdPolicy, nested_policy, queue_lengths
from bfio.wait.instance import StageInstance
from bfio.wait.run import StageRun
from bfio.wait.simulation import serve
from formulations.arrays import FloatArray
from formulations.fluid import FluidWorker, SinusoidalRates, VaryingRates
from formulations.thresholds import (
    NestedProblem,
    ThresholdProblem,
    TimeVaryingProblem,
    policy_memory,
    safety_buffer,
    threshold_violations,
)
from proofs_checks.claim import Claims, Context, Effort, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome
from proofs_checks.papers.fluid.runs import exponent_estimate
from proofs_checks.search import examine

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
        """The policy."""
        return nested_policy(self.nested.group.ends, self.thresholds)

    def instance(self, seconds: int, seed: int) -> StageInstance:
        """Draw arrivals."""
        fluid = self.nested.fluid()
        if self.profile is None:
            return poisson_instance(fluid, seconds, seed)
        return varying_instance(fluid, self.profile, seconds, seed)

    def run(self, seconds: int, seed: int, engine: Engine) -> StageRun:
        """Serve arrivals up to a duration."""
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
    seen_too = []
    buffer = safety_buffer(
        setting.problem, setting.thresholds, duration=seen[-1], probability=Fraction(1, 1000)
    ).total
    if buffer is not None:
        what = "no peak above (12) with the full batch's memory and δ = 1/1000"
        seen_too = [
            examine(what, f"the same runs, {name}", runs, lambda run: run.peak_memory <= buffer)
        ]
    return Findings(
        pathwise,
        *seen_too,
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
