"""The least thresholds by monotone iteration, and by enumeration.

The iteration for (9) is the recurrence of response-time analysis, ``ΔT = d0 + d1·Σ w_j ⌈λ_j ΔT⌉``
(a job of length d0 preempted by periodic ones). Its least fixed point is NP-hard to compute
(Eisenbrand and Rothvoß 2008), so no start is known from which a few rounds always suffice. From
`ThresholdConditions.lower_vector`, the usual start there, a load of 1 − ε may take ``1/ε`` rounds
and more. Where the rates have a short common period, `_leap` skips all but the last ones.
"""

from fractions import Fraction
from itertools import product
from math import ceil, floor, gcd, lcm, prod

from formulations.errors import CapabilityError
from formulations.thresholds.check import threshold_violations
from formulations.thresholds.conditions import (
    BatchArrivals,
    ThresholdConditions,
    ThresholdProblem,
    batch_time,
    least_integer,
    policy_memory,
)

#: Rounds before a leap is tried, and in all.
_PATIENCE, _MAX_ROUNDS = 2_000, 300_000
#: Most thresholds that a leap computes.
_MAX_LEAP = 500_000
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
    conditions = problem.conditions
    if conditions.load >= 1:
        return None, 0
    vector = conditions.lower_vector()
    for rounds in range(1, _MAX_ROUNDS):
        after = tuple(map(max, vector, conditions.next_vector(vector)))
        if after == vector:
            return vector, rounds
        vector = _leap(conditions, after) if rounds == _PATIENCE else after
    raise CapabilityError(
        "load",
        "too close to 1 for the iteration",
        "lower the rates a little (in Python, the integer program may do: solve with cp-sat)",
    )


def _leap(conditions: ThresholdConditions, vector: tuple[int, ...]) -> tuple[int, ...]:
    """Return a larger vector that still is below every solution; the same if none is known.

    Let ``n(D)`` be the least vector if batches last D, and ``f(D) = ΔT(n(D)) − D``; a solution is
    ``n(D)`` with ``f(D) = 0``. If all ``Λ_gi·Π`` are whole, ``n(D + Π) = n(D) + Λ·Π`` and ``f(D +
    Π) = f(D) − (1 − load)·Π``. Between its breaks, where n changes, f falls. Let m be the least
    infimum of f before a break in one period. As long as ``k·(1 − load)·Π < m``, f is positive in
    the k-th period after it, save that it may reach 0 after the last break, where n is what it is
    at the end. So one can go on from the end of the last such period.
    """
    chains, arriving = conditions.chains, conditions.arriving
    if not all(isinstance(a, BatchArrivals) for a in conditions.arrivals):
        return vector
    scale = lcm(*(rate.denominator for rate in arriving))
    period = scale / Fraction(gcd(*(int(rate * scale) for rate in arriving)))
    if sum(chain.rate * period for chain in chains) * len(vector) > _MAX_LEAP:
        return vector
    start = batch_time(conditions.worker, conditions.weights, vector)
    breaks = {
        k / chain.rate
        for chain in chains
        for k in range(floor(chain.rate * start) + 1, floor(chain.rate * (start + period)) + 1)
    }

    def excess(time: Fraction) -> Fraction:
        # Just before a break, and at it, n_1 is the arrivals up to it, rounded up.
        before = conditions.vector_from([ceil(chain.rate * time) for chain in chains])
        return batch_time(conditions.worker, conditions.weights, before) - time

    least = min(excess(time) for time in breaks)
    skipped = max(0, ceil(least / ((1 - conditions.load) * period)))
    time = start + skipped * period
    return conditions.vector_from(
        [least_integer(chain.rate * time, strict=conditions.strict) for chain in chains]
    )


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
    upper = problem.conditions.upper_vector()
    if prod(upper) > _MAX_VECTORS:
        raise CapabilityError("thresholds", f"{prod(upper)} vectors", "solve with cp-sat")
    weights = problem.weights
    solutions = (
        (policy_memory(weights, vector), vector)
        for vector in product(*(range(1, most + 1) for most in upper))
        if not threshold_violations(problem, vector)
    )
    best = min(solutions, default=None)
    return None if best is None else best[1]
