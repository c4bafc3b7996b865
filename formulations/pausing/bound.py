"""Lower bounds on the time of a step that emits a given number of tokens, in closed form.

Let the step last M units of time. Worker g can then process ``⌊(M − C_g)/τ_g⌋`` tokens, some of
which the requests that must run take. *Without waiting requests* the workers are independent: each
runs as many of its other requests as fit, lightest first, which maximises the emitted tokens. The
k-th lightest request of worker g joins at the time at which the k lightest fit. The largest number
of tokens of a step is then the number of these times up to M. This is exact.

*With waiting requests* the relaxation may split them over any workers. It fills the joint capacity
of all workers with the smallest requests that could run: active ones that have joined on their own
worker, and waiting ones that fit some worker alone, as many as slots and tokens allow. Every
feasible step emits at most this many tokens. It therefore lasts at least the smallest time at
which the relaxation emits as many tokens (`least_times`).
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from formulations.arrays import IntArray
from formulations.pausing.problem import PausingProblem, PricedPausing


def shortest_step(problem: PausingProblem) -> int:
    """Return a lower bound on each step's time [1/scale s], from the requests that must run."""
    loads = problem.active_loads(problem.must_run)
    return int((problem.overheads + problem.rates * loads).max())


def longest_step(problem: PausingProblem) -> int:
    """Return an upper bound on the time of every step [1/scale s]."""
    largest = np.concatenate([[0], np.cumsum(-np.sort(-problem.waiting))])
    loads = problem.active_loads() + largest[problem.capacity]
    return int((problem.overheads + problem.rates * loads).max())


@dataclass(frozen=True)
class Relaxation:
    """The relaxation in which waiting requests may be split over the capacity of all workers.

    Parameters
    ----------
    problem : PausingProblem
        Data.
    """

    problem: PausingProblem

    @cached_property
    def base(self) -> IntArray:
        """Tokens of the requests that must run on each worker, shape (G,)."""
        return self.problem.active_loads(self.problem.must_run)

    @cached_property
    def optional(self) -> IntArray:
        """Active requests that may pause, ordered by worker, then load, then age."""
        may = np.flatnonzero(~self.problem.must_run)
        return may[np.lexsort((may, self.problem.load[may], self.problem.worker[may]))]

    @cached_property
    def prefix(self) -> IntArray:
        """Tokens of each request in `optional`, plus all requests before it on its worker."""
        worker = self.problem.worker[self.optional]
        totals = np.cumsum(self.problem.load[self.optional])
        before: IntArray = np.concatenate([[0], totals])[np.searchsorted(worker, worker)]
        return totals - before

    @cached_property
    def joins(self) -> IntArray:
        """Least step time [1/scale s] that fits each of `optional` with those before it."""
        worker = self.problem.worker[self.optional]
        return self._time_of(worker, self.base[worker] + self.prefix)

    @cached_property
    def first_fit(self) -> IntArray:
        """Least step time [1/scale s] at which each waiting request fits alone, shape (N,).

        An entry is `never` if the request's tokens fit no worker, or no slot is free.
        """
        problem = self.problem
        sizes = problem.waiting[:, None]
        times = self._time_of(np.arange(problem.num_workers)[None], self.base + sizes)
        fits = (problem.capacity > 0) & (sizes <= problem.room)
        first: IntArray = np.where(fits, times, self.never).min(axis=1, initial=self.never)
        return first

    @cached_property
    def candidates(self) -> IntArray:
        """Waiting requests that may start, smallest first, cut to free slots and tokens."""
        problem = self.problem
        room = int(np.maximum(problem.room, 0)[problem.capacity > 0].sum())
        may = np.flatnonzero(~problem.must_start & (self.first_fit < self.never))
        may = may[np.argsort(problem.waiting[may], kind="stable")]
        slots = int(problem.capacity.sum()) - int(problem.must_start.sum())
        required = int(problem.waiting[problem.must_start].sum())
        fitting = np.searchsorted(np.cumsum(problem.waiting[may]), room - required, "right")
        return may[: max(0, min(slots, int(fitting)))]

    @cached_property
    def forced(self) -> int:
        """Lower bound on the tokens that a step emits: the requests that must run or start."""
        return int(self.problem.must_run.sum() + self.problem.must_start.sum())

    @cached_property
    def shortest(self) -> int:
        """Lower bound on the time of every step [1/scale s]."""
        required = self.first_fit[self.problem.must_start]
        return max(shortest_step(self.problem), int(required.max(initial=0)))

    @cached_property
    def never(self) -> int:
        """A time that exceeds the time of every step [1/scale s]."""
        return longest_step(self.problem) + 1

    @cached_property
    def most(self) -> int:
        """Upper bound on the tokens that a step emits."""
        return self.most_tokens(self.never - 1)

    def bears(self, time: int) -> IntArray:
        """Return the tokens that each worker can process in ``time`` units, shape (G,)."""
        return (time - self.problem.overheads) // self.problem.rates

    def most_tokens(self, time: int) -> int:
        """Return an upper bound on the tokens of a step of ``time`` units; -1 if infeasible."""
        if time < self.shortest:
            return -1
        problem = self.problem
        sizes, joins, own = self._items
        loads = self.base.copy()
        here = own >= 0
        fits = joins <= time
        np.add.at(loads, own[here & fits], sizes[here & fits])
        # A worker without room for waiting requests shares no capacity with them.
        bears = np.minimum(self.bears(time), loads + self._most_taken)
        required = int(problem.waiting[problem.must_start].sum())
        left = int((bears - self.base).sum()) - required
        if left < 0:
            return -1
        return self.forced + int(np.searchsorted(np.cumsum(sizes[fits]), left, "right"))

    @cached_property
    def _items(self) -> tuple[IntArray, IntArray, IntArray]:
        """Optional requests by size: sizes, least step times, workers (-1 while waiting)."""
        problem = self.problem
        sizes = np.concatenate([problem.load[self.optional], problem.waiting[self.candidates]])
        joins = np.concatenate([self.joins, self.first_fit[self.candidates]])
        anywhere = np.full(len(self.candidates), -1, dtype=np.int64)
        own = np.concatenate([problem.worker[self.optional], anywhere])
        order = np.argsort(sizes, kind="stable")
        return sizes[order], joins[order], own[order]

    @cached_property
    def _most_taken(self) -> IntArray:
        """Upper bound on the tokens of waiting requests per worker, shape (G,)."""
        problem = self.problem
        largest = np.concatenate([[0], np.cumsum(-np.sort(-problem.waiting))])
        taken: IntArray = np.minimum(largest[problem.capacity], np.maximum(problem.room, 0))
        return taken

    def _time_of(self, worker: IntArray, tokens: IntArray) -> IntArray:
        times: IntArray = self.problem.overheads[worker] + self.problem.rates[worker] * tokens
        return times


def least_times(relaxation: Relaxation, above: Fraction | None = None) -> IntArray:
    """Return, for n = 1, 2, ..., a lower bound on the time of a step that emits n tokens or more.

    Parameters
    ----------
    relaxation : Relaxation
        The problem.
    above : Fraction, optional
        Units of time per token of a known step. If no step of n tokens has a lower ratio, the
        entry is the smallest time with this or a higher ratio, and needs no search.

    Returns
    -------
    IntArray
        Shape (most tokens of a step,) [units of time]; empty if no step is feasible.
    """
    most, last = relaxation.most, relaxation.never - 1
    smallest = int(relaxation.problem.rates.min())
    times: list[int] = []
    while len(times) < most:
        n = len(times) + 1
        high = last if above is None else min(last, _below(above, n))
        if relaxation.most_tokens(high) < n:
            times.append(high + 1)
            continue
        # Double the step until a time with n tokens is found, then bisect.
        low, reach = max([relaxation.shortest, *times[-1:]]) - 1, smallest
        while low + reach < high and relaxation.most_tokens(low + reach) < n:
            low, reach = low + reach, 2 * reach
        between = range(low + 1, min(low + reach, high))
        high = between.start + bisect_left(between, n, key=relaxation.most_tokens)
        times += [high] * (relaxation.most_tokens(high) - n + 1)
    return np.array(times, dtype=np.int64)


def _below(ratio: Fraction, tokens: int) -> int:
    """Return the longest time with a ratio time / ``tokens`` below ``ratio``."""
    return -(-ratio.numerator * tokens // ratio.denominator) - 1


def least_ratio(times: Sequence[int]) -> Fraction | None:
    """Return the least ratio of time to tokens, given `least_times`; None if they are empty."""
    return min((Fraction(int(time), n + 1) for n, time in enumerate(times)), default=None)


def lower_bound(priced: PricedPausing, times: IntArray) -> int:
    """Return a lower bound on ``q·time − p·tokens`` of every feasible step.

    Parameters
    ----------
    priced : PricedPausing
        Data.
    times : IntArray
        `least_times` of the problem, shape (most tokens,).
    """
    values = (priced.value(time, n + 1) for n, time in enumerate(times.tolist()))
    return min(values, default=0)
