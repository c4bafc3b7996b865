"""Integer lower bounds on the objective of the step program, in closed form.

A checked assignment is optimal if its objective equals one of these bounds.

The interval relaxation bounds steps whose waiting requests all grow by the same amounts.

Let ``v_i(h) = s_i + d(h)`` for all waiting requests, and let every slot be filled (or d be 0), so
that worker g takes ``cap_g`` requests and has the load ``a_g(h) + Δ_g``, with ``a_g(h) = b_g(h) +
cap_g·d(h)`` and ``Δ_g`` the sum of their sizes. The relaxation keeps only an interval of each sum
and an interval of the total::

    min  Σ_h S_h M_h − P Σ_g τ_g Δ_g − const
    s.t. M_h ≥ τ_g (a_g(h) + Δ_g),   Δ_g ∈ [least_g, most_g],   Σ_g Δ_g ∈ [fewest, largest]

with ``S_h = G·w_h, P = Σ_h w_h`` for the imbalance and ``S_h = w_h, P = 0`` for the largest load.
For any ``y ≥ 0`` with ``Σ_g y_gh = S_h`` and any λ, the objective of every feasible assignment is
at least (weak duality)

    Σ_gh y_gh τ_g a_g(h) + Σ_g min_{Δ_g} (τ_g (Σ_h y_gh − P) + λ) Δ_g − max_Σ λ·ΣΔ − const,

an integer if y and λ are. At λ = 0 the best y solves a transportation problem with supply ``S_h``
at step h and demand P at each worker, so it is integral.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.step.problem import Objective, StepProblem

#: Largest number of placements of the heaviest required requests that are enumerated.
_MAX_WAYS = 1024


def peak_bounds(problem: StepProblem) -> tuple[IntArray, IntArray]:
    """Return lower and upper bounds on the peak M_h of each look-ahead step, shape (H+1,) each.

    Without admissions the peak is ``max_g τ_g b_g(h)``; no worker can exceed its base load plus
    its ``cap_g`` largest contributions.
    """
    times = problem.time_weights[:, None]
    heaviest = (problem.base + _sums(problem.contribution, largest=True)[problem.capacity]) * times
    return (problem.base * times).max(axis=0), heaviest.max(axis=0)


def lower_bound(problem: StepProblem) -> int:
    """Return an integer lower bound on the scaled objective of every feasible assignment.

    Per look-ahead step, independently:

    - the peak is at least every base load, every load that filling all slots forces, and the mean
      load that admitting any U requests forces;
    - the admitted contribution is at most the U largest, so the imbalance ``G·M − Σ_g τ_g L_g`` is
      at least G times the lowest peak minus the largest total, and never negative.

    Each of the heaviest required requests stays on one worker at all steps: the bound is the
    minimum over all ways to place them, less the largest possible benefit.
    """
    return _bound_of_loads(problem) - most_benefit(problem)


def most_benefit(problem: StepProblem, slot_prices: Sequence[int] = ()) -> int:
    """Return an integer upper bound on the benefit of every feasible assignment.

    For any prices ``p_g >= 0`` of a slot, ``Σ_ig c_ig x_ig <= Σ_g p_g cap_g + Σ_ig (c_ig − p_g)
    x_ig``, and each request adds at most the term of its best worker. Without prices, the sum of
    the ``cap_g`` largest benefits of each worker is a second bound.

    Parameters
    ----------
    problem : StepProblem
        Data.
    slot_prices : sequence of int
        Shape (G,): price of a slot of each worker; all 0 if empty.

    Raises
    ------
    InputError
        If the number of prices differs from the number of workers, or a price is negative.
    """
    G = problem.num_workers
    if len(slot_prices) not in (0, G) or any(price < 0 for price in slot_prices):
        what = f"{len(slot_prices)} prices for {G} workers, the least {min(slot_prices)}"
        raise InputError("slot_prices", what, "give one price >= 0 per worker")
    if problem.benefit is None or problem.num_admitted == 0:
        return 0
    # Python integers, which cannot overflow: the prices come from an untrusted certificate.
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
    best_of_each = _sums(problem.benefit, largest=True)[problem.capacity, np.arange(G)]
    return min(most, int(best_of_each.sum()))


def _bound_of_loads(problem: StepProblem) -> int:
    if problem.objective is Objective.GAP:
        return 0
    per_step = _ways_to_place_the_heaviest(problem, _peak_lower_bound(problem))
    if problem.objective is not Objective.MAX_LOAD:
        per_step = np.maximum(problem.num_workers * per_step - _largest_total(problem), 0)
    return int((per_step @ np.array(problem.weights, dtype=np.int64)).min())


def _ways_to_place_the_heaviest(problem: StepProblem, peak: IntArray) -> IntArray:
    """Return lower bounds on the peaks per placement of the heaviest requests, (ways, H+1)."""
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
        # Extend every placement so far by this request on each worker.
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
        forced = (problem.base + _sums(problem.contribution)[problem.capacity]) * times
    else:
        forced = problem.base * times
    peak: IntArray = forced.max(axis=0)
    if problem.token_time is None:
        smallest = np.sort(problem.contribution, axis=0)[: problem.num_admitted].sum(axis=0)
        total = problem.base.sum(axis=0) + smallest
        peak = np.maximum(peak, -(-total // problem.num_workers))
    return peak


def _largest_total(problem: StepProblem) -> IntArray:
    """Return the largest total time ``Σ_g τ_g L_g(h)`` of any assignment, shape (H+1,)."""
    times = problem.time_weights
    open_workers = times[problem.capacity > 0]
    slowest = int(open_workers.max()) if len(open_workers) else 1
    largest = -np.sort(-problem.contribution, axis=0)[: problem.num_admitted]
    total: IntArray = (problem.base * times[:, None]).sum(axis=0) + slowest * largest.sum(axis=0)
    return total


def _sums(values: IntArray, *, largest: bool = False) -> IntArray:
    """Return the sum of the 0, 1, ..., N smallest (or largest) values of each column."""
    ordered = np.sort(values, axis=0)[:: -1 if largest else 1]
    return np.vstack([np.zeros((1, values.shape[1]), np.int64), ordered.cumsum(axis=0)])


@dataclass(frozen=True)
class IntervalRelaxation:
    """The data of the interval relaxation (see the module), over K look-ahead steps of weight > 0.

    Parameters
    ----------
    times : IntArray
        Shape (G, K): ``τ_g a_g(h)``.
    speed : IntArray
        Shape (G,): ``τ_g``.
    least, most : IntArray
        Shape (G,): interval of ``Δ_g`` [tokens].
    fewest, largest : int
        Interval of their sum [tokens].
    supply : IntArray
        Shape (K,): ``S_h``.
    pull : int
        ``P``.
    constant : int
        ``const``: an upper bound on the benefit of every assignment and, for the imbalance,
        ``Σ_gh w_h τ_g a_g(h)``.
    """

    times: IntArray
    speed: IntArray
    least: IntArray
    most: IntArray
    fewest: int
    largest: int
    supply: IntArray
    pull: int
    constant: int

    def bound(self, flow: IntArray, price: int) -> int:
        """Return the lower bound on the scaled objective that the multipliers prove.

        Parameters
        ----------
        flow : IntArray
            Shape (G, K): ``y_gh >= 0``; column h sums to ``S_h``.
        price : int
            ``λ``.

        Raises
        ------
        InputError
            If the shape, a sign or a column sum of the flow is wrong.
        """
        if flow.shape != self.times.shape or (flow < 0).any():
            raise InputError(
                "flow", "negative or of another shape than (G, K)", "give G x K numbers >= 0"
            )
        if (flow.sum(axis=0) != self.supply).any():
            raise InputError(
                "flow", "a column does not sum to its supply", "let column h sum to supply[h]"
            )
        value = int((flow * self.times).sum()) - self.constant
        value -= price * (self.largest if price >= 0 else self.fewest)
        taken = flow.sum(axis=1).tolist()
        for g, (least, most) in enumerate(zip(self.least, self.most, strict=True)):
            slope = int(self.speed[g]) * (taken[g] - self.pull) + price
            value += slope * int(least if slope >= 0 else most)
        return value


def interval_relaxation(problem: StepProblem) -> IntervalRelaxation | None:
    """Return the interval relaxation of a step; None if requests grow by different amounts.

    The result is also None for the objective ``gap``, for requests that grow while slots stay
    empty, and if all look-ahead steps have weight 0.
    """
    steps = np.flatnonzero(problem.weights)
    if problem.objective is Objective.GAP or len(steps) == 0:
        return None
    contribution = problem.contribution[:, steps]
    sizes = contribution[:, 0]
    drift = _common_drift(contribution)
    spare = int(problem.capacity.sum()) - problem.num_admitted
    if drift is None or (drift.any() and spare > 0):
        return None
    weights = np.array([problem.weights[h] for h in steps], dtype=np.int64)
    speed = problem.time_weights
    loads = problem.base[:, steps] + problem.capacity[:, None] * drift
    times = loads * speed[:, None]
    below = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.sort(sizes))])
    least = below[np.maximum(problem.capacity - spare, 0)]
    most = below[-1] - below[len(sizes) - problem.capacity]
    if problem.token_capacity is not None:
        most = np.minimum(most, problem.token_capacity - loads.max(axis=1))
    is_imbalance = problem.objective is Objective.IMBALANCE
    return IntervalRelaxation(
        times=times,
        speed=speed,
        least=least,
        # If the least sum already exceeds a capacity, the step is infeasible and any bound holds.
        most=np.maximum(most, least),
        fewest=_total(problem, sizes, np.argsort(sizes)),
        largest=_total(problem, sizes, np.argsort(-sizes)),
        supply=weights * (problem.num_workers if is_imbalance else 1),
        pull=int(weights.sum()) if is_imbalance else 0,
        constant=most_benefit(problem)
        + (int((times.sum(axis=0) * weights).sum()) if is_imbalance else 0),
    )


def _common_drift(contribution: IntArray) -> IntArray | None:
    """Return ``d(h)`` with ``v_i(h) = s_i + d(h)`` for all i; None if there is no common one."""
    drift = contribution - contribution[:, :1]
    if len(drift) == 0:
        return np.zeros(contribution.shape[1], dtype=np.int64)
    first: IntArray = drift[0]
    return None if (drift != first).any() else first


def _total(problem: StepProblem, sizes: IntArray, order: IntArray) -> int:
    """Return the total size of the admitted requests: required ones, then others in ``order``."""
    if problem.required is not None:
        order = order[np.argsort(~problem.required[order], kind="stable")]
    return int(sizes[order[: problem.num_admitted]].sum())
