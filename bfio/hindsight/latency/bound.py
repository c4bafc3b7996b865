"""The configuration bound: a lower bound in exact integers from any prices.

Each request pays a price ``w[t, cell] >= 0`` at each round t that it occupies, depending on its
cell there. The sum of all payments at t is subtracted again. So a feasible schedule costs, scaled
by `SCALE`,

    Σ_i SCALE p_i = Σ_i (SCALE p_i + payments of i) − Σ_t (payments at t) .

The first sum is at least ``Σ_i min_k`` of the bracket. The payments at t are the price of the set
of cells present at t. In the schedule these requests run to their ends within the memory, even
with later starts added. Without later starts they use no more memory. So the cells fit together in
the sense of `configurations`, and their price is at most that of the dearest (maximum-price) set.
Hence

    Σ_i p_i >= (Σ_i min_k (SCALE k + payments of i from k) − Σ_t dearest(t)) / SCALE .

All quantities are integers. Starts beyond the last priced round have no payments, and later starts
cost more, so the minimum is over finitely many k. The relaxation is that the set of each round is
chosen independently. Unlike the linear relaxation it accounts for the memory that a request at its
peak leaves unused.

A pair loss is the decrease of the maximum price if a set must contain two given cells. At good
prices nearly every cell is in some dearest set, so one running request alone implies no loss
(complementary slackness). Two running requests often imply a loss, because sets that contain both
cells are usually much cheaper. The tables have rounds times cells squared entries, so they are
used for problems with few requests.

Prices for a large bound are found by ascent. With w in waiting rounds, the bound

    Σ_i min_k (k + Σ_ages w[k + age, cell of i at that age]) − Σ_t dearest set at t

is concave in w but not smooth. Minimum and maximum are replaced by soft ones at a temperature,
whose derivatives are cheap (`configurations.soft_dearest`). A quasi-Newton ascent (limited-memory
BFGS) runs at falling temperatures. Coordinate-wise updates stall, because shifting a request by
one round changes the prices of all its cells. Prices of neighbouring rounds are similar, so in the
first stages blocks of rounds share them. This needs one dearest set per block and far fewer steps,
because a change need not propagate round by round.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bfio.common.kernels import entry_point
from bfio.hindsight.in_hand import is_over
from bfio.hindsight.latency.configurations import (
    UNREACHABLE,
    Cells,
    NormalForm,
    Windows,
    around,
    arrival_windows,
    best_with,
    dearest,
    empty_sets,
    losses,
    most_others,
    offer,
    open_windows,
    soft_dearest,
    span,
    table_size,
)
from formulations.arrays import BoolArray, FloatArray, IntArray
from formulations.deadline import UNLIMITED, Deadline

#: Prices are integer multiples of 1/SCALE waiting rounds.
SCALE = 4096
#: Cost of an excluded start: greater than all real costs, and sums fit 64 bits.
CLOSED = 1 << 50
#: Table entries filled between two checks of the time.
_PIECE_WORK = 20_000_000


@dataclass(frozen=True)
class PricedBound:
    """Integer prices and the bound that they prove.

    Parameters
    ----------
    prices : IntArray
        Shape (rounds, cells), scaled.
    dearest : IntArray
        Shape (rounds,): price of the maximum-price set of each round, scaled.
    cost : IntArray
        Shape (n, rounds + 1): ``SCALE k`` plus the payments of each request if it starts at k.
    scaled : int
        The bound on ``SCALE Σ starts``; exceeds all real sums if a request has no open start.
    """

    prices: IntArray
    dearest: IntArray
    cost: IntArray
    scaled: int

    @property
    def starts(self) -> int:
        """Lower bound on the sum of starts."""
        return -(-self.scaled // SCALE)


def priced_bound(
    form: NormalForm,
    cells: Cells,
    windows: Windows,
    prices: FloatArray,
    deadline: Deadline = UNLIMITED,
) -> PricedBound:
    """Round prices down to integers and evaluate the bound that they prove.

    The bound holds for schedules within the windows. Negative prices are set to 0, which never
    lowers the bound, because a maximum-price set avoids them.
    """
    scaled = np.floor(np.maximum(prices, 0.0) * SCALE).astype(np.int64)
    # No request can be at a closed cell, so a price there could only lower the bound.
    scaled[~windows.cells] = 0
    pieces = _pieces(scaled, cells, deadline)
    best = np.concatenate([_dearest_by_round(scaled[piece], cells) for piece in pieces])
    cost = _costs(scaled, cells.of_age, form, SCALE)
    cost[~windows.starts] = CLOSED
    return PricedBound(scaled, best, cost, sum(cost.min(axis=1).tolist()) - sum(best.tolist()))


def cell_losses(cells: Cells, priced: PricedBound, deadline: Deadline = UNLIMITED) -> IntArray:
    """Return the maximum price minus that of sets with a given cell, shape (rounds, c)."""
    pieces = _pieces(priced.prices, cells, deadline)
    return np.concatenate([_losses(priced.prices[piece], cells) for piece in pieces])


def _pieces(prices: IntArray, cells: Cells, deadline: Deadline) -> Iterator[slice]:
    """Yield slices of the rounds, and check the time before each."""
    size = max(1, _PIECE_WORK // (table_size(cells) * len(cells.tokens)))
    # At least one slice, which may be empty.
    for begin in range(0, max(len(prices), 1), size):
        deadline.check()
        yield slice(begin, begin + size)


def narrowed_windows(
    form: NormalForm,
    cells: Cells,
    windows: Windows,
    priced: PricedBound,
    cutoff: int,
    deadline: Deadline = UNLIMITED,
) -> Windows:
    """Close every start that no schedule of scaled cost up to ``cutoff`` can contain.

    If request i starts at k, the bound rises by the excess cost of k over i's cheapest start. It
    also rises, at each round that i occupies, by the loss of the sets with i's cell, since the set
    present contains that cell.
    """
    loss = cell_losses(cells, priced, deadline)
    extra = priced.cost - priced.cost.min(axis=1, keepdims=True)
    extra += _costs(loss, cells.of_age, form, 0)
    return open_windows(form, cells, windows.starts & (priced.scaled + extra <= cutoff))


@entry_point
def _dearest_by_round(prices: IntArray, cells: Cells) -> IntArray:
    best = np.zeros(len(prices), np.int64)
    for now in range(len(prices)):
        best[now] = dearest(prices[now], cells)
    return best


@entry_point
def _losses(prices: IntArray, cells: Cells) -> IntArray:
    room = (len(cells.tokens), cells.memory // cells.smallest + 2, cells.memory + 1)
    before, after = np.zeros(room, np.int64), np.zeros(room, np.int64)
    loss = np.zeros_like(prices)
    for now in range(len(prices)):
        losses(prices[now], cells, before, after, loss[now])
    return loss


@entry_point
def _costs(prices: IntArray, of_age: IntArray, form: NormalForm, scale: int) -> IntArray:
    rounds, arrival, duration = len(prices), form.arrival, form.duration
    cost = np.zeros((len(arrival), rounds + 1), np.int64)
    for i in range(len(arrival)):
        for k in range(rounds + 1):
            cost[i, k] = scale * (k if k < rounds else max(rounds, arrival[i]))
            for age in range(min(duration[i], rounds - k)):
                cost[i, k] += prices[k + age, of_age[i, age]]
    return cost


#: Maximum entries of the tables of all rounds.
_MAX_ENTRIES = 60_000_000
#: Loss of two cells that no set contains together.
_NEVER = np.iinfo(np.int32).max


@dataclass(frozen=True)
class PairLosses:
    """Tables of all rounds, concatenated; empty if they would be too large.

    Parameters
    ----------
    loss : array of int32
        Shape (entries,): square tables over the open cells of each round.
    begin : IntArray
        Shape (rounds,): index of the first entry of each table.
    row : IntArray
        Shape (rounds, c): index of a cell in the table of a round, -1 if closed.
    size : IntArray
        Shape (rounds,): number of rows of each table.
    """

    loss: NDArray[np.int32]
    begin: IntArray
    row: IntArray
    size: IntArray


def pair_losses(
    cells: Cells,
    priced: PricedBound,
    windows: Windows,
    pool: Executor,
    deadline: Deadline = UNLIMITED,
) -> PairLosses:
    """Return the losses of all pairs of open cells, for each round.

    Raises
    ------
    OutOfTime
        If the deadline passes first.
    """
    size = windows.cells.sum(axis=1)
    row = np.where(windows.cells, np.cumsum(windows.cells, axis=1) - 1, -1)
    entries = int((size**2).sum())
    if entries > _MAX_ENTRIES:
        empty = np.zeros(0, np.int64)
        return PairLosses(np.zeros(0, np.int32), empty, row, empty)
    begin = np.cumsum(size**2) - size**2
    loss = np.zeros(entries, np.int32)

    def fill(now: int) -> None:
        deadline.check()
        open_ = np.flatnonzero(windows.cells[now])
        _fill_pairs(
            priced.prices[now, open_],
            cells._replace(
                tokens=cells.tokens[open_], left=cells.left[open_], copies=cells.copies[open_]
            ),
            loss[begin[now] : begin[now] + size[now] ** 2].reshape(size[now], size[now]),
        )

    list(pool.map(fill, range(len(size))))
    return PairLosses(loss, begin, row, size)


@entry_point
def _fill_pairs(price: IntArray, cells: Cells, loss: NDArray[np.int32]) -> None:
    num_cells = len(price)
    value = empty_sets(cells)
    before = np.zeros((num_cells, *value.shape), np.int64)
    after = np.zeros((num_cells, *value.shape), np.int64)
    best = around(price, cells, before, after)
    for first in range(num_cells):
        gain, m = price[first], cells.tokens[first]
        loss[first, first] = best - best_with(gain, first, cells, before[first], after[first])
        value[:] = UNREACHABLE
        for c in range(most_others(first, cells) + 1):
            low, high = span(first, c, cells)
            for s in range(low, high):
                value[c + 1, s + m] = before[first, c, s] + gain
        for _ in range(cells.copies[first] - 1):
            offer(gain, first, cells, value)
        for second in range(first + 1, num_cells):
            both = best_with(price[second], second, cells, value, after[second])
            loss[first, second] = min(best - both, _NEVER)
            loss[second, first] = loss[first, second]
            for _ in range(cells.copies[second]):
                offer(price[second], second, cells, value)


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


#: Wide blocks and high temperatures first, with one dearest set per block of rounds.
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
        heat = np.maximum.reduceat(heat, first)
        open_cells = np.logical_or.reduceat(self.windows.cells, first, axis=0)
        counts = np.diff([*first, len(self.prices)])
        blocks = np.add.reduceat(self.prices, first) / counts[:, None]
        bound = partial(self._soft_bound, stage, heat, open_cells)
        blocks = _ascended(blocks, bound, stage.steps, deadline)
        self.prices = np.repeat(blocks, counts, axis=0)

    def _soft_bound(
        self, stage: Stage, heat: FloatArray, open_cells: BoolArray, prices: FloatArray
    ) -> tuple[float, FloatArray]:
        """Return the soft bound at ``prices`` of blocks of rounds, and its derivative.

        ``heat``, shape (blocks,), is the temperature of each block, ``open_cells``, shape
        (blocks, c), its open cells.
        """
        form, cells = self._form, self._cells
        slope = np.zeros_like(prices)

        def starts(part: int) -> float:
            return _soft_starts(
                part, PARTS, prices, cells.of_age, form, self.windows.starts,
                stage.temperature, stage.width, self._chance,
            )  # fmt: skip

        def rounds(part: int) -> float:
            return _soft_rounds(
                part, PARTS, prices, cells, open_cells, form.duration, heat,
                stage.width, self._chance, self._stages[part], slope,
            )  # fmt: skip

        gained = sum(self._pool.map(starts, range(PARTS)))
        return gained - sum(self._pool.map(rounds, range(PARTS))), slope


def _ascended(
    prices: FloatArray,
    bound: Callable[[FloatArray], tuple[float, FloatArray]],
    steps: int,
    deadline: float,
) -> FloatArray:
    """Ascend from prices; ``bound`` returns value and slope."""
    memory = QuasiNewton()
    value, slope = bound(prices)
    earlier = -math.inf
    for count in range(steps):
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
            reached, next_slope = bound(trial)
            if reached >= value + 1e-4 * pace * rise:
                break
            pace *= 0.4
        else:
            break
        memory.add(pace * step, slope - next_slope)
        prices, value, slope = trial, reached, next_slope
    return prices


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
    """Return the sum of soft minimum costs of every ``parts``-th request; fill ``chance``."""
    rounds, arrival, duration = chance.shape[1] - 1, form.arrival, form.duration
    value = 0.0
    for i in range(part, len(arrival), parts):
        cost = chance[i]
        lowest = math.inf
        for k in range(rounds + 1):
            if not open_starts[i, k]:
                continue
            # The last column represents all starts after the priced rounds: the first is cheapest.
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
    """Return the sum of soft maximum prices of every ``parts``-th block; fill their slopes."""
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
