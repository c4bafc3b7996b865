"""List schedules against their rule, step by step."""

import numpy as np

from formulations.hindsight_makespan import MakespanProblem, list_schedule


def _plain(problem: MakespanProblem) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Let time pass step by step; each request goes to the least full worker with a free slot."""
    arrival, output = problem.arrival.tolist(), problem.output.tolist()
    sizes = (problem.prompt + problem.output).tolist()
    starts, workers = [-1] * len(arrival), [-1] * len(arrival)
    step = 0
    while min(starts, default=0) < 0:
        for i in (i for i in range(len(arrival)) if starts[i] < 0 and arrival[i] <= step):
            on: list[list[int]] = [[] for _ in range(problem.workers)]
            for j in range(len(arrival)):
                if starts[j] >= 0 and starts[j] + output[j] > step:
                    on[workers[j]].append(sizes[j])
            free = [g for g in range(problem.workers) if len(on[g]) < problem.slots]
            if free:
                starts[i], workers[i] = step, min(free, key=lambda g: (sum(on[g]), g))
        step += 1
    return tuple(starts), tuple(workers)


def test_the_rule() -> None:
    """Requests as listed, the least full worker, ties to the lower one."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        n, workers, slots = (
            int(rng.integers(low, high)) for low, high in ((0, 15), (1, 5), (1, 4))
        )
        draws = (rng.integers(0, 6, n), rng.integers(1, 5, n), rng.integers(1, 5, n))
        problem = MakespanProblem(workers, slots, *draws)
        assert list_schedule(problem) == _plain(problem)
