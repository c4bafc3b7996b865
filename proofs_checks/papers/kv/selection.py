"""Selection of starting requests: Equations (1) and (2), the break, common and mixed prompts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from bfio.kvcache.simulation import serve
from formulations.hindsight_latency import LatencyProblem
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome, Verifier
from proofs_checks.papers.kv.model import (
    CONVENTIONS,
    Jobs,
    Load,
    Test,
    algorithm,
    equation_1,
    jobs,
    now_only,
    peak,
    problem_of,
    random_problem,
    selected,
    used,
)
from proofs_checks.search import examine, refute

CLAIMS = Claims()


@dataclass(frozen=True)
class WorkerState:
    """The worker before a slot: memory, running loads that fit on their own, waiting loads."""

    memory: int
    running: tuple[Load, ...]
    waiting: tuple[Load, ...]


def random_state(rng: np.random.Generator, prompts: str) -> WorkerState:
    """Draw a state.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    prompts : str
        ``common`` for one prompt, ``mixed``, or ``agreeable``: longer outputs, no smaller prompts.
    """
    memory, first = int(rng.integers(4, 16)), int(rng.integers(1, 4))
    running: list[Load] = []
    for _ in range(int(rng.integers(3))):
        load = (int(rng.integers(first, memory + 1)), int(rng.integers(1, 6)))
        if fits(memory, [*running, load]):
            running.append(load)
    num = int(rng.integers(1, 6))
    # `integers` excludes its upper end: prompts are at most 4.
    needs = np.full(num, first) if prompts == "common" else rng.integers(1, 5, num)
    lengths = np.sort(rng.integers(1, 7, num))
    if prompts == "agreeable":
        needs = np.sort(needs)
    waiting = [(int(n), int(d)) for n, d in zip(needs, lengths, strict=True)]
    waiting.sort(key=lambda load: load[::-1])
    return WorkerState(memory, tuple(running), tuple(w for w in waiting if sum(w) - 1 <= memory))


def fits(memory: int, loads: Sequence[Load]) -> bool:
    """Whether loads stay within the memory at every slot until all requests have left."""
    return all(used(loads, d) <= memory for d in range(max((n for _, n in loads), default=0)))


def most_together(state: WorkerState) -> int:
    """Return ``max |U|`` of Equation (2), over all subsets."""
    for size in range(len(state.waiting), 0, -1):
        for chosen in combinations(state.waiting, size):
            if equation_1(state.memory, state.running, chosen):
                return size
    return 0


COMMON = ("a common prompt s", "outputs known")


# Equation (1) keeps the memory.
@CLAIMS.formula("kv.eq1", Mutation("only the coming slot is tested", test=now_only))
def _safety_check(context: Context, *, test: Test = equation_1) -> Outcome:
    """Look-ahead keeps the memory.

    Source: KV-cache paper, Equation (1) (section 4)
    Statement: If inequality (1) holds for all t′ up to t_max(U) whenever requests are added, the
        KV cache never exceeds M.
    Formula: (1) for all t′ ∈ [t, t_max(U)] at every t  ⇒  Σ (s + t − p_i) ≤ M at all times
    Assumes: outputs known; each request fits alone
    Summary: What starts later is tested against what runs, so testing up to the last new
        completion is enough for all time.
    Reading: also for mixed prompts, as the experiments use it.
    """
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


@CLAIMS.remark("kv.progress", Mutation("o up to M − s + 1", beyond=1), hypotheses=COMMON)
def _progress_check(context: Context, *, beyond: int = 0) -> Outcome:
    """An empty worker starts something.

    Source: KV-cache paper, section 3 (o_i ∈ [1, M − s])
    Statement: A request with o ≤ M − s can always be started on an empty worker.
    Formula: S = ∅, R ≠ ∅, o_i ≤ M − s  ⇒  U ≠ ∅
    Summary: So every run ends.
    Reading: used, not stated, in the paper.
    """

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
@CLAIMS.formula(
    "kv.eq2",
    Mutation("each its own prompt", prompts="mixed"),
    Mutation("descending order", backwards=True),
    hypotheses=COMMON,
)
def _largest_check(
    context: Context, *, prompts: str = "common", backwards: bool = False
) -> Outcome:
    """Ascending outputs start as many as possible.

    Source: KV-cache paper, Equation (2) and the text below it (section 4)
    Statement: Adding requests in ascending order of output while (1) holds solves (2).
    Formula: |U_greedy| = max {|U| : (1) for all t′}
    Summary: With a common prompt a shorter request needs no more at any slot than a longer one.
    """

    def largest(state: WorkerState) -> bool:
        waiting = state.waiting[::-1] if backwards else state.waiting
        return largest_is_found(replace(state, waiting=waiting))

    states = (random_state(context.rng, prompts) for _ in range(context.choose(300, 3000, 50_000)))
    return examine(
        "|U| of the ascending scan = max |U|",
        "random states, all subsets tried",
        states,
        largest,
        applies=lambda state: bool(state.waiting),
    )


@CLAIMS.formula("kv.break", Mutation("each its own prompt", prompts="mixed"), hypotheses=COMMON)
def _break_check(context: Context, *, prompts: str = "common") -> Outcome:
    """Break and continue are one with a common prompt.

    Source: KV-cache paper, Algorithms 1 and 2 (`Break the for loop`)
    Statement: Once a request fails (1), no later one passes, so the loop may stop.
    Formula: (1) fails for U ∪ {i}, o_j ≥ o_i  ⇒  (1) fails for U ∪ {j}
    Summary: What comes after a request that does not fit is no shorter.
    """
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


#: A statement about one state of the worker.
Statement = Callable[[WorkerState], bool]


def empty_workers(memory: int, requests: Sequence[Sequence[int]]) -> list[WorkerState]:
    """Return an empty worker with waiting requests (s, o), under each of the three conventions."""
    prompts, outputs = zip(*sorted(requests, key=lambda row: row[1]), strict=True)
    states = []
    for convention in CONVENTIONS:
        data = jobs(problem_of(memory, prompts, outputs, convention))
        states.append(WorkerState(memory, (), tuple(map(data.load, range(len(prompts))))))
    return states


def _read(data: Data) -> list[WorkerState]:
    rows = data["requests"]
    if not rows or min(min(row) for row in rows) < 1:
        raise ValueError("no request, or an empty one")
    if any(s + o > data["memory"] for s, o in rows):
        raise ValueError("a request that never fits")
    if len({o for _, o in rows}) < len(rows):
        raise ValueError("equal outputs: then the order of the scan is open")
    return empty_workers(data["memory"], rows)


def verify_largest(data: Data) -> str | None:
    """Compare the ascending scan with every subset, under every convention."""
    states = _read(data)
    if any(map(largest_is_found, states)):
        return None
    counts = [len(selected(state.memory, (), state.waiting)) for state in states]
    most = [most_together(state) for state in states]
    return f"{_worded(data)}: the scan starts {counts}, {most} fit together"


def verify_break(data: Data) -> str | None:
    """Compare the scan that breaks with the one that continues, under every convention."""
    states = _read(data)
    if any(map(breaking_is_scanning_on, states)):
        return None
    stops = [len(selected(state.memory, (), state.waiting)) for state in states]
    goes = [len(selected(state.memory, (), state.waiting, scan_on=True)) for state in states]
    return f"{_worded(data)}: breaking starts {stops}, going on {goes}"


def _worded(data: Data) -> str:
    return f"M = {data['memory']}, empty worker, (s, o) = {data['requests']}, conventions A, B, C"


def _drawn(context: Context, *, common: bool) -> Data:
    """Draw three requests of different outputs, each of which fits alone."""
    memory = int(context.rng.integers(6, 11))
    outputs = context.rng.permutation(memory // 2)[:3] + 1
    prompts = context.rng.integers(1, memory - memory // 2 + 1, 1 if common else 3)
    pairs = zip((0 * outputs + prompts).tolist(), outputs.tolist(), strict=True)
    return {"memory": memory, "requests": [list(pair) for pair in pairs]}


def _check(
    context: Context,
    *,
    holds: Statement,
    verify: Verifier,
    what: str,
    common: bool = False,
    corrected: str = "agreeable",
) -> Outcome:
    count = context.choose(500, 3000, 30_000)
    draws = [_drawn(context, common=common) for _ in range(count)]
    states = [random_state(context.rng, corrected) for _ in range(count)]
    printed = refute(
        f"{what}, under one convention at least",
        "three random requests of different outputs on an empty worker",
        draws,
        verify,
    )
    as_corrected = examine(
        f"{what}, prompts that grow with the outputs",
        "random states",
        states,
        holds,
        lambda state: bool(state.waiting),
    )
    return printed, as_corrected


def _claim(claim_id: str, verify: Verifier, what: str) -> Callable[[Statement], Statement]:
    """Claim for mixed prompts a statement that holds for a common prompt."""

    def add(holds: Statement) -> Statement:
        return CLAIMS.own(
            claim_id,
            Mutation("common prompts only", common=True),
            Mutation("any prompts in the correction", corrected="mixed"),
            check=partial(_check, holds=holds, verify=verify, what=what),
            hypotheses=("a prompt s_i for each request", "outputs known", "s_i + o_i ≤ M"),
            summary="A short output with a large prompt blocks longer ones with small prompts.",
            defect=Defect.INFERENCE,
            reading="implied, not printed: section 4 states it for a common prompt, section 7 "
            "uses the algorithm with a prompt for each request. A counterexample is one under "
            "every convention and has no two equal outputs.",
            verify=verify,
        )(holds)

    return add


@_claim("kv.eq2-mixed", verify_largest, "|U| is the largest")
def largest_is_found(state: WorkerState) -> bool:
    """Ascending outputs with mixed prompts.

    Source: KV-cache paper, Equation (2) with the prompts s_i of section 7
    Statement: Where prompts differ, as in the experiments, the ascending scan still solves (2).
    Formula: |U_greedy| = max {|U| : (1) with s_i in place of s}
    Correction: It does if prompts agree with outputs (a longer output, no smaller prompt): then an
        earlier request needs no more at any slot. In general (2) is a program of its own.
    """
    return len(selected(state.memory, state.running, state.waiting)) == most_together(state)


@_claim("kv.break-mixed", verify_break, "break = continue")
def breaking_is_scanning_on(state: WorkerState) -> bool:
    """Break and continue with mixed prompts.

    Source: KV-cache paper, Algorithm 2 with the prompts s_i of section 7
    Statement: Where prompts differ, stopping at the first failure still loses nothing.
    Formula: U(break) = U(continue) with s_i in place of s
    Correction: It loses nothing if prompts agree with outputs (a longer output, no smaller
        prompt).
    """
    columns = state.memory, state.running, state.waiting
    return selected(*columns) == selected(*columns, scan_on=True)
