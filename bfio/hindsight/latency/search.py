"""Search over rounds: choose the requests that start now, with bounds by prices and dominance.

A state after round t holds the starts of all requests that start up to t; the others start later.
What follows depends only on the set of started requests and the memory that they use after t. The
scaled cost of a schedule is the priced bound plus its losses

    Σ_i (cost of i's start − its least cost)  +  Σ_t (dearest set at t − set present at t),

two sums of terms >= 0 (`bfio.hindsight.latency.bound`). The terms of rounds up to t are known. A
waiting request cannot start up to t any more, so its least cost rises. The sum so far is therefore
a lower bound on every completion of the state. A look-ahead raises it: the set of a future round
contains every request that still runs then, and a dearest set with a given cell may be much
cheaper (`configurations.losses`). For each round the largest such loss is added.

Four rules discard states, but never all optima:

1. *Bound.* The lower bound exceeds the cost allowed for an improved schedule.
2. *Dominance.* Two states have started the same requests, and one uses no more memory at any
   later round and has no larger sum of starts. Every completion of the other is also one of the
   first, since the added requests find at least as much memory. It costs no more, so an optimum
   survives. If rule 1 then discards the survivor, it would discard all completions of the other.
3. *Symmetry.* Among identical requests (same prompt, output, arrival) the first in order starts
   no later; exchanging their starts changes neither memory nor cost.
4. *Left shift.* The memory at rounds up to t is final. Suppose a waiting request could have run
   there, ending at t, or a request that ends at t could have run earlier. Moving it there gives
   a feasible schedule of smaller cost for every completion, so no completion is optimal. (The
   same holds for states that this one dominates, whose completions cost no less.)

Requests that are merely smaller in both prompt and output are *not* ordered: exchanging them can
exceed the memory at a later peak. If there are too many states, those with the least bounds are
kept; the least bound of the dropped ones still bounds their completions. If even the children of
the kept states do not fit the memory, rule 1 is applied with a lower cutoff, which bounds the
completions of the states that it discards.
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

#: Maximum number of requests, limited by the bits of their marks.
MAX_REQUESTS = MARK_BITS * MARK_WORDS
#: Maximum states of one group compared with each other.
_COMPARED = 2000
#: Maximum of states kept per round times requests squared; limits the time of a round.
_ROUND_WORK = 400_000_000
#: Memory for the states of a round [bytes].
_BYTES = 300_000_000
#: States per task of a thread.
_PIECE = 4096


@dataclass(frozen=True)
class RoundSearchResult:
    """Result of a search over rounds.

    Parameters
    ----------
    starts : IntArray, optional
        Shape (n,): a schedule better than the given one, if found.
    bound : int
        Lower bound on the sum of starts of every schedule.
    states : int
        Number of states generated.
    """

    starts: IntArray | None
    bound: int
    states: int


class RoundSearch:
    """A search with fixed prices.

    Parameters
    ----------
    form, cells, priced : NormalForm, Cells, PricedBound
        Data, and the prices of the bound.
    pairs : PairLosses
        Losses of pairs of cells.
    pool : Executor
        Threads; their number does not change the result.
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
        """Search for a sum of starts below ``best``.

        Parameters
        ----------
        best : int
            Sum of starts of a known schedule.
        width : int
            Maximum states kept after a round, fewer with many requests. A narrow search finds
            schedules, a wide one proves optimality.
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
        """Return the children of least bound that fit, and the bound of the discarded ones."""
        dropped = NONE_LOST
        if len(states.bound) == 1:
            # A single state may have very many children, especially at the start.
            room = _BYTES // (4 * self._form.num_requests + 40)
        while len(states.bound):
            children = self._expand(states, now, cutoff, room)
            if children is not None:
                return children, dropped
            least, cut = int(states.reach.min()), len(states.bound) // 8
            if is_over(deadline):
                cut = 0
            elif cutoff > least:
                # By rule 1, all states cut off by a lower cutoff cost more than that cutoff.
                cutoff = (least + cutoff) // 2
                dropped = min(dropped, cutoff + 1)
                continue
            states, lost = states.best(cut)
            dropped = min(dropped, lost)
        return states, dropped

    def _expand(self, states: States, now: int, cutoff: int, room: int) -> States | None:
        """Return all children, or None if there are more than ``room``."""
        pieces = list(_pieces(len(states.bound), _PIECE))
        # A piece may have more than the average number of children.
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
        # A copy, which releases the unused rows.
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
    """Cut sorted marks into pieces of similar size, but never within a group of equal marks."""
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
    """Return the index of the preceding identical request of each one, or -1."""
    kinds = np.stack((form.prompt, form.duration, form.arrival), axis=1)
    same = (kinds[1:] == kinds[:-1]).all(axis=1)
    return np.concatenate(([-1], np.where(same, np.arange(len(same)), -1))).astype(np.int64)


def _least_costs(cost: IntArray) -> IntArray:
    """Return the minimum cost of a start at t or later, shape (n, rounds + 1)."""
    least: IntArray = np.minimum.accumulate(cost[:, ::-1], axis=1)[:, ::-1].copy()
    return least
