"""An integer bound on the hindsight latency program that needs no solver."""

from itertools import accumulate

from formulations.hindsight_latency.problem import LatencyProblem


def lower_bound(problem: LatencyProblem) -> int:
    """Return an integer lower bound on the total latency of every feasible schedule.

    No request ends before its arrival plus its output, so ``Σ o_i`` is a bound. And the k
    requests that end first have occupied at least the sum A_k of the k smallest areas (tokens
    times rounds), M of it per round since the first arrival: the k-th last round is at least
    ``first arrival + f − 1 + ⌈A_k / M⌉``, with f the first occupied age.
    """
    convention = problem.convention
    first = convention.first_age
    outputs: list[int] = problem.output.tolist()
    last_ages = [convention.last_age(o) for o in outputs]
    areas = sorted(
        (last - first + 1) * prompt + (last * (last + 1) - first * (first - 1)) // 2
        for prompt, last in zip(problem.prompt.tolist(), last_ages, strict=True)
    )
    begin = min(problem.arrival.tolist(), default=0) + first - 1
    ends = sum(begin - (-area // problem.memory) for area in accumulate(areas))
    packed: int = ends - sum(last_ages) + sum(outputs) - sum(problem.arrival.tolist())
    return max(sum(outputs), packed)
