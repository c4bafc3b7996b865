"""Ascent of prices of cells by round, for a large configuration bound.

For any prices ``w[t, cell] >= 0`` (proof in `bfio.hindsight.latency.bound`)

    Σ starts >= Σ_i min_k (k + Σ_ages w[k + age, cell of i at that age]) − Σ_t dearest set at t .

The right side is concave in w but not smooth. Minimum and maximum are replaced by soft ones at a
temperature, whose derivatives are cheap (`configurations.soft_dearest`). A quasi-Newton ascent
(limited-memory BFGS) runs at falling temperatures. Coordinate-wise updates stall, because shifting
a request by one round changes the prices of all its cells. Prices of neighbouring rounds are
similar, so in the first stages blocks of rounds share them. This needs one dearest set per block
and far fewer steps, because a change need not propagate round by round.
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

#: Number of steps stored by the ascent.
_HISTORY = 10
#: Maximum entry of the first step, taken without curvature information.
_FIRST_STEP = 0.1
#: Avoid divisions by zero if curvature or slope vanish.
_TINY, _LEAST_SLOPE = 1e-300, 1e-9


class QuasiNewton:
    """Steps of an ascent by limited-memory BFGS, with the two-loop recursion.

    Sums use numpy itself and not a BLAS library, whose results may depend on the number of
    threads.
    """

    def __init__(self) -> None:
        # For each stored step: its direction, the decrease of the slope, and their product.
        self._kept: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=_HISTORY)
        self._scale = 1.0

    def step(self, slope: FloatArray) -> FloatArray:
        """Return the step for a slope of any shape."""
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
        """Store a step and the decrease of the slope."""
        product = _TINY + float((direction * change).sum())
        self._scale = product / (_TINY + float((change * change).sum()))
        self._kept.append((direction, change, product))


@dataclass(frozen=True)
class Stage:
    """Parameters of a part of the ascent.

    Parameters
    ----------
    temperature : float
        Temperature of the soft minima and maxima, in waiting rounds.
    steps : int
        Maximum number of ascent steps.
    width : int
        Number of consecutive rounds that share their prices.
    """

    temperature: float
    steps: int
    width: int


#: Coarse and hot stages first: they need one dearest set per block of rounds.
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
#: Steps between two checks of time and gain, and the relative gain at which a stage ends.
_CHUNK = 10
_FLAT = 3e-5
#: A cell's weight fits a double while its price over the temperature is below 709; the margin
#: allows for prices that rise within a stage.
_MOST_EXPONENT = 500.0
#: Number of parts for threads; fixed, so that sums are rounded identically.
PARTS = 4


class PriceAscent:
    """An ascent over prices, one stage at a time.

    Parameters
    ----------
    form, cells : NormalForm, Cells
        Data of the problem.
    starts : IntArray
        Shape (n,): a schedule, whose makespan is the number of priced rounds.
    pool : Executor
        Threads; their number does not change the prices.

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
        # Initial guess: a full memory is worth one round for each waiting request.
        self.prices: FloatArray = waiting[:, None] * cells.tokens[None, :] / form.memory
        most = form.memory // cells.smallest
        room = (int(cells.copies.sum()), most + 2, form.memory + 1)
        self._stages = [np.zeros(room) for _ in range(PARTS)]
        self._chance = np.zeros((form.num_requests, rounds + 1))

    def run(self, stage: Stage, dearest: FloatArray, deadline: float = math.inf) -> None:
        """Ascend at one temperature until the gain is small, or the step or time limit is reached.

        ``dearest`` holds the maximum price of a set in each round. The temperature of a round is
        raised if the weight of that set would exceed a double.
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
    """A stage with the temperature, shape (blocks,), and open cells, (blocks, c), of blocks."""

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
    """Return the soft minimum costs of every ``parts``-th request; fill the start chances."""
    rounds, arrival, duration = chance.shape[1] - 1, form.arrival, form.duration
    value = 0.0
    for i in range(part, len(arrival), parts):
        cost = chance[i]
        lowest = math.inf
        for k in range(rounds + 1):
            if not open_starts[i, k]:
                continue
            # Beyond the last priced round, a later start only costs more.
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
    """Return the soft maximum prices of every ``parts``-th block; fill their slopes."""
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
