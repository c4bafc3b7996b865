"""Which requests start: Equations (1) and (2), and the break."""

from collections.abc import Iterator

from bfio.kvcache.simulation import serve
from formulations.hindsight_latency import LatencyProblem
from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.kv.model import (
    Jobs,
    Test,
    algorithm,
    equation_1,
    jobs,
    now_only,
    peak,
    random_problem,
    selected,
)
from proofs_checks.papers.kv.states import COMMON, State, most_together, random_state
from proofs_checks.search import examine


# Equation (1) keeps the memory.
def _safety_check(context: Context, *, test: Test = equation_1) -> Outcome:
    problems = [
        random_problem(context.rng, most=8, memory=20, rounds=6, mixed=bool(k % 2))
        for k in range(context.choose(120, 1000, 20_000))
    ]

    def safe(problem: LatencyProblem) -> bool:
        data = jobs(problem)
        return peak(data, algorithm(data, test=test)) <= data.memory

    def same(problem: LatencyProblem) -> bool:
        run = serve(problem, "mc-sf", engine="reference")
        alike: bool = run.start.tolist() == algorithm(jobs(problem))
        return alike

    made = "random instances of up to 8 requests, conventions A, B, C, common and mixed prompts"
    kept = examine("no slot exceeds M, and all complete", made, problems, safe)
    twins = examine(
        "starts of `bfio.kvcache`", made, problems[: context.choose(40, 300, 3000)], same
    )
    return kept, twins


def _progress_check(context: Context, *, beyond: int = 0) -> Outcome:
    def waits(data: Jobs) -> Iterator[bool]:
        for length in range(1, data.memory - data.first[0] + 2 + beyond):
            yield bool(selected(data.memory, (), [(data.first[0], length)]))

    largest = context.choose(15, 40, 100)
    cases = [Jobs(m, (0,), (s,), (1,)) for m in range(1, largest) for s in range(1, m + 1)]
    return examine(
        "an empty worker starts the shortest request",
        f"every s and o that fit alone, up to M = {largest - 1}",
        cases,
        lambda data: all(waits(data)),
    )


# Equation (2).
def _largest_check(
    context: Context, *, prompts: str = "common", backwards: bool = False
) -> Outcome:
    def largest(state: State) -> bool:
        waiting = state.waiting[::-1] if backwards else state.waiting
        return len(selected(state.memory, state.running, waiting)) == most_together(state)

    states = (random_state(context.rng, prompts) for _ in range(context.choose(300, 3000, 50_000)))
    return examine(
        "|U| of the ascending scan = max |U|",
        "random states, all subsets tried",
        states,
        largest,
        applies=lambda state: bool(state.waiting),
    )


def _break_check(context: Context, *, prompts: str = "common") -> Outcome:
    states = (
        random_state(context.rng, prompts) for _ in range(context.choose(500, 5000, 100_000))
    )
    return examine(
        "scanning on adds nothing",
        "random states",
        states,
        breaking_is_scanning_on,
        applies=lambda state: bool(state.waiting),
    )


def breaking_is_scanning_on(state: State) -> bool:
    """Whether the scan that stops at the first failure starts all that the full scan starts."""
    columns = state.memory, state.running, state.waiting
    return selected(*columns) == selected(*columns, scan_on=True)


CLAIMS = (
    Claim(
        id="kv.eq1",
        source="KV-cache paper, Equation (1) (section 4)",
        title="Look-ahead keeps the memory",
        statement="If inequality (1) holds for all t′ up to t_max(U) whenever requests are "
        "added, the KV cache never exceeds M.",
        formula="(1) for all t′ ∈ [t, t_max(U)] at every t  ⇒  Σ (s + t − p_i) ≤ M at all times",
        hypotheses=("outputs known", "each request fits alone"),
        kind=Kind.FINITE,
        check=_safety_check,
        summary="What starts later is tested against what runs, so testing up to the last new "
        "completion is enough for all time.",
        mutations=(Mutation("only the coming slot is tested", test=now_only),),
        reading="also for mixed prompts, as the experiments use it.",
    ),
    Claim(
        id="kv.progress",
        source="KV-cache paper, section 3 (o_i ∈ [1, M − s])",
        title="An empty worker starts something",
        statement="A request with o ≤ M − s can always be started on an empty worker.",
        formula="S = ∅, R ≠ ∅, o_i ≤ M − s  ⇒  U ≠ ∅",
        hypotheses=COMMON,
        kind=Kind.FINITE,
        check=_progress_check,
        summary="So every run ends.",
        mutations=(Mutation("o up to M − s + 1", beyond=1),),
        reading="used, not stated, in the paper.",
    ),
    Claim(
        id="kv.eq2",
        source="KV-cache paper, Equation (2) and the text below it (section 4)",
        title="Ascending outputs start as many as possible",
        statement="Adding requests in ascending order of output while (1) holds solves (2).",
        formula="|U_greedy| = max {|U| : (1) for all t′}",
        hypotheses=COMMON,
        kind=Kind.FINITE,
        check=_largest_check,
        summary="With a common prompt a shorter request needs no more at any slot than a longer "
        "one.",
        mutations=(
            Mutation("each its own prompt", prompts="mixed"),
            Mutation("descending order", backwards=True),
        ),
    ),
    Claim(
        id="kv.break",
        source="KV-cache paper, Algorithms 1 and 2 (`Break the for loop`)",
        title="Break and continue are one with a common prompt",
        statement="Once a request fails (1), no later one passes, so the loop may stop.",
        formula="(1) fails for U ∪ {i}, o_j ≥ o_i  ⇒  (1) fails for U ∪ {j}",
        hypotheses=COMMON,
        kind=Kind.FINITE,
        check=_break_check,
        summary="What comes after a request that does not fit is no shorter.",
        mutations=(Mutation("each its own prompt", prompts="mixed"),),
    ),
)
