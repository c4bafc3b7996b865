"""Steps with benefits of placements: bounds from the step without benefits.

The objective is ``J(x) − Σ c_ig x_ig``. Our method minimises J alone, and a transportation problem
gives the largest total benefit W. No assignment has an objective below ``min J − W``. An
assignment that attains this bound is optimal. Otherwise CP-SAT closes the gap: with benefits, the
objective depends on more than the loads of workers, so the sums and subsets of our method do not
apply.
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
    """Return the problem without benefits if no worker with a free slot offers any."""
    if problem.benefit is None or problem.benefit[:, problem.capacity > 0].any():
        return problem
    return problem.without_benefit()


def with_benefit(
    problem: StepProblem, of_loads: ExactResult, start: Assignment | None, effort: Effort
) -> ExactResult:
    """Return the best assignment and a bound, derived from the step without benefits.

    Parameters
    ----------
    of_loads : ExactResult
        Result of the same step without benefits.
    start : tuple of (int or None), optional
        A feasible assignment.
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
    """Return slot prices of the largest total benefit, and an assignment that attains it.

    Both are empty if the problem is too large. The assignment is None if it does not admit the
    right number of requests.
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
    """Return the increase of the largest benefit by one more slot per worker, shape (G,).

    The additional slot goes to a request without a slot, or to a request of another worker, whose
    slot is then free in turn.
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
