"""The simplest assignment that meets all constraints of a step, if it finds one."""

import numpy as np

from formulations.step import StepProblem


def oldest_first(problem: StepProblem) -> list[int | None] | None:
    """Assign required requests first, then the oldest, each to the worker that ends first.

    Returns
    -------
    list of (int or None), optional
        Worker of each request; None if a request fits nowhere.
    """
    loads, free, first = problem.base.copy(), problem.capacity.copy(), problem.required
    most = problem.token_capacity
    order = list(range(problem.num_requests))
    if first is not None:
        order.sort(key=lambda i: not first[i])
    assignment: list[int | None] = [None] * problem.num_requests
    for i in order[: problem.num_admitted]:
        grown = loads + problem.contribution[i]
        fits = free > 0
        if most is not None:
            fits &= grown.max(axis=1) <= most
        if not fits.any():
            return None
        times = np.where(fits, grown.max(axis=1) * problem.time_weights, np.iinfo(np.int64).max)
        worker = int(times.argmin())
        loads[worker], assignment[i] = grown[worker], worker
        free[worker] -= 1
    return assignment
