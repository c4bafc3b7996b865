"""Theorem 4.2: Algorithm 1 is claimed to be optimal when everything is there at the start."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import TypeAlias

from formulations.hindsight_latency import (
    Convention,
    LatencyProblem,
    brute_force,
    total_latency,
    violations,
)
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Evidence
from proofs_checks.papers.kv.model import (
    CONVENTIONS,
    Jobs,
    algorithm,
    all_at_once,
    as_data,
    from_data,
    jobs,
    problem_of,
    shortest_first,
)
from proofs_checks.search import (
    Examination,
    corrected_evidence,
    examine,
    smallest_counterexample,
)

#: Sort key of waiting requests.
Key: TypeAlias = Callable[[Jobs, int], tuple[int, ...]]


def longest_first(data: Jobs, job: int) -> tuple[int, int]:
    """Sort key of a broken algorithm: longest output first."""
    return -data.length[job], job


def with_starts(problem: LatencyProblem, starts: Sequence[int]) -> Data:
    """Return a problem and a start for each request as plain data."""
    data = as_data(problem)
    data["requests"] = [[*row, p] for row, p in zip(data["requests"], starts, strict=True)]
    return data


def read_with_starts(data: Data) -> tuple[LatencyProblem, list[int]]:
    """Read a problem with a common prompt, everything at 0, and a start for each request."""
    problem = from_data(data | {"requests": [row[:3] for row in data["requests"]]})
    if len(set(problem.prompt.tolist())) > 1 or problem.arrival.any():
        raise ValueError("prompts differ, or something arrives late")
    return problem, [row[3] for row in data["requests"]]


def verify_optimality(data: Data) -> str | None:
    """Check that a schedule keeps the memory and beats Algorithm 1."""
    problem, better = read_with_starts(data)
    starts = algorithm(jobs(problem))
    least, latency = total_latency(problem, better), total_latency(problem, starts)
    if violations(problem, better, least) or latency <= least:
        return None
    return (
        f"convention {problem.convention}, M = {problem.memory}, s = {problem.prompt[0]}, outputs "
        f"{problem.output.tolist()}: Algorithm 1 starts at {starts}, total {latency}; "
        f"starts {better} give {least}"
    )


def _examined(
    what: str, made: str, problems: Iterator[LatencyProblem], key: Key
) -> tuple[Examination[LatencyProblem], list[Data], Fraction]:
    """Compare the algorithm with enumeration; return failures as data and the worst ratio."""
    better: dict[int, list[int]] = {}
    worst = Fraction(1)

    def optimal(problem: LatencyProblem) -> bool:
        nonlocal worst
        least, starts = brute_force(problem)
        mine = total_latency(problem, algorithm(jobs(problem), key=key))
        worst = max(worst, Fraction(mine, least))
        better[id(problem)] = starts
        return mine == least

    seen = examine(what, made, problems, optimal)
    return seen, [with_starts(p, better[id(p)]) for p in seen.failures], worst


def small_instances(
    context: Context, sizes: Sequence[int], conventions: Sequence[Convention] = CONVENTIONS
) -> Iterator[LatencyProblem]:
    """Yield every instance with a small memory, everything at 0."""
    memories = context.choose(range(2, 6), range(2, 7), range(2, 9))
    prompts = context.choose((1,), (1, 2), (1, 2, 3))
    for num in sizes:
        yield from all_at_once(memories, prompts, num, conventions)


def _theorem_check(
    context: Context, *, sizes: Sequence[int] = (4,), few: int = 3, key: Key = shortest_first
) -> Evidence:
    made = "every instance with a small memory: "
    conventions = context.choose(CONVENTIONS[:1], CONVENTIONS, CONVENTIONS)
    printed, failures, worst = _examined(
        "total latency of Algorithm 1 = least",
        f"{made}{list(sizes)} requests, conventions {', '.join(conventions)}",
        small_instances(context, sizes, conventions),
        shortest_first,
    )
    up_to = range(1, few + 1)
    corrected, _, _ = _examined(
        f"the same for up to {few} requests",
        f"{made}{list(up_to)} requests, conventions A, B, C",
        small_instances(context, up_to),
        key,
    )
    return Evidence(
        printed.tally.verdict(),
        corrected.tally.verdict(),
        "The shortest start together although one of them had better wait: a long request fits "
        "beside requests that end at different times, not beside ones that end together.",
        (printed.tally, corrected.tally),
        numbers={"worst_ratio": float(worst)},
        counterexample=smallest_counterexample(
            failures, verify_optimality, f"exhaustive search: {printed.tally.made}"
        ),
    )


# Equal outputs.
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


def _equal(context: Context, sizes: Sequence[int]) -> Iterator[LatencyProblem]:
    longest, multiple = context.choose((3, 3), (4, 3), (5, 4))
    for num, output, convention in product(sizes, range(1, longest + 1), CONVENTIONS):
        for memory in range(output + 1, multiple * (output + 2)):
            yield problem_of(memory, [1] * num, [output] * num, convention)


def _equal_check(context: Context, *, sizes: Sequence[int] = (5, 6), few: int = 4) -> Evidence:
    def optimal(problem: LatencyProblem) -> bool:
        data = jobs(problem)
        return sum(algorithm(data)) == sum(least_for_equal(data))

    made = "equal requests with s = 1, conventions A, B, C: "
    printed = examine(
        "total latency of Algorithm 1 = least",
        f"{made}{list(sizes)} requests",
        _equal(context, sizes),
        optimal,
    )
    up_to = range(1, few + 1)
    corrected = examine(
        "the same for up to 4 requests",
        f"{made}{list(up_to)} requests",
        _equal(context, up_to),
        optimal,
    )
    return corrected_evidence(
        printed,
        corrected,
        verify_optimality,
        lambda problem: with_starts(problem, least_for_equal(jobs(problem))),
        "As many as possible at once end at once, and all their memory stands idle in the round "
        "after; a steady start of fewer each round fills it. With long outputs it costs up to "
        "half the throughput (kv.theorem5.3).",
    )


SEMI_ONLINE = ("everything arrives at 0", "a common prompt s", "no pausing")


CLAIMS = (
    Claim(
        id="kv.theorem4.2",
        source="KV-cache paper, Theorem 4.2 (section 4)",
        title="Algorithm 1 is optimal",
        statement="Algorithm 1 is optimal in terms of average end-to-end latency.",
        formula="AEL(I; Algorithm 1) = min_A AEL(I; A)",
        hypotheses=SEMI_ONLINE,
        kind=Kind.COUNTEREXAMPLE,
        check=_theorem_check,
        mutations=(
            Mutation("up to three requests only", partial(_theorem_check, sizes=(2, 3))),
            Mutation("four requests in the correction", partial(_theorem_check, few=4)),
            Mutation(
                "longest first in the correction", partial(_theorem_check, key=longest_first)
            ),
        ),
        correction="It is optimal for up to three requests. The later version of the paper no "
        "longer claims optimality.",
        reading="starts from round 0 for the algorithm and the optimum alike; with a pausing "
        "optimum the claim would be stronger still.",
        defect=Defect.RESULT,
        verify=verify_optimality,
    ),
    Claim(
        id="kv.theorem4.2-equal",
        source="KV-cache paper, Theorem 4.2, for equal outputs",
        title="Algorithm 1 with equal outputs",
        statement="Where all outputs are equal, Algorithm 1 is optimal.",
        formula="o_1 = … = o_n  ⇒  AEL(I; Algorithm 1) = min_A AEL(I; A)",
        hypotheses=(*SEMI_ONLINE, "equal outputs"),
        kind=Kind.COUNTEREXAMPLE,
        check=_equal_check,
        mutations=(
            Mutation("up to four requests only", partial(_equal_check, sizes=(3, 4))),
            Mutation("five requests in the correction", partial(_equal_check, few=5)),
        ),
        correction="It is for up to four requests.",
        reading="implied, not printed: a special case of the theorem. Small experiments suggest "
        "that it holds, since five requests are the least that break it.",
        defect=Defect.RESULT,
        verify=verify_optimality,
    ),
)
