"""What a step problem may ask of the two-stage heuristic besides slots.

The rule of BalanceRoute is kept, in the plainest way:

- Loads are compared as times: worker g needs ``τ_g`` per token, so requests that add ``D(h)``
  tokens add ``τ_g·D(h)`` to it, and margins are those of times.
- Requests that must start are admitted first, by the same two stages; then the others.
- A set that would break ``κ_g`` is no candidate. Nor is one that leaves less room than the other
  slots of the worker will take, if they have to be filled: that of the smallest requests waiting,
  as many of these as fit.
- What placing a request on a worker is worth is added to the score of every set that holds it, so
  that with BR-0's factors the score still is minus the change of the objective. Candidates then
  are the requests worth most where nothing overflows, not the largest ones.
"""

from dataclasses import dataclass

import numpy as np

from formulations.arrays import BoolArray, IntArray
from formulations.step.problem import StepProblem


@dataclass(frozen=True)
class Limits:
    """Restrictions of a step problem, as the heuristic takes them.

    Parameters
    ----------
    time : IntArray
        Shape (G,): ``τ_g``, time per token of each worker.
    most_time : IntArray or None
        Shape (G,): ``τ_g·κ_g``, most time of each worker at any look-ahead step.
    required : BoolArray
        Shape (N,): requests that must be admitted.
    num_slots : int
        How many slots may be filled.
    benefit : IntArray, optional
        Shape (N, G): what each placement is worth, in units of the scaled objective.
    """

    time: IntArray
    most_time: IntArray | None
    required: BoolArray
    num_slots: int
    benefit: IntArray | None = None

    @classmethod
    def of(cls, problem: StepProblem) -> "Limits | None":
        """Return the restrictions of a problem, None if it has none."""
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
        """Return what restricts nothing."""
        time = np.ones(num_workers, dtype=np.int64)
        required = np.zeros(num_requests, dtype=np.bool_)
        return cls(time, None, required, num_slots)


def _most_time(problem: StepProblem) -> IntArray | None:
    """Return ``τ_g·κ_g`` in 64 bits: a limit above every load is as good as a higher one."""
    if problem.token_capacity is None:
        return None
    heaviest = int(problem.base.max()) + int(problem.contribution.sum(axis=0).max(initial=0))
    limits: IntArray = np.minimum(problem.token_capacity, heaviest) * problem.time_weights
    return limits
