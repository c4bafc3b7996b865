"""Runs of the toolkit's engine, single or vectorised, and invariants of every run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from bfio.common.kernel_groups import Engine
from bfio.wait.arrivals import poisson_instance, scaled
from bfio.wait.chains import ThresholdPolicy, nested_policy, wait_policy
from bfio.wait.fcfs import Favour, FirstComeFirstServed
from bfio.wait.policy import StageClock, StageInstance, StagePolicy, StageState
from bfio.wait.run import StageRun
from bfio.wait.simulation import serve
from formulations.arrays import FloatArray, IntArray, integer_vector
from formulations.fluid import FluidProblem, FluidWorker, RequestClass
from proofs_checks.claim import Claims, Context, Mutation
from proofs_checks.evidence import Estimate, Outcome
from proofs_checks.papers.fluid.equilibrium import stage_sum
from proofs_checks.search import examine
from proofs_checks.statistics import mean_estimate

CLAIMS = Claims()


#: A request: arrival [clock units], prompt and output [tokens].
Request = tuple[int, int, int]

#: Instance of appendices A.3 and A.4 with K = 1: M* = 9, Thr* = 5.
CANONICAL_CLASSES = (RequestClass(Fraction(1), 1, 1), RequestClass(Fraction(1), 1, 2))


def canonical(memory: int = 9, d0: Fraction = Fraction(1, 2)) -> FluidProblem:
    """Return that instance with ``d0 + 9·d1 = 1``, or with a smaller d0."""
    return FluidProblem(CANONICAL_CLASSES, (FluidWorker(d0, Fraction(1, 18), memory),))


def instance_of(
    requests: Sequence[Request], fixed: int, per_token: int, memory: int = 10**6
) -> StageInstance:
    """Return requests on an engine whose batch of X tokens lasts ``fixed + per_token·X``."""
    columns = list(zip(*sorted(requests), strict=True)) or [(), (), ()]
    arrival, prompt, output = (
        integer_vector(list(column), name)
        for name, column in zip(("arrival", "prompt", "output"), columns, strict=True)
    )
    return StageInstance(memory, StageClock(1, fixed, per_token), arrival, prompt, output)


def reference(
    instance: StageInstance,
    policy: StagePolicy,
    duration: int | None = None,
    *,
    drain: bool = False,
) -> StageRun:
    """Serve the instance with the readable engine up to a clock value."""
    seconds = None if duration is None else Fraction(duration, instance.clock.units_per_second)
    return serve(instance, policy, horizon_s=seconds, drain=drain, engine=Engine.REFERENCE)


@dataclass(frozen=True)
class Setting:
    """A small engine with request classes and arrivals.

    Parameters
    ----------
    classes : tuple of (int, int)
        Prompt and output of each class, all distinct.
    requests : tuple of Request
        Arrivals, sorted.
    fixed, per_token : int
        Time of a batch [clock units].
    """

    classes: tuple[tuple[int, int], ...]
    requests: tuple[Request, ...]
    fixed: int
    per_token: int

    def instance(self, memory: int = 10**6) -> StageInstance:
        """Return the requests as an instance for the engine."""
        return instance_of(self.requests, self.fixed, self.per_token, memory)

    def wait(self, thresholds: Sequence[int]) -> ThresholdPolicy:
        """Return the WAIT policy for the classes."""
        kinds = [RequestClass(Fraction(1), *lengths) for lengths in self.classes]
        return wait_policy(kinds, thresholds)


def random_setting(
    rng: np.random.Generator, number: int, *, equal_prompts: bool = False, most: int = 3
) -> Setting:
    """Draw classes, times, and arrivals, both single and in bursts."""
    prompt = int(rng.integers(1, 5))
    outputs = sorted(set(rng.integers(0, 5, int(rng.integers(1, most + 1))).tolist()))
    classes = tuple(
        (prompt if equal_prompts else int(rng.integers(1, 5)), int(output)) for output in outputs
    )
    kinds = rng.integers(0, len(classes), number).tolist()
    gaps = rng.integers(0, 12, number) * (rng.random(number) < 0.6)
    times = np.cumsum(gaps).tolist()
    requests = tuple((t, *classes[k]) for t, k in zip(times, kinds, strict=True))
    return Setting(classes, requests, int(rng.integers(1, 8)), int(rng.integers(0, 3)))


def random_policy(seed: int) -> Callable[[StageState], list[int]]:
    """Return a policy that puts each present request into the batch at random."""
    rng = np.random.default_rng(seed)

    def policy(state: StageState) -> list[int]:
        present = [*state.held, *state.waiting]
        return [i for i in present if rng.random() < 0.5]

    return policy


def sundry_policies(context: Context, number: int) -> Iterator[tuple[Setting, StagePolicy]]:
    """Yield random settings with WAIT, Nested WAIT, FCFS, limited FCFS, and a random policy."""
    rng = context.rng
    for _ in range(number):
        setting = random_setting(rng, context.choose(16, 40, 100))
        yield setting, setting.wait(rng.integers(1, 4, len(setting.classes)).tolist())
        ends = sorted({output for _, output in setting.classes})
        yield setting, nested_policy(ends, rng.integers(1, 4, len(ends)).tolist())
        yield setting, FirstComeFirstServed()
        yield setting, FirstComeFirstServed(Favour.NEW, limit=int(rng.integers(1, 4)))
        yield setting, random_policy(int(rng.integers(10**9)))


# Many independent runs of WAIT as arrays. Checks compare some of them with the engine.
#
# A class starts its next cohort when n_j more of its requests have arrived, so a run needs no
# queues: with c_j cohorts started, class j is ready at its arrival number ``(c_j + 1)·n_j``. The
# next batch starts when the engine is free and some class is ready. It serves all ready classes.


#: Later than any time of a run [clock units].
_NEVER = 2**62


@dataclass(frozen=True)
class Replicas:
    """R independent runs of WAIT.

    Parameters
    ----------
    problem : FluidProblem
        Classes and one engine.
    thresholds : tuple of int
        One per class.
    arrivals : tuple of IntArray
        Shape (R, N_j) for each class, sorted, padded with `_NEVER` [clock units].
    ends : tuple of IntArray
        Shape (R, K_j): end times of the batches that serve the class.
    """

    problem: FluidProblem
    thresholds: tuple[int, ...]
    arrivals: tuple[IntArray, ...]
    ends: tuple[IntArray, ...]

    def served(self, j: int, stage: int) -> IntArray:
        """Return the time each request of a class passes a stage, shape (R, N_j)."""
        ends = self.ends[j]
        batch = np.arange(self.arrivals[j].shape[1]) // self.thresholds[j] + stage
        passed = ends[:, np.minimum(batch, ends.shape[1] - 1)]
        return np.where(batch < ends.shape[1], passed, _NEVER)

    def unfinished(self, duration: int) -> IntArray:
        """Return the total stages of requests in the system at a time, shape (R,)."""
        total = np.zeros(len(self.arrivals[0]), dtype=np.int64)
        for j, kind in enumerate(self.problem.classes):
            open_ = (self.arrivals[j] < duration) & (self.served(j, kind.output) > duration)
            total += kind.iterations * open_.sum(axis=1)
        return total

    def delays(self, duration: int, stages: Sequence[int]) -> FloatArray:
        """Return the mean time from arrival to the end of each class's stage, shape (R,).

        Averaged over the requests that have passed it by the duration [s].
        """
        total, count = np.zeros((2, len(self.arrivals[0])))
        for j, stage in enumerate(stages):
            if stage >= 0:
                done = self.served(j, stage)
                counts = done <= duration
                total += np.where(counts, done - self.arrivals[j], 0).sum(axis=1)
                count += counts.sum(axis=1)
        units = StageClock.of(self.problem.single_worker()).units_per_second
        return np.asarray(total / np.maximum(count, 1) / units)

    def instance(self, replica: int) -> StageInstance:
        """Return the requests of one run as an instance for the engine."""
        rows = sorted(
            (int(t), j)
            for j, column in enumerate(self.arrivals)
            for t in column[replica]
            if t < _NEVER
        )
        times, kinds = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
        lengths = np.array([(k.prompt, k.output) for k in self.problem.classes])
        worker = self.problem.single_worker()
        return StageInstance(
            worker.memory, StageClock.of(worker), times, lengths[kinds, 0], lengths[kinds, 1]
        )


def wait_replicas(
    problem: FluidProblem,
    thresholds: Sequence[int],
    seconds: int,
    replicas: int,
    rng: np.random.Generator,
) -> Replicas:
    """Draw Poisson arrivals over a duration and serve them with WAIT, without draining."""
    clock = StageClock.of(problem.single_worker())
    duration = seconds * clock.units_per_second
    arrivals = tuple(
        _arrivals(float(kind.rate) * seconds, duration, replicas, rng) for kind in problem.classes
    )
    return Replicas(
        problem,
        tuple(thresholds),
        arrivals,
        _served(problem, thresholds, clock, duration, arrivals),
    )


def _arrivals(mean: float, duration: int, replicas: int, rng: np.random.Generator) -> IntArray:
    counts = rng.poisson(mean, replicas)
    times = np.sort(rng.integers(1, duration, (replicas, int(counts.max()) + 1)), axis=1)
    # Rows have different numbers of arrivals. Surplus entries are set to `_NEVER` in random
    # positions, because dropping the end of a sorted row would bias arrivals towards early times.
    late = np.arange(times.shape[1]) >= counts[:, None]
    shuffled = rng.permuted(times, axis=1)
    return np.sort(np.where(late, _NEVER, shuffled), axis=1)


def _served(
    problem: FluidProblem,
    thresholds: Sequence[int],
    clock: StageClock,
    duration: int,
    arrivals: Sequence[IntArray],
) -> tuple[IntArray, ...]:
    """Return the end times of the batches of each class."""
    replicas, m = len(arrivals[0]), len(arrivals)
    row = np.arange(replicas)
    ready = [_ready(column, n) for column, n in zip(arrivals, thresholds, strict=True)]
    tokens = [
        np.array([n * stage_sum(k.prompt, last) for last in range(k.output + 1)])
        for k, n in zip(problem.classes, thresholds, strict=True)
    ]
    ends = [np.full((replicas, column.shape[1]), _NEVER) for column in ready]
    cohorts = np.zeros((m, replicas), dtype=np.int64)
    free = np.zeros(replicas, dtype=np.int64)
    while True:
        when = np.array([column[row, c] for column, c in zip(ready, cohorts, strict=True)])
        start = np.maximum(free, when.min(axis=0))
        if not (runs := start < duration).any():
            return tuple(ends)
        serves = (when <= start) & runs
        load = np.zeros(replicas, dtype=np.int64)
        for j in range(m):
            load += serves[j] * tokens[j][np.minimum(cohorts[j], len(tokens[j]) - 1)]
        free = np.where(runs, start + clock.fixed + clock.per_token * load, free)
        for j in range(m):
            ends[j][row[serves[j]], cohorts[j][serves[j]]] = free[serves[j]]
        cohorts += serves


def _ready(arrivals: IntArray, threshold: int) -> IntArray:
    """Return the time each cohort of a class is complete, followed by `_NEVER`."""
    ready = arrivals[:, threshold - 1 :: threshold]
    return np.column_stack((ready, np.full(len(ready), _NEVER)))


def exponent_estimate(
    name: str,
    horizons: Sequence[int],
    values: FloatArray,
    groups: int,
    rule: str,
    accept: Callable[[float, float], bool],
) -> Estimate:
    """Estimate the exponent with which a mean scales with the duration.

    Parameters
    ----------
    name : str
        The scaled quantity.
    horizons : sequence of int
        H of them.
    values : FloatArray
        Shape (R, H): one row per independent run, observed at all horizons.
    groups : int
        Number of groups of runs; each group gives one slope of its mean, in logarithms.
    rule, accept
        As in `mean_estimate`, on the interval of the mean slope.
    """
    x = np.log(np.asarray(horizons, dtype=np.float64))
    x -= x.mean()
    means = [part.mean(axis=0) for part in np.array_split(values, groups)]
    slopes = [float(x @ np.log(mean)) / float(x @ x) for mean in means]
    return mean_estimate(name, slopes, rule, accept)


# Invariants of every run: batch times, WAIT's cohorts, and equivalent runs.


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
    runs = (
        reference(setting.instance(40), policy, setting.requests[-1][0] + 50, drain=True)
        for setting, policy in sundry_policies(context, context.choose(6, 60, 600))
    )

    def lasts(run: StageRun) -> bool:
        events, instance = run.log.events(), run.instance
        tokens = np.zeros(len(run.batches), dtype=np.int64)
        np.add.at(tokens, events.batch, instance.prompt[events.request] + events.stage)
        counted = run.batches.memory if paused_too else tokens
        clock = instance.clock
        return bool((run.batches.duration == clock.fixed + clock.per_token * counted).all())

    def more_efficient(fixed: int, per_token: int, tokens: int) -> bool:
        shares = (Fraction(per_token * x, fixed + per_token * x) for x in (tokens, tokens + 1))
        first, second = shares
        return first < second < 1

    seen = examine(
        "τ = d0 + d1·(tokens of the batch)",
        "runs of WAIT, Nested WAIT, FCFS and coin-tossing policies, batches rebuilt from stage "
        "events",
        runs,
        lasts,
    )
    share = examine(
        "d1·X/(d0 + d1·X) increases with X", "d0, d1 = 1..5, X = 0..30; exactly",
        product(range(1, 6), range(1, 6), range(31)), more_efficient,
    )  # fmt: skip
    return seen, share


def outstanding(arrival: IntArray, ended: IntArray, times: IntArray) -> IntArray:
    """Return how many requests have come and not ended by some times; never is −1."""
    ended = np.sort(ended[ended >= 0])
    come, gone = (np.searchsorted(column, times, side="right") for column in (arrival, ended))
    return np.asarray(come - gone)


def waiting_at(run: StageRun, members: IntArray, stage: int) -> IntArray:
    """Return the number of requests that wait for a stage >= 1 after each batch, shape (K,)."""
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

    def within(run: StageRun, setting: Setting, thresholds: list[int]) -> bool:
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
    domain = context.domain("runs on random small engines, arrivals in bunches and alone", cases)
    cohorts = domain.examine(
        "stage 0 of a batch and every later stage hold 0 or n_j", _cohorts_hold
    )
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
        _same,
    )


@CLAIMS.remark("fluid.time-change", Mutation("times not scaled", scale_time=False))
def _time_change_check(context: Context, *, scale_time: bool = True) -> Outcome:
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
    duration = 40

    def holds(seed: int, zeta: Fraction) -> bool:
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
