"""Steps whose placements are worth something: what our own method says, and what it leaves.

The objective is ``J(x) − Σ c_ig x_ig``. Our method solves J alone, and a transportation problem
says what the placements are worth at most, W: no assignment is below ``min J − W``. Where one
meets that, it is proven. In between the two pull apart, and CP-SAT closes what is open: with a
benefit a worker's load is no longer all that counts of the requests it takes, so the sums and
subsets of our method do not carry over.
"""

from dataclasses import replace

import numpy as np

from bfio.step.exact.effort import Effort
from bfio.step.exact.result import ExactResult
from formulations.arrays import IntArray
from formulations.step.bound import lower_bound, most_benefit
from formulations.step.check import violations
from formulations.step.problem import Assignment, StepProblem

#: Most pairs of request and worker, times requests to place, that the flow is computed for.
_MOST_WORK = 1 << 28


def without_idle_benefit(problem: StepProblem) -> StepProblem:
    """Return the problem without its benefit, if no worker with a free slot offers any."""
    if problem.benefit is None or problem.benefit[:, problem.capacity > 0].any():
        return problem
    return problem.without_benefit()


def with_benefit(
    problem: StepProblem, of_loads: ExactResult, start: Assignment | None, effort: Effort
) -> ExactResult:
    """Return the best answer in hand and a bound, from those of the step without benefit.

    Parameters
    ----------
    problem : StepProblem
        Data, with a benefit.
    of_loads : ExactResult
        What is known of the same step without it.
    start : tuple of (int or None), optional
        A feasible assignment.
    effort : Effort
        Limits.
    """
    if of_loads.infeasible:
        return of_loads
    effort.spend(problem.num_requests * problem.num_workers)
    prices, placed = _most_worth(problem)
    worth = most_benefit(problem)
    if prices and (priced := most_benefit(problem, prices)) < worth:
        worth = priced
    else:
        prices = ()
    known = [a for a in (start, of_loads.assignment, placed) if a and not violations(problem, a)]
    best = min(known, key=problem.objective_value, default=None)
    least, certificate = of_loads.bound, of_loads.certificate
    bound = lower_bound(problem) if least is None else least - worth
    if certificate is not None:
        certificate = replace(certificate, bound=bound, slot_prices=prices)
    return replace(
        of_loads,
        assignment=best,
        objective=None if best is None else problem.objective_value(best),
        bound=bound,
        certificate=certificate,
    )


def _most_worth(problem: StepProblem) -> tuple[tuple[int, ...], Assignment | None]:
    """Return slot prices of the most that placements are worth, and an assignment that is.

    Neither where that takes too long; no assignment that is not one of the right number.
    """
    from bfio.step.exact.transport import best_flow

    assert problem.benefit is not None
    N, G = problem.benefit.shape
    if N * G * problem.num_admitted > _MOST_WORK:
        return (), None
    ones = np.ones(N, dtype=np.int64)
    gain = np.ascontiguousarray(problem.benefit.T)
    flow = best_flow(gain, ones, np.array(problem.capacity))
    owner = np.where(flow.any(axis=0), flow.argmax(axis=0), -1)
    prices = tuple(_slot_prices(problem, owner).tolist())
    free = problem.capacity - np.bincount(owner[owner >= 0], minlength=G)
    # Who gains nothing fills what is left, oldest first.
    left = problem.num_admitted - int((owner >= 0).sum())
    others = np.flatnonzero(owner < 0)[: max(0, left)]
    owner[others] = np.repeat(np.arange(G), free)[: len(others)]
    return prices, tuple(None if g < 0 else g for g in owner.tolist())


def _slot_prices(problem: StepProblem, owner: IntArray) -> IntArray:
    """Return what one more slot of each worker would add to the most worth, shape (G,).

    It goes to one who has none, or to one from another worker, whose slot goes on likewise.
    """
    benefit = problem.benefit
    assert benefit is not None
    G = problem.num_workers
    prices: IntArray = benefit[owner < 0].max(axis=0, initial=0)
    passed_on = np.full((G, G), -1, dtype=np.int64)
    reaches = np.zeros(G, dtype=np.bool_)
    for k in range(G):
        members = np.flatnonzero(owner == k)
        reaches[k] = len(members) > 0
        if reaches[k]:
            passed_on[:, k] = (benefit[members] - benefit[members, k][:, None]).max(axis=0)
    # Longest paths: no round of workers gains anything where the flow is the best.
    for _ in range(G):
        longer = np.where(reaches, passed_on + prices, 0).max(axis=1)
        if (longer <= prices).all():
            break
        prices = np.maximum(prices, longer)
    return prices
