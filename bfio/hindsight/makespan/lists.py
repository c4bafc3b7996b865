"""First schedules: several orders of priority; no slot stays free while a request waits."""

from formulations.hindsight_makespan import (
    MakespanProblem,
    list_schedule,
    objective_value,
)

Schedule = tuple[tuple[int, ...], tuple[int, ...]]


def best_list(problem: MakespanProblem) -> tuple[int, Schedule]:
    """Return the best list schedule and its objective.

    The orders are: first come; longest output first, which shortens the drain; shortest output
    first, which is best for latency; highest peak first; most work first.
    """
    rows = list(zip(problem.prompt.tolist(), problem.output.tolist(), strict=True))
    num = range(problem.num_requests)
    orders = (
        list(num),
        sorted(num, key=lambda i: -rows[i][1]),
        sorted(num, key=lambda i: rows[i][1]),
        sorted(num, key=lambda i: -sum(rows[i])),
        sorted(num, key=lambda i: -rows[i][1] * (2 * rows[i][0] + rows[i][1] - 1)),
    )
    schedules = [list_schedule(problem, order) for order in orders]
    values = [objective_value(problem, *schedule) for schedule in schedules]
    best = min(range(len(orders)), key=lambda k: values[k])
    return values[best], schedules[best]
