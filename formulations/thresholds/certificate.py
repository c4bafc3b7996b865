"""A lower bound on the memory of thresholds, derived from the conditions alone.

The conditions bound each entry from below by something that grows with all entries
(`formulations.thresholds.conditions`). So what they ask of a vector below every solution is again
below every solution; from all ones upwards this ends at the least solution. No step is skipped,
unlike in `formulations.thresholds.least`: this is what that is checked against.
"""

from formulations.errors import InputError
from formulations.thresholds.conditions import ThresholdProblem, policy_memory

#: Most rounds; near a load of 1 there are many.
_MAX_ROUNDS = 200_000


def certified_memory(problem: ThresholdProblem) -> int:
    """Return the least memory of any thresholds [tokens].

    Raises
    ------
    InputError
        If there are none (a load of 1 or more), or the load is too near 1.
    """
    conditions = problem.conditions
    if problem.load >= 1:
        raise InputError("load", "1 or more", "there are no thresholds")
    vector = (1,) * len(problem.weights)
    for _ in range(_MAX_ROUNDS):
        following = conditions.next_vector(vector)
        if following == vector:
            return policy_memory(problem.weights, vector)
        vector = following
    raise InputError("load", f"too near 1 for {_MAX_ROUNDS:,} rounds", "use a lower load")
