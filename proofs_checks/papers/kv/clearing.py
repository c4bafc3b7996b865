"""Sections 7 and 8: batches of any duration, random clearing, predictions, printed numbers."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from bfio.kvcache.instance import BatchTime, CacheInstance
from bfio.kvcache.policy import BetaClearing, CachePolicy, LookAhead, Protection
from bfio.kvcache.replay import violations
from bfio.kvcache.run import CacheLimits, CacheRun, CacheVerdict
from bfio.kvcache.simulation import serve
from formulations.hindsight_latency import Convention, LatencyProblem
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Findings, Outcome, dismiss_if, verifier
from proofs_checks.papers.kv.model import (
    CONVENTIONS,
    jobs,
    peak,
    problem_of,
    random_problem,
    selected,
)
from proofs_checks.search import examine

CLAIMS = Claims()


_ALGORITHM_2 = LookAhead()
LIMITS = CacheLimits(batches=3000, fruitless_clearings=300)


def run_of(
    problem: LatencyProblem | CacheInstance, policy: CachePolicy, seed: int = 0
) -> CacheRun:
    """Serve a problem in the readable engine."""
    return serve(problem, policy, seed=seed, engine="reference", limits=LIMITS)


# Batches of any duration.
def _timed(context: Context) -> CacheInstance:
    problem = random_problem(context.rng, most=8, memory=15, rounds=8, mixed=True)
    base, request, extra, prompt = context.rng.integers((1, 0, 0, 0), (5, 3, 3, 3)).tolist()
    return CacheInstance(
        problem.memory,
        problem.arrival * 3,
        problem.prompt,
        problem.output,
        problem.convention,
        BatchTime(base, request, extra, prompt),
    )


@CLAIMS.remark(
    "kv.section7-durations",
    Mutation("α-protection with α = 0 in place of Algorithm 2", policy=Protection(Fraction(0))),
)
def _durations_check(context: Context, *, policy: CachePolicy = _ALGORITHM_2) -> Outcome:
    """Any batch durations.

    Source: KV-cache paper, section 7.1
    Statement: Counting tokens per batch keeps the memory limit whatever each batch's duration.
    Formula: (1) per batch  ⇒  memory ≤ M in continuous time
    Assumes: outputs known; a prompt s_i for each request
    Summary: Each batch is a round for the memory; the checker of runs rebuilds it.
    Reading: (1) where the paper refers to (2).
    """
    instances = [_timed(context) for _ in range(context.choose(60, 600, 10_000))]

    def safe(instance: CacheInstance) -> bool:
        run = run_of(instance, policy)
        return run.is_finished and run.overflows == 0 and not violations(run)

    return examine(
        "Algorithm 2 never exceeds M, whatever batches last",
        "random instances of up to 8 requests, mixed prompts, durations linear in what a batch "
        "holds",
        instances,
        safe,
    )


# Overflow and loops.
def _small(context: Context) -> list[LatencyProblem]:
    return [
        random_problem(
            context.rng,
            least=2,
            most=4,
            memory=9,
            prompt=2,
            rounds=0,
            convention=Convention.HALF_OPEN,
        )
        for _ in range(context.choose(50, 400, 5000))
    ]


def _loops(problem: LatencyProblem, alpha: Fraction = Fraction(0)) -> bool:
    """Return whether α-protection greedy loops."""
    return run_of(problem, Protection(alpha)).verdict is CacheVerdict.LOOP


@CLAIMS.remark("kv.alpha-loop", Mutation("α = 0.9 from the start", small=Fraction(9, 10)))
def _loop_check(context: Context, *, small: Fraction = Fraction(0)) -> Outcome:
    """Loops of α-protection greedy.

    Source: KV-cache paper, section 7 (benchmark algorithms) and Figure 7
    Statement: With a small α the greedy rule may repeat the same states for ever; a larger α
        avoids it.
    Formula: ∃ I: the run with small α never ends; with larger α it does
    Assumes: first come first started up to (1 − α)M; an overflow clears everything
    Summary: A loop is proven, not guessed: the state after a full clearing comes back without a
        completion.
    Reading: an empty worker starts the oldest request whatever its size.
    """
    problems = _small(context)
    loops = [problem for problem in problems if _loops(problem, small)]
    some = examine(
        "some instance loops", f"random instances of 2 to 4 requests, α = {small}", [loops], bool
    )
    ends = (
        examine(
            "with α so large that one runs at a time, none of them loops",
            "those that loop",
            loops,
            # With this share no two requests are in the cache together.
            lambda p: run_of(p, Protection(1 - Fraction(1, p.memory))).is_finished,
        )
        if loops
        else some
    )
    return Findings(some, ends, numbers={"loops": len(loops), "instances": len(problems)})


@CLAIMS.remark("kv.beta-clearing", Mutation("β = 1", tenths=10))
def _clearing_check(context: Context, *, tenths: int = 3) -> Outcome:
    """Random clearing ends loops.

    Source: KV-cache paper, section 7 (benchmark algorithms)
    Statement: Clearing each active request with probability β prevents infinite loops even for
        small α.
    Formula: 0 < β < 1  ⇒  every run ends (with probability 1)
    Assumes: independent draws, repeated until the rest fits
    Summary: After every overflow the same request survives each draw with positive probability and
        completes, so a run ends with probability 1.
    """
    policy = BetaClearing(Fraction(0), beta=Fraction(tenths, 10))
    problems = list(filter(_loops, _small(context)))
    seeds = context.choose(2, 5, 20)

    return examine(
        "β-clearing with α = 0 completes all",
        f"instances that loop under α = 0, β = 0.{tenths}, {seeds} seeds each",
        product(problems, range(seeds)),
        lambda problem, seed: run_of(problem, policy, seed).is_finished,
    )


def started_at_once(
    memory: int, prompt: int, believed: Sequence[int], convention: Convention
) -> list[int]:
    """Return the requests that Algorithm 2 starts at 0 on an empty worker, by predictions."""
    data = jobs(problem_of(memory, [prompt] * len(believed), believed, convention))
    order = sorted(range(len(believed)), key=lambda job: (believed[job], job))
    positions = selected(memory, (), [data.load(job) for job in order])
    return [order[position] for position in positions]


@verifier
def verify_margin(memory: int, prompt: int, requests: list[list[int]], error: int) -> str:
    """Check that the requests started at 0 by ô − δ exceed the memory, under every convention."""
    dismiss_if(not requests or min(error, prompt) < 1)
    dismiss_if(any(abs(o - hoped) > error or hoped - error < 1 for o, hoped in requests))
    dismiss_if(any(prompt + o > memory for o, _ in requests))
    for convention in CONVENTIONS:
        believed = [hoped - error for _, hoped in requests]
        starters = started_at_once(memory, prompt, believed, convention)
        outputs = [requests[job][0] for job in starters]
        true = problem_of(memory, [prompt] * len(starters), outputs, convention)
        dismiss_if(not starters or peak(jobs(true), [0] * len(starters)) <= memory)
    return (
        f"M = {memory}, s = {prompt}, (o, ô) = {requests}, δ = {error}, all at 0: what passes (1) "
        "with ô − δ at round 0 exceeds M later, under conventions A, B and C"
    )


def _drawn(context: Context) -> Data:
    rng = context.rng
    error, prompt = (int(v) for v in rng.integers(1, 3, 2))
    memory = int(rng.integers(prompt + 2 * error + 1, 13))
    outputs = rng.integers(error + 1, memory - prompt + 1, int(rng.integers(2, 5)))
    predicted = np.maximum(error + 1, outputs + rng.integers(-error, error + 1, len(outputs)))
    rows = np.stack([outputs, predicted], 1).tolist()
    return {"memory": memory, "prompt": prompt, "requests": rows, "error": error}


def _safe(context: Context, sign: int) -> bool:
    """Whether Algorithm 2, with a margin on predictions, never overflows a random instance."""
    problem: LatencyProblem = random_problem(
        context.rng, least=2, rounds=0, convention=Convention.HALF_OPEN
    )
    error = int(context.rng.integers(1, 4))
    predicted = problem.output + context.rng.integers(-error, error + 1, problem.num_requests)
    believed = np.maximum(1, np.maximum(1, predicted) + sign * error)
    run = serve(problem, LookAhead(), predicted=believed, engine="reference", limits=LIMITS)
    return run.is_finished and run.overflows == 0


@CLAIMS.remark(
    "kv.section8.1",
    Mutation("ô − δ in the correction", sign=-1),
    defect=Defect.MISPRINT,
    verify=verify_margin,
)
def _margin_check(context: Context, *, sign: int = 1) -> Outcome:
    """Safe margin for predictions.

    Source: KV-cache paper, section 8.1
    Statement: If |o − ô| ≤ δ, replacing o by ô − δ, the lower bound on the output length, is one
        way to ensure that memory overflow is avoided.
    Formula: (1) with ô_i − δ  ⇒  memory ≤ M
    Assumes: |o_i − ô_i| ≤ δ; a common prompt s; o_i ≤ M − s
    Summary: A lower bound on the output is a lower bound on the memory: the wrong side.
    Reading: the sentence to the letter. A counterexample has ô − δ ≥ 1 and exceeds M under every
        convention.
    Correction: ô + δ, the upper bound, does. Its purpose (no overflow) and the next sentence
        (overly conservative, inefficient for a large δ) fit ô + δ only, so that is what is meant;
        the printed words, the lower bound on output length, speak against it, so the slip is in
        both the sign and the word.
    """
    cases = [_drawn(context) for _ in range(context.choose(300, 3000, 30_000))]
    runs = range(context.choose(60, 600, 5000))
    printed = context.refute(
        "ô − δ in place of o keeps the memory, under one convention at least",
        "random requests at 0, |ô − o| ≤ δ ≤ 2, ô − δ ≥ 1",
        cases,
    )
    corrected = examine(
        "ô + δ does, in whole runs",
        "random instances, |ô − o| ≤ δ ≤ 3, convention C",
        runs,
        lambda _: _safe(context, sign),
    )
    return printed, corrected


# Sections 7 and 8: cache size and slopes.


# The size of the cache.
_LAYERS, _HIDDEN, _BYTES = 80, 8192, 2
_PARAMETERS = 70 * 10**9
#: Token limit of the published experiments.
_PUBLISHED = 16_492


def bytes_per_token(layers: int) -> int:
    """Return the bytes of keys and values per token, ``2·L·H·D`` elements."""
    return 2 * layers * _HIDDEN * _BYTES


@verifier
def verify_limit(gigabyte: int, model_in_bytes: int) -> str:
    """Confirm that the printed formula does not give 16,492 tokens, for GB of so many bytes."""
    dismiss_if(gigabyte not in (10**9, 2**30) or model_in_bytes not in (0, 1))
    model = _PARAMETERS * _BYTES if model_in_bytes else 140 * gigabyte
    tokens = (160 * gigabyte - model) // bytes_per_token(_LAYERS)
    dismiss_if(tokens == _PUBLISHED)
    return f"with a GB of {gigabyte} bytes: {tokens} tokens, not {_PUBLISHED}"


@CLAIMS.remark(
    "kv.memory-limit",
    Mutation("64 layers in the correction", layers=64),
    defect=Defect.FORMULA,
    verify=verify_limit,
)
def _limit_check(context: Context, *, layers: int = _LAYERS) -> Outcome:
    """16,492 tokens.

    Source: KV-cache paper, section 7 (simulation setup)
    Statement: For Llama2-70B on two A100 the limit is (160 GB − 140 GB) over 2·L·H·D = 2,621,440
        bytes per token, 16,492 tokens.
    Formula: (160 GB − 70·10⁹·2 B)/(2·80·8192·2 B) = 16,492
    Assumes: P = 70 billion, L = 80, H = 8192, D = 2
    Summary: No reading of GB gives 16,492; a token of half the size does not either (15,258).
    Correction: The size per token is right; the quotient is 7,629 tokens (8,192 with GB of 2^30
        bytes throughout, 12,130 with the model in bytes).
    """
    cases = list(product((10**9, 2**30), (0, 1)))
    printed = context.refute(
        "(160 GB − 140 GB)/(2·L·H·D) = 16,492", "GB of 10^9 and of 2^30 bytes", cases
    )
    corrected = examine(
        "2·L·H·D = 2,621,440 bytes and 20·10^9 of them hold 7,629 tokens",
        "L = 80, H = 8192, D = 2",
        [bytes_per_token(layers)],
        lambda b: b == 2_621_440 and 20 * 10**9 // b == 7629,
    )
    return printed, corrected


# Latency and slopes.
#: Latency cap [s], and the slopes of Algorithm 2 and of the best benchmark (section 7.1).
_CAP, _SLOPES = 200, (Fraction(1, 6), Fraction(1, 2))


def grown(slope: Fraction, arrivals: int, per_unit: int) -> Fraction:
    """Return the latency on a line through the origin [s].

    Parameters
    ----------
    slope : Fraction
        Seconds per unit of the horizontal axis.
    arrivals : int
        Number of arrivals at which to evaluate the line.
    per_unit : int
        Arrivals per unit: 1 if the axis counts arrivals, λ if it is time in seconds.
    """
    return slope * arrivals / per_unit


@verifier
def verify_cap(arrivals: int, rate: int) -> str:
    """Confirm that the cap separates the two printed lines in neither unit of the axis."""
    dismiss_if(arrivals != 10_000 or rate != 50)
    read = [[grown(slope, arrivals, unit) for slope in _SLOPES] for unit in (1, rate)]
    dismiss_if(any(mine <= _CAP < benchmark for mine, benchmark in read))
    (mine, _), (later, benchmark) = read
    return (
        f"{arrivals} arrivals: at 1/6 s per arrival Algorithm 2 is at {float(mine):.0f} s, above "
        f"{_CAP} s; at 1/6 and 1/2 s per second of arrivals (λ = {rate}) the two are at "
        f"{float(later):.0f} and {float(benchmark):.0f} s, both below"
    )


@CLAIMS.experiment(
    "kv.section8.2",
    Mutation("1/3 for 1/2 in the correction", high=3),
    defect=Defect.FORMULA,
    verify=verify_cap,
)
def _slopes_check(context: Context, *, high: int = 2) -> Outcome:
    """Slopes and the latency cap.

    Source: KV-cache paper, sections 7.1, 7.2 and 8.2
    Statement: Under high demand average latency grows linearly in the arrivals, with slope 1/6 for
        Algorithm 2 and 1/2 for the best benchmark; up to 10,000 arrivals Algorithm 2 stays below
        200 s, which the benchmarks exceed. The slopes are in ratio 3, and 8 under low demand.
    Formula: σ·10,000 ≤ 200 s < 3σ·10,000 for σ = 1/6;  (1/2)/(1/6) = 3;  (1/100)/(1/800) = 8
    Assumes: lines through the origin; λ = 50 arrivals a second
    Summary: The unit of the slopes is not given. What section 8.2 says needs a slope of Algorithm
        2 between 1/150 and 1/50 s per arrival.
    Reading: the paper names no unit; seconds per arrival (the axis of Figure 5) and seconds per
        second of arrivals are tried, and both contradict section 8.2.
    Correction: The ratios 3 and 8 are right; the slopes or their unit are not those of the figure
        that section 8.2 reads.
    """
    printed = context.refute(
        "Algorithm 2 below and the best benchmark above 200 s at 10,000 arrivals",
        "slopes per arrival, and per second of arrivals",
        [(10_000, 50)],
    )
    corrected = examine(
        "the slopes are in ratio 3 (1/2 to 1/6) and 8 (1/100 to 1/800)",
        "section 8.2",
        [((high, 6), 3), ((100, 800), 8)],
        lambda slopes, ratio: Fraction(slopes[1], slopes[0]) == ratio,
    )
    return printed, corrected
