"""Stability by memory and load: stable region, heavy traffic, loads that no policy sustains."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import compress, product

import numpy as np

from bfio.wait.fcfs import FirstComeFirstServed
from bfio.wait.policy import StagePolicy
from bfio.wait.run import StageRun
from formulations.fluid import FluidProblem, FluidWorker, equilibrium, knapsack, throughput
from formulations.results import Termination
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Outcome, dismiss_if, verifier
from proofs_checks.papers.fluid.equilibrium import Case, random_cases, stage_sum
from proofs_checks.papers.fluid.runs import Setting, reference
from proofs_checks.search import examine

CLAIMS = Claims()


@CLAIMS.remark(
    "fluid.scaling",
    Mutation("d1 not scaled", scale_d1=False),
    Mutation("memory scaled as well", memory_too=True),
    kind=Kind.IDENTITY,
)
def _scaling_check(
    context: Context, *, memory_too: bool = False, scale_d1: bool = True
) -> Outcome:
    """Conventional heavy traffic.

    Source: fluid paper, section 4.2
    Statement: With rates times ζ and d0, d1 over ζ, memory fixed, the equilibrium keeps its memory
        and counts.
    Formula: (ζλ, d0/ζ, d1/ζ):  M*, n* unchanged,  ΔT*/ζ,  ζ·Thr*
    Assumes: d1·A < 1; ζ > 0
    Summary: Memory and counts do not notice the scaling; rates and times do.
    Reading: what the paper uses of the scaling; fluid.time-change follows it path by path.
    """
    cases = random_cases(context.rng, context.choose(40, 400, 4000))

    def holds(case: Case, zeta: Fraction) -> bool:
        worker = case.worker()
        classes = [replace(kind, rate=kind.rate * zeta) for kind in case.classes]
        faster = FluidWorker(worker.d0 / zeta, worker.d1 / (zeta if scale_d1 else 1), 1)
        before = equilibrium(case.classes, worker)
        if faster.d1 * before.work_rate * zeta >= 1:
            return False
        after = equilibrium(classes, faster)
        return (
            after.memory == before.memory * (zeta if memory_too else 1)
            and after.active == before.active
            and after.iteration_time * zeta == before.iteration_time
            and after.throughput == before.throughput * zeta
        )

    return examine(
        "M*, n* as before, ΔT* over ζ, Thr* times ζ",
        "random cases, ζ = 1/3, 2, 10; exactly",
        product(list(cases), (Fraction(1, 3), Fraction(2), Fraction(10))),
        holds,
    )


def best_admission(problem: FluidProblem) -> Fraction:
    """Maximise ``Σ x_j (l'_j + 1)`` within the memory by enumerating vertices.

    With box constraints and one row, a vertex has at most one rate strictly between its bounds.
    """
    capacity, classes = problem.single_worker().capacity, problem.classes
    best = Fraction(0)
    for chosen in product((False, True), repeat=len(classes)):
        whole = list(compress(classes, chosen))
        others = compress(classes, (not c for c in chosen))
        left = capacity - sum(k.rate * k.work for k in whole)
        if left >= 0:
            parts = (min(k.rate, left / k.work) * k.iterations for k in others)
            full = sum((k.rate * k.iterations for k in whole), Fraction(0))
            best = max(best, full + max(parts, default=Fraction(0)))
    return best


@CLAIMS.own("fluid.admission", Mutation("memory ignored", unlimited=True))
def _admission_check(context: Context, *, unlimited: bool = False) -> Outcome:
    """Best throughput with too little memory.

    Source: Ours; the paper says only that (8) cannot be approached with less memory (section 4)
    Statement: Admitting classes in order of l_j + l'_j/2, the last one in part, maximises the
        fluid throughput within memory C; it is Throughput* if and only if C is at least M*.
    Formula: max Σ x_j(l'_j+1)  s.t.  Σ x_j w_j ≤ C/(d0 + d1·C),  0 ≤ x_j ≤ λ_j
    Assumes: d1·A < 1; one engine of memory C
    Reading: so A ≤ C/(d0 + d1·C) is the stable region of limited memory, d1·A < 1 that of
        unlimited memory only.
    Summary: With too little memory Throughput* of (8) is out of reach.
    """
    problems = [
        case.problem(max(1, int(case.memory(case.counts) * share)))
        for case in random_cases(context.rng, context.choose(20, 200, 2000))
        for share in (Fraction(1, 5), Fraction(4, 5), Fraction(2))
    ]

    def holds(problem: FluidProblem) -> bool:
        result, benchmark = knapsack(problem), throughput(problem.classes)
        best = benchmark if unlimited else best_admission(problem)
        fits = equilibrium(problem.classes, problem.single_worker()).memory
        return (
            result.termination is Termination.OPTIMAL
            and result.value == best
            and (best == benchmark) == (unlimited or fits <= problem.single_worker().memory)
        )

    return examine(
        "greedy by l_j + l'_j/2 is optimal; it reaches Thr* iff M* ≤ C",
        "random cases, C at a fifth, four fifths and twice M*; optimum by all vertices",
        problems,
        holds,
    )


# Proposition 1 and its proof: loads that no policy sustains.


#: Clock units between arrivals, prompt, output, d0 and d1.
Steady = tuple[int, int, int, int, int]


# Proposition 1.


def steady_setting(case: Steady, number: int) -> Setting:
    """Return a class with an arrival every ``interval`` clock units, the first at ``interval``."""
    interval, prompt, output, fixed, per_token = case
    requests = tuple(((i + 1) * interval, prompt, output) for i in range(number))
    return Setting(((prompt, output),), requests, fixed, per_token)


def latency_is_constant(case: Steady) -> bool:
    """Return whether WAIT with threshold 1 gives all requests a constant latency.

    If a full batch, ``d0 + d1·w``, ends before the next arrival, each arrival starts a batch at
    once. Each request then takes l' intervals and one batch.
    """
    interval, prompt, output, fixed, per_token = case
    full = fixed + per_token * stage_sum(prompt, output)
    if full > interval:
        return False
    setting = steady_setting(case, output + 12)
    run = reference(setting.instance(), setting.wait([1]))
    done = run.completion[:12] - run.instance.arrival[:12]
    # The first requests share their last batch with fewer requests.
    return bool((done[output:] == output * interval + full).all())


@verifier
def verify_printed(interval: int, prompt: int, output: int, fixed: int, per_token: int) -> str:
    """Confirm that the printed condition holds and a policy has constant latency."""
    case = interval, prompt, output, fixed, per_token
    dismiss_if(min(case) < 1)
    work = stage_sum(prompt, output)
    dismiss_if(fixed * work < interval or not latency_is_constant(case))
    latency = output * interval + fixed + per_token * work
    return (
        f"λ·d0·w = {Fraction(fixed * work, interval)} ≥ 1, but with d1·λ·w = "
        f"{Fraction(per_token * work, interval)} WAIT with threshold 1 gives every prompt a "
        f"latency of {latency} at most, whatever T"
    )


def surplus(case: Steady, memory: int, speed: int = 1) -> Fraction:
    """Return ``c = λ − C/(d0 + d1·C)/w``, the least growth rate of the number in the system."""
    interval, prompt, output, fixed, per_token = case
    work = stage_sum(prompt, output)
    return Fraction(1, interval) - Fraction(memory, (fixed + per_token * memory) * work * speed)


def least_waiting(case: Steady, memory: int, duration: int, speed: int = 1) -> Fraction:
    """Return a lower bound on the summed latencies up to the duration, for any policy.

    With memory C an engine does at most ``C/(d0 + d1·C)`` token-iterations per second, and every
    request in the system has at most w of them left. So at time t there are at least ``c·t − 1``
    requests, with c from `surplus`.
    """
    rate = surplus(case, memory, speed)
    if rate <= 0:
        return Fraction(0)
    since = max(Fraction(0), duration - 1 / rate)
    return rate * since**2 / 2


def waited(run: StageRun, duration: int) -> int:
    """Return the total time of all requests in the system, up to the duration."""
    ends = np.where((run.completion < 0) | (run.completion > duration), duration, run.completion)
    came = run.instance.arrival <= duration
    return int((ends - run.instance.arrival)[came].sum())


def _overloads(context: Context, slack: int) -> Iterator[tuple[Steady, int, StagePolicy, int]]:
    rng = context.rng
    for _ in range(context.choose(8, 60, 600)):
        prompt, output, per_token = (int(rng.integers(1, 4)) for _ in range(3))
        work = stage_sum(prompt, output)
        interval = slack * int(rng.integers(max(1, per_token * work // 3), per_token * work + 1))
        case = (interval, prompt, output, int(rng.integers(1, 6)), per_token)
        memory = int(rng.integers(work, 4 * work))
        threshold = memory // work
        for policy in (FirstComeFirstServed(), steady_setting(case, 1).wait([threshold])):
            yield case, memory, policy, context.choose(40, 120, 400) * interval


_STEADY = ("one class, arrivals evenly spaced", "outputs l' ≥ 1")


@CLAIMS.result(
    "fluid.proposition1",
    Mutation("engine twice as slow in the bound", speed=2),
    Mutation("token times so long that the printed condition suffices", per_token=(8,)),
    Mutation("d1·λ·w ≥ 1/4 in the correction", slack=4),
    hypotheses=_STEADY,
    defect=Defect.MISPRINT,
    verify=verify_printed,
)
def _proposition1_check(
    context: Context, *, speed: int = 1, per_token: tuple[int, ...] = (1, 2), slack: int = 1
) -> Outcome:
    """Loads that no policy bears.

    Source: fluid paper, Proposition 1 (section 3.1)
    Statement: If λ·d0·(l'+1)(l + l'/2) ≥ 1 then the expected average latency grows linearly with
        time under any policy, with deterministic arrivals.
    Formula: λ_j·d0·(l'_j+1)(l_j+l'_j/2) ≥ 1  ⇒  E[Latency^T] = Ω(T)
    Summary: d0 times tokens is no load at all: its unit is token-seconds. The corrected bound is
        proven in one line for every policy and checked on runs.
    Reading: prompts that have not completed count with their age: one that is never served would
        otherwise not show. Appendix A.1 has d1.
    Correction: The condition is d1·λ·w ≥ 1 with w = (l'+1)(l + l'/2), and memory C must be finite,
        as section 2.3 has it: then no more than C/(d0 + d1·C) < 1/d1 of work is done per second,
        the number in the system grows by λ − C/(d0 + d1·C)/w > 0 per second at least, and mean
        latencies grow linearly. (Without a limit on memory, at d1·λ·w = 1 exactly, batches may
        grow with √T, and the argument gives √T only.)
    """
    cases = product((2, 4, 8, 16), (1, 2), (1, 2), (1, 2, 3), per_token)
    printed = context.refute(
        "d0·λ·w ≥ 1 makes latencies grow",
        "one class with small lengths, arrivals evenly spaced",
        list(cases),
        holds=lambda c: not latency_is_constant(c),
        applies=lambda interval, prompt, output, fixed, _: (
            fixed * stage_sum(prompt, output) >= interval
        ),
    )

    def grows(case: Steady, memory: int, policy: StagePolicy, duration: int) -> bool:
        setting = steady_setting(case, duration // case[0])
        run = reference(setting.instance(memory), policy, duration)
        assert run.overflows == 0
        least = least_waiting(case, memory, duration, speed)
        return surplus(case, memory, speed) > 0 and waited(run, duration) >= least

    corrected = examine(
        "d1·λ·w ≥ 1: summed latencies at least c(T − 1/c)²/2, c = λ − C/(d0 + d1·C)/w > 0",
        "random classes, memories, horizons; FCFS and WAIT, by the engine",
        _overloads(context, slack),
        grows,
        lambda i: slack * i[0][4] * stage_sum(i[0][1], i[0][2]) >= i[0][0],
    )
    return printed, corrected


# Proof of Proposition 1, appendix A.1.


@verifier
def verify_a1(interval: int, prompt: int, output: int, per_token: int) -> str:
    """Confirm the printed condition and arrivals − completions below d0·λ."""
    dismiss_if(
        min(interval, prompt, output, per_token) < 1
        or a1_holds(interval, prompt, output, per_token, printed=True)
    )
    dismiss_if(not a1_applies(interval, prompt, output, per_token, printed=True))
    excess = Fraction(per_token * (2 * prompt + output - 1), 2 * interval) - Fraction(1, output)
    return (
        "d1·λ·l'(l + l'/2) = "
        f"{Fraction(per_token * output * (2 * prompt + output), 2 * interval)} ≥ 1, but arrivals "
        f"− completions = d0·λ + n·({excess})"
    )


def a1_applies(interval: int, prompt: int, output: int, per_token: int, *, printed: bool) -> bool:
    """Return whether the condition holds, over ``l'`` stages as printed or over ``l' + 1``."""
    stages = output if printed else output + 1
    return per_token * stages * (2 * prompt + output) >= 2 * interval


def a1_holds(interval: int, prompt: int, output: int, per_token: int, *, printed: bool) -> bool:
    """Whether a batch with one prompt per stage has ``d0·λ`` more arrivals than completions."""
    last = output - 1 if printed else output
    tokens = stage_sum(prompt, last)
    # (d0 + d1·tokens)·λ − 1 ≥ d0·λ; with n prompts per stage both sides scale by n.
    return per_token * tokens >= interval


@CLAIMS.step(
    "fluid.a1",
    Mutation("the printed stages with the right condition", stages_agree=False),
    hypotheses=_STEADY,
    defect=Defect.FORMULA,
    verify=verify_a1,
)
def _a1_check(context: Context, *, stages_agree: bool = True) -> Outcome:
    """Arrivals less completions of an iteration.

    Source: fluid paper, proof of Proposition 1 (appendix A.1)
    Statement: If d1·λ·l'(l + l'/2) ≥ 1, an iteration with n/l' prompts in each of the stages 0 to
        l' − 1 brings at least d0·λ more than it completes.
    Formula: d1·λ·l'(l + l'/2) ≥ 1  ⇒  (d0 + d1·n(l + (l'−1)/2))·λ − n/l' ≥ d0·λ
    Summary: The printed proof has stages 0 to l' − 1 in the memory and l + l'/2 in the condition.
    Correction: With stages 0 to l', as everywhere else: d1·λ·(l'+1)(l + l'/2) ≥ 1 implies it.
    """
    most = context.choose(5, 10, 25)
    cases = list(product(range(1, 4 * most), *(range(1, most),) * 2, (1, 2, 3)))
    domain = context.domain(
        f"lengths below {most}, λ and d1 in small fractions; exactly, for every n", cases
    )
    printed = domain.refute(
        "l' stages",
        holds=partial(a1_holds, printed=True),
        applies=partial(a1_applies, printed=True),
    )
    corrected = domain.examine(
        "l' + 1 stages", partial(a1_holds, printed=not stages_agree),
        partial(a1_applies, printed=False)
    )  # fmt: skip
    return printed, corrected
