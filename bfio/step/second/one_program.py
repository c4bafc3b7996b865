"""A step and its window as one step program, of which the first objective counts K times.

Where both objectives are of the same kind and of the same loads, ``K·J + J'`` is the objective of
a step program with other weights, and our exact method solves it. Let B be a lower bound on it.
Every assignment with ``J <= J_most`` has

    J' >= B - K·J_most,

whatever K is. With ``K > J'(x) - J'_low`` for an assignment x within the limit and a bound J'_low
on every J', none with a larger J is better than x in K·J + J', so that its optimum is the least
second objective if J_most is the least first one, and the bound meets it.
"""

from dataclasses import replace

import numpy as np

from formulations.errors import InputError
from formulations.second import SecondProblem
from formulations.step.problem import StepProblem


def one_program(problem: SecondProblem, factor: int) -> StepProblem | None:
    """Return the step program of ``factor`` times the first objective plus the second.

    None if there is no such program: other loads, another kind of objective, costs, token
    capacities that end before the window does, or numbers that are too large.
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
