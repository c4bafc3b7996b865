"""Theorem 4.2 where all outputs are equal."""

from collections.abc import Iterator, Sequence
from itertools import product

from formulations.hindsight_latency import Convention
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.kv.beaten import Outputs, beaten, verify_optimality
from proofs_checks.papers.kv.model import CONVENTIONS, Jobs, algorithm, jobs, problem_of
from proofs_checks.papers.kv.semi_online import SEMI_ONLINE
from proofs_checks.search import examine


def least_for_equal(data: Jobs) -> list[int]:
    """Return the best starts of equal requests that are all there at 0.

    Equal requests are interchangeable, so only starts in order are tried.
    """
    num, length, first = len(data.length), data.length[0], data.first[0]
    best = algorithm(data)
    chosen: list[int] = []

    def fits(start: int) -> bool:
        held = [*(p for p in chosen if p > start - length), start]
        return all(
            sum(first + t - p for p in held if p <= t < p + length) <= data.memory
            for t in range(start, start + length)
        )

    def extend(start: int, total: int) -> None:
        nonlocal best
        left = num - len(chosen)
        if not left:
            best = list(chosen)
            return
        while total + start * left < sum(best):
            if fits(start):
                chosen.append(start)
                extend(start, total + start)
                chosen.pop()
            start += 1

    extend(0, 0)
    return best


def _equal(sizes: Sequence[int], longest: int, multiple: int) -> Iterator[Outputs]:
    for num, output in product(sizes, range(1, longest + 1)):
        for memory in range(output + 1, multiple * (output + 2)):
            yield memory, 1, (output,) * num


def _equal_check(context: Context, *, sizes: Sequence[int] = (6, 7), few: int = 3) -> Outcome:
    up_to = range(1, few + 1)
    longest, multiple = context.choose((4, 3), (4, 3), (5, 4))
    widest = context.choose(8, 10, 12)

    def optimal(case: tuple[Outputs, Convention]) -> bool:
        (memory, prompt, outputs), convention = case
        data = jobs(problem_of(memory, [prompt] * len(outputs), outputs, convention))
        return sum(algorithm(data)) == sum(least_for_equal(data))

    made = "equal requests with s = 1, small M, "
    printed = beaten(
        "total latency of Algorithm 1 = least, under one convention at least",
        f"{made}o up to {longest}: {list(sizes)} requests",
        _equal(sizes, longest, multiple),
        least_for_equal,
    )
    corrected = examine(
        f"total latency of Algorithm 1 = least for up to {few} requests",
        f"{made}o up to {widest}: {list(up_to)} requests, conventions A, B, C",
        product(_equal(up_to, widest, 3), CONVENTIONS),
        optimal,
    )
    return printed, corrected


CLAIMS = (
    Claim(
        id="kv.theorem4.2-equal",
        source="KV-cache paper, Theorem 4.2, for equal outputs",
        title="Algorithm 1 with equal outputs",
        statement="Where all outputs are equal, Algorithm 1 is optimal.",
        formula="o_1 = … = o_n  ⇒  AEL(I; Algorithm 1) = min_A AEL(I; A)",
        hypotheses=(*SEMI_ONLINE, "equal outputs"),
        kind=Kind.COUNTEREXAMPLE,
        check=_equal_check,
        summary="As many as possible at once end at once, and all their memory stands idle in the "
        "round after; a steady start of fewer each round fills it. With long outputs it costs up "
        "to half the throughput (kv.theorem5.3).",
        mutations=(
            Mutation("up to three requests only", sizes=(2, 3)),
            Mutation("four requests in the correction", few=4),
        ),
        correction="It is for up to three requests: if three overlap when the first holds its "
        "most, m tokens, their delays add up to 3m − M at least, else the last waits until the "
        "first has left; Algorithm 1 attains the lesser, two apart by no more than they must. "
        "Four break it under (1) and the rule of appendix B.1: with M = 11, s = 1, o = 5 "
        "Algorithm 1 starts them at 0, 1, 6, 7 under (1); 0, 2, 5, 6 is better.",
        reading="implied, not printed: a special case of the theorem. Small experiments suggest "
        "that it holds: with outputs up to 4 five requests are the least that break it. A "
        "counterexample is one under every convention, A, B and C.",
        defect=Defect.INFERENCE,
        verify=verify_optimality,
    ),
)
