"""Selection of starting requests: Equations (1) and (2), the break, prompts, and checkpoints."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice

import numpy as np

from bfio.kvcache import policy
from bfio.kvcache.simulation import serve
from formulations.hindsight_latency import Convention, LatencyProblem
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Examination, Outcome, Verifier, dismiss_if, verifier
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
from proofs_checks.search import examine

CLAIMS = Claims()


@dataclass(frozen=True)
class WorkerState:
    """The worker before a slot: memory, running loads (which fit together), waiting loads."""

    memory: int
    running: tuple[Load, ...]
    waiting: tuple[Load, ...]

    def passes(self, test: Test) -> bool:
        """Return whether all waiting requests may start together, by a test."""
        return test(self.memory, self.running, self.waiting)

    def starts(self, *, scan_on: bool = False) -> list[int]:
        """Return the positions of the waiting requests that the ascending scan starts."""
        return selected(self.memory, self.running, self.waiting, scan_on=scan_on)


def random_state(rng: np.random.Generator, prompts: str) -> WorkerState:
    """Draw a state.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    prompts : str
        ``common`` for one prompt, ``mixed``, or ``agreeable``: longer outputs, no smaller prompts;
        of equal outputs the smaller prompt comes first, or last with ``larger-first``.
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
    if prompts in ("agreeable", "larger-first"):
        needs = np.sort(needs)
    waiting = [(int(n), int(d)) for n, d in zip(needs, lengths, strict=True)]
    sign = -1 if prompts == "larger-first" else 1
    waiting.sort(key=lambda load: (load[1], sign * load[0]))
    return WorkerState(memory, tuple(running), tuple(w for w in waiting if sum(w) - 1 <= memory))


def fits(memory: int, loads: Sequence[Load]) -> bool:
    """Return whether loads stay within the memory at every slot until all requests have left."""
    return all(used(loads, d) <= memory for d in range(max((n for _, n in loads), default=0)))


def on_states(
    context: Context,
    what: str,
    made: str,
    prompts: str,
    number: int,
    holds: Callable[[WorkerState], bool],
) -> Examination[WorkerState]:
    """Try a statement on a number of random states in which a request waits."""
    states = (random_state(context.rng, prompts) for _ in range(number))
    return examine(what, made, states, holds, lambda state: bool(state.waiting))


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
        completion is enough for all time. All complete: on an empty worker a request that fits
        alone can always be started.
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
    Summary: With a common prompt a shorter request needs no more at any slot than a longer one, so
        that once a request fails (1) no later one passes: the break of Algorithms 1 and 2 loses
        nothing.
    """

    def largest(state: WorkerState) -> bool:
        waiting = state.waiting[::-1] if backwards else state.waiting
        return largest_is_found(replace(state, waiting=waiting))

    what, made = "|U| of the ascending scan = max |U|", "random states, all subsets tried"
    return on_states(context, what, made, prompts, context.choose(300, 3000, 50_000), largest)


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


@verifier
def verify_largest(data: Data) -> str:
    """Compare the ascending scan with every subset, under every convention."""
    states = _read(data)
    dismiss_if(any(map(largest_is_found, states)))
    counts = [len(state.starts()) for state in states]
    most = [most_together(state) for state in states]
    return f"{_worded(data)}: the scan starts {counts}, {most} fit together"


@verifier
def verify_break(data: Data) -> str:
    """Compare the scan that breaks with the one that continues, under every convention."""
    states = _read(data)
    dismiss_if(any(map(breaking_is_scanning_on, states)))
    stops = [len(state.starts()) for state in states]
    goes = [len(state.starts(scan_on=True)) for state in states]
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
    what: str,
    common: bool = False,
    corrected: str = "agreeable",
) -> Outcome:
    count = context.choose(500, 3000, 30_000)
    draws = [_drawn(context, common=common) for _ in range(count)]
    printed = context.refute(
        f"{what}, under one convention at least",
        "three random requests of different outputs on an empty worker",
        draws,
    )
    grow = f"{what}, prompts that grow with the outputs, the smaller first where outputs are equal"
    as_corrected = on_states(context, grow, "random states", corrected, count, holds)
    return printed, as_corrected


def _claim(claim_id: str, verify: Verifier, what: str) -> Callable[[Statement], Statement]:
    """Claim for mixed prompts a statement that holds for a common prompt."""

    def add(holds: Statement) -> Statement:
        return CLAIMS.own(
            claim_id,
            Mutation("common prompts only", common=True),
            Mutation("any prompts in the correction", corrected="mixed"),
            Mutation("of equal outputs the larger prompt first", corrected="larger-first"),
            check=partial(_check, holds=holds, what=what),
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
    Correction: It does if prompts agree with outputs (a longer output, no smaller prompt) and the
        smaller prompt comes first where outputs are equal: then an earlier request needs no more
        at any slot. In general (2) is a program of its own.
    """
    return len(state.starts()) == most_together(state)


@_claim("kv.break-mixed", verify_break, "break = continue")
def breaking_is_scanning_on(state: WorkerState) -> bool:
    """Break and continue with mixed prompts.

    Source: KV-cache paper, Algorithm 2 with the prompts s_i of section 7
    Statement: Where prompts differ, stopping at the first failure still loses nothing.
    Formula: U(break) = U(continue) with s_i in place of s
    Correction: It loses nothing if prompts agree with outputs (a longer output, no smaller prompt)
        and the smaller prompt comes first where outputs are equal.
    """
    return state.starts() == state.starts(scan_on=True)


# Checkpoints.
def at_completions(memory: int, running: Sequence[Load], new: Sequence[Load]) -> bool:
    """Equation (1) at the last slot of each running and new request, including the candidate."""
    together = [*running, *new]
    return all(used(together, slots - 1) <= memory for _, slots in together)


def at_completions_of_others(memory: int, running: Sequence[Load], new: Sequence[Load]) -> bool:
    """Equation (1) at the checkpoints that Algorithm 1 lists before it adds the candidate."""
    together = [*running, *new]
    return all(used(together, slots - 1) <= memory for _, slots in together[:-1])


def at_last_completion(memory: int, running: Sequence[Load], new: Sequence[Load]) -> bool:
    """Equation (1) at the last of all completions only."""
    together = [*running, *new]
    return used(together, max(slots for _, slots in together) - 1) <= memory


@CLAIMS.remark(
    "kv.checkpoints",
    Mutation("without the candidate's", test=at_completions_of_others),
    Mutation("the last completion only", test=at_last_completion),
)
def _checkpoint_check(context: Context, *, test: Test = at_completions) -> Outcome:
    """Completion times suffice.

    Source: KV-cache paper, text below Equation (2) (section 4)
    Statement: (1) need only be checked at the completion times of ongoing or new requests.
    Formula: (1) at t′ = p_j + o_j, j ∈ S ∪ U  ⇔  (1) at all t′
    Assumes: what runs fits on its own; the candidate counts among the new requests
    Summary: Between completions the memory only grows.
    Reading: also for mixed prompts.
    """

    def agrees(state: WorkerState) -> bool:
        together = [*state.running, *state.waiting]
        everywhere = fits(state.memory, together)
        by_toolkit = policy.fits(together, state.memory)
        return state.passes(test) == everywhere == by_toolkit == state.passes(equation_1)

    return on_states(
        context,
        "(1) at the completions ⇔ (1) at every t′",
        "random states that fit before the new requests, mixed prompts",
        "mixed",
        context.choose(1500, 10_000, 200_000),
        agrees,
    )


def listed_state(
    memory: int, prompt: int, running: list[list[int]], candidate: int
) -> WorkerState:
    """Return a worker and one candidate under Equation (1), and reject invalid states."""
    held = tuple((prompt + age, o - age + 1) for age, o in running)
    if min(prompt, candidate, len(running)) < 1 or prompt + candidate > memory:
        raise ValueError("nothing runs, or a candidate that never fits")
    if any(not 1 <= age <= o for age, o in running) or not fits(memory, held):
        raise ValueError("a running request that has ended, or too many of them")
    return WorkerState(memory, held, ((prompt, candidate + 1),))


@verifier
def verify_listed(memory: int, prompt: int, running: list[list[int]], candidate: int) -> str:
    """Check that the candidate passes at the listed checkpoints but exceeds the memory."""
    state = listed_state(memory, prompt, running, candidate)
    dismiss_if(not state.passes(at_completions_of_others) or state.passes(equation_1))
    return (
        f"M = {memory}, s = {prompt}, running (rounds since the start, o) {running}: a candidate "
        f"with o = {candidate} passes at the completions of the running requests, and all "
        "together exceed M before"
    )


def _listed_states(context: Context) -> Iterator[tuple[int, int, list[list[int]], int]]:
    """Yield random workers with one or two requests running, and a candidate."""
    rng = context.rng
    while True:
        memory, prompt = int(rng.integers(4, 13)), int(rng.integers(1, 3))
        outputs = rng.integers(1, memory - prompt + 1, int(rng.integers(2, 4))).tolist()
        running = [[int(rng.integers(1, o + 1)), o] for o in outputs[1:]]
        if fits(memory, [(prompt + age, o - age + 1) for age, o in running]):
            yield memory, prompt, running, outputs[0]


@CLAIMS.formula(
    "kv.algorithm1-checkpoints",
    Mutation("the candidate listed", printed=at_completions),
    Mutation("not listed in the correction", corrected=at_completions_of_others),
    hypotheses=COMMON,
    defect=Defect.MISPRINT,
    verify=verify_listed,
)
def _listed_check(
    context: Context, *, printed: Test = at_completions_of_others, corrected: Test = at_completions
) -> Outcome:
    """The list of checkpoints as printed.

    Source: KV-cache paper, Algorithms 1 and 2, list of times
    Statement: Checking (1) at t′ = p_j + o_j for j ∈ S(t) ∪ U(t), before the candidate is in U(t),
        keeps the memory.
    Formula: (1) at p_j + o_j, j ∈ S ∪ U  ⇒  (1) for U ∪ {i} at all t′
    Summary: The list is made before the candidate joins U, so its own peak is not looked at. On an
        empty worker the list is empty, and anything passes.
    Reading: the pseudo-code to the letter, with (1) as the memory rule: U(t) does not hold the
        candidate yet when its list is made.
    Correction: The candidate's own completion t + o_i belongs on the list, as the text below
        Equation (2) has it: completion times of ongoing or new requests.
    """
    states = list(islice(_listed_states(context), context.choose(1000, 10_000, 100_000)))

    def sound(
        memory: int, prompt: int, running: list[list[int]], candidate: int, *, test: Test
    ) -> bool:
        state = listed_state(memory, prompt, running, candidate)
        return not state.passes(test) or state.passes(equation_1)

    domain = context.domain(
        "random workers with one or two requests running, convention A", states
    )
    as_printed = domain.refute("what passes never exceeds M", holds=partial(sound, test=printed))
    as_corrected = domain.examine(
        "the same with the candidate's own completion", partial(sound, test=corrected)
    )
    return as_printed, as_corrected


# Proposition 4.1.
def inequalities_per_round(data: Jobs, *, keep_finished: bool = False) -> list[int]:
    """Return the number of inequalities that Algorithm 1 evaluates in each round.

    Parameters
    ----------
    data : Jobs
        Requests, all at 0.
    keep_finished : bool
        Apply ``S(t) = S(t−1) ∪ U(t−1)`` literally, so that finished requests stay in S.
    """
    counts: list[int] = []
    starts = algorithm(data)
    order = sorted(range(len(starts)), key=lambda job: (data.length[job], job))
    for now in range(max(starts) + 1):
        before = [job for job in order if starts[job] < now]
        held = [j for j in before if keep_finished or now < starts[j] + data.length[j]]
        started = sum(start == now for start in starts)
        waits = any(start > now for start in starts)
        # Request k is checked at the completions of S, of the k − 1 before it, and its own.
        counts.append(sum(len(held) + k for k in range(1, started + waits + 1)))
    return counts


@verifier
def verify_count(memory: int, prompt: int, output: int, requests: int) -> str:
    """Count the inequalities of the printed pseudo-code in a run and compare with 4·M²."""
    dismiss_if(min(prompt, output, requests) < 1 or prompt + output > memory)
    run = _equal(memory, prompt, output, requests)
    work = max(inequalities_per_round(run, keep_finished=True))
    dismiss_if(work <= 4 * memory**2)
    return (
        f"M = {memory}, {requests} requests with s = {prompt}, o = {output}: {work} inequalities "
        f"in one round, more than 4·M² = {4 * memory**2}; another {requests} requests add as many "
        "again"
    )


def _equal(memory: int, prompt: int, output: int, num: int) -> Jobs:
    return Jobs(memory, (0,) * num, (prompt,) * num, (output + 1,) * num)


@CLAIMS.result(
    "kv.proposition4.1",
    Mutation("finished requests kept in the correction", keep_finished=True),
    defect=Defect.MISPRINT,
    verify=verify_count,
)
def _count_check(context: Context, *, keep_finished: bool = False) -> Outcome:
    """Work of Algorithm 1 per round.

    Source: KV-cache paper, Proposition 4.1 (section 4) and its proof (appendix A.1)
    Statement: Algorithm 1 takes O(M²) per round, whatever n is: O(M) requests are tried, each at
        O(M) completion times.
    Formula: inequalities per round ≤ c·M²
    Assumes: a common prompt s ≥ 1; requests sorted beforehand
    Summary: |S(t)| = O(M) needs finished requests to leave S, as the text has it and the
        pseudo-code has not. Each inequality is a sum of O(M) terms; only with sums that are kept
        up to date does the time follow the count.
    Reading: the pseudo-code to the letter; c = 4; operations counted as inequalities looked at.
    Correction: It holds for the number of inequalities if S(t) loses its finished requests, as the
        text defines it (in progress, not completed): at most (⌊M/(s+1)⌋ + 1)(⌊M/s⌋ + ⌊M/(s+1)⌋ +
        1). With S(t) = S(t−1) ∪ U(t−1) as the pseudo-code has it the list of times grows with n.
    """
    runs = [
        jobs(
            random_problem(context.rng, most=30, memory=20, rounds=0, convention=Convention.CLOSED)
        )
        for _ in range(context.choose(20, 300, 3000))
    ]
    many = [_equal(m, 1, 1, 14 * m**2) for m in context.choose((2,), (2, 3), (2, 3, 4, 6))]

    def by_letter(data: Jobs) -> bool:
        return max(inequalities_per_round(data, keep_finished=True)) <= 4 * data.memory**2

    def counted(data: Jobs) -> bool:
        smallest = min(data.first)
        held, new = data.memory // smallest, data.memory // (smallest + 1)
        work = inequalities_per_round(data, keep_finished=keep_finished)
        return max(work) <= (new + 1) * (held + new + 1)

    made = "runs of Algorithm 1 on random and on many equal requests"
    printed = context.refute(
        "at most 4·M² inequalities a round with S(t) as the pseudo-code has it",
        made,
        [*runs, *many],
        lambda data: {
            "memory": data.memory,
            "prompt": data.first[0],
            "output": data.length[0] - 1,
            "requests": len(data.length),
        },
        holds=by_letter,
    )
    corrected = examine(
        "at most (N + 1)(K + N + 1) with N = ⌊M/(s+1)⌋ new and K = ⌊M/s⌋ running requests",
        made,
        [*runs, *many],
        counted,
    )
    return printed, corrected
