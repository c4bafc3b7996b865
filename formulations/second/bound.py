"""Integer bounds on the second objective that need no solver."""

import numpy as np

from formulations.second.problem import SecondProblem
from formulations.step.bound import lower_bound as step_bound


def lower_bound(problem: SecondProblem) -> int:
    """Return an integer lower bound on the second objective of every feasible assignment.

    The cheapest requests, as many as are admitted, and the window's own bound.
    """
    step, costs = problem.step, problem.costs
    required = np.zeros(len(costs), dtype=np.bool_) if step.required is None else step.required
    others = np.sort(costs[~required])[: max(0, step.num_admitted - int(required.sum()))]
    least = int(costs[required].sum()) + int(others.sum())
    if problem.window is None:
        return least
    return least + step_bound(problem.window)
