"""Thresholds of least memory (12), safety buffer included: the optimum for given segments.

Raising n_k enlarges the full batch but also θ_k, so that fewer requests wait before segment k: the
least thresholds need not need the least memory. For a given n_1 the logarithm of (12) is fixed and
the buffer is a sum over pairs (n_{k−1}, n_k), so a dynamic program goes along the segments.
Condition (10) bounds the full batch, ``M < (n_1/Λ_1 − d0)/d1``; so a state keeps every pair
(batch, memory) that no other pair beats in both. The n_1 are tried upwards until even without any
deviation they need more memory than the best in hand.

No n_k above n_{k−1} is worth trying (unless no request ends in segment k−1): n_{k−1} already makes
θ_k infinite. Deviations are floats; ties of a rounding error may go either way.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import ceil, floor, inf
from typing import Unpack

from formulations.errors import CapabilityError
from formulations.thresholds.buffer import (
    BufferTarget,
    buffer_logarithm,
    drift_exponent,
    safety_buffer,
)
from formulations.thresholds.least import least_thresholds
from formulations.thresholds.nested_problem import NestedProblem

#: Largest n_1 tried: states and steps grow with its square.
_MAX_FIRST = 2000
#: Full batch, memory of (12), thresholds so far.
Label = tuple[int, float, tuple[int, ...]]


def cheapest_thresholds(
    problem: NestedProblem, **target: Unpack[BufferTarget]
) -> tuple[int, ...] | None:
    """Return the thresholds that satisfy (10) strictly and need the least memory of (12).

    See `BufferTarget` for the keywords.

    Returns
    -------
    tuple of int, optional
        One per segment; None if the load is 1 or more.

    Raises
    ------
    CapabilityError
        If thresholds are too large for the dynamic program.
    """
    strict = replace(problem, strict=True, within_memory=False)
    best, _ = least_thresholds(strict)
    if best is None:
        return None
    memory = safety_buffer(strict, best, **target).total
    most = inf if memory is None else float(memory)
    search = _Search(strict)
    for first in range(best[0], _MAX_FIRST):
        if search.floor_from(0, first)[1] >= most:
            return best
        logarithm = buffer_logarithm(strict, [first], **target)
        for _, total, thresholds in search.labels(first, logarithm, most):
            if total < most:
                best, most = thresholds, total
    raise CapabilityError("thresholds", f"above {_MAX_FIRST}", "use the least thresholds (plan)")


class _Search:
    """The dynamic program along the segments of one problem."""

    def __init__(self, problem: NestedProblem) -> None:
        self.problem = problem
        self.weights = problem.weights
        self.shares = (Fraction(0), *problem.group.chain.passing)
        self.held = (0, *problem.group.chain.held)
        self.floor_from = cache(self._floor_from)
        self._exponent = cache(drift_exponent)

    def largest_batch(self, first: int) -> float:
        """Return the most tokens of a full batch that (10) allows."""
        worker = self.problem.worker
        time = first / self.problem.arriving[0] - worker.d0
        if worker.d1 == 0:
            return inf if time > 0 else -1
        return ceil(time / worker.d1) - 1

    def labels(self, first: int, logarithm: float, most: float) -> list[Label]:
        """Return undominated complete vectors that begin with n_1 and need less than ``most``."""
        limit = self.largest_batch(first)
        batch = first * self.weights[0]
        states: dict[int, list[Label]] = {first: [(batch, float(batch), (first,))]}
        for k in range(1, len(self.weights)):
            after: dict[int, list[Label]] = {}
            for before, labels in states.items():
                for n, deviation in self._steps(k, before, logarithm):
                    batch, cost = n * self.weights[k], n * (self.weights[k] + self.held[k])
                    rest_batch, rest_cost = self.floor_from(k, n)
                    after.setdefault(n, []).extend(
                        (m + batch, total + cost + deviation, (*vector, n))
                        for m, total, vector in labels
                        # `floor_from` counts segment k itself.
                        if m + rest_batch <= limit and total + deviation + rest_cost < most
                    )
            states = {n: _undominated(labels) for n, labels in sorted(after.items())}
        return [label for labels in states.values() for label in labels if label[0] <= limit]

    def _steps(self, k: int, before: int, logarithm: float) -> Iterator[tuple[int, float]]:
        """Yield every n_k worth trying after n_{k−1}, with its deviation."""
        least = floor(self.shares[k] * before) + 1
        for n in range(least, max(least, before) + 1):
            theta = self._exponent(before, n, self.shares[k])
            yield n, self.held[k] * logarithm / theta

    def _floor_from(self, k: int, n: int) -> tuple[int, int]:
        """Return the least full batch of segments k.. from n_k = n on, and with what waits."""
        batch = cost = 0
        for i in range(k, len(self.weights)):
            n = n if i == k else floor(self.shares[i] * n) + 1
            batch += n * self.weights[i]
            cost += n * (self.weights[i] + self.held[i])
        return batch, cost


def _undominated(labels: list[Label]) -> list[Label]:
    """Return the labels that no other beats in batch and memory, ascending by batch."""
    kept: list[Label] = []
    for label in sorted(labels):
        if not kept or label[1] < kept[-1][1]:
            kept.append(label)
    return kept
