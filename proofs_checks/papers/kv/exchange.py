"""The exchange step in the proof of Theorem 4.2, and Figure 4: the optimum that waits."""

from collections.abc import Iterator, Sequence
from itertools import product

from formulations.hindsight_latency import Convention, LatencyProblem, total_latency, violations
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv.model import algorithm, jobs, optima, problem_of
from proofs_checks.papers.kv.semi_online import (
    SEMI_ONLINE,
    read_with_starts,
    small_domain,
    small_instances,
    with_starts,
)
from proofs_checks.search import Domain, examine, refute

CLAIMS = Claims()


# The exchange in the proof.
def _disagreements(context: Context) -> Iterator[tuple[LatencyProblem, list[int], list[int]]]:
    """Yield instances with the starts of Algorithm 1 and of an optimum that is better."""
    for problem in small_instances(context, (4,)):
        data = jobs(problem)
        starts = algorithm(data)
        better = optima(data)
        if sum(better[0]) < sum(starts):
            yield from ((problem, starts, list(other)) for other in better)


def exchanged(starts: Sequence[int], other: Sequence[int]) -> tuple[int, list[int], list[int]]:
    """Return t*, what only ``other`` starts then, and what only ``starts`` does."""
    pairs = list(zip(starts, other, strict=True))
    first = min(min(pair) for pair in pairs if pair[0] != pair[1])
    theirs = [i for i, (mine, its) in enumerate(pairs) if its == first != mine]
    ours = [i for i, (mine, its) in enumerate(pairs) if mine == first != its]
    return first, theirs, ours


def verify_exchange(data: Data) -> str | None:
    """Check that case 1 occurs and that its equation c_j(A) = c_k(S) fails throughout."""
    problem, other = read_with_starts(data)
    starts = algorithm(jobs(problem))
    if violations(problem, other) or sum(other) >= sum(starts):
        return None
    first, theirs, ours = exchanged(starts, other)
    outputs = problem.output.tolist()
    if not theirs or not ours:
        return None
    if any(starts[j] + outputs[j] == other[k] + outputs[k] for j in theirs for k in ours):
        return None
    return (
        f"convention {problem.convention}, M = {problem.memory}, outputs {outputs}: A starts at "
        f"{starts}, S at {other}; at t* = {first} j in {theirs}, k in {ours}, and no c_j(A) is a "
        "c_k(S)"
    )


@CLAIMS.step(
    "kv.theorem4.2-exchange",
    Mutation("o_k ≥ o_j in the correction", sign=-1),
    hypotheses=(*SEMI_ONLINE, "S better than Algorithm 1"),
    defect=Defect.SENTENCE,
    verify=verify_exchange,
)
def _exchange_check(context: Context, *, sign: int = 1) -> Outcome:
    """The exchange step.

    Source: KV-cache paper, proof of Theorem 4.2 (appendix A.2), case 1
    Statement: At the first time at which A and S differ, let S run j and not k, A run k and not j.
        Swapping them leaves the completion of both: c_j(A) = c_k(S), and everything else as it is.
    Formula: c_j(A) = c_k(S),  ΔC = o_k − o_j ≤ 0
    Summary: The swap moves two requests and takes it for granted that everything else may stay.
    Correction: Of the step, o_k ≤ o_j is true, and without pausing case 2 never occurs, since A
        starts as many as possible. What fails is the equation: j and k need not take each other's
        place, and a swap may exceed M later.
    """
    cases = list(_disagreements(context))
    domain = Domain(
        f"every better schedule of every instance of 4 requests, {small_domain(context)}", cases
    )

    def equation(case: tuple[LatencyProblem, list[int], list[int]]) -> bool:
        problem, starts, other = case
        _, theirs, ours = exchanged(starts, other)
        outputs = problem.output.tolist()
        return any(starts[j] + outputs[j] == other[k] + outputs[k] for j in theirs for k in ours)

    def case_1(case: tuple[LatencyProblem, list[int], list[int]]) -> bool:
        _, theirs, ours = exchanged(*case[1:])
        return bool(theirs and ours)

    def what_is_true(case: tuple[LatencyProblem, list[int], list[int]]) -> bool:
        problem, starts, other = case
        _, theirs, ours = exchanged(starts, other)
        outputs = problem.output.tolist()
        ordered = all(sign * (outputs[j] - outputs[k]) >= 0 for j in theirs for k in ours)
        return bool(ours) and ordered

    printed = domain.refute(
        "some j, k of case 1 have c_j(A) = c_k(S)",
        verify_exchange,
        lambda case: with_starts(case[0], case[2]),
        holds=equation,
        applies=case_1,
    )
    corrected = domain.examine(
        "o_k ≤ o_j, and case 2 (S runs all that A runs, and more) does not occur", what_is_true
    )
    return printed, corrected


# Figure 4.
def one_at_a_time(outputs: Sequence[int], arrivals: Sequence[int]) -> LatencyProblem:
    """Return requests of which no two fit together, in convention A as the figure draws them."""
    largest = max(outputs)
    prompt = largest + 1
    return problem_of(
        prompt + largest, [prompt] * len(outputs), outputs, Convention.CLOSED, arrivals
    )


def figure_4(first: int, second: int, fifth: int) -> LatencyProblem:
    """Return P1..P5 of the figure: o_3 = 3, o_4 = 1 at t + 2, P5 at t + 6; round 0 is t + 1."""
    return one_at_a_time([first, second, 3, 1, fifth], [0, 0, 0, 1, 5])


def waits(problem: LatencyProblem, starts: Sequence[int]) -> bool:
    """Whether a schedule idles at t + 1 and runs P4 before P3, as the figure's right side does."""
    return min(starts) > 0 and starts[3] < starts[2] and not violations(problem, starts)


def verify_figure(data: Data) -> str | None:
    """Check that no optimal schedule waits for P4."""
    first, second, fifth = data["outputs"]
    if min(data["outputs"]) <= 3 or max(data["outputs"]) > 6:
        return None
    problem = figure_4(first, second, fifth)
    schedules = optima(jobs(problem))
    if any(waits(problem, starts) for starts in schedules):
        return None
    waiting = optima(jobs(_delayed(problem)))
    return (
        f"o_1 = {first}, o_2 = {second}, o_5 = {fifth}: waiting costs "
        f"{total_latency(problem, waiting[0])} at least, and "
        f"{total_latency(problem, schedules[0])} is reached"
    )


def _delayed(problem: LatencyProblem) -> LatencyProblem:
    return problem_of(
        problem.memory,
        problem.prompt.tolist(),
        problem.output.tolist(),
        problem.convention,
        [max(1, a) for a in problem.arrival.tolist()],
    )


@CLAIMS.remark(
    "kv.figure4",
    Mutation("P4 comes with the others in the correction", arrival=0),
    defect=Defect.SENTENCE,
    verify=verify_figure,
)
def _figure_check(context: Context, *, others: bool = True, arrival: int = 1) -> Outcome:
    """The optimum that waits.

    Source: KV-cache paper, Figure 4 (section 5.1)
    Statement: With one job at a time, P1, P2, P3 waiting (o_3 = 3 the least), P4 to come at t + 2
        with o_4 = 1 and P5 at t + 6 with o_5 > o_3, the offline optimum waits for P4 and runs P3
        after it; OC is in the same state at t + 8.
    Formula: p_4 = t + 2 < p_3 in the offline optimum
    Assumes: a prompt and o tokens take o + 1 rounds; one job at a time; no pausing
    Summary: Waiting ends P4 three rounds earlier, P3 three later, and all after them one later: P3
        and P4 are done by t + 7 without waiting, by t + 8 with.
    Correction: P3 and P4 alone cost the same in both orders, and P3 first is done one round
        earlier, so with anything else waiting the optimum does not wait.
    """
    largest = context.choose(4, 5, 6)
    cases = [{"outputs": list(o)} for o in product(range(4, largest + 1), repeat=3)]
    alone = one_at_a_time([3, 1], [0, arrival])

    def tie(problem: LatencyProblem) -> bool:
        schedules = optima(jobs(problem))
        return any(p[1] < p[0] for p in schedules) and any(p[0] < p[1] for p in schedules)

    printed = refute(
        "some optimum waits for P4",
        "P1 to P5 as in the figure, every o_1, o_2, o_5 > 3 in a small domain",
        cases if others else [{"outputs": [3, 3, 3]}],
        verify_figure,
        found="exhaustive search",
    )
    corrected = examine(
        "P3 and P4 alone: both orders are optimal", "the two requests", [alone], tie
    )
    return printed, corrected
