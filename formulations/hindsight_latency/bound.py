"""An integer bound on the hindsight latency program that needs no solver."""

from heapq import heappop, heappush

from formulations.hindsight_latency.problem import LatencyProblem


def lower_bound(problem: LatencyProblem) -> int:
    """Return an integer lower bound on the total latency of every feasible schedule.

    The k-th completion of all is bounded twice, and the greater bound counts. No request ends
    before its arrival plus its output; sorted, these bound the k-th. And a schedule fills areas
    (tokens times rounds), at most M of it per round and each request's after its arrival, so it
    is a preemptive schedule of one machine of speed M. There, shortest remaining first has at
    every time completed as many jobs as any other schedule, so its k-th completion, rounded up
    to whole rounds, bounds the k-th too.
    """
    convention = problem.convention
    arrivals: list[int] = problem.arrival.tolist()
    outputs: list[int] = problem.output.tolist()
    last_ages = [convention.last_age(o) for o in outputs]
    alone = sorted(a + last for a, last in zip(arrivals, last_ages, strict=True))
    filled = _shortest_remaining_first(problem, last_ages)
    last_rounds = sum(max(pair) for pair in zip(alone, filled, strict=True))
    return last_rounds - sum(last_ages) + sum(outputs) - sum(arrivals)


def _shortest_remaining_first(problem: LatencyProblem, last_ages: list[int]) -> list[int]:
    """Return the last round of each completion, ascending, if areas filled the memory fluidly."""
    first, memory = problem.convention.first_age, problem.memory
    areas = [
        (last - first + 1) * prompt + (last * (last + 1) - first * (first - 1)) // 2
        for prompt, last in zip(problem.prompt.tolist(), last_ages, strict=True)
    ]
    # Time counts memory times rounds; a request occupies the rounds after its arrival + f - 1.
    released = sorted(
        (memory * (arrival + first - 1), area)
        for arrival, area in zip(problem.arrival.tolist(), areas, strict=True)
    )
    completions: list[int] = []
    waiting: list[int] = []
    now = released[0][0] if released else 0
    for k, (release, area) in enumerate(released):
        now = now if waiting else max(now, release)
        heappush(waiting, area)
        following = released[k + 1][0] if k + 1 < len(released) else None
        now = _fill(waiting, completions, now, following)
    return [-(-completion // memory) for completion in completions]


def _fill(waiting: list[int], completions: list[int], now: int, until: int | None) -> int:
    """Work on the shortest remaining area until a time, or until none is left; return the time."""
    while waiting and (until is None or now < until):
        shortest = heappop(waiting)
        if until is not None and now + shortest > until:
            heappush(waiting, shortest - (until - now))
            return until
        now += shortest
        completions.append(now)
    return now
