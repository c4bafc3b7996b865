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
least bound among the dropped ones still bounds what they could have led to.
"""

import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bfio.exact.compiled import compiled
from bfio.hindsight.latency.bound import SCALE, PricedBound, cell_losses
from bfio.hindsight.latency.cells import Cells
from bfio.hindsight.latency.normal_form import NormalForm
from bfio.hindsight.latency.pairs import PairLosses
from formulations.arrays import BoolArray, IntArray

#: Most requests: their marks fill two words.
MAX_REQUESTS = 120
_WORD = 60
#: States of one group compared with one another.
_COMPARED = 2000
#: States kept per round times requests squared: a round must not outlast a time limit by much.
_ROUND_WORK = 400_000_000
#: Memory for the states of one round [bytes].
_BYTES = 300_000_000
#: Bound of what is dropped, if nothing is.
_NONE_LOST = np.iinfo(np.int64).max
#: States that one thread takes at a time.
_PIECE = 4096


@dataclass(frozen=True)
class SearchResult:
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
        self._pairs = pairs
        self._pool = pool
        self._cells = cells
        self._priced = priced
        self._least = _least_costs(priced.cost)
        self._loss = cell_losses(form, cells, priced)
        self._twin = _twins(form)

    def run(self, best: int, width: int, deadline: float | None) -> SearchResult:
        """Look for a sum of starts below ``best``.

        Parameters
        ----------
        best : int
            Sum of starts of a known schedule.
        width : int
            Most states kept after a round, fewer if there are many requests; a narrow search
            finds schedules, a wide one proves.
        deadline : float, optional
            Value of `time.perf_counter` at which to stop.
        """
        n = self._form.num_requests
        width = min(width, _ROUND_WORK // n**2)
        states = _States.root(n, self._priced.scaled)
        dropped = SCALE * best
        found: IntArray | None = None
        room = min(20 * width + 1000, _BYTES // (4 * n + 40))
        generated, now = 0, 0
        while len(states.bound):
            if deadline is not None and time.perf_counter() >= deadline:
                return SearchResult(found, self._proven(best, dropped, states), generated)
            children, lost = self._expand_some(states, now, SCALE * (best - 1), room)
            dropped = min(dropped, lost)
            generated += len(children.bound)
            complete = np.flatnonzero(children.count == n)
            if len(complete):
                first = complete[np.argmin(children.total[complete])]
                if children.total[first] < best:
                    best, found = int(children.total[first]), children.starts[first].copy()
            alive = (children.count < n) & (children.reach <= SCALE * (best - 1))
            self._drop_improvable(children, alive, now)
            states = self._undominated(children.select(alive), now)
            states, lost = states.best(width)
            dropped = min(dropped, lost)
            now += 1
        return SearchResult(found, self._proven(best, dropped, states), generated)

    @staticmethod
    def _proven(best: int, dropped: int, states: "_States") -> int:
        open_ = min(dropped, int(states.reach.min(initial=dropped)))
        return min(best, -(-open_ // SCALE))

    def _expand_some(
        self, states: "_States", now: int, cutoff: int, room: int
    ) -> tuple["_States", int]:
        """Return the children of the best states that have few enough, and what is lost."""
        dropped = _NONE_LOST
        while len(states.bound) > 1:
            children = self._expand(states, now, cutoff, room)
            if children is not None:
                return children, dropped
            states, lost = states.best(-(-len(states.bound) // 8))
            dropped = min(dropped, lost)
        # One state alone may have very many, at the beginning above all.
        most = _BYTES // (4 * self._form.num_requests + 40)
        children = self._expand(states, now, cutoff, most)
        if children is not None:
            return children, dropped
        states, lost = states.best(0)
        return states, min(dropped, lost)

    def _expand(self, states: "_States", now: int, cutoff: int, room: int) -> "_States | None":
        """Return all children, or None if there are more than ``room``."""
        pieces = list(_pieces(len(states.bound), _PIECE))
        # One piece may have more than its share of the children.
        share = min(room, 4 * room // len(pieces) + 100_000)

        def expand(piece: slice) -> "_States | None":
            return self._expand_piece(states.select(piece), now, cutoff, share)

        found = list(self._pool.map(expand, pieces))
        children = [piece for piece in found if piece is not None]
        if len(children) < len(found) or sum(len(piece.bound) for piece in children) > room:
            return None
        return _States.joined(children)

    def _expand_piece(
        self, states: "_States", now: int, cutoff: int, room: int
    ) -> "_States | None":
        children = _States.empty(room, self._form.num_requests)
        written = _expand(
            now,
            cutoff,
            states.starts,
            states.bound,
            states.total,
            states.count,
            self._priced.cost,
            self._least,
            self._priced.prices,
            self._priced.dearest,
            self._loss,
            self._pairs.loss,
            self._pairs.begin,
            self._pairs.row,
            self._pairs.size,
            self._cells.of_age,
            self._form.memory,
            self._form.prompt,
            self._form.duration,
            self._form.arrival,
            self._twin,
            children.starts,
            children.mark,
            children.bound,
            children.reach,
            children.total,
            children.count,
        )
        # A copy, so that the room not written to is given back.
        return None if written < 0 else children.select(np.arange(written))

    def _drop_improvable(self, states: "_States", alive: BoolArray, now: int) -> None:
        form = self._form

        def drop(piece: slice) -> None:
            _drop_improvable(
                alive[piece],
                states.starts[piece],
                form.memory,
                form.prompt,
                form.duration,
                form.arrival,
                now,
            )

        list(self._pool.map(drop, _pieces(len(alive), _PIECE)))

    def _undominated(self, states: "_States", now: int) -> "_States":
        order = np.lexsort((states.bound, states.total, states.mark[:, 0], states.mark[:, 1]))

        def undominated(piece: slice) -> BoolArray:
            return _undominated(
                order[piece],
                states.starts,
                states.mark,
                self._form.prompt,
                self._form.duration,
                now,
                _COMPARED,
            )

        keep = list(self._pool.map(undominated, _group_pieces(states.mark[order], _PIECE)))
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


@dataclass(frozen=True)
class _States:
    """States of one round, one per row; a start of -1 has not happened.

    ``bound`` sums the settled losses, ``reach`` adds the look ahead, ``total`` sums the starts.
    """

    starts: IntArray
    mark: IntArray
    bound: IntArray
    reach: IntArray
    total: IntArray
    count: IntArray

    @staticmethod
    def empty(room: int, n: int) -> "_States":
        return _States(
            np.empty((room, n), np.int32),
            np.empty((room, 2), np.int64),
            *(np.empty(room, np.int64) for _ in range(4)),
        )

    @staticmethod
    def root(n: int, bound: int) -> "_States":
        states = _States.empty(1, n)
        states.starts[:] = -1
        states.mark[:] = 0
        states.bound[:] = bound
        states.reach[:] = bound
        states.total[:] = 0
        states.count[:] = 0
        return states

    @staticmethod
    def joined(parts: list["_States"]) -> "_States":
        """Return the rows of all parts."""
        names = [field.name for field in fields(_States)]
        return _States(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def select(self, rows: "BoolArray | IntArray | slice") -> "_States":
        """Return some rows."""
        return _States(
            self.starts[rows],
            self.mark[rows],
            self.bound[rows],
            self.reach[rows],
            self.total[rows],
            self.count[rows],
        )

    def best(self, width: int) -> tuple["_States", int]:
        """Return the rows of least bound, and the least bound among the others."""
        if len(self.reach) <= width:
            return self, _NONE_LOST
        order = np.argsort(self.reach, kind="stable")
        return self.select(order[:width]), int(self.reach[order[width]])


def _twins(form: NormalForm) -> IntArray:
    """Return the identical request just before each one, or -1."""
    kinds = np.stack((form.prompt, form.duration, form.arrival), axis=1)
    same = (kinds[1:] == kinds[:-1]).all(axis=1)
    return np.concatenate(([-1], np.where(same, np.arange(len(same)), -1))).astype(np.int64)


def _least_costs(cost: IntArray) -> IntArray:
    """Return the least cost of any start at t or later, shape (n, rounds + 1)."""
    least: IntArray = np.minimum.accumulate(cost[:, ::-1], axis=1)[:, ::-1].copy()
    return least


@compiled
def _least_from(least: IntArray, arrival: IntArray, i: int, t: int) -> int:
    rounds = least.shape[1] - 1
    value: int = least[i, min(t, rounds)]
    return value if t <= rounds else max(value, SCALE * max(t, arrival[i]))


@compiled
def _expand(
    now: int,
    cutoff: int,
    starts: IntArray,
    bound: IntArray,
    total: IntArray,
    count: IntArray,
    cost: IntArray,
    least: IntArray,
    prices: IntArray,
    dearest: IntArray,
    loss: IntArray,
    pair: NDArray[np.int32],
    begin: IntArray,
    row: IntArray,
    size: IntArray,
    of_age: IntArray,
    memory: int,
    prompt: IntArray,
    duration: IntArray,
    arrival: IntArray,
    twin: IntArray,
    child_starts: IntArray,
    child_mark: IntArray,
    child_bound: IntArray,
    child_reach: IntArray,
    child_total: IntArray,
    child_count: IntArray,
) -> int:
    """Write every child of every state after round ``now``; return how many.

    -1 if there are too many, or too many choices lead to none.
    """
    n = len(prompt)
    priced = now < len(prices)
    span = of_age.shape[1]
    used = np.zeros(span + 1, np.int64)
    waiting = np.zeros(n, np.int64)
    choice = np.zeros(n + 1, np.int64)
    start = np.zeros(n, np.int64)
    # Per number of starts now: the greatest loss of this and each later round, the latter's sum.
    worst = np.zeros((n + 1, span + 1), np.int64)
    running = np.zeros(n + 1, np.int64)
    ahead = np.zeros(n + 1, np.int64)
    here, stay, price = _choices(now, cost, least, prices, of_age, arrival)
    written = 0
    left = 1_000_000 + 50 * len(child_bound)
    for parent in range(len(bound)):
        start[:] = starts[parent]
        paid, num_waiting, num_running = _enter(
            now, start, used, waiting, running, prices, of_age, prompt, duration, arrival
        )
        worst[0, :] = 0
        for r in range(num_running):
            _raise_worst(
                now, running, r, worst[0], start, duration, of_age, loss, pair, begin, row, size
            )
        ahead[0] = worst[0, 1:].sum()
        value = bound[parent]
        level = 0
        sum_starts = total[parent]
        # Depth first over the waiting requests: 0 not tried, 1 starts now, 2 keeps waiting.
        depth = 0
        choice[0] = 0
        while depth >= 0:
            left -= 1
            if left < 0:
                return -1
            if depth == num_waiting:
                settled = value + (dearest[now] - paid if priced else 0)
                if settled + ahead[level] <= cutoff:
                    if written == len(child_bound):
                        return -1
                    _write_marks(start, child_mark[written])
                    child_starts[written] = start
                    child_bound[written] = settled
                    child_reach[written] = settled + ahead[level]
                    child_total[written] = sum_starts
                    child_count[written] = count[parent] + level
                    written += 1
                depth -= 1
                continue
            i = waiting[depth]
            if choice[depth] == 0:
                choice[depth] = 1
                fits = (
                    (twin[i] < 0 or start[twin[i]] >= 0)
                    and value + here[i] + ahead[level] + worst[level, 0] <= cutoff
                    and _fits(used, prompt[i], duration[i], memory)
                )
                if fits:
                    start[i] = now
                    running[num_running + level] = i
                    worst[level + 1] = worst[level]
                    _raise_worst(
                        now, running, num_running + level, worst[level + 1], start, duration,
                        of_age, loss, pair, begin, row, size,
                    )  # fmt: skip
                    level += 1
                    ahead[level] = worst[level, 1:].sum()
                    value += here[i]
                    sum_starts += now
                    paid += price[i]
                    for age in range(duration[i]):
                        used[age] += prompt[i] + age
                    depth += 1
                    choice[depth] = 0
                    continue
            if choice[depth] == 1:
                if start[i] == now:
                    start[i] = -1
                    level -= 1
                    value -= here[i]
                    sum_starts -= now
                    paid -= price[i]
                    for age in range(duration[i]):
                        used[age] -= prompt[i] + age
                if value + stay[i] + ahead[level] + worst[level, 0] <= cutoff:
                    choice[depth] = 2
                    value += stay[i]
                    depth += 1
                    choice[depth] = 0
                    continue
                depth -= 1
                continue
            value -= stay[i]
            depth -= 1
    return written


@compiled
def _choices(
    now: int,
    cost: IntArray,
    least: IntArray,
    prices: IntArray,
    of_age: IntArray,
    arrival: IntArray,
) -> tuple[IntArray, IntArray, IntArray]:
    """Return what each request loses if it starts now, if it stays, and its price now."""
    n = len(arrival)
    here, stay, price = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    for i in range(n):
        base = _least_from(least, arrival, i, now)
        stay[i] = _least_from(least, arrival, i, now + 1) - base
        if now < len(prices):
            here[i] = cost[i, now] - base
            price[i] = prices[now, of_age[i, 0]]
    return here, stay, price


@compiled
def _enter(
    now: int,
    start: IntArray,
    used: IntArray,
    waiting: IntArray,
    running: IntArray,
    prices: IntArray,
    of_age: IntArray,
    prompt: IntArray,
    duration: IntArray,
    arrival: IntArray,
) -> tuple[int, int, int]:
    """Lay out a state; return what is paid now, how many wait and how many run."""
    used[:] = 0
    paid, num_waiting, num_running = 0, 0, 0
    for i in range(len(start)):
        if start[i] < 0:
            # Requests that have not arrived wait at no loss: their least cost stays the same.
            if arrival[i] <= now:
                waiting[num_waiting] = i
                num_waiting += 1
        elif start[i] + duration[i] > now:
            running[num_running] = i
            num_running += 1
            for age in range(now - start[i], duration[i]):
                used[start[i] + age - now] += prompt[i] + age
            if now < len(prices):
                paid += prices[now, of_age[i, now - start[i]]]
    return paid, num_waiting, num_running


@compiled
def _raise_worst(
    now: int,
    running: IntArray,
    newest: int,
    worst: IntArray,
    start: IntArray,
    duration: IntArray,
    of_age: IntArray,
    loss: IntArray,
    pair: NDArray[np.int32],
    begin: IntArray,
    row: IntArray,
    size: IntArray,
) -> None:
    """Raise the losses from ``now`` on to those of one more request, alone and in pairs."""
    i = running[newest]
    for t in range(now, min(start[i] + duration[i], len(loss))):
        cell = of_age[i, t - start[i]]
        most = max(worst[t - now], loss[t, cell])
        if len(pair):
            table = begin[t] + row[t, cell] * size[t]
            for r in range(newest):
                j = running[r]
                if start[j] + duration[j] > t:
                    other = row[t, of_age[j, t - start[j]]]
                    if other != row[t, cell]:
                        most = max(most, pair[table + other])
        worst[t - now] = most


@compiled
def _fits(used: IntArray, prompt: int, duration: int, memory: int) -> bool:
    # The peak is the likeliest to overflow.
    for age in range(duration - 1, -1, -1):  # noqa: SIM110 (Numba compiles no generators)
        if used[age] + prompt + age > memory:
            return False
    return True


@compiled
def _write_marks(start: IntArray, mark: IntArray) -> None:
    """Mark the started requests, 60 to a word."""
    mark[:] = 0
    for i in range(len(start)):
        if start[i] >= 0:
            mark[i // 60] |= 1 << (i % 60)


@compiled
def _drop_improvable(
    alive: BoolArray,
    starts: IntArray,
    memory: int,
    prompt: IntArray,
    duration: IntArray,
    arrival: IntArray,
    now: int,
) -> None:
    """Unmark the states in which a request could have run earlier (rule 4)."""
    n = len(prompt)
    # Looking back further than three longest requests finds nothing more in practice.
    first = max(0, now - 3 * duration.max())
    used = np.zeros(now - first + 1, np.int64)
    for state in range(len(alive)):
        if not alive[state]:
            continue
        used[:] = 0
        for i in range(n):
            start = starts[state, i]
            if start >= 0:
                for t in range(max(start, first), min(now, start + duration[i] - 1) + 1):
                    used[t - first] += prompt[i] + t - start
        for i in range(n):
            start = starts[state, i]
            if start < 0:
                latest, earliest = now - duration[i] + 1, now - duration[i] + 1
            elif start + duration[i] - 1 == now:
                latest, earliest = start - 1, first
            else:
                continue
            earliest = max(earliest, max(first, arrival[i]))
            if start >= 0:
                for t in range(max(start, first), now + 1):
                    used[t - first] -= prompt[i] + t - start
            for k in range(latest, earliest - 1, -1):
                fits = True
                for age in range(duration[i] - 1, -1, -1):
                    if used[k + age - first] + prompt[i] + age > memory:
                        fits = False
                        break
                if fits:
                    alive[state] = False
                    break
            if not alive[state]:
                break
            if start >= 0:
                for t in range(max(start, first), now + 1):
                    used[t - first] += prompt[i] + t - start


@compiled
def _undominated(
    order: IntArray,
    starts: IntArray,
    mark: IntArray,
    prompt: IntArray,
    duration: IntArray,
    now: int,
    compared: int,
) -> BoolArray:
    """Mark the positions whose state no other of the same started requests dominates.

    ``order`` sorts by started requests, then by sum of starts, so that only earlier ones of a
    group can dominate. Beyond ``compared`` kept ones, a group keeps everything.
    """
    n = len(prompt)
    keep = np.zeros(len(order), np.bool_)
    span = duration.max()
    profiles = np.zeros((compared, span), np.int32)
    areas = np.zeros(compared, np.int64)
    profile = np.zeros(span, np.int32)
    kept = 0
    for position in range(len(order)):
        state = order[position]
        previous = order[position - 1] if position else state
        if position == 0 or (
            mark[state, 0] != mark[previous, 0] or mark[state, 1] != mark[previous, 1]
        ):
            kept = 0
        profile[:] = 0
        for i in range(n):
            if starts[state, i] >= 0:
                for age in range(now + 1 - starts[state, i], duration[i]):
                    profile[starts[state, i] + age - now - 1] += prompt[i] + age
        area = profile.sum()
        dominated = False
        for other in range(kept - 1, -1, -1):
            if areas[other] > area:
                continue
            dominated = True
            for t in range(span):
                if profiles[other, t] > profile[t]:
                    dominated = False
                    break
            if dominated:
                break
        if dominated:
            continue
        keep[position] = True
        if kept < compared:
            profiles[kept] = profile
            areas[kept] = area
            kept += 1
    return keep
