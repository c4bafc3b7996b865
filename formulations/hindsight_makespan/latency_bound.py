"""Integer bounds on the total latency of requests that share ``m = G·B`` slots.

Workers do not matter for latency in steps: any set of requests of which never more than m run at
once can be given slots, so this is the scheduling of jobs on m identical machines.
"""

import heapq
from collections.abc import Iterator
from itertools import accumulate

from formulations.hindsight_makespan.problem import MakespanProblem


def latency_bound(problem: MakespanProblem) -> int:
    """Return a lower bound on ``Σ (completion − a_i)`` of any schedule of these requests.

    The greater of two bounds on the sum of completions:

    * Let a step do m tokens of whatever requests have arrived, even of one alone. Then shortest
      remaining first completes the most requests by any step, so the r-th completion of any
      schedule is no earlier than its r-th. Nor is it earlier than the r-th of the ``a_i + o_i``.
    * With all arrivals moved to the first, shortest first is optimal on identical machines.

    With a memory, m is `MakespanProblem.most_running`, and there is a third: the r requests that
    complete first have held at least the r least works, of which a step holds ``Σ κ_g`` at most.
    """
    arrivals, outputs = problem.arrival.tolist(), problem.output.tolist()
    m = problem.most_running
    alone = sorted(a + o for a, o in zip(arrivals, outputs, strict=True))
    shared = zip(_shared_completions(arrivals, outputs, m), alone, strict=True)
    one_by_one = sum(max(pair) for pair in shared)
    first = min(arrivals)
    together = first * len(outputs) + sum(shortest_first_completions(outputs, m))
    held = 0 if problem.memory is None else first * len(outputs) + sum(_held_completions(problem))
    return int(max(one_by_one, together, held) - sum(arrivals))


def _held_completions(problem: MakespanProblem) -> Iterator[int]:
    """Yield steps that no schedule from step 0 completes 1, 2, ... requests before, by memory."""
    assert problem.memory is not None
    memory = int(problem.memory.sum())
    rows = zip(problem.prompt.tolist(), problem.output.tolist(), strict=True)
    works = sorted(s * o + o * (o - 1) // 2 for s, o in rows)
    return (-(-total // memory) for total in accumulate(works))


def shortest_first_completions(outputs: list[int], machines: int) -> list[int]:
    """Return the completions of shortest-first on machines that are free at 0, ascending jobs."""
    ends: list[int] = []
    for r, output in enumerate(sorted(outputs)):
        ends.append(output + (ends[r - machines] if r >= machines else 0))
    return ends


def _shared_completions(arrivals: list[int], outputs: list[int], m: int) -> list[int]:
    """Return the completion steps of shortest remaining first at m tokens per step, ascending."""
    coming = sorted(zip(arrivals, outputs, strict=True), reverse=True)
    remaining: list[int] = []
    ends: list[int] = []
    # The clock counts tokens: m of them make a step.
    now = 0
    while coming or remaining:
        if not remaining:
            now = max(now, m * coming[-1][0])
        while coming and m * coming[-1][0] <= now:
            heapq.heappush(remaining, coming.pop()[1])
        tokens = heapq.heappop(remaining)
        until = m * coming[-1][0] if coming else now + tokens
        if now + tokens <= until:
            now += tokens
            ends.append(-(-now // m))
        else:
            heapq.heappush(remaining, tokens - (until - now))
            now = until
    return ends
