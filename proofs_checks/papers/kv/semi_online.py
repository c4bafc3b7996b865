"""Theorem 4.2: Algorithm 1 is claimed to be optimal when everything is there at the start."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations_with_replacement, permutations, product
from typing import TypeAlias

from formulations.hindsight_latency import (
    Convention,
    LatencyProblem,
    total_latency,
    violations,
)
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Examination, Outcome
from proofs_checks.papers.kv.model import (
    CONVENTIONS,
    Jobs,
    algorithm,
    all_at_once,
    as_data,
    from_data,
    jobs,
    least_latency,
    problem_of,
    shortest_first,
)
from proofs_checks.search import examine

CLAIMS = Claims()


#: Memory, common prompt and the outputs of requests that are all there at 0.
Outputs: TypeAlias = tuple[int, int, tuple[int, ...]]


def read_everywhere(data: Data) -> list[tuple[LatencyProblem, list[int]]]:
    """Read the problem under A, B and C, each with the starts that its row holds for it."""
    rows = data["requests"]
    if not rows or any(len(row) != 1 + len(CONVENTIONS) for row in rows):
        raise ValueError("no request, or not an output and three starts in each row")
    outputs, *schedules = (list(column) for column in zip(*rows, strict=True))
    prompts = [data["prompt"]] * len(outputs)
    return [
        (problem_of(data["memory"], prompts, outputs, convention), starts)
        for convention, starts in zip(CONVENTIONS, schedules, strict=True)
    ]


def verify_optimality(data: Data) -> str | None:
    """Check that schedules keep the memory and beat Algorithm 1, under every convention."""
    if any(data["prompt"] + output > data["memory"] for output, *_ in data["requests"]):
        return None
    comparisons = []
    for problem, better in read_everywhere(data):
        starts = algorithm(jobs(problem))
        least, latency = total_latency(problem, better), total_latency(problem, starts)
        if violations(problem, better, least) or latency <= least:
            return None
        comparisons.append(
            f"{problem.convention}: Algorithm 1 starts at {starts}, total {latency}; starts "
            f"{better} give {least}"
        )
    outputs = [row[0] for row in data["requests"]]
    return (
        f"M = {data['memory']}, s = {data['prompt']}, outputs {outputs}; {'; '.join(comparisons)}"
    )


def placed(data: Jobs, order: Sequence[int]) -> list[int]:
    """Return starts: each job in turn at the first slot from which it fits with those before."""
    tokens: dict[int, int] = {}
    starts = [0] * len(order)
    for job in order:
        held = list(enumerate(range(data.first[job], data.first[job] + data.length[job])))
        start = data.arrival[job]
        while any(tokens.get(start + age, 0) + need > data.memory for age, need in held):
            start += 1
        for age, need in held:
            tokens[start + age] = tokens.get(start + age, 0) + need
        starts[job] = start
    return starts


def best_placed(data: Jobs) -> list[int]:
    """Return the best starts that placing in any order gives."""
    orders = {
        tuple(data.length[job] for job in order): order
        for order in permutations(range(len(data.length)))
    }
    return min((placed(data, order) for order in orders.values()), key=sum)


def beaten_everywhere(instance: Outputs, schedule: Callable[[Jobs], list[int]]) -> Data | None:
    """Return a better schedule for each convention as plain data; None if one has none."""
    memory, prompt, outputs = instance
    columns: list[list[int]] = []
    for convention in CONVENTIONS:
        data = jobs(problem_of(memory, [prompt] * len(outputs), outputs, convention))
        starts = schedule(data)
        if sum(starts) >= sum(algorithm(data)):
            return None
        columns.append(starts)
    rows = [list(row) for row in zip(outputs, *columns, strict=True)]
    return {"memory": memory, "prompt": prompt, "requests": rows}


def beaten(
    what: str, made: str, instances: Iterable[Outputs], schedule: Callable[[Jobs], list[int]]
) -> Examination[Outputs]:
    """Look for instances on which Algorithm 1 is beaten under every convention."""
    better: list[Data] = []

    def holds(instance: Outputs) -> bool:
        example = beaten_everywhere(instance, schedule)
        if example is not None:
            better.append(example)
        return example is None

    seen = examine(what, made, instances, holds)
    example = f"exhaustive search: {made}"
    return Examination(seen.tally, seen.failures, tuple(better), verify_optimality, example)


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


#: Memories and prompts: quick, normal, deep.
_SMALL = ((range(2, 6), (1,)), (range(2, 7), (1, 2)), (range(2, 9), (1, 2, 3)))


def small_domain(context: Context) -> str:
    """Return the sizes of `small_instances` in words."""
    memories, prompts = context.choose(*_SMALL)
    return f"s in {list(prompts)}, M in {list(memories)}, conventions A, B, C"


def small_instances(
    context: Context, sizes: Sequence[int], conventions: Sequence[Convention] = CONVENTIONS
) -> Iterator[LatencyProblem]:
    """Yield every instance of `small_domain`, everything at 0."""
    memories, prompts = context.choose(*_SMALL)
    for num in sizes:
        yield from all_at_once(memories, prompts, num, conventions)


SEMI_ONLINE = ("everything arrives at 0", "a common prompt s", "no pausing")


@CLAIMS.result(
    "kv.theorem4.2",
    Mutation("three requests only", size=3),
    Mutation("four requests in the correction", few=4),
    Mutation("longest first in the correction", key=longest_first),
    hypotheses=SEMI_ONLINE,
    defect=Defect.RESULT,
    verify=verify_optimality,
)
def _theorem_check(
    context: Context, *, size: int = 5, few: int = 3, key: Key = shortest_first
) -> Outcome:
    """Algorithm 1 is optimal.

    Source: KV-cache paper, Theorem 4.2 (section 4)
    Statement: Algorithm 1 is optimal in terms of average end-to-end latency.
    Formula: AEL(I; Algorithm 1) = min_A AEL(I; A)
    Summary: The shortest start together although one of them had better wait: a long request fits
        beside requests that end at different times, not beside ones that end together. The
        counterexample is one instance with a better schedule under each of A, B and C.
    Reading: starts from round 0 for the algorithm and the optimum alike; with a pausing optimum
        the claim would be stronger still. A counterexample is one under every convention, A, B and
        C; four requests suffice for each of them alone (kv.theorem4.2-exchange), and that s/M is
        small does not help (kv.theorem4.2-limit).
    Correction: It is optimal for up to three requests wherever we enumerated: M up to 9 (19 at
        deep effort), all s and outputs, under A, B and C. We have no proof for all M. The later
        version of the paper no longer claims optimality.
    """
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
        starts = algorithm(data := jobs(problem), key=key)
        return least_latency(data, known=starts) == sum(starts)

    up_to, largest = range(1, few + 1), context.choose(4, 9, 19)
    memories = range(2, largest + 1)
    corrected = examine(
        f"total latency of Algorithm 1 = least for up to {few} requests",
        f"every instance of {list(up_to)} requests, M up to {largest}, all s, conventions A, B, C",
        (p for m in memories for num in up_to for p in all_at_once((m,), range(1, m), num)),
        optimal,
    )
    return printed, corrected


def least_for_equal(data: Jobs) -> list[int]:
    """Return the best starts of equal requests that are all there at 0.

    Equal requests are interchangeable, so only starts in order are tried.
    """
    num, length, first = len(data.length), data.length[0], data.first[0]
    best = algorithm(data)
    placed_so_far: list[int] = []

    def fits(start: int) -> bool:
        held = [*(p for p in placed_so_far if p > start - length), start]
        return all(
            sum(first + t - p for p in held if p <= t < p + length) <= data.memory
            for t in range(start, start + length)
        )

    def extend(start: int, total: int) -> None:
        nonlocal best
        left = num - len(placed_so_far)
        if not left:
            best = list(placed_so_far)
            return
        while total + start * left < sum(best):
            if fits(start):
                placed_so_far.append(start)
                extend(start, total + start)
                placed_so_far.pop()
            start += 1

    extend(0, 0)
    return best


def _equal(sizes: Sequence[int], longest: int, multiple: int) -> Iterator[Outputs]:
    for num, output in product(sizes, range(1, longest + 1)):
        for memory in range(output + 1, multiple * (output + 2)):
            yield memory, 1, (output,) * num


@CLAIMS.own(
    "kv.theorem4.2-equal",
    Mutation("up to three requests only", sizes=(2, 3)),
    Mutation("four requests in the correction", few=4),
    hypotheses=(*SEMI_ONLINE, "equal outputs"),
    defect=Defect.INFERENCE,
    verify=verify_optimality,
)
def _equal_check(context: Context, *, sizes: Sequence[int] = (6, 7), few: int = 3) -> Outcome:
    """Algorithm 1 with equal outputs.

    Source: KV-cache paper, Theorem 4.2, for equal outputs
    Statement: Where all outputs are equal, Algorithm 1 is optimal.
    Formula: o_1 = … = o_n  ⇒  AEL(I; Algorithm 1) = min_A AEL(I; A)
    Summary: As many as possible at once end at once, and all their memory stands idle in the round
        after; a steady start of fewer each round fills it. With long outputs it costs up to half
        the throughput (kv.theorem5.3).
    Reading: implied, not printed: a special case of the theorem. Small experiments suggest that it
        holds: with outputs up to 4 five requests are the least that break it. A counterexample is
        one under every convention, A, B and C.
    Correction: It is for up to three requests: if three overlap when the first holds its most, m
        tokens, their delays add up to 3m − M at least, else the last waits until the first has
        left; Algorithm 1 attains the lesser, two apart by no more than they must. Four break it
        under (1) and the rule of appendix B.1: with M = 11, s = 1, o = 5 Algorithm 1 starts them
        at 0, 1, 6, 7 under (1); 0, 2, 5, 6 is better.
    """
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
