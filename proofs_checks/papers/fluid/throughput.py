"""Propositions 2 and 3: no policy beats the equilibrium, or bounds latencies with memory M*."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import ClassVar

import numpy as np

from bfio.wait.arrivals import poisson_instance
from bfio.wait.chains import wait_policy
from bfio.wait.fcfs import Favour, FirstComeFirstServed
from bfio.wait.instance import StageInstance
from bfio.wait.policy import StagePolicy, StageState
from bfio.wait.run import StageRun
from formulations.arrays import FloatArray
from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome
from proofs_checks.papers.fluid.propositions import INSTANCE
from proofs_checks.papers.fluid.queues import poisson_law
from proofs_checks.papers.fluid.runs import (
    canonical,
    exponent_estimate,
    random_policy,
    random_setting,
    reference,
    sundry_policies,
    wait_replicas,
)
from proofs_checks.search import examine

CLAIMS = Claims()


@CLAIMS.result(
    "fluid.proposition2", Mutation("stages of restarted prompts counted", restarts_too=True)
)
def _proposition2_check(context: Context, *, restarts_too: bool = False) -> Outcome:
    """No policy exceeds the fluid throughput.

    Source: fluid paper, Proposition 2 (section 3.2)
    Statement: With C ≥ M* the expected throughput of any online policy is at most Throughput*.
    Formula: E[Thr^(T,π)] ≤ Thr*
    Assumes: tokens of a prompt count when it completes
    Summary: Path by path, for any policy and any memory; the mean of the right side is Thr*·T.
    Reading: path by path and without C ≥ M*: what completes has arrived. In stages and in decode
        tokens, each with its own Thr*.
    """
    rng = context.rng

    def runs() -> Iterator[StageRun]:
        for _ in range(context.choose(8, 80, 1000)):
            setting = random_setting(rng, context.choose(16, 40, 100))
            duration = setting.requests[-1][0] + 1
            for policy in sundry_policies(setting, rng):
                memory = max(p + o for p, o in setting.classes) + int(rng.integers(0, 20))
                yield reference(setting.instance(memory), policy, duration)
        for seed in range(context.choose(2, 10, 100)):
            busy = poisson_instance(canonical(), 30, int(rng.integers(10**9)))
            yield reference(busy, FirstComeFirstServed())
            yield reference(busy, random_policy(seed), 30 * busy.clock.units_per_second)

    def holds(run: StageRun) -> bool:
        counted = int(run.batches.prompts.sum()) if restarts_too else run.tokens(run.is_completed)
        decoded = run.tokens(run.is_completed, decode=True)
        return counted <= run.tokens(run.arrived) and decoded <= run.tokens(
            run.arrived, decode=True
        )

    return examine(
        "tokens of completed prompts ≤ tokens of arrived prompts",
        "runs of WAIT, Nested WAIT, FCFS with evictions and limits, coin-tossing policies",
        runs(),
        holds,
    )


def least_backlog(
    times: Sequence[int], works: Sequence[int], rate: Fraction, end: int
) -> Fraction:
    """Return a lower bound on the work in the system at a time, for any policy.

    An engine does at most ``rate`` work per clock unit. So it leaves at least the maximum over t
    of the work that arrives in (t, end], less ``rate·(end − t)``.
    """
    least = late = Fraction(0)
    for time, work in zip(reversed(times), reversed(works), strict=True):
        late += work
        least = max(least, late - rate * (end - time))
    return least


def work_left(run: StageRun) -> int:
    """Return the remaining work of the requests in the system.

    Completed stages are subtracted; the stages of running batches are not.
    """
    work = run.instance.work[run.arrived & ~run.is_completed].sum()
    events = run.log.events()
    ended = run.batches.end[events.batch] <= run.observed
    open_ = ~run.is_completed[events.request] & ended
    tokens = run.instance.prompt[events.request] + events.stage
    return int(work - tokens[open_].sum())


def _policies(rng: np.random.Generator) -> Iterator[StagePolicy]:
    yield wait_policy(canonical().classes, (1, 1))
    yield FirstComeFirstServed()
    yield FirstComeFirstServed(Favour.NEW, limit=int(rng.integers(2, 6)))
    yield ReservingCoins(9, np.random.default_rng(int(rng.integers(10**9))))


@dataclass(frozen=True)
class ReservingCoins:
    """Starts prompts whose final lengths fit together; each joins the batch at random."""

    memory: int
    rng: np.random.Generator

    #: See `bfio.wait.policy`.
    knows_lengths: ClassVar[bool] = True

    def __call__(self, state: StageState) -> list[int]:
        """Return the next batch."""
        present = list(state.held)
        room = self.memory - int(state.instance.peaks[present].sum())
        for i in state.waiting:
            room -= int(state.instance.peaks[i])
            if room < 0:
                break
            present.append(i)
        return [i for i in present if self.rng.random() < 0.8] or present[:1]


def _critical_maxima(context: Context, horizons: Sequence[int], load: float) -> FloatArray:
    """Return ``max_s`` of the work that arrives in s seconds less 9·s, shape (R, H)."""
    runs = context.choose(256, 512, 4096)
    rng = context.rng
    come = 3 * rng.poisson(load, (runs, horizons[-1])) + 6 * rng.poisson(
        load, (runs, horizons[-1])
    )
    walk = np.maximum.accumulate(np.cumsum(come - 9, axis=1), axis=1)
    return np.maximum(walk[:, [h - 1 for h in horizons]], 0).astype(np.float64)


@CLAIMS.result(
    "fluid.proposition3",
    Mutation("an engine half as fast in the bound", speed=2),
    Mutation("four fifths of the load", load=0.8),
    Mutation("a twentieth more load", load=1.05),
    hypotheses=INSTANCE,
    proof="critical-memory",
)
def _proposition3_check(context: Context, *, speed: int = 1, load: float = 1.0) -> Outcome:
    """With memory M* latencies grow under any policy.

    Source: fluid paper, Proposition 3 (section 4.3)
    Statement: There is an instance with C = M* on which latency and TTFT of any non-predictive
        policy are Ω((ζT)^{1/2}).
    Formula: C = M*  ⇒  E[Latency], E[TTFT] = Ω((ζT)^{1/2})
    Summary: With C = M* the engine does at most 9 of work a second, as much as arrives: what is
        left is at least a reflected walk without drift, whose mean grows as √T. This proves the
        proposition, which the paper leaves without proof: each request has at most 6 of work left,
        and those that hold tokens are 9 at most, so as many wait for their first token.
    Reading: prompts that have not completed count with their age: a policy that never serves some
        would otherwise hide them. TTFT for policies that remove nobody: one that gives everybody a
        first token, and removes them again, has a bounded TTFT.
    """
    rng, seconds = context.rng, context.choose(25, 60, 200)

    def runs() -> Iterator[StageRun]:
        for _ in range(context.choose(4, 40, 400)):
            instance = poisson_instance(canonical(9), seconds, int(rng.integers(10**9)))
            for policy in _policies(rng):
                yield reference(instance, policy, seconds * instance.clock.units_per_second)

    def bounded(run: StageRun) -> bool:
        instance: StageInstance = run.instance
        rate = Fraction(9, speed * instance.clock.duration(9))
        came = instance.arrival < run.observed
        least = least_backlog(
            instance.arrival[came].tolist(), instance.work[came].tolist(), rate, run.observed
        )
        # A batch that is running at the end has done at most 9 units of work.
        return run.overflows == 0 and work_left(run) >= least - 9

    pathwise = examine(
        "work left at T ≥ max_s (work of the last s − 9·s) − 9",
        f"WAIT, FCFS, FCFS with a limit and coins within C = 9, instance of A.3, T = {seconds}",
        runs(), bounded,
    )  # fmt: skip
    most = context.choose(30, 100, 400)
    root = examine(
        "2·√T ≤ E(work of T − 9·T)^+ = 3·E(N + 2·N′ − 3·T)^+ ≤ 3·√T, N, N′ Poisson of mean T",
        f"T = 1, 3, 5, ... below {most}, by convolution",
        range(1, most, 2),
        lambda seconds: 2 * sqrt(seconds) <= least_mean(seconds, load) <= 3 * sqrt(seconds),
    )
    return pathwise, root


def least_mean(seconds: int, load: float = 1.0) -> float:
    """Return ``E(work of T seconds − 9·T)^+``, below the mean of `least_backlog`.

    Two independent Poisson streams of rate ``load`` have work of 3 and 6 per request.
    """
    chances = poisson_law(load * seconds)
    double = np.zeros(2 * len(chances) - 1)
    double[::2] = chances
    total = np.convolve(chances, double)
    return float(3 * (total * np.maximum(np.arange(len(total)) - 3 * seconds, 0)).sum())


@CLAIMS.own(
    "fluid.proposition3-exponents",
    Mutation("four fifths of the load", load=0.8),
    hypotheses=INSTANCE,
    kind=Kind.STATISTICAL,
)
def _rates_check(context: Context, *, load: float = 1.0, memory: int = 9) -> Outcome:
    """How fast latencies grow with memory M*.

    Source: fluid paper, Proposition 3 (section 4.3), the exponent measured
    Statement: On the instance with C = M* latency and TTFT of WAIT, and the least backlog of any
        policy, grow with T, the last as its root.
    Formula: backlog ~ T^{1/2};  E[Latency], E[TTFT] of WAIT ~ T^a, a > 0.2
    Summary: Regressions over T = 64, 256, 1024, beside the proof of fluid.proposition3.
    """
    horizons = [64, 256, 1024]
    estimates = [
        exponent_estimate(
            "exponent of the least mean backlog of any policy", horizons,
            _critical_maxima(context, horizons, load), 8, "interval within 0.3 to 0.7",
            lambda low, high: low >= 0.3 and high <= 0.7,
        ),
    ]  # fmt: skip
    replicas = wait_replicas(canonical(memory), (1, 1), 1024, 64, context.rng)
    units = replicas.instance(0).clock.units_per_second
    for name, stages in (("latency", (1, 2)), ("TTFT", (1, 1))):
        values = np.column_stack([replicas.delays(h * units, stages) for h in horizons])
        estimates.append(
            exponent_estimate(
                f"exponent of the {name} of WAIT with C = M*", horizons, values, 8,
                "lower end at least 0.2", lambda low, high: low >= 0.2,
            )
        )  # fmt: skip
    return Findings(estimates=tuple(estimates))
