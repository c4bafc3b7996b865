"""The least thresholds by monotone iteration, and by enumeration."""

from collections.abc import Callable, Sequence
from itertools import product
from math import ceil, prod

from formulations.errors import CapabilityError
from formulations.thresholds.check import nested_violations, wait_violations
from formulations.thresholds.nested_problem import NestedProblem
from formulations.thresholds.wait_problem import WaitProblem, policy_memory

ThresholdProblem = WaitProblem | NestedProblem
#: Most rounds; a load of 1 − ε takes some 1/ε of them.
_MAX_ROUNDS = 300_000
_MAX_VECTORS = 2_000_000


def least_thresholds(problem: ThresholdProblem) -> tuple[tuple[int, ...] | None, int]:
    """Iterate ``n <- next_vector(n)`` from below until nothing changes.

    What the conditions ask of n only grows with n, so every iterate stays below every solution,
    and the first that does not change is the least one. It exists iff the load is below 1.

    Returns
    -------
    tuple
        The least solution, and the rounds it took; (None, 0) if the load is 1 or more. The memory
        is not looked at: the least solution needs the least.

    Raises
    ------
    CapabilityError
        If the load is so close to 1 that the iteration does not end.
    """
    if problem.load >= 1:
        return None, 0
    vector = problem.lower_vector()
    for rounds in range(1, _MAX_ROUNDS):
        after = tuple(map(max, vector, problem.next_vector(vector)))
        if after == vector:
            return vector, rounds
        vector = after
    raise CapabilityError("load", "too close to 1 for the iteration", "solve with cp-sat")


def brute_force(problem: ThresholdProblem) -> tuple[int, ...] | None:
    """Return the solution of least memory among all vectors up to one known solution.

    The iteration and its arguments have no part in it, save the bound on the vectors.

    Raises
    ------
    CapabilityError
        If there are too many vectors.
    """
    if problem.load >= 1:
        return None
    check = violation_checker(problem)
    upper = problem.upper_vector()
    if prod(upper) > _MAX_VECTORS:
        raise CapabilityError("thresholds", f"{prod(upper)} vectors", "solve with cp-sat")
    weights = problem.weights
    solutions = (
        (policy_memory(weights, vector), vector)
        for vector in product(*(range(1, most + 1) for most in upper))
        if not check(vector)
    )
    best = min(solutions, default=None)
    return None if best is None else best[1]


def violation_checker(problem: ThresholdProblem) -> Callable[[Sequence[int]], dict[str, int]]:
    """Return the checker of a problem."""
    if isinstance(problem, WaitProblem):
        return lambda thresholds: wait_violations(problem, thresholds)
    return lambda thresholds: nested_violations(problem, thresholds)


def memory_bound(problem: ThresholdProblem) -> int:
    """Return a lower bound on the memory: the fluid equilibrium's, rounded up.

    Multiply the conditions by the weights and sum: ``M >= A·(d0 + d1·M)``.
    """
    pairs = zip(problem.arriving, problem.weights, strict=True)
    work = sum(rate * w for rate, w in pairs)
    return ceil(problem.worker.d0 * work / (1 - problem.load))
