"""Branch over rounds: which requests start now, with bounds from prices and dominance.

A state after round t says when each started request started, all of them at t or before; the
others start later. From a state only two things matter: which requests have started, and the
memory they will use after t. A schedule's cost, scaled, is the priced bound plus its losses

    Σ_i (cost of i's start − its least cost)  +  Σ_t (dearest set at t − set present at t),

two sums of terms >= 0 (`bfio.hindsight.latency.bound`). Rounds up to t have settled their terms,
and a waiting request can no longer choose a start up to t, so its least cost rises. The sum so
far is therefore a lower bound on every completion of the state. It is raised by a look ahead.
The set of a round to come contains every request that is then still running, and a dearest set
with a given cell may be much cheaper (`configurations.losses`); per round the greatest such
loss counts.

Four rules discard states, none of them all optima:

1. *Bound.* The lower bound exceeds what a better schedule may cost.
2. *Dominance.* Two states have started the same requests, and one uses no more memory at any
   later round and has no greater sum of starts. Whatever completes the other completes it too:
   the added requests find no less room. Its completions cost no more, so one optimum survives,
   and if the survivor falls to rule 1 so would have all completions of the other.
3. *Symmetry.* Of identical requests (same prompt, output, arrival) the first in order starts no
   later; exchanging their starts changes neither memory nor cost.
4. *Left shift.* The memory at rounds up to t is settled. If a waiting request would have fitted
   into them, ending at t, or a request that ends at t could have run earlier, then moving it
   there leaves a feasible schedule of smaller cost whatever follows: no completion is optimal.
   (So neither is any completion of a state that this one dominates, which costs no less.)

Requests that merely are smaller in both prompt and output are *not* ordered: exchanging them can
break the memory at a later peak. When states are too many, those of least bound are kept; the
least bound among the dropped ones still bounds what they could have led to. When there is no room
even for the children of those kept, rule 1 is applied with a lower cutoff, and that cutoff bounds
what it discards.
"""

import math
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bfio.hindsight.in_hand import is_over
from bfio.hindsight.latency.bound import SCALE, PairLosses, PricedBound, cell_losses
from bfio.hindsight.latency.configurations import Cells, NormalForm
from bfio.hindsight.latency.states import (
    MARK_BITS,
    MARK_WORDS,
    NONE_LOST,
    States,
    Tables,
    drop_improvable,
    expand,
    undominated,
)
from formulations.arrays import BoolArray, IntArray

#: Most requests: their marks fill the words.
MAX_REQUESTS = MARK_BITS * MARK_WORDS
#: States of one group compared with one another.
_COMPARED = 2000
#: States kept per round times requests squared: a round must not outlast a time limit by much.
_ROUND_WORK = 400_000_000
#: Memory for the states of one round [bytes].
_BYTES = 300_000_000
#: States that one thread takes at a time.
_PIECE = 4096


@dataclass(frozen=True)
class RoundSearchResult:
    """What a search over rounds found and proved.

    Parameters
    ----------
    starts : IntArray, optional
        Shape (n,): a schedule better than the one given, if there is one.
    bound : int
        Lower bound on the sum of starts of every schedule.
    states : int
        States generated.
    """

    starts: IntArray | None
    bound: int
    states: int


class RoundSearch:
    """A search with fixed prices.

    Parameters
    ----------
    form, cells, priced : NormalForm, Cells, PricedBound
        Data and the prices that bound.
    pairs : PairLosses
        Losses of two cells together.
    pool : Executor
        Threads; how many does not change what is found.
    """

    def __init__(
        self,
        form: NormalForm,
        cells: Cells,
        priced: PricedBound,
        pairs: PairLosses,
        pool: Executor,
    ) -> None:
        self._form = form
        self._pool = pool
        self._root = States.root(form.num_requests, priced.scaled)
        self._tables = Tables(
            memory=form.memory,
            prompt=form.prompt,
            duration=form.duration,
            arrival=form.arrival,
            twin=_twins(form),
            of_age=cells.of_age,
            cost=priced.cost,
            least=_least_costs(priced.cost),
            prices=priced.prices,
            dearest=priced.dearest,
            loss=cell_losses(cells, priced),
            pair=pairs.loss,
            begin=pairs.begin,
            row=pairs.row,
            size=pairs.size,
        )

    def run(self, best: int, width: int, deadline: float = math.inf) -> RoundSearchResult:
        """Look for a sum of starts below ``best``.

        Parameters
        ----------
        best : int
            Sum of starts of a known schedule.
        width : int
            Most states kept after a round, fewer if there are many requests; a narrow search
            finds schedules, a wide one proves.
        deadline : float
            Value of `time.perf_counter` at which to stop.
        """
        n = self._form.num_requests
        width = min(width, _ROUND_WORK // n**2)
        states = self._root
        dropped = SCALE * best
        starts: IntArray | None = None
        room = min(20 * width + 1000, _BYTES // (4 * n + 40))
        generated, now = 0, 0
        while len(states.bound):
            if is_over(deadline):
                return RoundSearchResult(starts, self._proven(best, dropped, states), generated)
            children, lost = self._expand_some(states, now, SCALE * (best - 1), room, deadline)
            dropped = min(dropped, lost)
            generated += len(children.bound)
            complete = np.flatnonzero(children.started == n)
            if len(complete):
                first = complete[np.argmin(children.total[complete])]
                if children.total[first] < best:
                    best, starts = int(children.total[first]), children.starts[first].copy()
            alive = (children.started < n) & (children.reach <= SCALE * (best - 1))
            self._drop_improvable(children, alive, now)
            states = self._undominated(children.select(alive), now)
            states, lost = states.best(width)
            dropped = min(dropped, lost)
            now += 1
        return RoundSearchResult(starts, self._proven(best, dropped, states), generated)

    @staticmethod
    def _proven(best: int, dropped: int, states: States) -> int:
        open_ = min(dropped, int(states.reach.min(initial=dropped)))
        return min(best, -(-open_ // SCALE))

    def _expand_some(
        self, states: States, now: int, cutoff: int, room: int, deadline: float
    ) -> tuple[States, int]:
        """Return the children of least bound that there is room for, and what is lost."""
        dropped = NONE_LOST
        if len(states.bound) == 1:
            # One state alone may have very many, at the beginning above all.
            room = _BYTES // (4 * self._form.num_requests + 40)
        while len(states.bound):
            children = self._expand(states, now, cutoff, room)
            if children is not None:
                return children, dropped
            least, cut = int(states.reach.min()), len(states.bound) // 8
            if is_over(deadline):
                cut = 0
            elif cutoff > least:
                # By rule 1, whatever a lower cutoff cuts off costs more than it.
                cutoff = (least + cutoff) // 2
                dropped = min(dropped, cutoff + 1)
                continue
            states, lost = states.best(cut)
            dropped = min(dropped, lost)
        return states, dropped

    def _expand(self, states: States, now: int, cutoff: int, room: int) -> States | None:
        """Return all children, or None if there are more than ``room``."""
        pieces = list(_pieces(len(states.bound), _PIECE))
        # One piece may have more than its share of the children.
        share = min(room, 4 * room // len(pieces) + 100_000)

        def of_piece(piece: slice) -> States | None:
            return self._expand_piece(states.select(piece), now, cutoff, share)

        expanded = list(self._pool.map(of_piece, pieces))
        children = [piece for piece in expanded if piece is not None]
        if len(children) < len(expanded) or sum(len(piece.bound) for piece in children) > room:
            return None
        return States.joined(children)

    def _expand_piece(self, states: States, now: int, cutoff: int, room: int) -> States | None:
        children = States.empty(room, self._form.num_requests)
        written = expand(now, cutoff, states, self._tables, children)
        # A copy, so that the room not written to is given back.
        return None if written < 0 else children.select(np.arange(written))

    def _drop_improvable(self, states: States, alive: BoolArray, now: int) -> None:
        def drop(piece: slice) -> None:
            drop_improvable(alive[piece], states.starts[piece], self._tables, now)

        list(self._pool.map(drop, _pieces(len(alive), _PIECE)))

    def _undominated(self, states: States, now: int) -> States:
        order = np.lexsort((states.bound, states.total, *states.mark.T))

        def kept(piece: slice) -> BoolArray:
            return undominated(order[piece], states, self._tables, now, _COMPARED)

        keep = list(self._pool.map(kept, _group_pieces(states.mark[order], _PIECE)))
        return states.select(order[np.concatenate(keep)] if keep else order)


def _pieces(size: int, piece: int) -> Iterator[slice]:
    for begin in range(0, size, piece):
        yield slice(begin, min(begin + piece, size))


def _group_pieces(mark: IntArray, piece: int) -> Iterator[slice]:
    """Cut sorted marks into pieces of about a size, never within a group of equal marks."""
    if len(mark) == 0:
        return
    change = np.flatnonzero((mark[1:] != mark[:-1]).any(axis=1)) + 1
    targets = np.arange(piece, len(mark), piece)
    cuts = np.unique(change[np.minimum(np.searchsorted(change, targets), len(change) - 1)])
    cuts = cuts if len(change) else change
    bounds = [0, *cuts.tolist(), len(mark)]
    for begin, end in pairwise(bounds):
        yield slice(begin, end)


def _twins(form: NormalForm) -> IntArray:
    """Return the identical request just before each one, or -1."""
    kinds = np.stack((form.prompt, form.duration, form.arrival), axis=1)
    same = (kinds[1:] == kinds[:-1]).all(axis=1)
    return np.concatenate(([-1], np.where(same, np.arange(len(same)), -1))).astype(np.int64)


def _least_costs(cost: IntArray) -> IntArray:
    """Return the least cost of any start at t or later, shape (n, rounds + 1)."""
    least: IntArray = np.minimum.accumulate(cost[:, ::-1], axis=1)[:, ::-1].copy()
    return least
