"""Independent oracles: they use the checker's memory account but none of the algorithms."""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from formulations.hindsight_latency import LatencyProblem, memory_used, total_latency, violations


def safe(problem: LatencyProblem, starts: dict[int, int]) -> bool:
    """Whether these requests, started then, ever exceed the memory, looking at every round."""
    chosen = sorted(starts)
    part = LatencyProblem(
        problem.memory,
        problem.arrival[chosen],
        problem.prompt[chosen],
        problem.output[chosen],
        problem.convention,
    )
    used = memory_used(part, [starts[i] for i in chosen])
    return all(tokens <= problem.memory for tokens in used.values())


Chooser = Callable[[LatencyProblem, dict[int, int], list[int], int], list[int]]


def greedy(
    order: Callable[[LatencyProblem, int], tuple[int, ...]], keep_scanning: bool = False
) -> Chooser:
    """Return the rule: add requests in this order while every round stays safe."""

    def choose(
        problem: LatencyProblem, starts: dict[int, int], waiting: list[int], now: int
    ) -> list[int]:
        chosen: dict[int, int] = {}
        for i in sorted(waiting, key=lambda i: order(problem, i)):
            if safe(problem, {**starts, **chosen, i: now}):
                chosen[i] = now
            elif not keep_scanning:
                break
        return list(chosen)

    return choose


def shortest(problem: LatencyProblem, i: int) -> tuple[int, ...]:
    """Order of Algorithm 2."""
    return int(problem.output[i]), int(problem.arrival[i]), i


def oldest(problem: LatencyProblem, i: int) -> tuple[int, ...]:
    """Order of MC-Benchmark."""
    return int(problem.arrival[i]), i


def schedule(problem: LatencyProblem, choose: Chooser) -> list[int]:
    """Return the starts of a rule that is applied in every round."""
    starts: dict[int, int] = {}
    now = 0
    while len(starts) < problem.num_requests:
        arrived = np.flatnonzero(problem.arrival <= now).tolist()
        waiting = [i for i in arrived if i not in starts]
        for i in choose(problem, starts, waiting, now):
            starts[i] = now
        now += 1
    return [starts[i] for i in range(problem.num_requests)]


def largest_safe_subset(
    problem: LatencyProblem, starts: dict[int, int], waiting: Sequence[int], now: int
) -> int:
    """Return how many requests Equation (2) starts, by trying every subset."""
    for size in range(len(waiting), 0, -1):
        for subset in combinations(waiting, size):
            if safe(problem, {**starts, **dict.fromkeys(subset, now)}):
                return size
    return 0


def optimum(problem: LatencyProblem) -> int:
    """Return the least total latency, by trying every schedule up to a safe horizon."""
    outputs, arrivals = problem.output.tolist(), problem.arrival.tolist()
    horizon = max(arrivals, default=0) + sum(outputs) + problem.num_requests
    best = total_latency(problem, _one_by_one(problem))

    def extend(starts: list[int], total: int) -> None:
        nonlocal best
        i = len(starts)
        if total + sum(outputs[i:]) >= best and i < len(outputs):
            return
        if i == len(outputs):
            if total < best and not violations(problem, starts):
                best = total
            return
        for start in range(arrivals[i], horizon + 1):
            if total + start + outputs[i] - arrivals[i] >= best:
                return
            if safe(problem, dict(enumerate([*starts, start]))):
                extend([*starts, start], total + start + outputs[i] - arrivals[i])

    extend([], 0)
    return best


def _one_by_one(problem: LatencyProblem) -> list[int]:
    now, starts = int(problem.arrival.max(initial=0)), []
    for output in problem.output.tolist():
        starts.append(now)
        now += output + 1
    return starts
