"""Theorem 4.2: Algorithm 1 is claimed to be optimal when everything is there at the start."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement, product
from typing import TypeAlias

from formulations.hindsight_latency import Convention, LatencyProblem, brute_force, total_latency
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv.beaten import beaten, best_placed, verify_optimality
from proofs_checks.papers.kv.model import (
    CONVENTIONS,
    Jobs,
    algorithm,
    all_at_once,
    as_data,
    from_data,
    jobs,
    shortest_first,
)
from proofs_checks.search import examine

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


def small_instances(
    context: Context, sizes: Sequence[int], conventions: Sequence[Convention] = CONVENTIONS
) -> Iterator[LatencyProblem]:
    """Yield every instance with a small memory, everything at 0."""
    memories = context.choose(range(2, 6), range(2, 7), range(2, 9))
    prompts = context.choose((1,), (1, 2), (1, 2, 3))
    for num in sizes:
        yield from all_at_once(memories, prompts, num, conventions)


def _theorem_check(
    context: Context, *, size: int = 5, few: int = 3, key: Key = shortest_first
) -> Outcome:
    memories, prompts = context.choose(((7,), (1,)), (range(3, 9), (1,)), (range(3, 10), (1, 2)))
    instances = [
        (memory, prompt, outputs)
        for memory, prompt in product(memories, prompts)
        for outputs in combinations_with_replacement(range(1, memory - prompt + 1), size)
    ]
    printed = beaten(
        "no order of placing gives less than Algorithm 1, under one convention at least",
        f"every instance of {size} requests, s in {list(prompts)}, M in {list(memories)}",
        instances,
        best_placed,
    )

    def optimal(problem: LatencyProblem) -> bool:
        mine = total_latency(problem, algorithm(jobs(problem), key=key))
        return mine == brute_force(problem)[0]

    up_to = range(1, few + 1)
    corrected = examine(
        f"total latency of Algorithm 1 = least for up to {few} requests",
        f"every instance with a small memory: {list(up_to)} requests, conventions A, B, C",
        small_instances(context, up_to),
        optimal,
    )
    return printed, corrected


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
        summary="The shortest start together although one of them had better wait: a long request "
        "fits beside requests that end at different times, not beside ones that end together. The "
        "counterexample is one instance with a better schedule under each of A, B and C.",
        mutations=(
            Mutation("three requests only", size=3),
            Mutation("four requests in the correction", few=4),
            Mutation("longest first in the correction", key=longest_first),
        ),
        correction="It is optimal for up to three requests. The later version of the paper no "
        "longer claims optimality.",
        reading="starts from round 0 for the algorithm and the optimum alike; with a pausing "
        "optimum the claim would be stronger still. A counterexample is one under every "
        "convention, A, B and C; four requests suffice for each of them alone "
        "(kv.theorem4.2-exchange).",
        defect=Defect.RESULT,
        verify=verify_optimality,
    ),
)
