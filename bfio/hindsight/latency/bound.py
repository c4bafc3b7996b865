"""The configuration bound: exact in integers for any prices, good prices or bad.

Let every request pay a price ``w[t, cell] >= 0`` for the cell it is at each round t it occupies,
and give the sum of what is paid at t back. A feasible schedule costs, scaled by `SCALE`,

    Σ_i SCALE p_i = Σ_i (SCALE p_i + what i pays) − Σ_t (what is paid at t) .

The first sum is at least ``Σ_i min_k`` of the bracket. What is paid at t is the price of the set
of cells present at t; without any later start they run to their ends within the memory, because
in the schedule they do so with later starts added, so they fit together in the sense of
`configurations` and are paid at most the dearest such set. Hence

    Σ_i p_i >= (Σ_i min_k (SCALE k + paid by i from k) − Σ_t dearest(t)) / SCALE .

Every quantity is an integer; starts beyond the last priced round pay nothing more and only cost,
so the minimum is over finitely many k. The relaxation is that each round's set is chosen alone;
unlike the linear relaxation it charges the room that a request at its peak leaves unused.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bfio.common.kernels import entry_point
from bfio.hindsight.latency.cells import Cells, Windows, open_windows
from bfio.hindsight.latency.configurations import dearest, losses, table_size
from bfio.hindsight.latency.normal_form import NormalForm
from formulations.arrays import FloatArray, IntArray
from formulations.deadline import UNLIMITED, Deadline

#: Prices are multiples of one waiting round over this.
SCALE = 4096
#: Cost of a closed start: above any real one, and sums of many stay within 64 bits.
CLOSED = 1 << 50
#: Entries of tables filled between two looks at the clock.
_PIECE_WORK = 20_000_000


@dataclass(frozen=True)
class PricedBound:
    """Integer prices and what they prove.

    Parameters
    ----------
    prices : IntArray
        Shape (rounds, cells), scaled.
    dearest : IntArray
        Shape (rounds,): price of the dearest set of each round, scaled.
    cost : IntArray
        Shape (n, rounds + 1): ``SCALE k`` plus what each request pays from start k.
    scaled : int
        The bound on ``SCALE Σ starts``; beyond every real sum if a request has no open start.
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
    """Round prices down to integers and evaluate the bound they prove.

    The bound holds for the schedules within the windows. Negative prices are set to 0, which
    never lowers the bound: the dearest set avoids them.
    """
    scaled = np.floor(np.maximum(prices, 0.0) * SCALE).astype(np.int64)
    # Nobody can be a closed cell, so its price would only cost.
    scaled[~windows.cells] = 0
    pieces = _pieces(scaled, cells, deadline)
    best = np.concatenate([_dearest_by_round(scaled[piece], cells) for piece in pieces])
    cost = _costs(scaled, cells.of_age, form, SCALE)
    cost[~windows.starts] = CLOSED
    return PricedBound(scaled, best, cost, sum(cost.min(axis=1).tolist()) - sum(best.tolist()))


def cell_losses(cells: Cells, priced: PricedBound, deadline: Deadline = UNLIMITED) -> IntArray:
    """Return how much cheaper than the dearest set one with a cell is, shape (rounds, c)."""
    pieces = _pieces(priced.prices, cells, deadline)
    return np.concatenate([_losses(priced.prices[piece], cells) for piece in pieces])


def _pieces(prices: IntArray, cells: Cells, deadline: Deadline) -> Iterator[slice]:
    """Yield pieces of the rounds, and look at the clock before each."""
    size = max(1, _PIECE_WORK // (table_size(cells) * len(cells.tokens)))
    # One piece at least, of no rounds.
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
    """Close every start that no schedule of scaled cost up to ``cutoff`` can have.

    If request i starts at k, the bound rises by what k costs more than i's cheapest start and,
    at each round that i occupies, by what the dearest set with i's cell is cheaper than the
    dearest set: at those rounds the set present does contain the cell.
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
