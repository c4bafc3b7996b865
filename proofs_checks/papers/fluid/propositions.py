"""Propositions 2 to 4: the equilibrium bounds all policies; gaps with memory M*, largest for FCFS.

First come, first served is that of section 4.3, with four eviction rules. The paper says "remove
ongoing prompts to accommodate new arrivals" and does not say which prompts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import exp, factorial, sqrt
from typing import ClassVar

import numpy as np

from bfio.wait.arrivals import poisson_instance
from bfio.wait.chains import wait_policy
from bfio.wait.fcfs import Favour, FirstComeFirstServed
from bfio.wait.policy import Decision, StageInstance, StagePolicy, StageState
from bfio.wait.run import StageRun
from formulations.arrays import BoolArray, FloatArray, IntArray
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import (
    Estimate,
    Evidence,
    Findings,
    Outcome,
    Verdict,
    accepted,
    agreed,
    dismiss_if,
    verifier,
)
from proofs_checks.papers.fluid.queues import poisson_law
from proofs_checks.papers.fluid.runs import (
    canonical,
    exponent_estimate,
    random_policy,
    reference,
    sundry_policies,
    wait_replicas,
)
from proofs_checks.search import examine
from proofs_checks.statistics import mean_estimate

CLAIMS = Claims()


@dataclass(frozen=True)
class Removal:
    """FCFS in which evicted prompts restart from stage 0 and queue in order of arrival.

    Parameters
    ----------
    oldest, everyone : bool
        Whether the oldest prompts, or all prompts, are evicted; by default the youngest.
    new_first : bool
        Whether arrivals start with the memory left by the current prompts, before evictions; by
        default they start with the memory that the remaining prompts' next stages leave.
    """

    oldest: bool = False
    everyone: bool = False
    new_first: bool = False

    def __call__(self, state: StageState) -> Decision:
        """Return the next batch and the prompts to evict before it."""
        started = self._starts(state, state.waiting, self._held(state)) if self.new_first else []
        kept, removed = self._removals(state, sum(self._next(state, i) for i in started))
        if self.new_first:
            return Decision([*kept, *started], removed)
        waiting = sorted([*state.waiting, *removed])
        needed = sum(self._next(state, i) for i in kept)
        return Decision([*kept, *self._starts(state, waiting, needed)], removed)

    def _removals(self, state: StageState, needed: int) -> tuple[list[int], list[int]]:
        """Split prompts into kept and evicted, so that the kept ones and ``needed`` tokens fit."""
        kept, removed = list(state.held), []
        needed += sum(self._next(state, i) for i in kept)
        if self.everyone and needed > state.instance.memory:
            return [], kept
        while needed > state.instance.memory:
            removed.append(kept.pop(0 if self.oldest else -1))
            needed -= self._next(state, removed[-1])
        return kept, removed

    def _starts(self, state: StageState, waiting: list[int], needed: int) -> list[int]:
        """Return the prompts to start: in order of arrival, up to the first that does not fit."""
        started: list[int] = []
        for i in waiting:
            needed += int(state.instance.prompt[i])
            if needed > state.instance.memory:
                break
            started.append(i)
        return started

    def _held(self, state: StageState) -> int:
        # Each stage adds one token, and a held prompt has passed at least one stage.
        return sum(self._next(state, i) - 1 for i in state.held)

    def _next(self, state: StageState, i: int) -> int:
        return int(state.instance.prompt[i]) + (int(state.stage[i]) if i in state.held else 0)


#: Policies by name; the first equals `Removal` with its defaults.
EVICTION_RULES: dict[str, StagePolicy] = {
    "the youngest go": FirstComeFirstServed(),
    "the oldest go": Removal(oldest=True),
    "arrivals start, then the youngest ongoing go": Removal(new_first=True),
    "all go": Removal(everyone=True),
}


def in_system(
    context: Context,
    policy: StagePolicy,
    memory: int,
    horizons: Sequence[int],
    runs: int,
    weight: Callable[[StageInstance], IntArray | BoolArray],
) -> FloatArray:
    """Return the weight of the requests in the system over the time, shape (R, H).

    The runs are of a policy on the instance of A.3; the weight is a number for each request.
    """
    rows = []
    for seed in context.rng.integers(10**9, size=runs).tolist():
        instance = poisson_instance(canonical(memory), horizons[-1], seed)
        units = instance.clock.units_per_second
        run = reference(instance, policy, horizons[-1] * units)
        done = np.where(run.completion < 0, 2**62, run.completion)
        there = [(instance.arrival < h * units) & (done > h * units) for h in horizons]
        each = weight(instance)
        rows.append([int(each[t].sum()) / h for t, h in zip(there, horizons, strict=True)])
    return np.array(rows)


INSTANCE = (
    "l = (1, 1), l' = (1, 2), λ = (1, 1), d0 + 9·d1 = 1, C = M* = 9",
    "Poisson arrivals",
    "the KV cache of paused prompts counts toward C",
)


@CLAIMS.result(
    "fluid.proposition4",
    Mutation("WAIT in place of FCFS", policy=wait_policy(canonical().classes, (1, 1))),
    Mutation("memory of 60", memory=60),
    hypotheses=INSTANCE,
    kind=Kind.STATISTICAL,
)
def _proposition4_check(
    context: Context, *, policy: StagePolicy | None = None, memory: int = 9
) -> Outcome:
    """First come, first served never reaches the fluid throughput.

    Source: fluid paper, Proposition 4 (section 4.3)
    Statement: With C = M* there is an instance on which FCFS has a throughput gap of Ω(1).
    Formula: Thr* − E[Thr^T] = Ω(1)
    Summary: Whomever FCFS removes on overflow, its gap does not fall with T; WAIT's does, with the
        same memory.
    Reading: FCFS as in A.3: arrivals start whenever the current memory permits; on overflow
        ongoing prompts are removed and start again. Who is removed is not said: four rules are
        tried, two of them at quick effort.
    """
    horizons = context.choose([150], [100, 200, 400], [500, 1000, 2000, 4000])
    # At quick effort only the two rules that lose the least.
    rules = list(EVICTION_RULES.items())[: context.choose(2, 4, 4)]
    policies = [("WAIT as FCFS", policy)] if policy else rules
    runs = context.choose(12, 24, 32)
    measured = [
        (name, in_system(context, served, memory, horizons, runs, lambda i: i.iterations))
        for name, served in policies
    ]
    estimates = [
        mean_estimate(
            f"gap of FCFS ({name}) at T = {h} (Thr* = 5)", gaps[:, k], "lower end at least 0.3",
            lambda low, high: low >= 0.3,
        )
        for name, gaps in measured
        for k, h in enumerate(horizons)
    ]  # fmt: skip
    if len(horizons) > 1:
        estimates += [
            exponent_estimate(
                f"exponent of the gap of FCFS ({name})", horizons, gaps, 8,
                "lower end at least -0.4 (-1/2 for WAIT with this memory)",
                lambda low, high: low >= -0.4,
            )
            for name, gaps in measured
        ]  # fmt: skip
    long = context.choose(1024, 4096, 16384)
    replicas = wait_replicas(canonical(), (1, 1), long, 64, context.rng)
    units = replicas.instance(0).clock.units_per_second
    estimates.append(
        mean_estimate(
            f"gap of WAIT with the same memory at T = {long}",
            replicas.unfinished(long * units) / long,
            "upper end at most 0.25",
            lambda low, high: high <= 0.25,
        )
    )
    return Findings(estimates=tuple(estimates))


# The constants in the proof of Proposition 4: overflow probability, and growth of the queue.


#: Arrivals that the paper lists as not exceeding the memory.
_PRINTED = {(0, 0), (1, 0), (0, 1), (1, 1), (2, 0)}


def loads(first: int, second: int, *, prompts: int = 1) -> tuple[int, int, int]:
    """Return the tokens of the three iterations after the equilibrium's batch.

    After that batch one prompt of type 1 is before stage 1, and two of type 2 are before stages 1
    and 2: 2 + 2 + 3 tokens. The next iteration adds the given arrivals at stage 0. Each later
    iteration has the mean arrivals (1, 1).
    """
    at_once = 2 + 2 + 3 + prompts * (first + second)
    then = 3 + 2 * first + 2 * second + 2 * prompts
    after = 2 + 2 + 3 * second + 2 * prompts
    return at_once, then, after


def is_safe(pair: tuple[int, int], iterations: int, *, prompts: int = 1) -> bool:
    """Return whether 9 tokens are not exceeded within some iterations."""
    return max(loads(*pair, prompts=prompts)[:iterations]) <= 9


@verifier
def verify_overflow(first: int, second: int) -> str:
    """Confirm that a pair of arrivals is safe for two iterations but not on the printed list."""
    pair = (first, second)
    dismiss_if(min(pair) < 0 or (is_safe(pair, 2) == (pair in _PRINTED)))
    at_once, then, _ = loads(*pair)
    return (
        f"arrivals {pair}: {at_once} tokens in the next iteration, {then - 2} in the one after "
        "and what arrives meanwhile, 2 on average: 9 are not exceeded in two iterations"
    )


def _chance(iterations: int, most: int, prompts: int = 1) -> tuple[Fraction, float]:
    """Return ``e²·P(safe)`` and ``P(not safe)``."""
    pairs = product(range(most), range(most))
    safe = (pair for pair in pairs if is_safe(pair, iterations, prompts=prompts))
    weight = sum((Fraction(1, factorial(a) * factorial(b)) for a, b in safe), Fraction(0))
    return weight, 1 - float(weight) * exp(-2)


@CLAIMS.step(
    "fluid.proposition4-overflow",
    Mutation("three iterations as printed", iterations=3),
    Mutation("prompts of 2 tokens in the correction", prompts=2),
    hypotheses=INSTANCE,
    defect=Defect.FORMULA,
    verify=verify_overflow,
)
def _overflow_check(context: Context, *, iterations: int = 2, prompts: int = 1) -> Outcome:
    """Chance that FCFS overflows.

    Source: fluid paper, proof of Proposition 4 (appendix A.3)
    Statement: From the equilibrium batch, memory 9 is exceeded in two iterations unless the
        arrivals are one of (0,0), (1,0), (0,1), (1,1), (2,0); the chance is 0.391.
    Formula: p = 1 − (9/2)·e^{−2} ≈ 0.391
    Summary: (0,2) overflows in the third iteration only, where its two prompts stand before stage
        2 and those that come as on average have joined.
    Reading: iterations after the equilibrium's batch; the second brings one prompt of each type,
        or none.
    Correction: (0,2) is safe as well, so that within two iterations the chance is 1 − 5·e^{−2} ≈
        0.323. The printed five pairs and 0.391 belong to three iterations. Either is a positive
        constant, which is what the proof needs.
    """
    most = context.choose(12, 12, 20)
    domain = context.domain(f"all pairs below {most}", list(product(range(most), range(most))))
    printed = domain.refute(
        "safe for two iterations are (0,0), (1,0), (0,1), (1,1), (2,0) only",
        holds=lambda pair: is_safe(pair, iterations) == (pair in _PRINTED)
    )  # fmt: skip
    six = domain.examine(
        "safe for two are (0,2) too, and for three the printed ones",
        lambda pair: is_safe(pair, 2, prompts=prompts) == (pair in _PRINTED | {(0, 2)})
        and is_safe(pair, 3, prompts=prompts) == (pair in _PRINTED)
    )  # fmt: skip
    two, three = _chance(2, most, prompts), _chance(3, most, prompts)
    values = examine(
        "1 − 5·e^{−2} within two iterations, 1 − (9/2)·e^{−2} within three", "from the safe pairs",
        [(two[0], three[0])], lambda weights: weights == (Fraction(5), Fraction(9, 2)),
    )  # fmt: skip
    return Findings(printed, six, values, numbers={"within two": two[1], "within three": three[1]})


def printed_verdict(estimates: Sequence[Estimate]) -> Verdict:
    """Return a verdict if all eviction rules agree, because the paper does not fix the rule."""
    if len({estimate.accepted for estimate in estimates}) > 1:
        return Verdict.NOT_CHECKABLE
    return accepted(*estimates)


def _estimates(rule: str, values: FloatArray) -> tuple[Estimate, Estimate]:
    """Return the estimate for the printed bound and that for the corrected one."""
    what = f"prompts of type 2 in the system over t, {rule}"
    printed = mean_estimate(
        f"{what}: printed", values, "upper end at least 0.3", lambda low, high: high >= 0.3
    )
    corrected = mean_estimate(
        f"{what}: corrected", values, "lower end at least 0.05", lambda low, high: low >= 0.05
    )
    return printed, corrected


@CLAIMS.step(
    "fluid.proposition4-queue",
    Mutation("two and a half times the queue", factor=2.5),
    Mutation("memory of 60", memory=60),
    Mutation("one rule only: the youngest go", rules=("the youngest go",)),
    hypotheses=INSTANCE,
    kind=Kind.STATISTICAL,
)
def _queue_check(
    context: Context,
    *,
    memory: int = 9,
    factor: float = 1,
    rules: Sequence[str] = tuple(EVICTION_RULES),
) -> Evidence:
    """Queue of type 2 under FCFS.

    Source: fluid paper, last display of appendix A.3
    Statement: The queue of type 2 at time t is at least 0.3·t.
    Formula: Queue Length_2(t) ≥ 0.3·t
    Reading: on average, all prompts of type 2 in the system counted. No verdict as printed:
        'remove ongoing prompts to accommodate new arrivals' (section 4.3) does not say which, and
        the rules named here lead to either side of 0.3. Those removed wait again in order of
        arrival.
    Correction: It grows at least as 0.05·t under each of the four rules named, which is what
        Proposition 4 needs. The printed argument, one prompt more in two steps with probability
        0.391, gives 0.391/2 = 0.195 per step at most, not 0.3.
    """
    duration, runs = context.choose((100, 12), (300, 16), (3000, 32))
    # Prompts of type 2 in the system at t, over t.
    shares = {
        rule: in_system(
            context, EVICTION_RULES[rule], memory, [duration], runs, lambda i: i.output == 2
        )[:, 0]
        for rule in rules
    }
    both = [_estimates(rule, factor * values) for rule, values in shares.items()]
    upper, lower = [printed for printed, _ in both], [corrected for _, corrected in both]
    weight, chance = _chance(3, 12)
    argument = examine(
        "half the chance of an overflow is below 0.3",
        "safe pairs of weight w (fluid.proposition4-overflow), w·e^{−2} > w/9", [weight],
        lambda w: (1 - w / 9) / 2 < Fraction(3, 10),
    )  # fmt: skip
    verdict = printed_verdict(upper)
    # The statement leaves the rule open, so rules on both sides of 0.3 do not decide it.
    deciding = [] if verdict is Verdict.NOT_CHECKABLE else upper
    within = {
        f"if {rule}, 0.3·t is": "within reach" if estimate.accepted else "out of reach"
        for rule, estimate in zip(rules, upper, strict=True)
    }
    return Evidence(
        verdict,
        accepted(*lower) if agreed(argument.tally) is Verdict.HOLDS else Verdict.REFUTED,
        "Whether 0.3 is reached depends on the rule: it is where arrivals may start beside what "
        "is held, and where an overflow clears everything, after which next to nothing completes.",
        (argument.tally,),
        (*lower, *deciding),
        {"t": duration, "by the printed argument": chance / 2, **within},
    )


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
        for setting, policy in sundry_policies(context, context.choose(8, 80, 1000)):
            memory = max(p + o for p, o in setting.classes) + int(rng.integers(0, 20))
            yield reference(setting.instance(memory), policy, setting.requests[-1][0] + 1)
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
        return run.overflows == 0 and work_left(run) >= least

    pathwise = examine(
        "work left at T, with all of a batch under way, ≥ max_s (work of the last s − 9·s)",
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
