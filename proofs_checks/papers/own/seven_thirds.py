"""Algorithm 1 of the KV-cache paper is within 7/3 of the optimum: ``proofs/seven-thirds.md``."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate

from formulations.hindsight_latency import LatencyProblem
from proofs_checks.claim import Claims, Context, Mutation
from proofs_checks.evidence import Findings, Outcome
from proofs_checks.papers.kv.model import (
    Jobs,
    algorithm,
    all_at_once,
    jobs,
    least_latency,
    problem_of,
    random_problem,
    shortest_first,
)
from proofs_checks.papers.kv.semi_online import Key, longest_first
from proofs_checks.search import examine

CLAIMS = Claims()


#: Areas by ascending output, and starts in the same order.
Run = tuple[Jobs, list[int], list[int]]


def areas(data: Jobs) -> list[int]:
    """Return ``a_i``, the tokens of a request added over its slots, ascending."""
    return sorted(
        length * first + length * (length - 1) // 2
        for first, length in zip(data.first, data.length, strict=True)
    )


def starting_bound(data: Jobs, starts: Sequence[int], factor: int) -> bool:
    """Whether the i-th start is at most ``factor·V_{i−1}/M``."""
    before = [0, *accumulate(areas(data))]
    return all(
        data.memory * start <= factor * area
        for start, area in zip(sorted(starts), before, strict=False)
    )


def least_total(data: Jobs, first: int | None = None) -> Fraction:
    """Return ``(V − A/2)/M + O/3`` for the first requests, plus the lengths of the others."""
    kept = len(data.length) if first is None else first
    sums, lengths = list(accumulate(areas(data)))[:kept], sorted(data.length)
    half = Fraction(sums[-1], 2) if sums else Fraction(0)
    together = (sum(sums) - half) / data.memory + Fraction(sum(lengths[:kept]), 3)
    return together + sum(lengths[kept:])


def best_bound(data: Jobs) -> Fraction:
    """Return the largest bound of `least_total` over the number of first requests."""
    return max(least_total(data, first) for first in range(len(data.length) + 1))


#: Largest memory and number of requests enumerated completely.
_SIZES = (((5, 3), (4, 4)), ((6, 4), (4, 5)), ((9, 4), (7, 5)))


def _small(context: Context) -> Iterator[LatencyProblem]:
    for memory, num in context.choose(*_SIZES):
        yield from all_at_once(range(2, memory + 1), (1, 2), num)


def _large(context: Context) -> Iterator[LatencyProblem]:
    rng = context.rng
    for _ in range(context.choose(30, 80, 20_000)):
        drawn = random_problem(rng, least=4, most=16, memory=40, prompt=3, rounds=0)
        yield drawn
        # The opposite extreme: equal requests in a queue of several batches.
        s, o = int(drawn.prompt[0]), int(drawn.output[0])
        num = int(rng.integers(2, 40))
        yield problem_of(drawn.memory, [s] * num, [o] * num, drawn.convention)


@CLAIMS.own(
    "own.seven-thirds",
    Mutation("the longest request first", key=longest_first),
    Mutation("the areas once, not twice", factor=1),
    Mutation("10/9 in place of 7/3", limit=Fraction(10, 9)),
    proof="seven-thirds",
)
def _check(
    context: Context, *, key: Key = shortest_first, factor: int = 2, limit: Fraction | None = None
) -> Outcome:
    """Algorithm 1 is within 7/3 of the optimum.

    Source: KV-cache paper, Algorithm 1 and Theorem 4.2 (our question)
    Statement: With a common prompt and all requests there at 0 the total latency of Algorithm 1 is
        below 7/3 times the least under conventions B and C; under A this holds for both totals
        with n added.
    Formula: p_i ≤ 2·V_{i−1}/M,  TEL(Algorithm 1) < (7/3)·OPT
    Assumes: a common prompt s ≥ 1; all requests there at 0; each fits alone
    Summary: When a request has to wait, those that keep it waiting fill the memory at some slot,
        and each of them is at least as long as the one that started first: their areas make up
        half of the memory since then. The optimum is at least what a memory filled with the
        smallest areas first gives. Equal requests in a long queue reach ratios up to 2; between 2
        and 7/3 it is open.
    """
    most = Fraction(7, 3) if limit is None else limit
    worst = Fraction(0)
    sizes = " and ".join(
        f"{num} requests and M ≤ {memory}" for memory, num in context.choose(*_SIZES)
    )
    made = f"all outputs that fit, {sizes}, s = 1, 2, conventions A, B, C"

    def started(problem: LatencyProblem) -> bool:
        data = jobs(problem)
        return starting_bound(data, algorithm(data, key=key), factor)

    def bounded(problem: LatencyProblem) -> bool:
        data = jobs(problem)
        total = sum(algorithm(data, key=key)) + sum(data.length)
        least = least_latency(data) + sum(data.length)
        return least >= best_bound(data) and total < most * least

    def far(problem: LatencyProblem) -> bool:
        nonlocal worst
        data = jobs(problem)
        total = sum(algorithm(data, key=key)) + sum(data.length)
        worst = max(worst, total / best_bound(data))
        return total < most * best_bound(data)

    large = list(_large(context))
    return Findings(
        examine("M·p_i ≤ 2V_{i−1}", made, _small(context), started),
        examine(
            "optimum ≥ the bounds, total latency < 7/3 of it (n added under A)",
            made,
            _small(context),
            bounded,
        ),
        examine(
            "M·p_i ≤ 2V_{i−1} in longer queues",
            "random outputs, up to 16 requests, and equal ones, up to 39; M up to 40",
            large,
            started,
        ),
        examine("total latency < 7/3 of the largest bound", "the same", large, far),
        numbers={"largest total over the largest bound": float(worst)},
    )
