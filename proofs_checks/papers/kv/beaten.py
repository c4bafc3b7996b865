"""Instances on which Algorithm 1 is beaten under each of the three conventions."""

from collections.abc import Callable, Iterable, Sequence
from itertools import permutations
from typing import TypeAlias

from formulations.hindsight_latency import LatencyProblem, total_latency, violations
from proofs_checks.evidence import Data, Examination
from proofs_checks.papers.kv.model import CONVENTIONS, Jobs, algorithm, jobs, problem_of
from proofs_checks.search import examine

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
    found = []
    for problem, better in read_everywhere(data):
        starts = algorithm(jobs(problem))
        least, latency = total_latency(problem, better), total_latency(problem, starts)
        if violations(problem, better, least) or latency <= least:
            return None
        found.append(
            f"{problem.convention}: Algorithm 1 starts at {starts}, total {latency}; starts "
            f"{better} give {least}"
        )
    outputs = [row[0] for row in data["requests"]]
    return f"M = {data['memory']}, s = {data['prompt']}, outputs {outputs}; {'; '.join(found)}"


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
        found = beaten_everywhere(instance, schedule)
        if found is not None:
            better.append(found)
        return found is None

    seen = examine(what, made, instances, holds)
    found = f"exhaustive search: {made}"
    return Examination(seen.tally, seen.failures, tuple(better), verify_optimality, found)
