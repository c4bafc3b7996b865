"""The best bound of a step's interval relaxation (`formulations.step.bound`)."""

from dataclasses import dataclass

import numpy as np

from formulations.arrays import IntArray
from formulations.step.bound import IntervalRelaxation, interval_relaxation, lower_bound
from formulations.step.problem import StepProblem

#: Step lengths of the search for the price, as fractions of the sum of all supplies.
_PRICE_STEPS = (4, 16, 64)
#: Number of improvements after which each further step is twice as long.
_EVEN_RISES = 16
#: Gains along a path are sums of times; larger times could overflow 64 bits.
_LARGEST_TIME = 1 << 50


def interval_bound(problem: StepProblem) -> int:
    """Return a lower bound on the scaled objective of every feasible assignment.

    The bound is at least `formulations.step.bound.lower_bound`, and equal to it if waiting
    requests grow differently. It takes about a millisecond for 32 workers and 21 look-ahead steps.
    """
    plain = lower_bound(problem)
    found = interval_multipliers(problem)
    return plain if found is None else max(plain, found.bound)


@dataclass(frozen=True)
class IntervalMultipliers:
    """Multipliers for `IntervalRelaxation.bound`: a flow, shape (G, K), and a price."""

    bound: int
    flow: IntArray
    price: int


def interval_multipliers(problem: StepProblem) -> IntervalMultipliers | None:
    """Return multipliers of the interval relaxation; None if it does not apply."""
    relaxation = interval_relaxation(problem)
    if relaxation is None or _heaviest(relaxation) > _LARGEST_TIME:
        return None
    return _best(relaxation)


def _best(relaxation: IntervalRelaxation) -> IntervalMultipliers:
    """Search the price with the best bound by steps of either sign; the bound is concave in it."""
    best = _at(relaxation, 0)
    supply = int(relaxation.supply.sum())
    # No sum is worth more than this. At larger prices the bound rises only if the intervals
    # contradict each other, and then without limit.
    highest = int(relaxation.speed.max()) * max(supply, relaxation.pull)
    for part in _PRICE_STEPS:
        step = max(1, supply // (part * len(relaxation.times)))
        rises, rising = 0, True
        while rising:
            rising = False
            for price in (best.price + step, best.price - step):
                if abs(price) > highest:
                    continue
                found = _at(relaxation, price)
                if found.bound > best.bound:
                    best, rising = found, True
                    break
            rises += rising
            # If speeds differ strongly, the best price may be far away.
            step *= 2 if rises > _EVEN_RISES else 1
    return best


def _at(relaxation: IntervalRelaxation, price: int) -> IntervalMultipliers:
    flow = _flow(relaxation, price)
    return IntervalMultipliers(relaxation.bound(flow, price), flow, price)


def _flow(relaxation: IntervalRelaxation, price: int) -> IntArray:
    """Return a flow that is optimal at this price if all workers have the same speed.

    The first ``asked`` units at a worker reduce its largest sum; further units raise its smallest
    sum.
    """
    from bfio.step.exact.transport import best_flow

    speed, times = relaxation.speed, relaxation.times
    beyond = times + (speed * relaxation.least)[:, None]
    otherwise = beyond.max(axis=0)
    gain = times + (speed * relaxation.most)[:, None] - otherwise
    asked = np.maximum(relaxation.pull - price // speed, 0)
    flow = best_flow(gain, relaxation.supply, asked)
    rest = relaxation.supply - flow.sum(axis=0)
    flow[beyond.argmax(axis=0), np.arange(len(rest))] += rest
    return flow


def _heaviest(relaxation: IntervalRelaxation) -> int:
    """Return an upper bound on the gain of a unit of flow."""
    largest = int((relaxation.speed * np.abs(relaxation.most)).max(initial=0))
    return int(np.abs(relaxation.times).max(initial=0)) + largest
