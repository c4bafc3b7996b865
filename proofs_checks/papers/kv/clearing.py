"""Section 7: batches of any duration, overflows, loops, clearing by chance."""

from fractions import Fraction
from itertools import product

from bfio.kvcache.batch_time import BatchTime
from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.look_ahead import LookAhead
from bfio.kvcache.policy import CachePolicy, Clearing
from bfio.kvcache.protection import Protection
from bfio.kvcache.replay import violations
from bfio.kvcache.run import CacheRun, Limits, Verdict
from bfio.kvcache.simulation import serve
from formulations.hindsight_latency import Convention, LatencyProblem
from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome
from proofs_checks.papers.kv.model import random_problem
from proofs_checks.search import examine

_ALGORITHM_2 = LookAhead()
LIMITS = Limits(batches=3000, fruitless_clearings=300)


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


def _durations_check(context: Context, *, policy: CachePolicy = _ALGORITHM_2) -> Outcome:
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


def alpha_of(memory: int) -> Fraction:
    """Return a share so large that no two requests are ever in the cache."""
    return 1 - Fraction(1, memory)


def _loop_check(context: Context, *, small: Fraction = Fraction(0)) -> Outcome:
    problems = _small(context)
    loops = [
        problem
        for problem in problems
        if run_of(problem, Protection(small)).verdict is Verdict.LOOP
    ]
    some = examine(
        "some instance loops", f"random instances of 2 to 4 requests, α = {small}", [loops], bool
    )
    ends = (
        examine(
            "with α so large that one runs at a time, none of them loops",
            "those that loop",
            loops,
            lambda p: run_of(p, Protection(alpha_of(p.memory))).is_finished,
        )
        if loops
        else some
    )
    return Findings(some, ends, numbers={"loops": len(loops), "instances": len(problems)})


def _clearing_check(context: Context, *, tenths: int = 3) -> Outcome:
    share = Fraction(tenths, 10)
    problems = [
        problem
        for problem in _small(context)
        if run_of(problem, Protection(Fraction(0))).verdict is Verdict.LOOP
    ]
    seeds = context.choose(2, 5, 20)

    def ends(case: tuple[LatencyProblem, int]) -> bool:
        problem, seed = case
        return run_of(problem, Protection(Fraction(0), Clearing(share)), seed).is_finished

    return examine(
        "β-clearing with α = 0 completes all",
        f"instances that loop under α = 0, β = 0.{tenths}, {seeds} seeds each",
        product(problems, range(seeds)),
        ends,
    )


CLAIMS = (
    Claim(
        id="kv.section7-durations",
        source="KV-cache paper, section 7.1",
        title="Any batch durations",
        statement="Counting tokens per batch keeps the memory limit whatever each batch's "
        "duration.",
        formula="(1) per batch  ⇒  memory ≤ M in continuous time",
        hypotheses=("outputs known", "a prompt s_i for each request"),
        kind=Kind.FINITE,
        check=_durations_check,
        summary="Each batch is a round for the memory; the checker of runs rebuilds it.",
        mutations=(
            Mutation(
                "α-protection with α = 0 in place of Algorithm 2", policy=Protection(Fraction(0))
            ),
        ),
        reading="(1) where the paper refers to (2).",
    ),
    Claim(
        id="kv.alpha-loop",
        source="KV-cache paper, section 7 (benchmark algorithms) and Figure 7",
        title="Loops of α-protection greedy",
        statement="With a small α the greedy rule may repeat the same states for ever; a larger "
        "α avoids it.",
        formula="∃ I: the run with small α never ends; with larger α it does",
        hypotheses=("first come first started up to (1 − α)M", "an overflow clears everything"),
        kind=Kind.FINITE,
        check=_loop_check,
        summary="A loop is proven, not guessed: the state after a full clearing comes back "
        "without a completion.",
        mutations=(Mutation("α = 0.9 from the start", small=Fraction(9, 10)),),
        reading="an empty worker starts the oldest request whatever its size.",
    ),
    Claim(
        id="kv.beta-clearing",
        source="KV-cache paper, section 7 (benchmark algorithms)",
        title="Random clearing ends loops",
        statement="Clearing each active request with probability β prevents infinite loops even "
        "for small α.",
        formula="0 < β < 1  ⇒  every run ends (with probability 1)",
        hypotheses=("independent draws, repeated until the rest fits",),
        kind=Kind.FINITE,
        check=_clearing_check,
        summary="After every overflow the same request survives each draw with positive "
        "probability and completes, so a run ends with probability 1.",
        mutations=(Mutation("β = 1", tenths=10),),
    ),
)
