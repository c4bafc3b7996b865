"""The exchange step in the proof of Theorem 4.2."""

from collections.abc import Iterator, Sequence

from formulations.hindsight_latency import LatencyProblem, violations
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv.model import algorithm, jobs
from proofs_checks.papers.kv.optimum import optima
from proofs_checks.papers.kv.semi_online import (
    SEMI_ONLINE,
    read_with_starts,
    small_instances,
    with_starts,
)
from proofs_checks.search import examine, refute


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


def _exchange_check(context: Context, *, sign: int = 1) -> Outcome:
    cases = list(_disagreements(context))
    made = "every better schedule of every small instance of 4 requests"

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

    printed = refute(
        "some j, k of case 1 have c_j(A) = c_k(S)",
        made,
        cases,
        verify_exchange,
        lambda case: with_starts(case[0], case[2]),
        holds=equation,
        applies=case_1,
    )
    corrected = examine(
        "o_k ≤ o_j, and case 2 (S runs all that A runs, and more) does not occur",
        made,
        cases,
        what_is_true,
    )
    return printed, corrected


CLAIMS = (
    Claim(
        id="kv.theorem4.2-exchange",
        source="KV-cache paper, proof of Theorem 4.2 (appendix A.2), case 1",
        title="The exchange step",
        statement="At the first time at which A and S differ, let S run j and not k, A run k "
        "and not j. Swapping them leaves the completion of both: c_j(A) = c_k(S), and "
        "everything else as it is.",
        formula="c_j(A) = c_k(S),  ΔC = o_k − o_j ≤ 0",
        hypotheses=(*SEMI_ONLINE, "S better than Algorithm 1"),
        kind=Kind.COUNTEREXAMPLE,
        check=_exchange_check,
        summary="The swap moves two requests and takes it for granted that everything else may "
        "stay.",
        mutations=(Mutation("o_k ≥ o_j in the correction", sign=-1),),
        correction="Of the step, o_k ≤ o_j is true, and without pausing case 2 never occurs, "
        "since A starts as many as possible. What fails is the equation: j and k need not take "
        "each other's place, and a swap may exceed M later.",
        defect=Defect.RESULT,
        verify=verify_exchange,
    ),
)
