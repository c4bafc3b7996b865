"""What every run obeys: the time of a batch, WAIT's cohorts, and runs that are the same."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from bfio.wait.arrivals import poisson_instance, scaled
from bfio.wait.chains import ThresholdPolicy, nested_policy, wait_policy
from bfio.wait.run import StageRun
from formulations.arrays import IntArray
from proofs_checks.claim import Claims, Context, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.fluid.cases import stage_sum
from proofs_checks.papers.fluid.runs import (
    Setting,
    canonical,
    random_setting,
    reference,
    sundry_policies,
)
from proofs_checks.search import Domain, examine

CLAIMS = Claims()


_SMALL = ("one engine, integer clock", "runs that begin empty")


@CLAIMS.formula(
    "fluid.eq1", Mutation("paused prompts take time as well", paused_too=True), hypotheses=_SMALL
)
def _eq1_check(context: Context, *, paused_too: bool = False) -> Outcome:
    """Time of a batch.

    Source: fluid paper, eq. (1) and the remark after it (section 2.2)
    Statement: A batch takes d0 plus d1 times the tokens of its prompts; the more tokens, the
        larger the share of the time that is spent on them.
    Formula: τ = d0 + d1·(Σ k_i + Σ s_i),  d1·X/(d0 + d1·X) increases with X
    Summary: The engine charges the batch alone; what pauses costs memory, not time.
    Reading: a statement on the toolkit's engine; Figure 3 is fluid.figure3.
    """
    rng = context.rng

    def runs() -> Iterator[StageRun]:
        for _ in range(context.choose(6, 60, 600)):
            setting = random_setting(rng, context.choose(16, 40, 100))
            for policy in sundry_policies(setting, rng):
                yield reference(
                    setting.instance(40), policy, setting.requests[-1][0] + 50, drain=True
                )

    def lasts(run: StageRun) -> bool:
        events, instance = run.log.events(), run.instance
        tokens = np.zeros(len(run.batches), dtype=np.int64)
        np.add.at(tokens, events.batch, instance.prompt[events.request] + events.stage)
        counted = run.batches.memory if paused_too else tokens
        clock = instance.clock
        return bool((run.batches.duration == clock.fixed + clock.per_token * counted).all())

    def more_efficient(case: tuple[int, int, int]) -> bool:
        fixed, per_token, tokens = case
        shares = (Fraction(per_token * x, fixed + per_token * x) for x in (tokens, tokens + 1))
        first, second = shares
        return first < second < 1

    seen = examine(
        "τ = d0 + d1·(tokens of the batch)",
        "runs of WAIT, Nested WAIT, FCFS and coin-tossing policies, batches rebuilt from stage "
        "events",
        runs(),
        lasts,
    )
    share = examine(
        "d1·X/(d0 + d1·X) increases with X", "d0, d1 = 1..5, X = 0..30; exactly",
        product(range(1, 6), range(1, 6), range(31)), more_efficient,
    )  # fmt: skip
    return seen, share


def waiting_at(run: StageRun, members: IntArray, stage: int) -> IntArray:
    """Return how many of some requests wait for a stage >= 1 after each batch, shape (K,)."""
    events = run.log.events()
    mine = np.isin(events.request, members)
    come, go = (
        np.bincount(events.batch[mine & (events.stage == k)], minlength=len(run.batches))
        for k in (stage - 1, stage)
    )
    waiting: IntArray = np.cumsum(come - go)
    return waiting


def _cohorts_hold(run: StageRun, setting: Setting, thresholds: Sequence[int]) -> bool:
    events = run.log.events()
    for (prompt, output), n in zip(setting.classes, thresholds, strict=True):
        alike = (run.instance.prompt == prompt) & (run.instance.output == output)
        members = np.flatnonzero(alike)
        fresh = np.isin(events.request, members) & (events.stage == 0)
        counts = [np.bincount(events.batch[fresh], minlength=len(run.batches))]
        counts += [waiting_at(run, members, stage) for stage in range(1, output + 1)]
        if any(not np.isin(column, (0, n)).all() for column in counts):
            return False
    return True


@CLAIMS.own(
    "fluid.wait-structure",
    Mutation("thresholds one above those of the bound", extra=1),
    Mutation("thresholds ignored after the last arrival", draining=True),
    hypotheses=_SMALL,
)
def _wait_check(context: Context, *, extra: int = 0, draining: bool = False) -> Outcome:
    """Cohorts, memory and batches of WAIT.

    Source: fluid paper, around (9) (section 4.3); cohorts and memory are ours
    Statement: No batch of WAIT is longer than ΔT(n). Beyond stage 0 every stage holds 0 or n_j
        prompts, and batch and paused prompts together never hold more than M^π.
    Formula: n_jk ∈ {0, n_j} for k ≥ 1;  memory ≤ Σ n_j w_j;  τ ≤ ΔT(n);  S ≤ Σ N_j/n_j
    Summary: So WAIT needs no safety buffer: C ≥ M^π suffices, and C ≥ M* alone does not.
    """
    rng = context.rng

    def runs() -> Iterator[tuple[StageRun, Setting, list[int]]]:
        for _ in range(context.choose(20, 200, 2000)):
            setting = random_setting(rng, context.choose(20, 40, 100))
            thresholds = rng.integers(1, 4, len(setting.classes)).tolist()
            duration = setting.requests[-1][0] + 60
            policy = setting.wait([n + extra for n in thresholds])
            yield (
                reference(setting.instance(), policy, duration, drain=draining),
                setting,
                thresholds,
            )

    def within(case: tuple[StageRun, Setting, list[int]]) -> bool:
        run, setting, thresholds = case
        full = sum(
            n * stage_sum(*kind) for n, kind in zip(thresholds, setting.classes, strict=True)
        )
        longest = setting.fixed + setting.per_token * full
        triggered = sum(
            sum(request[1:] == kind for request in setting.requests) // n
            for n, kind in zip(thresholds, setting.classes, strict=True)
        )
        return (
            run.peak_memory <= full
            and bool((run.batches.duration <= longest).all())
            and len(run.batches) <= triggered
        )

    cases = list(runs())
    domain = Domain("runs on random small engines, arrivals in bunches and alone", cases)
    cohorts = domain.examine(
        "stage 0 of a batch and every later stage hold 0 or n_j",
        lambda c: _cohorts_hold(*c)
    )  # fmt: skip
    bounds = domain.examine(
        "memory ≤ M^π, batches ≤ ΔT(n) long and at most Σ N_j/n_j many", within
    )
    return cohorts, bounds


def _same(one: StageRun, other: StageRun) -> bool:
    return all(
        np.array_equal(getattr(one.batches, name), getattr(other.batches, name))
        for name in ("start", "duration", "tokens", "memory")
    ) and np.array_equal(one.completion, other.completion)


@CLAIMS.own(
    "fluid.nested-one-type",
    Mutation("another threshold", other=1),
    Mutation("up to three classes", classes=3),
    hypotheses=("one class", *_SMALL),
)
def _one_type_check(context: Context, *, other: int = 0, classes: int = 1) -> Outcome:
    """With one type Nested WAIT is WAIT.

    Source: Ours; Algorithms 1 and 2
    Statement: With one class and equal thresholds both algorithms serve the same batches.
    Formula: m = 1, n_1 alike  ⇒  same trajectory
    Summary: One segment is one class.
    """
    rng = context.rng

    def pairs() -> Iterator[tuple[StageRun, StageRun]]:
        for _ in range(context.choose(20, 200, 2000)):
            setting = random_setting(rng, 25, most=classes)
            n, ends = int(rng.integers(1, 4)), [output for _, output in setting.classes]
            duration = setting.requests[-1][0] + 20
            policies: tuple[ThresholdPolicy, ...] = (
                setting.wait([n] * len(ends)), nested_policy(ends, [n + other] * len(ends))
            )  # fmt: skip
            first, second = (reference(setting.instance(), p, duration) for p in policies)
            yield first, second

    return examine(
        "Nested WAIT and WAIT serve the same batches",
        "one class on random small engines",
        pairs(),
        lambda pair: _same(*pair),
    )


@CLAIMS.remark("fluid.time-change", Mutation("times not scaled", scale_time=False))
def _time_change_check(
    context: Context, *, duration: int = 40, scale_time: bool = True
) -> Outcome:
    """Heavy traffic is a change of time.

    Source: fluid paper, section 4.2 ('can also be regarded as scaling the horizon')
    Statement: Scaling rates by ζ and d0, d1 by 1/ζ is the same as extending the horizon from T to
        ζT.
    Formula: Latency^ζ = Latency/ζ,  Thr^ζ = ζ·Thr,  path by path
    Assumes: the same random numbers
    Summary: Path by path: throughputs times ζ, latencies over ζ. The rates of Theorems 1 to 4 are
        those of the horizon ζT with unscaled rates and speeds.
    Reading: latencies scale by 1/ζ in physical time; dividing them by ζ again (section 4.2) would
        not give the theorems' rates.
    """
    problem = canonical()
    policy = wait_policy(problem.classes, (2, 2))
    seeds = context.rng.integers(10**9, size=context.choose(2, 10, 100)).tolist()

    def holds(case: tuple[int, Fraction]) -> bool:
        seed, zeta = case
        one = poisson_instance(problem, duration, seed)
        other = poisson_instance(scaled(problem, zeta), duration / zeta, seed)
        slow = reference(one, policy, duration * one.clock.units_per_second)
        units = Fraction(duration * other.clock.units_per_second) / zeta
        fast = reference(other, policy, int(units))
        factor = zeta if scale_time else Fraction(1)
        faster = Fraction(other.clock.units_per_second, one.clock.units_per_second)
        done = slow.is_completed
        return (
            np.array_equal(done, fast.is_completed)
            and slow.peak_memory == fast.peak_memory
            and all(
                Fraction(int(b)) * factor == int(a) * faster
                for a, b in zip(slow.completion[done], fast.completion[done], strict=True)
            )
        )

    return examine(
        "the run with ζ is the run without, times over ζ",
        "WAIT on the instance of A.3, T = 40, ζ = 1/2, 2, 5; the same random numbers, exact clock",
        list(product(seeds, (Fraction(1, 2), Fraction(2), Fraction(5)))),
        holds,
    )
