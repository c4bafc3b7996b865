"""Theorem 1: scaling of WAIT's gap, latency and TTFT, and the walk of Lemma 6 above its queues."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from bfio.wait.chains import wait_policy
from bfio.wait.policy import StageClock
from bfio.wait.run import StageRun
from formulations.fluid import FluidProblem
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import (
    Data,
    Estimate,
    Examination,
    Findings,
    Outcome,
    dismiss_if,
    verifier,
)
from proofs_checks.papers.fluid.equilibrium import Case, all_cases, random_cases, stage_sum
from proofs_checks.papers.fluid.runs import (
    Replicas,
    Setting,
    canonical,
    exponent_estimate,
    reference,
    wait_replicas,
)
from proofs_checks.search import examine

CLAIMS = Claims()


@dataclass(frozen=True)
class Choice:
    """Classes and engine, thresholds per stage, and the memory C."""

    case: Case
    thresholds: tuple[int, ...]
    memory: int

    @property
    def full(self) -> int:
        """``M^π``: tokens of a full batch."""
        return sum(
            n * stage_sum(prompt, output)
            for n, (_, prompt, output) in zip(self.thresholds, self.case.rows, strict=True)
        )

    @property
    def time(self) -> Fraction:
        """``ΔT(n)``."""
        return self.case.fixed + self.case.d1 * self.full

    @property
    def applies(self) -> bool:
        """Whether (9) holds strictly and ``C >= M*``, as section 4.3 assumes."""
        rates = [row[0] for row in self.case.rows]
        strict = all(self.time * rate < n for rate, n in zip(rates, self.thresholds, strict=True))
        return strict and self.memory >= self.case.memory(self.case.counts)

    @property
    def keeps_up(self) -> bool:
        """Whether batches of at most C tokens can do more work per time than arrives.

        If not, under any policy the remaining work is at least a reflected walk without negative
        drift, and the mean latency grows as ``√(ζT)``.
        """
        done = Fraction(self.memory) / (self.case.fixed + self.case.d1 * self.memory)
        return done > self.case.work_rate


def verify_theorem1(data: Data) -> str | None:
    """Confirm strict (9), and that no policy with memory C >= M* keeps latencies bounded."""
    case, thresholds = Case.of(data), tuple(data["thresholds"])
    if case is None or len(thresholds) != len(case.rows) or min(thresholds) < 1:
        return None
    choice = Choice(case, thresholds, data["memory"])
    if not choice.applies or choice.keeps_up:
        return None
    return (
        f"d0 = {case.fixed}, d1 = 1/{case.inverse}: C = M* = {choice.memory}, n = "
        f"{', '.join(map(str, choice.thresholds))}, ΔT = {choice.time} < n_j/λ_j. A full "
        f"batch has {choice.full} tokens, more than C; and within C no policy does more than A = "
        f"{case.work_rate} tokens of work per unit time, as much as arrives, so that E[Latency] "
        "grows as √(ζT) "
        "(fluid.proposition3)"
    )


def least_strict(case: Case) -> tuple[int, ...]:
    """Return the least thresholds that satisfy (9) strictly, by iteration from below."""
    thresholds = (0,) * len(case.rows)
    while True:
        time = Choice(case, thresholds, 0).time
        raised = tuple(int(time * rate) + 1 for rate, _, _ in case.rows)
        if raised == thresholds:
            return thresholds
        thresholds = raised


def _choices(context: Context, *, ample: bool) -> Iterator[Choice]:
    cases = [*all_cases(2), *random_cases(context.rng, context.choose(10, 100, 1000), 2)]
    for case in cases:
        least, thresholds = case.memory(case.counts), least_strict(case)
        full = Choice(case, thresholds, 0).full
        memory = full if ample else least
        if memory.denominator == 1:
            yield Choice(case, thresholds, int(memory))


def looked_through(context: Context, *, ample: bool = False) -> Examination[Choice]:
    """Search for thresholds, strict in (9), where no policy with memory C bounds latencies.

    Parameters
    ----------
    context : Context
        Context of the check.
    ample : bool
        Whether C = M^π instead of C = M*.
    """
    return context.refute(
        "strict (9) and C ≥ M* leave room for bounded latencies",
        "one or two classes, least strict thresholds, C = " + ("M^π" if ample else "M*"),
        _choices(context, ample=ample),
        holds=lambda choice: choice.keeps_up,
        applies=lambda choice: choice.applies,
    )


_GROUPS = 8


#: Classes, engine and thresholds of a scaling experiment.
Scaling = tuple[FluidProblem, tuple[int, ...]]
#: ΔT(1, 1) = 1/2 + 9/18 = 1 = n_j/λ_j.
CRITICAL: Scaling = (canonical(10**6), (1, 1))
#: ΔT(2, 2) = 1/2 + 18/18 = 3/2 < 2 = n_j/λ_j.
STRICT: Scaling = (canonical(10**6), (2, 2))
#: ΔT(1, 3) = 9/10 + 21/18 = 31/15: less than 3 for class 2; class 1 alone needs 9/10 + 3/18 > 1.
MIXED: Scaling = (canonical(10**6, Fraction(9, 10)), (1, 3))
#: ΔT(1, 1) = 4/5 + 9/18 = 13/10 > 1: (9) is broken.
TOO_SLOW: Scaling = (canonical(10**6, Fraction(4, 5)), (1, 1))


def agrees_with_engine(replicas: Replicas, number: int, seconds: int) -> Examination[int]:
    """Examine whether early completions of each run equal those of the reference engine."""
    policy = wait_policy(replicas.problem.classes, replicas.thresholds)

    def same(row: int) -> bool:
        whole = replicas.instance(row)
        duration = seconds * whole.clock.units_per_second
        keep = whole.arrival < duration
        cut = type(whole)(
            whole.memory, whole.clock, whole.arrival[keep], whole.prompt[keep], whole.output[keep]
        )
        run = reference(cut, policy, duration)
        for j, kind in enumerate(replicas.problem.classes):
            mine = replicas.served(j, kind.output)[row]
            theirs = run.completion[(cut.prompt == kind.prompt) & (cut.output == kind.output)]
            got = theirs[(theirs >= 0) & (theirs <= duration)]
            if not np.array_equal(mine[mine <= duration], got):
                return False
        return True

    return examine(
        "runs as arrays complete every request when the engine does",
        f"{number} runs up to T = {seconds}, against the readable engine",
        range(number),
        same,
    )


def scaling(context: Context, setting: Scaling) -> tuple[Replicas, list[int], list[int]]:
    """Return runs, and their observation horizons [s] and [clock units]."""
    horizons = context.choose([64, 128, 256, 512], [256, 1024, 4096], [256, 1024, 4096, 16384])
    number = context.choose(64, 192, 512)
    replicas = wait_replicas(*setting, horizons[-1], number, context.rng)
    units = StageClock.of(setting[0].single_worker()).units_per_second
    return replicas, horizons, [h * units for h in horizons]


def _at_most(name: str, most: float, horizons: Sequence[int], values: object) -> Estimate:
    return exponent_estimate(
        name, horizons, np.asarray(values, dtype=np.float64), _GROUPS, f"upper end at most {most}",
        lambda low, high: high <= most,
    )  # fmt: skip


def exponents(
    context: Context, setting: Scaling, label: str, gap: float, latency: float
) -> tuple[tuple[Estimate, ...], Examination[int]]:
    """Estimate the exponents of gap, latency and TTFT; accepted below the limits."""
    replicas, horizons, clock = scaling(context, setting)
    gaps = np.column_stack(
        [replicas.unfinished(t) / h for t, h in zip(clock, horizons, strict=True)]
    )
    latencies = np.column_stack(
        [replicas.delays(t, [k.output for k in setting[0].classes]) for t in clock]
    )
    first = np.column_stack([replicas.delays(t, [1] * len(replicas.arrivals)) for t in clock])
    estimates = (
        _at_most(f"exponent of the gap, {label}", gap, horizons, gaps),
        _at_most(f"exponent of the latency, {label}", latency, horizons, latencies),
        _at_most(f"exponent of the TTFT, {label}", latency, horizons, first),
    )
    return estimates, agrees_with_engine(replicas, context.choose(3, 10, 50), 30)


@CLAIMS.result(
    "fluid.theorem1",
    Mutation("C ≥ M^π as printed", ample=True),
    Mutation("(9) broken: ΔT above n_j/λ_j", critical=TOO_SLOW),
    Mutation("equality in the strict part", strict=CRITICAL),
    kind=Kind.ASYMPTOTIC,
    defect=Defect.HYPOTHESIS,
    verify=verify_theorem1,
)
def _theorem1_check(
    context: Context,
    *,
    critical: Scaling = CRITICAL,
    strict: Scaling = STRICT,
    ample: bool = False,
) -> Outcome:
    """WAIT in heavy traffic.

    Source: fluid paper, Theorem 1 (section 4.3)
    Statement: With C ≥ M* and thresholds that satisfy (9) the throughput gap of WAIT is
        O((ζT)^{−1/2}), latency and TTFT are O((ζT)^{1/2}); if (9) is strict for all types they are
        O(1/(ζT)) and O(1).
    Formula: Thr* − E[Thr] = O((ζT)^{−1/2}), E[Latency] = O((ζT)^{1/2});  strict: O(1/(ζT)), O(1)
    Assumes: Poisson arrivals; thresholds that satisfy (9); C ≥ M* (section 4.3)
    Summary: With C = M* only, strict (9) contradicts Proposition 3: on the instance of appendix
        A.3, M* = 9, n = (2, 2) satisfies (9) strictly, but its full batch has 18 tokens. With
        enough memory, and n = (1, 1), where (9) holds with equality, and n = (2, 2), means scale
        as the theorem says.
    Reading: with unscaled rates, until ζT, and means over completed prompts; TTFT is the end of
        stage 1. Gap: tokens arrived and not completed, over T, which has the same mean.
    Correction: C must be M^π of the thresholds at least, as appendix B.0.2 has it in passing
        ('with corresponding memory capacity M^π'): a full batch has so many tokens, and M^π > M*
        where (9) is strict. Memory never binds in the runs.
    """
    printed = looked_through(context, ample=ample)
    first, one = exponents(context, critical, "equality in (9)", -0.4, 0.6)
    second, other = exponents(context, strict, "strict (9)", -0.85, 0.1)
    return Findings(printed, one, other, estimates=(*first, *second))


@CLAIMS.remark(
    "fluid.theorem1-types",
    Mutation("equality for both classes", setting=CRITICAL),
    kind=Kind.ASYMPTOTIC,
)
def _types_check(context: Context, *, setting: Scaling = MIXED) -> Outcome:
    """Each type's latency depends on its own slack.

    Source: fluid paper, after Proposition 3 (section 4.3)
    Statement: If ΔT < n_j/λ_j then latency and TTFT of type j are O(1), whatever the others.
    Formula: ΔT(n) < n_j/λ_j  ⇒  E[Latency_j], E[TTFT_j] = O(1)
    Assumes: Poisson arrivals; ΔT(n) < n_j/λ_j for type j, anything for the others; C ≥ M^π
        (fluid.theorem1)
    Summary: Two classes in common batches with n = (1, 3) and ΔT = 31/15: class 2 has slack and
        waits no longer, though class 1 is overloaded. (Equality in (9) for class 1 alone would not
        show: batches without class 2 are shorter than ΔT.)
    Reading: as the correction of Theorem 1, for its memory and means.
    """
    replicas, horizons, clock = scaling(context, setting)
    quick, slow, first = (
        np.column_stack([replicas.delays(t, stages) for t in clock])
        for stages in ((-1, 2), (1, -1), (-1, 1))
    )
    quiet = (
        _at_most("exponent of the latency of class 2 (strict)", 0.1, horizons, quick),
        _at_most("exponent of the TTFT of class 2 (strict)", 0.1, horizons, first),
    )
    loud = exponent_estimate(
        "exponent of the latency of class 1 (overloaded)", horizons, slow, _GROUPS,
        "lower end at least 0.5", lambda low, high: low >= 0.5,
    )  # fmt: skip
    agree = agrees_with_engine(replicas, context.choose(3, 10, 50), 30)
    return Findings(agree, estimates=(*quiet, loud))


#: Prompt, output and threshold of each class.
Kinds = tuple[tuple[int, int, int], ...]


def setting_of(data: Data) -> tuple[Setting, Kinds]:
    """Read a setting from plain data, and dismiss data that are not a setting."""
    kinds = tuple((prompt, output, n) for prompt, output, n in data["classes"])
    times: list[list[int]] = data["arrivals"]
    dismiss_if(len(kinds) != len(times) or min(map(min, kinds)) < 1)
    lengths = tuple((prompt, output) for prompt, output, _ in kinds)
    dismiss_if(len(set(lengths)) < len(lengths) or min(data["fixed"], data["per_token"]) < 1)
    requests = [(t, *kind) for row, kind in zip(times, lengths, strict=True) for t in row]
    dismiss_if(not requests or min(requests)[0] < 0)
    return Setting(lengths, tuple(sorted(requests)), data["fixed"], data["per_token"]), kinds


def longest_batch(setting: Setting, kinds: Kinds) -> int:
    """Return ``ΔT(n)`` [clock units]."""
    full = sum(n * stage_sum(prompt, output) for prompt, output, n in kinds)
    return setting.fixed + setting.per_token * full


# A case is evaluated under several conventions in a row, so a small cache is enough.
@lru_cache(maxsize=64)
def _served(setting: Setting, kinds: Kinds) -> StageRun:
    duration = max(t for t, _, _ in setting.requests) + 20 * longest_batch(setting, kinds)
    return reference(setting.instance(), setting.wait([n for _, _, n in kinds]), duration)


def excess(
    setting: Setting, kinds: Kinds, *, leave_at_start: bool, base: int = 2, pace: int = 1
) -> tuple[int, int, int, int] | None:
    """Return the first time a queue exceeds its walk, as (class, time, W, W̃); None if never.

    The difference W̃ − W decreases at multiples of ΔT only, so only these times are checked.

    Parameters
    ----------
    setting, kinds
        Engine, arrivals, classes and thresholds.
    leave_at_start : bool
        Whether the n_j prompts of a batch leave the queue when it starts, or when it ends.
    base : int
        The walk is reflected at ``base·n_j``.
    pace : int
        The walk takes steps of ``ΔT/pace``, rounded up.
    """
    step = -(-longest_batch(setting, kinds) // pace)
    last = max(t for t, _, _ in setting.requests)
    run = _served(setting, kinds)
    for j, (prompt, output, n) in enumerate(kinds):
        arrivals = [t for t, *kind in setting.requests if kind == [prompt, output]]
        left = _departures(run, (prompt, output), leave_at_start=leave_at_start)
        walk = base * n
        for time in range(step, last + 12 * step, step):
            come = sum(time - step < t <= time for t in arrivals)
            if time == step:
                come += sum(t == 0 for t in arrivals)
            walk = max(base * n, walk + come - n)
            queue = sum(t <= time for t in arrivals) - sum(t <= time for t in left)
            if queue > walk:
                return j, time, queue, walk
    return None


def keeps_at_ends(setting: Setting, kinds: Kinds, *, since: bool = True) -> bool:
    """Return whether W ≤ W̃ + arrivals since the walk's last step, at the end of every batch.

    No batch is running at these times, so it does not matter when its prompts leave the queue.
    """
    step, run = longest_batch(setting, kinds), _served(setting, kinds)
    for prompt, output, n in kinds:
        come = [t for t, *kind in setting.requests if kind == [prompt, output]]
        left = _departures(run, (prompt, output), leave_at_start=False)
        for end in run.batches.end.tolist():
            walk, last = 2 * n, -1
            for time in range(step, end + 1, step):
                walk = max(2 * n, walk + sum(last < t <= time for t in come) - n)
                last = time
            queue = sum(t <= end for t in come) - sum(t <= end for t in left)
            if queue > walk + since * sum(last < t <= end for t in come):
                return False
    return True


def has_ties(setting: Setting, kinds: Kinds) -> bool:
    """Return whether an event coincides with a step of the walk, so that conventions matter."""
    step = longest_batch(setting, kinds)
    if any(t % step == 0 for t, _, _ in setting.requests):
        return True
    return bool((_served(setting, kinds).batches.end % step == 0).any())


def _departures(run: StageRun, kind: tuple[int, int], *, leave_at_start: bool) -> list[int]:
    events, instance = run.log.events(), run.instance
    mine = (events.stage == 0) & (instance.prompt[events.request] == kind[0])
    mine &= instance.output[events.request] == kind[1]
    times = run.batches.start if leave_at_start else run.batches.end
    departures: list[int] = times[events.batch[mine]].tolist()
    return departures


@verifier
def verify_lemma6(data: Data) -> str | None:
    """Confirm that a queue whose batches leave at their ends exceeds the walk."""
    read = setting_of(data)
    dismiss_if(has_ties(*read))
    if (first := excess(*read, leave_at_start=False)) is None:
        return None
    j, time, queue, walk = first
    return (
        f"ΔT = {longest_batch(*read)}; at time {time} class {j + 1} has W = {queue} > W̃ = {walk} "
        f"with 2·n_{j + 1} = {2 * read[1][j][2]}"
    )


#: Prompt and output of the two classes.
_LENGTHS = ((1, 1), (1, 2))


def _settings(context: Context) -> Iterator[tuple[Setting, Kinds]]:
    rng = context.rng
    for _ in range(context.choose(15, 200, 3000)):
        kinds: Kinds = tuple((*lengths, int(rng.integers(1, 4))) for lengths in _LENGTHS)
        fixed, per_token = int(rng.integers(2, 7)), 1
        length = longest_batch(Setting(_LENGTHS, (), fixed, per_token), kinds)
        times: list[tuple[int, int, int]] = []
        for prompt, output, n in kinds:
            alone = rng.integers(0, 3 * length, n).tolist()
            bunch = [int(rng.integers(0, 3 * length))] * int(rng.integers(0, 4 * n))
            times += [(t, prompt, output) for t in (*alone, *bunch)]
        yield Setting(_LENGTHS, tuple(sorted(times)), fixed, per_token), kinds
        yield _staggered(rng)


def _staggered(rng: np.random.Generator) -> tuple[Setting, Kinds]:
    """Draw a burst of class 2 just before a step of the walk, when almost n_2 prompts wait.

    A batch of class 1 is running then. Class 2 waits for two batches to end before its first
    prompts leave, and the walk takes another step in between.
    """
    n, fixed = int(rng.integers(2, 4)), int(rng.integers(16, 26))
    kinds: Kinds = ((*_LENGTHS[0], 1), (*_LENGTHS[1], n))
    step = longest_batch(Setting(_LENGTHS, (), fixed, 1), kinds)
    began = int(rng.integers(1, 3)) * step - int(rng.integers(2, 4))
    bunch = [began + 1] * int(rng.integers(n + 2, 3 * n + 1))
    times = [(began, *_LENGTHS[0]), *((t, *_LENGTHS[1]) for t in (*[1] * (n - 1), *bunch))]
    return Setting(_LENGTHS, tuple(sorted(times)), fixed, 1), kinds


def _data(setting: Setting, kinds: Kinds) -> Data:
    return {
        "classes": [list(kind) for kind in kinds],
        "arrivals": [
            [t for t, *lengths in setting.requests if lengths == list(kind[:2])] for kind in kinds
        ],
        "fixed": setting.fixed,
        "per_token": setting.per_token,
    }


@CLAIMS.result(
    "fluid.lemma6",
    Mutation("leaving at the end in the correction", start=(False, False)),
    Mutation("leaving at the start as printed", start=(True, True)),
    Mutation("a walk in half steps", pace=2),
    Mutation("what came since left out", since=False),
    defect=Defect.FORMULA,
    verify=verify_lemma6,
)
def _lemma6_check(
    context: Context, *, start: Sequence[bool] = (False, True), pace: int = 1, since: bool = True
) -> Outcome:
    """A walk in steps of the longest batch dominates WAIT's queues.

    Source: fluid paper, Lemma 6 (appendices B.0.2 and E.3)
    Statement: The walk with steps of ΔT(n), reflected at 2n_j, is at least the number of type j
        that wait for their prefill, at all times.
    Formula: W̃_j^0 = 2n_j, W̃_j^{t+ΔT} = max{2n_j, W̃_j^t + X_j − n_j}  ⇒  W̃_j^t ≥ W_j^t
    Assumes: batches last ΔT(n) at most; the same arrivals; no arrival and no batch end just at a
        step of the walk
    Summary: Algorithm 1 takes prompts off at the end of their batch. A class may then have n_j − 1
        waiting, see a bunch arrive during a batch without it, and wait for two ends where the walk
        has had one.
    Reading: at multiples of ΔT, path by path; prompts leave at the end of their batch, as
        Algorithm 1 and the proof in appendix E.3 have it ('the finish of a batch').
    Correction: It holds if the prompts of a batch leave the queue when the batch starts. With the
        convention of Algorithm 1 and of the displayed recursion, where they leave at its end, W̃ +
        n_j (a walk reflected at 3n_j) dominates; all orders of growth stay. At the ends of batches
        alone, of which the displayed recursion speaks, W is at most W̃ and what came since the
        walk's last step.
    """
    cases = list(_settings(context))
    domain = context.domain(
        "random small engines with 2 classes; in half of them a bunch of one comes while the "
        "other is served, just before a step of the walk",
        cases,
    )
    printed = domain.refute(
        "W̃ ≥ W, batches leave at their ends",
        _data,
        holds=lambda *c: excess(*c, leave_at_start=start[0]) is None,
        applies=lambda *c: not has_ties(*c),
    )
    corrected = domain.examine(
        "W̃ ≥ W if batches leave at their starts, W̃ + n_j ≥ W otherwise",
        lambda *c: excess(*c, leave_at_start=start[1], pace=pace) is None
        and excess(*c, leave_at_start=False, base=3, pace=pace) is None
    )  # fmt: skip
    ends = examine(
        "W ≤ W̃ + what came since its last step, at ends of batches", "the same", cases,
        partial(keeps_at_ends, since=since),
    )  # fmt: skip
    return printed, corrected, ends
