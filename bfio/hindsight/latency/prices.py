"""Prices of cells by round that make the configuration bound large.

For any prices ``w[t, cell] >= 0`` (`bfio.hindsight.latency.bound` proves it)

    Σ starts >= Σ_i min_k (k + Σ_ages w[k + age, cell of i at that age]) − Σ_t dearest set at t .

The right side is concave in w but has kinks. Minimum and maximum are replaced by soft ones at a
temperature, whose derivative is cheap (`configurations.soft_dearest`), and a quasi-Newton ascent
(limited-memory BFGS) runs at falling temperatures. Coordinate-wise updates stall here: shifting a
request by one round changes the prices of all its cells.
"""

import math
import time

import numpy as np

from bfio.exact.compiled import compiled
from bfio.hindsight.latency.cells import Cells, arrival_windows
from bfio.hindsight.latency.configurations import soft_dearest
from bfio.hindsight.latency.normal_form import NormalForm
from formulations.arrays import BoolArray, FloatArray, IntArray

#: Temperatures, as multiples of one waiting round, and most ascent steps at each.
STAGES = ((0.5, 40), (0.2, 80), (0.1, 150), (0.05, 250), (0.03, 300), (0.02, 400), (0.012, 800))
#: Steps remembered by the quasi-Newton method.
_HISTORY = 10
#: Steps between two looks at the clock and at the gain, and the relative gain that is none.
_CHUNK = 10
_FLAT = 3e-5
#: A cell's weight stays within doubles while its price over the temperature stays below 709; the
#: rest is left to prices that rise within a stage.
_MOST_EXPONENT = 500.0


class PriceAscent:
    """An ascent over prices, one temperature at a time.

    Parameters
    ----------
    form, cells : NormalForm, Cells
        Data.
    starts : IntArray
        Shape (n,): a schedule; its makespan is the number of priced rounds.

    Attributes
    ----------
    prices : FloatArray
        Shape (rounds, c).
    windows : Windows
        Open starts and cells; narrower ones may be set between runs.
    """

    def __init__(self, form: NormalForm, cells: Cells, starts: IntArray) -> None:
        self._form = form
        self._cells = cells
        rounds = int((starts + form.duration).max(initial=0))
        self.windows = arrival_windows(form, cells, rounds)
        waiting = (starts[None, :] >= np.arange(rounds)[:, None]).sum(axis=1)
        # A first guess: a full memory is worth one round to everyone who waits.
        self.prices: FloatArray = waiting[:, None] * cells.tokens[None, :] / form.memory
        num_cells = len(cells.tokens)
        self._smallest = int(form.prompt.min(initial=1))
        most = form.memory // self._smallest
        self._stages = np.zeros((num_cells, form.memory + 1, most + 2))
        size = rounds * num_cells
        self._directions = np.zeros((_HISTORY, size))
        self._changes = np.zeros((_HISTORY, size))

    def run(
        self, temperature: float, steps: int, dearest: FloatArray, deadline: float | None
    ) -> None:
        """Ascend at one temperature until it is flat, the steps are done or time is up.

        ``dearest`` holds the price of the dearest set of each round; a round whose dearest set
        would weigh more than fits a double is kept hotter.
        """
        heat = np.maximum(temperature, dearest / _MOST_EXPONENT)
        length = np.zeros(2, dtype=np.int64)
        value = -math.inf
        for _ in range(0, steps, _CHUNK):
            if deadline is not None and time.perf_counter() >= deadline:
                return
            reached = _ascend(
                self.prices,
                self._cells.tokens,
                self._cells.left,
                self._cells.of_age,
                self.windows.starts,
                self.windows.cells,
                self._form.arrival,
                self._form.duration,
                self._form.memory,
                self._smallest,
                temperature,
                heat,
                self._stages,
                self._directions,
                self._changes,
                length,
                _CHUNK,
            )
            if reached - value <= _FLAT * abs(reached):
                return
            value = reached


@compiled
def _ascend(
    prices: FloatArray,
    tokens: IntArray,
    left: IntArray,
    of_age: IntArray,
    open_starts: BoolArray,
    open_cells: BoolArray,
    arrival: IntArray,
    duration: IntArray,
    memory: int,
    smallest: int,
    temperature: float,
    heat: FloatArray,
    stages: FloatArray,
    directions: FloatArray,
    changes: FloatArray,
    length: IntArray,
    steps: int,
) -> float:
    """Take some quasi-Newton steps in place; return the soft bound reached.

    ``length`` holds how many steps are remembered and where the next one goes.
    """
    size = prices.size
    history = len(directions)
    slope = np.zeros_like(prices)
    next_slope = np.zeros_like(prices)
    trial = np.zeros_like(prices)
    step = np.zeros(size)
    share = np.zeros(history)
    value = _soft_bound(
        prices, tokens, left, of_age, open_starts, open_cells, arrival, duration, memory, smallest,
        temperature, heat, stages, slope,
    )  # fmt: skip
    for _ in range(steps):
        flat_slope = slope.reshape(-1)
        step[:] = flat_slope
        _newton(step, directions, changes, share, length)
        rise = 0.0
        for j in range(size):
            rise += step[j] * flat_slope[j]
        if rise < 1e-6:
            return value
        pace = 1.0
        while True:
            flat_trial, flat_prices = trial.reshape(-1), prices.reshape(-1)
            for j in range(size):
                flat_trial[j] = flat_prices[j] + pace * step[j]
            reached = _soft_bound(
                trial, tokens, left, of_age, open_starts, open_cells, arrival, duration, memory,
                smallest, temperature, heat, stages, next_slope,
            )  # fmt: skip
            if reached >= value + 1e-4 * pace * rise:
                break
            pace *= 0.4
            if pace < 1e-6:
                return value
        where = length[1]
        flat_next = next_slope.reshape(-1)
        for j in range(size):
            directions[where, j] = pace * step[j]
            changes[where, j] = flat_slope[j] - flat_next[j]
        length[1] = (where + 1) % history
        length[0] = min(length[0] + 1, history)
        value = reached
        prices[:] = trial
        slope[:] = next_slope
    return value


@compiled
def _newton(
    step: FloatArray,
    directions: FloatArray,
    changes: FloatArray,
    share: FloatArray,
    length: IntArray,
) -> None:
    """Turn a slope into a quasi-Newton step, in place (two-loop recursion)."""
    history = len(directions)
    known = length[0]
    size = len(step)
    if known == 0:
        largest = 1e-9
        for j in range(size):
            largest = max(largest, abs(step[j]))
        for j in range(size):
            step[j] *= 0.1 / largest
        return
    for back in range(known):
        h = (length[1] - 1 - back) % history
        dot, curvature = 0.0, 1e-300
        for j in range(size):
            dot += directions[h, j] * step[j]
            curvature += directions[h, j] * changes[h, j]
        share[h] = dot / curvature
        for j in range(size):
            step[j] -= share[h] * changes[h, j]
    newest = (length[1] - 1) % history
    curvature, square = 1e-300, 1e-300
    for j in range(size):
        curvature += directions[newest, j] * changes[newest, j]
        square += changes[newest, j] * changes[newest, j]
    for j in range(size):
        step[j] *= curvature / square
    for back in range(known - 1, -1, -1):
        h = (length[1] - 1 - back) % history
        dot, curvature = 0.0, 1e-300
        for j in range(size):
            dot += changes[h, j] * step[j]
            curvature += directions[h, j] * changes[h, j]
        for j in range(size):
            step[j] += (share[h] - dot / curvature) * directions[h, j]


@compiled
def _soft_bound(
    prices: FloatArray,
    tokens: IntArray,
    left: IntArray,
    of_age: IntArray,
    open_starts: BoolArray,
    open_cells: BoolArray,
    arrival: IntArray,
    duration: IntArray,
    memory: int,
    smallest: int,
    temperature: float,
    heat: FloatArray,
    stages: FloatArray,
    slope: FloatArray,
) -> float:
    """Return the soft bound at ``prices`` and fill its derivative ``slope``."""
    rounds, num_cells = prices.shape
    cost = np.zeros(rounds + 1)
    slope[:] = 0.0
    value = 0.0
    for i in range(len(arrival)):
        lowest = math.inf
        for k in range(rounds + 1):
            if not open_starts[i, k]:
                continue
            # From the last priced round on a later start only costs.
            cost[k] = float(k) if k < rounds else float(max(rounds, arrival[i]))
            for age in range(min(duration[i], rounds - k)):
                cost[k] += prices[k + age, of_age[i, age]]
            lowest = min(lowest, cost[k])
        total = 0.0
        for k in range(rounds + 1):
            if open_starts[i, k]:
                cost[k] = math.exp((lowest - cost[k]) / temperature)
                total += cost[k]
        value += lowest - temperature * math.log(total)
        for k in range(rounds):
            if open_starts[i, k] and cost[k] > 1e-12 * total:
                for age in range(min(duration[i], rounds - k)):
                    slope[k + age, of_age[i, age]] += cost[k] / total
    work = np.zeros(stages.shape[1:])
    used = np.zeros(num_cells, np.int64)
    weight = np.zeros(num_cells)
    expected = np.zeros(num_cells)
    for now in range(rounds):
        value -= soft_dearest(
            prices[now], tokens, left, open_cells[now], memory, smallest, heat[now], stages,
            work, used, weight, expected,
        )  # fmt: skip
        for cell in range(num_cells):
            slope[now, cell] -= expected[cell]
    return value
