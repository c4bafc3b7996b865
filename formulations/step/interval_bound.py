r"""A bound on steps whose waiting requests grow alike, with its multipliers.

Let ``v_i(h) = s_i + d(h)`` for all waiting requests, and let every slot be filled (or d be 0), so
that worker g takes ``cap_g`` requests and has the load ``a_g(h) + Δ_g``, with ``a_g(h) = b_g(h) +
cap_g·d(h)`` and ``Δ_g`` the sum of their sizes. Which sums are reachable is forgotten but for an
interval of each, and of all together::

    min  Σ_h S_h M_h − P Σ_g τ_g Δ_g − const
    s.t. M_h ≥ τ_g (a_g(h) + Δ_g),   Δ_g ∈ [least_g, most_g],   Σ_g Δ_g ∈ [fewest, largest]

with ``S_h = G·w_h, P = Σ_h w_h`` for the imbalance and ``S_h = w_h, P = 0`` for the largest load.
For any ``y ≥ 0`` with ``Σ_g y_gh = S_h`` and any λ, the objective of every feasible assignment is
at least (weak duality)

    Σ_gh y_gh τ_g a_g(h) + Σ_g min_{Δ_g} (τ_g (Σ_h y_gh − P) + λ) Δ_g − max_Σ λ·ΣΔ − const,

an integer if y and λ are. But for λ it is a transportation problem: ``S_h`` leaves step h, and P
is asked for at each worker; so the best y at λ = 0 is integral.
"""

from dataclasses import dataclass

import numpy as np

from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.step.bound import most_benefit
from formulations.step.problem import Objective, StepProblem


@dataclass(frozen=True)
class IntervalRelaxation:
    """The data of the relaxation, over the K look-ahead steps of positive weight.

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
        What the objective subtracts whatever is admitted, or no more than that.
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
        """Return the lower bound of these multipliers on the scaled objective.

        Parameters
        ----------
        flow : IntArray
            Shape (G, K): ``y_gh >= 0``, its columns of sum ``S_h``.
        price : int
            ``λ``.

        Raises
        ------
        InputError
            If the flow is none.
        """
        if flow.shape != self.times.shape or (flow < 0).any():
            raise InputError("flow", "negative or of another shape", "give one number >= 0 each")
        if (flow.sum(axis=0) != self.supply).any():
            raise InputError("flow", "a column of another sum than its supply", "use all of it")
        value = int((flow * self.times).sum()) - self.constant
        value -= price * (self.largest if price >= 0 else self.fewest)
        taken = flow.sum(axis=1).tolist()
        for g, (least, most) in enumerate(zip(self.least, self.most, strict=True)):
            slope = int(self.speed[g]) * (taken[g] - self.pull) + price
            value += slope * int(least if slope >= 0 else most)
        return value


def interval_relaxation(problem: StepProblem) -> IntervalRelaxation | None:
    """Return the relaxation of a step problem; None if its requests do not grow alike.

    None as well for the objective ``gap``, for slots that stay empty while requests grow, and if
    every look-ahead step weighs nothing.
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
        # Where even the least breaks a capacity there is no answer, and any bound is one.
        most=np.maximum(most, least),
        fewest=_total(problem, sizes, np.argsort(sizes)),
        largest=_total(problem, sizes, np.argsort(-sizes)),
        supply=weights * (problem.num_workers if is_imbalance else 1),
        pull=int(weights.sum()) if is_imbalance else 0,
        constant=most_benefit(problem)
        + (int((times.sum(axis=0) * weights).sum()) if is_imbalance else 0),
    )


def _common_drift(contribution: IntArray) -> IntArray | None:
    """Return ``d(h)`` with ``v_i(h) = s_i + d(h)`` for all i; None if requests differ in it."""
    drift = contribution - contribution[:, :1]
    if len(drift) == 0:
        return np.zeros(contribution.shape[1], dtype=np.int64)
    first: IntArray = drift[0]
    return None if (drift != first).any() else first


def _total(problem: StepProblem, sizes: IntArray, order: IntArray) -> int:
    """Sum of the sizes admitted if required requests go first, and then all in this order."""
    if problem.required is not None:
        order = order[np.argsort(~problem.required[order], kind="stable")]
    return int(sizes[order[: problem.num_admitted]].sum())
