"""Restrictions of a step problem, other than slots, in the two-stage heuristic.

They extend the rule of BalanceRoute in the simplest way:

- Loads are compared as times: worker g needs ``τ_g`` per token, so requests that add ``D(h)``
  tokens add ``τ_g·D(h)``, and margins are differences of times.
- Required requests are admitted first, by the same two stages, then the others.
- A set that exceeds ``κ_g`` is not a candidate. If other slots of the worker must be filled too, a
  set must also leave room for the smallest waiting requests, for as many of them as fit.
- The benefit of a placement is added to the score of every set that contains it. With BR-0's
  factors the score is then still minus the change of the objective. With benefits, candidates are
  the requests with the largest score when nothing overflows, not the largest requests.
"""

from dataclasses import dataclass

import numpy as np

from formulations.arrays import BoolArray, IntArray
from formulations.step.problem import StepProblem


@dataclass(frozen=True)
class Limits:
    """Restrictions of a step problem in the form the heuristic uses.

    Parameters
    ----------
    time : IntArray
        Shape (G,): ``τ_g``, time per token of each worker.
    most_time : IntArray or None
        Shape (G,): ``τ_g·κ_g``, most time of each worker at any look-ahead step.
    required : BoolArray
        Shape (N,): requests that must be admitted.
    num_slots : int
        Number of slots that may be filled.
    benefit : IntArray, optional
        Shape (N, G): benefit of each placement, in units of the scaled objective.
    """

    time: IntArray
    most_time: IntArray | None
    required: BoolArray
    num_slots: int
    benefit: IntArray | None = None

    @classmethod
    def of(cls, problem: StepProblem) -> "Limits | None":
        """Return the restrictions of a problem, or None if it has none."""
        given = (problem.token_capacity, problem.token_time, problem.required, problem.admit)
        if all(value is None for value in (*given, problem.benefit)):
            return None
        required = problem.required
        return cls(
            time=problem.time_weights,
            most_time=_most_time(problem),
            required=np.zeros(problem.num_requests, np.bool_) if required is None else required,
            num_slots=int(problem.capacity.sum()) if problem.admit is None else problem.admit,
            benefit=problem.benefit,
        )

    @classmethod
    def none(cls, num_workers: int, num_requests: int, num_slots: int) -> "Limits":
        """Return limits without any restriction."""
        time = np.ones(num_workers, dtype=np.int64)
        required = np.zeros(num_requests, dtype=np.bool_)
        return cls(time, None, required, num_slots)


def _most_time(problem: StepProblem) -> IntArray | None:
    """Return ``τ_g·κ_g`` in 64 bits, with limits capped at the largest possible load."""
    if problem.token_capacity is None:
        return None
    heaviest = int(problem.base.max()) + int(problem.contribution.sum(axis=0).max(initial=0))
    limits: IntArray = np.minimum(problem.token_capacity, heaviest) * problem.time_weights
    return limits
