"""A step and its window as one step program, in which the first objective has weight K.

If both objectives are of the same kind and on the same loads, ``K·J + J'`` is the objective of a
step program with other weights, which our exact method solves. Let B be a lower bound on it. For
every K, each assignment with ``J <= J_most`` has

    J' >= B - K·J_most.

Let x be an assignment within the limit and J'_low a lower bound on J'. If ``K > J'(x) - J'_low``,
no assignment with a larger J is better than x in K·J + J'. If in addition J_most is the least
first objective, the optimum of K·J + J' has the least second objective, and the bound is tight.
"""

from dataclasses import replace

import numpy as np

from formulations.errors import InputError
from formulations.second import SecondProblem
from formulations.step.problem import StepProblem


def one_program(problem: SecondProblem, factor: int) -> StepProblem | None:
    """Return the step program for ``factor`` times the first objective plus the second.

    Return None if there is no equivalent program: different loads or kinds of objective, costs,
    token capacities over fewer steps than the window, or numbers that are too large.
    """
    step, window = problem.step, problem.window
    if window is None or problem.costs.any() or not _is_alike(step, window):
        return None
    longer = window if window.num_steps > step.num_steps else step
    weights = [0] * longer.num_steps
    for h, w in enumerate(step.weights):
        weights[h] += factor * w
    for h, w in enumerate(window.weights):
        weights[h] += w
    try:
        return replace(
            step,
            base=longer.base,
            contribution=longer.contribution,
            weights=tuple(weights),
            scale=1,
        )
    except InputError:
        return None


def _is_alike(step: StepProblem, window: StepProblem) -> bool:
    columns = min(step.num_steps, window.num_steps)
    ends_before = step.num_steps < window.num_steps
    return (
        step.objective is window.objective
        and not (step.token_capacity is not None and ends_before)
        and np.array_equal(step.time_weights, window.time_weights)
        and np.array_equal(step.base[:, :columns], window.base[:, :columns])
        and np.array_equal(step.contribution[:, :columns], window.contribution[:, :columns])
    )
