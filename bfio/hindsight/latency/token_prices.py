"""Prices of tokens: the bound of the linear relaxation, for a memory of any size.

At prices ``y_t >= 0`` of a token held at round t, a request that starts at k pays for all tokens
that it holds. The tokens of a round cost at most ``y_t M`` together. So

    Σ_i p_i >= Σ_i min_k (k + Σ_ages y[k + age] (s_i + age)) − M Σ_t y_t .

The largest such bound is the value of the linear relaxation of the time-indexed program
(Lagrange), which an LP solver needs minutes for. It is at most the bound by prices of cells
(`bfio.hindsight.latency.bound`), whose tables grow with the memory; this one takes O(n rounds).

A request's payments are differences of two sums over rounds, of y and of t·y. The ascent is that
of the cells' prices: soft minima at falling temperatures, and blocks of rounds that share a price.
"""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from scipy.optimize import minimize

from bfio.hindsight.in_hand import is_over
from bfio.hindsight.latency.configurations import NormalForm
from formulations.arrays import FloatArray, IntArray
from formulations.deadline import OutOfTime

#: Temperature as a share of the mean duration, and number of blocks of rounds, of each stage.
STAGES = ((0.1, 64), (0.02, 128), (0.005, 512), (0.001, 2048))
#: Steps of a stage.
_STEPS = 150


def ascended(form: NormalForm, starts: IntArray, deadline: float) -> Iterator[FloatArray]:
    """Yield prices of tokens, shape (rounds,), after each stage of the ascent.

    ``starts`` is a schedule, whose makespan is the number of rounds.
    """
    rounds = int((starts + form.duration).max(initial=0))
    waiting = (starts[None, :] >= np.arange(rounds)[:, None]).sum(axis=1)
    # Initial guess: a full memory is worth one round for each waiting request.
    prices: FloatArray = waiting / form.memory
    for share, blocks in STAGES:
        if is_over(deadline) or not rounds:
            return
        width = -(-rounds // blocks)
        first = np.arange(0, rounds, width)
        counts = np.diff([*first, rounds])
        mean = np.add.reduceat(prices, first) / counts
        bound = _SoftBound(form, counts, share * float(form.duration.mean()), deadline)
        with suppress(OutOfTime):
            minimize(
                bound, mean, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(mean),
                options={"maxiter": _STEPS},
            )  # fmt: skip
        prices = np.repeat(bound.prices, counts)
        yield prices


class _SoftBound:
    """The negative bound with soft minima, and its slope; keeps the best prices."""

    def __init__(
        self, form: NormalForm, counts: IntArray, temperature: float, deadline: float
    ) -> None:
        self._form, self._counts, self._deadline = form, counts, deadline
        self._temperature = temperature
        self._now = np.arange(int(counts.sum()) + 1)
        end = self._now[-1]
        self._tokens, duration = form.prompt[:, None], form.duration[:, None]
        self._start = np.where(self._now < end, self._now, np.maximum(end, form.arrival[:, None]))
        self._open = self._start >= form.arrival[:, None]
        # A request that starts at k holds tokens until the round before k + duration.
        self._after = np.minimum(self._now + duration, end)
        self._since = np.maximum(self._now[1:] - duration, 0)
        self._least = np.inf
        self.prices: FloatArray = np.zeros(len(counts))

    def __call__(self, prices: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and its slope at the prices of blocks."""
        if is_over(self._deadline):
            raise OutOfTime
        by_round = np.repeat(prices, self._counts)
        sums = _sums(by_round)
        moments = _sums(by_round * self._now[:-1])
        cost = self._start + (self._tokens - self._now) * (sums[self._after] - sums)
        cost += moments[self._after] - moments
        cost[~self._open] = np.inf
        lowest = cost.min(axis=1, keepdims=True)
        chance = np.exp((lowest - cost) / self._temperature)
        total = chance.sum(axis=1, keepdims=True)
        chance /= total
        value = float((lowest - self._temperature * np.log(total)).sum())
        value -= self._form.memory * float(by_round.sum())
        if -value < self._least:
            self._least, self.prices = -value, prices.copy()
        # The tokens that are held at each round, on average over the chances of starts.
        begun, moment = _sums(chance), _sums(chance * self._now)
        present = begun[:, 1:-1] - np.take_along_axis(begun, self._since, axis=1)
        held = (self._tokens + self._now[:-1]) * present
        held -= moment[:, 1:-1] - np.take_along_axis(moment, self._since, axis=1)
        slope = self._form.memory - held.sum(axis=0)
        blocks = np.cumsum(self._counts) - self._counts
        return -value, np.add.reduceat(slope, blocks)


def _sums(values: FloatArray) -> FloatArray:
    """Return the sums before each entry of the last axis, and the total."""
    sums = np.zeros((*values.shape[:-1], values.shape[-1] + 1))
    np.cumsum(values, axis=-1, out=sums[..., 1:])
    return sums
