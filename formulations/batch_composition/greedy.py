"""The best batch in closed form, where filling by weight gives it; and a bound where it does not.

Without bonuses and without a limit on requests the program is a knapsack of unit tokens: whoever
has the highest weight comes first. Of equal weights those with most tokens come first, so that
what is left of the budget is filled by fewest requests; tokens of weight 0 are left out.
"""

from fractions import Fraction
from math import floor

import numpy as np

from formulations.arrays import BoolArray
from formulations.batch_composition.check import objective_of
from formulations.batch_composition.problem import BatchProblem
from formulations.errors import CapabilityError

#: Prompt tokens and decode tokens of each request.
Batch = tuple[tuple[int, ...], tuple[int, ...]]


def greedy(problem: BatchProblem) -> Batch:
    """Return an optimal batch by filling; oldest request first where all else is equal.

    Parameters
    ----------
    problem : BatchProblem
        Data, with `BatchProblem.is_greedy`.

    Raises
    ------
    CapabilityError
        If the problem has bonuses, or a limit on requests that may bind.
    """
    if not problem.is_greedy:
        raise CapabilityError(
            "method",
            "filling by weight is not optimal with finish_bonus or max_requests",
            "use --method cp-sat",
        )
    if problem.mixing:
        return fill(problem, np.ones(problem.num_requests, dtype=np.bool_))
    batches = [fill(problem, chosen) for chosen in (problem.in_prefill, ~problem.in_prefill)]
    return min(batches, key=lambda batch: objective_of(problem, *batch))


def fill(problem: BatchProblem, allowed: BoolArray) -> Batch:
    """Fill the budget by weight with tokens of some requests, shape (n,)."""
    prefill, decode = [0] * problem.num_requests, [0] * problem.num_requests
    # Stable: the oldest of equals first.
    order = np.lexsort((-problem.caps, -problem.weights))
    room = problem.budget
    for i in order.tolist():
        if room == 0 or problem.weights[i] == 0:
            break
        if allowed[i]:
            taken = min(room, int(problem.caps[i]))
            (prefill if problem.in_prefill[i] else decode)[i] = taken
            room -= taken
    return tuple(prefill), tuple(decode)


def least_objective(problem: BatchProblem) -> int:
    """Return a lower bound on the objective, of any problem.

    The bonus of a prompt is spread over its tokens, which only overstates batches that do not
    complete it; the best filling is then fractional.
    """
    columns = (problem.weights, problem.bonuses, problem.caps)
    items = [
        (Fraction(w * cap + g, cap), cap)
        for w, g, cap in zip(*(column.tolist() for column in columns), strict=True)
    ]
    room, worth = problem.budget, Fraction(0)
    for density, cap in sorted(items, reverse=True):
        taken = min(room, cap)
        worth += density * taken
        room -= taken
    # A batch of some worth has a request in it.
    fewest = int(problem.fewest_requests and worth > 0)
    return min(0, fewest - problem.scale * floor(worth))
