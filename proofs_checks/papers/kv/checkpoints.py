"""Where and how often Equation (1) is evaluated: checkpoints and Proposition 4.1."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from bfio.kvcache import policy
from formulations.hindsight_latency import Convention
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv.model import (
    Jobs,
    Load,
    Test,
    algorithm,
    equation_1,
    jobs,
    random_problem,
    used,
)
from proofs_checks.papers.kv.selection import COMMON, WorkerState, fits, random_state
from proofs_checks.search import Domain, examine, refute

CLAIMS = Claims()


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


def _agrees(test: Test) -> Callable[[WorkerState], bool]:
    def holds(state: WorkerState) -> bool:
        columns = state.memory, state.running, state.waiting
        together = [*state.running, *state.waiting]
        everywhere = fits(state.memory, together)
        by_toolkit = policy.fits(together, state.memory)
        return test(*columns) == everywhere == by_toolkit == equation_1(*columns)

    return holds


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
    states = (
        random_state(context.rng, "mixed") for _ in range(context.choose(1500, 10_000, 200_000))
    )
    return examine(
        "(1) at the completions ⇔ (1) at every t′",
        "random states that fit before the new requests, mixed prompts",
        states,
        _agrees(test),
        applies=lambda state: bool(state.waiting),
    )


def listed_state(data: Data) -> WorkerState:
    """Read a worker and one candidate under Equation (1), and reject invalid states."""
    memory, prompt, output = (data[key] for key in ("memory", "prompt", "candidate"))
    running = tuple((prompt + age, o - age + 1) for age, o in data["running"])
    if min(prompt, output, len(running)) < 1 or prompt + output > memory:
        raise ValueError("nothing runs, or a candidate that never fits")
    if any(not 1 <= age <= o for age, o in data["running"]) or not fits(memory, running):
        raise ValueError("a running request that has ended, or too many of them")
    return WorkerState(memory, running, ((prompt, output + 1),))


def verify_listed(data: Data) -> str | None:
    """Check that the candidate passes at the listed checkpoints but exceeds the memory."""
    state = listed_state(data)
    columns = state.memory, state.running, state.waiting
    if not at_completions_of_others(*columns) or equation_1(*columns):
        return None
    return (
        f"M = {data['memory']}, s = {data['prompt']}, running (rounds since the start, o) "
        f"{data['running']}: a candidate with o = {data['candidate']} passes at the completions "
        "of the running requests, and all together exceed M before"
    )


def _listed_states(context: Context) -> Iterator[Data]:
    """Yield random workers with one or two requests running, and a candidate."""
    rng = context.rng
    while True:
        memory, prompt = int(rng.integers(4, 13)), int(rng.integers(1, 3))
        outputs = rng.integers(1, memory - prompt + 1, int(rng.integers(2, 4))).tolist()
        running = [[int(rng.integers(1, o + 1)), o] for o in outputs[1:]]
        data = {"memory": memory, "prompt": prompt, "running": running, "candidate": outputs[0]}
        if fits(memory, [(prompt + age, o - age + 1) for age, o in running]):
            yield data


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

    def sound(test: Test) -> Callable[[Data], bool]:
        def holds(data: Data) -> bool:
            state = listed_state(data)
            columns = state.memory, state.running, state.waiting
            return not test(*columns) or equation_1(*columns)

        return holds

    domain = Domain("random workers with one or two requests running, convention A", states)
    as_printed = domain.refute("what passes never exceeds M", verify_listed, holds=sound(printed))
    as_corrected = domain.examine("the same with the candidate's own completion", sound(corrected))
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


def verify_count(data: Data) -> str | None:
    """Count the inequalities of the printed pseudo-code in a run and compare with 4·M²."""
    memory, prompt, output, num = (data[key] for key in ("memory", "prompt", "output", "requests"))
    if min(prompt, output, num) < 1 or prompt + output > memory:
        return None
    work = max(inequalities_per_round(_equal(memory, prompt, output, num), keep_finished=True))
    if work <= 4 * memory**2:
        return None
    return (
        f"M = {memory}, {num} requests with s = {prompt}, o = {output}: {work} inequalities in "
        f"one round, more than 4·M² = {4 * memory**2}; another {num} requests add as many again"
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
    printed = refute(
        "at most 4·M² inequalities a round with S(t) as the pseudo-code has it",
        made,
        [*runs, *many],
        verify_count,
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
