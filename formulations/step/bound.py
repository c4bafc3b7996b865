"""Integer bounds on the step program that need no solver.

They certify: a checked solution whose objective equals such a bound is optimal, whoever found it.
"""

from collections.abc import Sequence

import numpy as np

from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.step.problem import Objective, StepProblem

#: Most ways to place the heaviest required requests that are looked at.
_MAX_WAYS = 1024


def peak_bounds(problem: StepProblem) -> tuple[IntArray, IntArray]:
    """Return lower and upper bounds of the peak M_h, each of shape (H+1,).

    Without admissions the peak is ``max_g τ_g b_g(h)``; no worker can exceed its base load plus
    its ``cap_g`` largest contributions.
    """
    times = problem.time_weights[:, None]
    heaviest = (problem.base + _extreme_sums(problem, largest=True)) * times
    return (problem.base * times).max(axis=0), heaviest.max(axis=0)


def lower_bound(problem: StepProblem) -> int:
    """Return an integer lower bound on the scaled objective of every feasible assignment.

    Per look-ahead step, independently:

    - the peak is at least every base load, every load that filling all slots forces, and the mean
      load that admitting any U requests forces;
    - the admitted contribution is at most the U largest, so the imbalance ``G·M − Σ_g τ_g L_g`` is
      at least the lowest peak against the largest total, and never negative.

    The heaviest requests that must be admitted are on some worker each, for all steps alike: the
    bound is the least over all ways to place them. From it goes what placements are worth at most.
    """
    return _bound_of_loads(problem) - most_benefit(problem)


def most_benefit(problem: StepProblem, slot_prices: Sequence[int] = ()) -> int:
    """Return an integer that the benefit of no feasible assignment exceeds.

    For any prices ``p_g >= 0`` of a slot, ``Σ_ig c_ig x_ig <= Σ_g p_g cap_g + Σ_ig (c_ig − p_g)
    x_ig``, of which each request has the best worker's at most. Without prices also the sum of
    each worker's ``cap_g`` largest is looked at.

    Parameters
    ----------
    problem : StepProblem
        Data.
    slot_prices : sequence of int
        One per worker; all 0 if there is none.

    Raises
    ------
    InputError
        If they are not as many as workers, or below 0.
    """
    G = problem.num_workers
    if len(slot_prices) not in (0, G) or any(price < 0 for price in slot_prices):
        raise InputError("slot_prices", "not one price >= 0 per worker", "solve again")
    if problem.benefit is None or problem.num_admitted == 0:
        return 0
    # In Python's integers: prices come from outside.
    prices = list(slot_prices) or [0] * G
    is_open = (problem.capacity > 0).tolist()
    best = [
        max(c - p for c, p, o in zip(row, prices, is_open, strict=True) if o)
        for row in problem.benefit.tolist()
    ]
    must = [False] * len(best) if problem.required is None else problem.required.tolist()
    others = sorted((value for value, m in zip(best, must, strict=True) if not m), reverse=True)
    own = [value for value, m in zip(best, must, strict=True) if m]
    left = max(0, problem.num_admitted - len(own))
    paid: int = sum(p * c for p, c in zip(prices, problem.capacity.tolist(), strict=True))
    most: int = paid + sum(own) + sum(others[:left])
    if slot_prices:
        return most
    return min(most, int(_largest_sums(problem.benefit, problem.capacity).sum()))


def _largest_sums(benefit: IntArray, capacity: IntArray) -> IntArray:
    """Sum of the ``cap_g`` largest entries of each column, shape (G,)."""
    ordered = -np.sort(-benefit, axis=0)
    sums = np.vstack([np.zeros_like(ordered[:1]), ordered.cumsum(axis=0)])
    chosen: IntArray = sums[capacity, np.arange(len(capacity))]
    return chosen


def _bound_of_loads(problem: StepProblem) -> int:
    if problem.objective is Objective.GAP:
        return 0
    per_step = _ways_to_place_the_heaviest(problem, _peak_lower_bound(problem))
    if problem.objective is not Objective.MAX_LOAD:
        per_step = np.maximum(problem.num_workers * per_step - _largest_total(problem), 0)
    return int((per_step @ np.array(problem.weights, dtype=np.int64)).min())


def _ways_to_place_the_heaviest(problem: StepProblem, peak: IntArray) -> IntArray:
    """Return what no peak is below for each way to place them, shape (ways, H+1)."""
    workers = np.flatnonzero(problem.capacity > 0)
    required = np.zeros(problem.num_requests, dtype=np.bool_)
    if problem.num_admitted == problem.num_requests:
        required[:] = len(workers) > 0
    elif problem.required is not None and len(workers) > 0:
        required = problem.required
    times = problem.time_weights[workers, None]
    weight = problem.contribution @ np.array(problem.weights, dtype=np.int64)
    heaviest = np.flatnonzero(required)[np.argsort(-weight[required], kind="stable")]
    loads = problem.base[None, workers]
    peaks = peak[None]
    for i in heaviest.tolist():
        ways = len(peaks) * len(workers)
        if ways > _MAX_WAYS:
            break
        # Every way so far, with this one on each of the workers.
        reached = loads + problem.contribution[i]
        peaks = np.maximum(peaks[:, None], reached * times).reshape(ways, -1)
        if ways * len(workers) <= _MAX_WAYS:
            loads = np.repeat(loads, len(workers), axis=0)
            on = np.arange(ways) % len(workers)
            loads[np.arange(ways), on] = reached.reshape(ways, -1)
    return peaks


def _peak_lower_bound(problem: StepProblem) -> IntArray:
    times = problem.time_weights[:, None]
    if problem.num_admitted == int(problem.capacity.sum()):
        # Every slot is filled, so worker g carries at least its cap_g smallest contributions.
        forced = (problem.base + _extreme_sums(problem, largest=False)) * times
    else:
        forced = problem.base * times
    peak: IntArray = forced.max(axis=0)
    if problem.token_time is None:
        smallest = np.sort(problem.contribution, axis=0)[: problem.num_admitted].sum(axis=0)
        total = problem.base.sum(axis=0) + smallest
        peak = np.maximum(peak, -(-total // problem.num_workers))
    return peak


def _largest_total(problem: StepProblem) -> IntArray:
    """Most total time ``Σ_g τ_g L_g(h)`` any admission reaches, shape (H+1,)."""
    times = problem.time_weights
    open_workers = times[problem.capacity > 0]
    slowest = int(open_workers.max()) if len(open_workers) else 1
    largest = -np.sort(-problem.contribution, axis=0)[: problem.num_admitted]
    total: IntArray = (problem.base * times[:, None]).sum(axis=0) + slowest * largest.sum(axis=0)
    return total


def _extreme_sums(problem: StepProblem, *, largest: bool) -> IntArray:
    """Sum of each worker's ``cap_g`` largest (or smallest) contributions, shape (G, H+1)."""
    ordered = np.sort(problem.contribution, axis=0)
    if largest:
        ordered = ordered[::-1]
    sums = np.vstack([np.zeros_like(problem.base[:1]), ordered.cumsum(axis=0)])
    chosen: IntArray = sums[problem.capacity]
    return chosen
