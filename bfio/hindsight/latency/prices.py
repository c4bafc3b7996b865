"""Prices of cells by round that make the configuration bound large.

For any prices ``w[t, cell] >= 0`` (`bfio.hindsight.latency.bound` proves it)

    Σ starts >= Σ_i min_k (k + Σ_ages w[k + age, cell of i at that age]) − Σ_t dearest set at t .

The right side is concave in w but has kinks. Minimum and maximum are replaced by soft ones at a
temperature, whose derivative is cheap (`configurations.soft_dearest`), and a quasi-Newton ascent
(limited-memory BFGS) runs at falling temperatures. Coordinate-wise updates stall here: shifting a
request by one round changes the prices of all its cells. Prices of neighbouring rounds are alike:
the first stages let blocks of rounds share theirs: one dearest set for each block, and far fewer
steps, since a change need not travel round by round.
"""

import math
from collections import deque
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from bfio.common.kernels import entry_point
from bfio.hindsight.in_hand import is_over
from bfio.hindsight.latency.configurations import Cells, NormalForm, arrival_windows, soft_dearest
from formulations.arrays import BoolArray, FloatArray, IntArray

#: Steps that the ascent remembers.
_HISTORY = 10
#: Largest entry of the first step, which knows nothing of curvature.
_FIRST_STEP = 0.1
#: Keeps divisions by a vanishing curvature or slope finite.
_TINY, _LEAST_SLOPE = 1e-300, 1e-9


class QuasiNewton:
    """Steps of an ascent by limited-memory BFGS, the two-loop recursion.

    Sums are numpy's own and not those of a library, which may depend on its number of threads.
    """

    def __init__(self) -> None:
        # Of each step remembered: its direction, by how much the slope fell, and their product.
        self._kept: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=_HISTORY)
        self._scale = 1.0

    def step(self, slope: FloatArray) -> FloatArray:
        """Return the step to take at a slope of any shape."""
        step = slope.copy()
        if not self._kept:
            return step * (_FIRST_STEP / max(_LEAST_SLOPE, float(np.abs(step).max())))
        shares = []
        for direction, change, product in reversed(self._kept):
            shares.append(float((direction * step).sum()) / product)
            step -= shares[-1] * change
        step *= self._scale
        for direction, change, product in self._kept:
            step += (shares.pop() - float((change * step).sum()) / product) * direction
        return step

    def add(self, direction: FloatArray, change: FloatArray) -> None:
        """Remember a step taken and by how much the slope fell."""
        product = _TINY + float((direction * change).sum())
        self._scale = product / (_TINY + float((change * change).sum()))
        self._kept.append((direction, change, product))


@dataclass(frozen=True)
class Stage:
    """A part of the ascent.

    Parameters
    ----------
    temperature : float
        Of the soft minima and maxima, in waiting rounds.
    steps : int
        Most ascent steps.
    width : int
        Rounds that share their prices.
    """

    temperature: float
    steps: int
    width: int


#: Coarse and hot first: blocks of rounds that share their prices cost one dearest set each.
STAGES = (
    Stage(0.5, 40, 16),
    Stage(0.2, 80, 16),
    Stage(0.1, 150, 16),
    Stage(0.05, 150, 8),
    Stage(0.03, 150, 4),
    Stage(0.03, 150, 2),
    Stage(0.02, 200, 1),
    Stage(0.012, 600, 1),
)
#: Steps between two looks at the clock and at the gain, and the relative gain that is none.
_CHUNK = 10
_FLAT = 3e-5
#: A cell's weight stays within doubles while its price over the temperature stays below 709; the
#: rest is left to prices that rise within a stage.
_MOST_EXPONENT = 500.0
#: Parts into which requests and rounds are dealt to threads; fixed, so that sums round alike.
PARTS = 4


class PriceAscent:
    """An ascent over prices, one temperature at a time.

    Parameters
    ----------
    form, cells : NormalForm, Cells
        Data.
    starts : IntArray
        Shape (n,): a schedule; its makespan is the number of priced rounds.
    pool : Executor
        Threads; how many does not change the prices.

    Attributes
    ----------
    prices : FloatArray
        Shape (rounds, c).
    windows : Windows
        Open starts and cells.
    """

    def __init__(self, form: NormalForm, cells: Cells, starts: IntArray, pool: Executor) -> None:
        self._form = form
        self._cells = cells
        self._pool = pool
        rounds = int((starts + form.duration).max(initial=0))
        self.windows = arrival_windows(form, cells, rounds)
        waiting = (starts[None, :] >= np.arange(rounds)[:, None]).sum(axis=1)
        # A first guess: a full memory is worth one round to everyone who waits.
        self.prices: FloatArray = waiting[:, None] * cells.tokens[None, :] / form.memory
        most = form.memory // cells.smallest
        room = (int(cells.copies.sum()), most + 2, form.memory + 1)
        self._stages = [np.zeros(room) for _ in range(PARTS)]
        self._chance = np.zeros((form.num_requests, rounds + 1))

    def run(self, stage: Stage, dearest: FloatArray, deadline: float = math.inf) -> None:
        """Ascend at one temperature until it is flat, the steps are done or time is up.

        ``dearest`` holds the price of the dearest set of each round; a round whose dearest set
        would weigh more than fits a double is kept hotter.
        """
        heat: FloatArray = np.maximum(stage.temperature, dearest / _MOST_EXPONENT)
        first = np.arange(0, len(self.prices), stage.width)
        level = _Level(
            stage,
            heat=np.maximum.reduceat(heat, first),
            open_cells=np.logical_or.reduceat(self.windows.cells, first, axis=0),
        )
        counts = np.diff([*first, len(self.prices)])
        blocks = np.add.reduceat(self.prices, first) / counts[:, None]
        blocks = self._ascended(blocks, level, deadline)
        self.prices = np.repeat(blocks, counts, axis=0)

    def _ascended(self, prices: FloatArray, level: "_Level", deadline: float) -> FloatArray:
        memory = QuasiNewton()
        value, slope = self._soft_bound(prices, level)
        earlier = -math.inf
        for count in range(level.stage.steps):
            if count % _CHUNK == 0:
                if value - earlier <= _FLAT * abs(value):
                    break
                earlier = value
            if is_over(deadline):
                break
            step = memory.step(slope)
            rise = float((step * slope).sum())
            pace = 1.0
            while rise >= 1e-6 and pace >= 1e-6:
                trial = prices + pace * step
                reached, next_slope = self._soft_bound(trial, level)
                if reached >= value + 1e-4 * pace * rise:
                    break
                pace *= 0.4
            else:
                break
            memory.add(pace * step, slope - next_slope)
            prices, value, slope = trial, reached, next_slope
        return prices

    def _soft_bound(self, prices: FloatArray, level: "_Level") -> tuple[float, FloatArray]:
        """Return the soft bound at ``prices`` of blocks of rounds, and its derivative."""
        form, cells, stage = self._form, self._cells, level.stage
        slope = np.zeros_like(prices)

        def starts(part: int) -> float:
            return _soft_starts(
                part, PARTS, prices, cells.of_age, form, self.windows.starts,
                stage.temperature, stage.width, self._chance,
            )  # fmt: skip

        def rounds(part: int) -> float:
            return _soft_rounds(
                part, PARTS, prices, cells, level.open_cells, form.duration, level.heat,
                stage.width, self._chance, self._stages[part], slope,
            )  # fmt: skip

        gained = sum(self._pool.map(starts, range(PARTS)))
        return gained - sum(self._pool.map(rounds, range(PARTS))), slope


@dataclass(frozen=True)
class _Level:
    """A stage on the rounds at hand: heat, shape (blocks,), and open cells, (blocks, c)."""

    stage: Stage
    heat: FloatArray
    open_cells: BoolArray


@entry_point
def _soft_starts(
    part: int,
    parts: int,
    prices: FloatArray,
    of_age: IntArray,
    form: NormalForm,
    open_starts: BoolArray,
    temperature: float,
    width: int,
    chance: FloatArray,
) -> float:
    """Return the soft least costs of every ``parts``-th request; fill the chance of each start."""
    rounds, arrival, duration = chance.shape[1] - 1, form.arrival, form.duration
    value = 0.0
    for i in range(part, len(arrival), parts):
        cost = chance[i]
        lowest = math.inf
        for k in range(rounds + 1):
            if not open_starts[i, k]:
                continue
            # From the last priced round on a later start only costs.
            cost[k] = float(k) if k < rounds else float(max(rounds, arrival[i]))
            for age in range(min(duration[i], rounds - k)):
                cost[k] += prices[(k + age) // width, of_age[i, age]]
            lowest = min(lowest, cost[k])
        total = 0.0
        for k in range(rounds + 1):
            cost[k] = math.exp((lowest - cost[k]) / temperature) if open_starts[i, k] else 0.0
            total += cost[k]
        value += lowest - temperature * math.log(total)
        cost /= total
    return value


@entry_point
def _soft_rounds(
    part: int,
    parts: int,
    prices: FloatArray,
    cells: Cells,
    open_cells: BoolArray,
    duration: IntArray,
    heat: FloatArray,
    width: int,
    chance: FloatArray,
    stages: FloatArray,
    slope: FloatArray,
) -> float:
    """Return the soft dearest sets of every ``parts``-th round; fill their slopes."""
    rounds = chance.shape[1] - 1
    expected = np.zeros(prices.shape[1])
    value = 0.0
    for block in range(part, len(prices), parts):
        first, last = block * width, min((block + 1) * width, rounds)
        value += (last - first) * soft_dearest(
            prices[block], cells, open_cells[block], heat[block], stages, expected
        )
        for now in range(first, last):
            for i in range(len(duration)):
                for age in range(min(duration[i], now + 1)):
                    slope[block, cells.of_age[i, age]] += chance[i, now - age]
        for cell in range(len(expected)):
            slope[block, cell] -= (last - first) * expected[cell]
    return value
