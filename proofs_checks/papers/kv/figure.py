"""Figure 4: the optimum that waits for a shorter request."""

from collections.abc import Sequence
from itertools import product

from formulations.hindsight_latency import Convention, LatencyProblem, total_latency, violations
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv.model import jobs, problem_of
from proofs_checks.papers.kv.optimum import optima
from proofs_checks.search import examine, refute


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
    found = optima(jobs(problem))
    if any(waits(problem, starts) for starts in found):
        return None
    waiting = optima(jobs(_delayed(problem)))
    return (
        f"o_1 = {first}, o_2 = {second}, o_5 = {fifth}: waiting costs "
        f"{total_latency(problem, waiting[0])} at least, and {total_latency(problem, found[0])} "
        "is reached"
    )


def _delayed(problem: LatencyProblem) -> LatencyProblem:
    return problem_of(
        problem.memory,
        problem.prompt.tolist(),
        problem.output.tolist(),
        problem.convention,
        [max(1, a) for a in problem.arrival.tolist()],
    )


def _figure_check(context: Context, *, others: bool = True, arrival: int = 1) -> Outcome:
    largest = context.choose(4, 5, 6)
    cases = [{"outputs": list(o)} for o in product(range(4, largest + 1), repeat=3)]
    alone = one_at_a_time([3, 1], [0, arrival])

    def tie(problem: LatencyProblem) -> bool:
        found = optima(jobs(problem))
        return any(p[1] < p[0] for p in found) and any(p[0] < p[1] for p in found)

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


CLAIMS = (
    Claim(
        id="kv.figure4",
        source="KV-cache paper, Figure 4 (section 5.1)",
        title="The optimum that waits",
        statement="With one job at a time, P1, P2, P3 waiting (o_3 = 3 the least), P4 to come "
        "at t + 2 with o_4 = 1 and P5 at t + 6 with o_5 > o_3, the offline optimum waits for P4 "
        "and runs P3 after it; OC is in the same state at t + 8.",
        formula="p_4 = t + 2 < p_3 in the offline optimum",
        hypotheses=("a prompt and o tokens take o + 1 rounds", "one job at a time", "no pausing"),
        kind=Kind.COUNTEREXAMPLE,
        check=_figure_check,
        summary="Waiting ends P4 three rounds earlier, P3 three later, and all after them one "
        "later: P3 and P4 are done by t + 7 without waiting, by t + 8 with.",
        mutations=(Mutation("P4 comes with the others in the correction", arrival=0),),
        correction="P3 and P4 alone cost the same in both orders, and P3 first is done one round "
        "earlier, so with anything else waiting the optimum does not wait.",
        defect=Defect.RESULT,
        verify=verify_figure,
    ),
)
