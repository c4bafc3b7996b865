"""Integer bounds on the step program that need no solver.

They certify: a checked solution whose objective equals such a bound is optimal, whoever found it.
"""

import numpy as np

from formulations.arrays import IntArray
from formulations.step.problem import Objective, StepProblem


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
    """
    if problem.objective is Objective.GAP:
        return 0
    peak = _peak_lower_bound(problem)
    if problem.objective is Objective.MAX_LOAD:
        per_step = peak
    else:
        per_step = np.maximum(problem.num_workers * peak - _largest_total(problem), 0)
    return sum(w * int(value) for w, value in zip(problem.weights, per_step, strict=True))


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
