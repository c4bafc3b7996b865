"""The best bound of the interval relaxation of a step (`formulations.step.bound`)."""

from dataclasses import dataclass

import numpy as np

from formulations.arrays import IntArray
from formulations.step.bound import IntervalRelaxation, interval_relaxation, lower_bound
from formulations.step.problem import StepProblem

#: Steps of the search for the price of the total, as parts of the sum of all supplies.
_PRICE_STEPS = (4, 16, 64)
#: Rises in turn after which the next steps are longer and longer.
_EVEN_RISES = 16
#: Gains along a path are sums of times; beyond this they could leave 64 bits.
_LARGEST_TIME = 1 << 50


def interval_bound(problem: StepProblem) -> int:
    """Return a lower bound on the scaled objective of every feasible assignment.

    At least `formulations.step.bound.lower_bound`, which is all there is where waiting requests do
    not grow alike. About a millisecond for 32 workers and 21 look-ahead steps.
    """
    plain = lower_bound(problem)
    found = interval_multipliers(problem)
    return plain if found is None else max(plain, found.bound)


@dataclass(frozen=True)
class IntervalMultipliers:
    """What `IntervalRelaxation.bound` derives a bound from: flow, shape (G, K), and price."""

    bound: int
    flow: IntArray
    price: int


def interval_multipliers(problem: StepProblem) -> IntervalMultipliers | None:
    """Return multipliers of the interval relaxation; None where it says nothing."""
    relaxation = interval_relaxation(problem)
    if relaxation is None or _heaviest(relaxation) > _LARGEST_TIME:
        return None
    return _best(relaxation)


def _best(relaxation: IntervalRelaxation) -> IntervalMultipliers:
    """Bound by the best flow at the best price met: the bound is concave in the price."""
    best = _at(relaxation, 0)
    supply = int(relaxation.supply.sum())
    # No sum is worth more: beyond it the bound rises only where the intervals contradict each
    # other, and then without end.
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
            # Where speeds differ by much, the best price may be far away.
            step *= 2 if rises > _EVEN_RISES else 1
    return best


def _at(relaxation: IntervalRelaxation, price: int) -> IntervalMultipliers:
    flow = _flow(relaxation, price)
    return IntervalMultipliers(relaxation.bound(flow, price), flow, price)


def _flow(relaxation: IntervalRelaxation, price: int) -> IntArray:
    """Return a flow that is best at this price if all workers are equally fast.

    A unit at a worker that has fewer than it asks for brings down its largest sum, one beyond that
    raises its smallest.
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
    """Return a bound on the gain of a unit."""
    largest = int((relaxation.speed * np.abs(relaxation.most)).max(initial=0))
    return int(np.abs(relaxation.times).max(initial=0)) + largest
