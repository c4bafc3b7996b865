"""Search over rounds: choose the requests that start now, with bounds by prices and dominance.

A state after round t holds the starts of all requests that start up to t; the others start later.
Its completions depend only on the set of started requests and the memory that they use after t.
The scaled cost of a schedule is the priced bound plus its losses

    Σ_i (cost of i's start − its least cost)  +  Σ_t (dearest set at t − set present at t),

two sums of terms >= 0 (`bfio.hindsight.latency.bound`). The terms of rounds up to t are known. A
waiting request starts after t, so its least cost rises. The sum so far is therefore a lower bound
on every completion of the state. A look-ahead raises this bound: the set of a future round
contains every request that still runs then, and a dearest set with a given cell may be much
cheaper (`configurations.losses`). For each round the largest such loss is added.

Four rules discard states, but never all optima:

1. *Bound.* The lower bound exceeds the cost allowed for an improved schedule.
2. *Dominance.* Two states have started the same requests, and one uses no more memory at any
   later round and has no larger sum of starts. Every completion of the other is also a completion
   of the first, which leaves at least as much memory. It costs no more, so an optimum is kept.
   If rule 1 then discards the first, it would discard all completions of the other.
3. *Symmetry.* Among identical requests (same prompt, output, arrival) the first in order starts
   no later; exchanging their starts changes neither memory nor cost.
4. *Left shift.* The memory at rounds up to t is final. Suppose a waiting request could have run
   there, ending at t, or a request that ends at t could have run earlier. Moving it there gives
   a feasible schedule of smaller cost for every completion, so no completion is optimal. (The
   same holds for states that this one dominates, whose completions cost no less.)

Requests that are merely smaller in both prompt and output are *not* ordered: exchanging them can
exceed the memory at a later peak. If there are too many states, those with the least bounds are
kept; the least bound of the dropped ones still bounds their completions. If the children of the
kept states do not fit the memory either, rule 1 is applied with a lower cutoff, which bounds the
completions of the states that it discards.

Kernels discard states by left shifts (rule 4) and dominance (rule 2). The children of a state are
the choices of waiting requests that start at this round. They are enumerated depth first, request
by request: it starts now or waits.
"""

import math
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.hindsight.in_hand import is_over
from bfio.hindsight.latency.bound import SCALE, PairLosses, PricedBound, cell_losses
from bfio.hindsight.latency.configurations import Cells, NormalForm
from formulations.arrays import BoolArray, IntArray


class Tables(NamedTuple):
    """Constants of a search; see `NormalForm`, `PricedBound` and `PairLosses`.

    ``least`` is the minimum cost of a start of a request from a round on. ``loss`` is the
    difference of the maximum price of a round and the maximum price with a given cell. ``twin`` is
    the preceding identical request, or -1.
    """

    memory: int
    prompt: IntArray
    duration: IntArray
    arrival: IntArray
    twin: IntArray
    of_age: IntArray
    cost: IntArray
    least: IntArray
    prices: IntArray
    dearest: IntArray
    loss: IntArray
    pair: NDArray[np.int32]
    begin: IntArray
    row: IntArray
    size: IntArray


#: Least bound of the dropped states if none is dropped.
NONE_LOST = np.iinfo(np.int64).max


#: Number of bits per word of marks, and number of words.
MARK_BITS, MARK_WORDS = 60, 2


class States(NamedTuple):
    """States of one round, one per row; passed to kernels.

    ``starts`` is -1 for requests that have not started, ``mark`` has a bit for each that has, and
    ``started`` is their number. ``bound`` is the sum of the known losses, ``reach`` adds the
    look-ahead, ``total`` is the sum of starts.
    """

    starts: NDArray[np.int32]
    mark: IntArray
    bound: IntArray
    reach: IntArray
    total: IntArray
    started: IntArray

    @staticmethod
    def empty(room: int, n: int) -> "States":
        """Return uninitialized rows for states of n requests."""
        return States(
            np.empty((room, n), np.int32),
            np.empty((room, MARK_WORDS), np.int64),
            *(np.empty(room, np.int64) for _ in range(4)),
        )

    @staticmethod
    def root(n: int, bound: int) -> "States":
        """Return the state in which no request has started."""
        starts, marks = np.full((1, n), -1, np.int32), np.zeros((1, MARK_WORDS), np.int64)
        return States(starts, marks, *np.array([[bound], [bound], [0], [0]]))

    @staticmethod
    def joined(parts: list["States"]) -> "States":
        """Return the rows of all parts, concatenated."""
        return States._make(np.concatenate(columns) for columns in zip(*parts, strict=True))

    def select(self, rows: "BoolArray | IntArray | slice") -> "States":
        """Return the selected rows."""
        return States._make(column[rows] for column in self)

    def best(self, width: int) -> tuple["States", int]:
        """Return the rows with the least bounds, and the least bound of the others."""
        if len(self.reach) <= width:
            return self, NONE_LOST
        order = np.argsort(self.reach, kind="stable")
        return self.select(order[:width]), int(self.reach[order[width]])


#: Rounds checked before now, in multiples of the longest request; more has no effect in practice.
_LOOK_BACK = 3


@entry_point
def drop_improvable(alive: BoolArray, starts: NDArray[np.int32], tables: Tables, now: int) -> None:
    """Set ``alive`` to False for states in which a request could have run earlier (rule 4)."""
    first = max(0, now - _LOOK_BACK * tables.duration.max())
    used = np.zeros(now - first + 1, np.int64)
    for state in range(len(alive)):
        if alive[state]:
            alive[state] = not _is_improvable(starts[state], tables, first, now, used)


@compilable(into_caller=True)
def _is_improvable(
    starts: NDArray[np.int32], tables: Tables, first: int, now: int, used: IntArray
) -> bool:
    for t in range(len(used)):
        used[t] = 0
    for i in range(len(starts)):
        _occupy(i, starts[i], 1, tables, first, now, used)
    for i in range(len(starts)):
        start, ends = starts[i], now - tables.duration[i] + 1
        if start < 0:
            # A waiting request only needs to end at this round; earlier ends were checked in
            # earlier rounds.
            earliest, latest = ends, ends
        elif start == ends:
            earliest, latest = first, start - 1
        else:
            continue
        earliest = max(earliest, first, tables.arrival[i])
        _occupy(i, start, -1, tables, first, now, used)
        if _fits_earlier(i, earliest, latest, tables, first, used):
            return True
        _occupy(i, start, 1, tables, first, now, used)
    return False


@compilable(into_caller=True)
def _occupy(
    i: int, start: int, sign: int, tables: Tables, first: int, now: int, used: IntArray
) -> None:
    """Add or remove the tokens of a request at rounds ``first`` to ``now``."""
    if start >= 0:
        for t in range(max(start, first), min(now, start + tables.duration[i] - 1) + 1):
            used[t - first] += sign * (tables.prompt[i] + t - start)


@compilable(into_caller=True)
def _fits_earlier(
    i: int, earliest: int, latest: int, tables: Tables, first: int, used: IntArray
) -> bool:
    for k in range(latest, earliest - 1, -1):
        age = tables.duration[i] - 1
        # The peak is most likely to exceed the memory.
        while age >= 0 and used[k + age - first] + tables.prompt[i] + age <= tables.memory:
            age -= 1
        if age < 0:
            return True
    return False


@entry_point
def undominated(
    order: IntArray, states: States, tables: Tables, now: int, compared: int
) -> BoolArray:
    """Mark the positions of states not dominated by a state with the same started requests.

    ``order`` sorts by started requests, then by sum of starts, so that only earlier states of a
    group can dominate. Beyond ``compared`` kept states, all states of a group are kept.
    """
    keep = np.zeros(len(order), np.bool_)
    span = tables.duration.max()
    profiles = np.zeros((compared, span), np.int32)
    areas = np.zeros(compared, np.int64)
    profile = np.zeros(span, np.int32)
    kept = 0
    for position in range(len(order)):
        state = order[position]
        if position == 0 or not _is_same_group(states.mark, state, order[position - 1]):
            kept = 0
        area = _fill_profile(profile, states.starts, state, tables, now)
        if _is_dominated(profile, area, profiles, areas, kept):
            continue
        keep[position] = True
        if kept < compared:
            copy_to(profiles[kept], profile)
            areas[kept] = area
            kept += 1
    return keep


@compilable(into_caller=True)
def _is_same_group(mark: IntArray, one: int, other: int) -> bool:
    for word in range(mark.shape[1]):  # noqa: SIM110 (Numba compiles no generators)
        if mark[one, word] != mark[other, word]:
            return False
    return True


@compilable(into_caller=True)
def _fill_profile(
    profile: NDArray[np.int32], starts: NDArray[np.int32], state: int, tables: Tables, now: int
) -> int:
    """Fill the memory that a state uses at each later round; return its sum."""
    for t in range(len(profile)):
        profile[t] = 0
    area = 0
    for i in range(starts.shape[1]):
        start = starts[state, i]
        if start >= 0:
            for age in range(now + 1 - start, tables.duration[i]):
                profile[start + age - now - 1] += tables.prompt[i] + age
                area += tables.prompt[i] + age
    return area


@compilable(into_caller=True)
def _is_dominated(
    profile: NDArray[np.int32],
    area: int,
    profiles: NDArray[np.int32],
    areas: IntArray,
    kept: int,
) -> bool:
    """Whether one of the kept profiles, newest first, uses no more memory at any round."""
    for other in range(kept - 1, -1, -1):
        if areas[other] <= area:
            t = 0
            while t < len(profile) and profiles[other, t] <= profile[t]:
                t += 1
            if t == len(profile):
                return True
    return False


#: Limits on the choices of a call: per row for children plus a constant, and per parent.
_LOOKS_PER_CHILD, _SPARE_LOOKS, _LOOKS_PER_PARENT = 50, 1_000_000, 10_000_000
#: Choices for a waiting request.
_UNTRIED, _STARTS, _STAYS = range(3)
#: Entries of ``node``: known losses, sum of starts, price of the present requests, number of
#: requests that start now, and numbers of waiting and running requests in the parent.
_VALUE, _TOTAL, _PAID, _STARTED, _WAITING, _RUNNING, _ENTRIES = range(7)


class SearchNode(NamedTuple):
    """The current node of the enumeration.

    ``used`` is the memory at this and each later round. ``running`` lists the running requests;
    those that start now come last. ``worst`` is the maximum loss at this and each later round, by
    number of starts now, and ``ahead`` its sum over later rounds. ``here`` and ``stay`` are the
    losses of each request if it starts now or waits; ``price`` is its price now.
    """

    node: IntArray
    start: IntArray
    used: IntArray
    waiting: IntArray
    choice: IntArray
    running: IntArray
    worst: IntArray
    ahead: IntArray
    here: IntArray
    stay: IntArray
    price: IntArray


@entry_point
def expand(now: int, cutoff: int, parents: States, tables: Tables, children: States) -> int:
    """Write every child of every state after round ``now``; return their number.

    Returns -1 if there are too many children or too many choices.
    """
    work = _work(now, tables)
    node = work.node
    written = 0
    # Even a single state has a limit, because a narrower search could not reduce its work.
    left = min(
        _SPARE_LOOKS + _LOOKS_PER_CHILD * len(children.bound),
        _LOOKS_PER_PARENT * len(parents.bound),
    )
    for parent in range(len(parents.bound)):
        _enter(now, parent, parents, tables, work)
        depth = 0
        while depth >= 0:
            left -= 1
            if left < 0:
                return -1
            if depth < node[_WAITING]:
                depth = _choose(now, cutoff, depth, tables, work)
                continue
            settled = node[_VALUE] + (
                tables.dearest[now] - node[_PAID] if now < len(tables.prices) else 0
            )
            if settled + work.ahead[node[_STARTED]] <= cutoff:
                if written == len(children.bound):
                    return -1
                _write(settled, parents.started[parent], work, children, written)
                written += 1
            depth -= 1
    return written


@entry_point
def _work(now: int, tables: Tables) -> SearchNode:
    """Return an empty node with the cost of each choice at this round."""
    n, span = len(tables.prompt), tables.of_age.shape[1]
    here, stay, price = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    for i in range(n):
        base = _least_from(tables, i, now)
        stay[i] = _least_from(tables, i, now + 1) - base
        if now < len(tables.prices):
            here[i] = tables.cost[i, now] - base
            price[i] = tables.prices[now, tables.of_age[i, 0]]
    return SearchNode(
        np.zeros(_ENTRIES, np.int64),
        np.zeros(n, np.int64),
        np.zeros(span + 1, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n + 1, np.int64),
        np.zeros(n + 1, np.int64),
        np.zeros((n + 1, span + 1), np.int64),
        np.zeros(n + 1, np.int64),
        here,
        stay,
        price,
    )


@compilable(into_caller=True)
def _least_from(tables: Tables, i: int, t: int) -> int:
    rounds = tables.least.shape[1] - 1
    value: int = tables.least[i, min(t, rounds)]
    return value if t <= rounds else max(value, SCALE * max(t, tables.arrival[i]))


@compilable(into_caller=True)
def _enter(now: int, parent: int, parents: States, tables: Tables, work: SearchNode) -> None:
    """Initialize the node with a state, before any choice."""
    node, start, used = work.node, work.start, work.used
    for t in range(len(used)):
        used[t] = 0
        work.worst[0, t] = 0
    node[_VALUE], node[_TOTAL] = parents.bound[parent], parents.total[parent]
    node[_PAID], node[_STARTED], node[_WAITING], node[_RUNNING] = 0, 0, 0, 0
    for i in range(len(start)):
        start[i] = parents.starts[parent, i]
        if start[i] < 0:
            # Requests that have not arrived wait without loss: their least cost does not change.
            if tables.arrival[i] <= now:
                work.waiting[node[_WAITING]] = i
                node[_WAITING] += 1
        elif start[i] + tables.duration[i] > now:
            work.running[node[_RUNNING]] = i
            node[_RUNNING] += 1
            for age in range(now - start[i], tables.duration[i]):
                used[start[i] + age - now] += tables.prompt[i] + age
            if now < len(tables.prices):
                node[_PAID] += tables.prices[now, tables.of_age[i, now - start[i]]]
    for newest in range(node[_RUNNING]):
        _raise_worst(now, newest, 0, tables, work)
    _sum_ahead(0, work)
    work.choice[0] = _UNTRIED


@compilable(into_caller=True)
def _choose(now: int, cutoff: int, depth: int, tables: Tables, work: SearchNode) -> int:
    """Make the next choice for the waiting request at a depth; return the next depth."""
    node, choice, i = work.node, work.choice, work.waiting[depth]
    if choice[depth] == _STAYS:
        node[_VALUE] -= work.stay[i]
        return depth - 1
    if choice[depth] == _UNTRIED:
        choice[depth] = _STARTS
        if _may_start(i, cutoff, tables, work):
            _start(i, now, tables, work)
            choice[depth + 1] = _UNTRIED
            return depth + 1
    if work.start[i] == now:
        _withdraw(i, now, tables, work)
    level = node[_STARTED]
    if node[_VALUE] + work.stay[i] + work.ahead[level] + work.worst[level, 0] > cutoff:
        return depth - 1
    choice[depth], choice[depth + 1] = _STAYS, _UNTRIED
    node[_VALUE] += work.stay[i]
    return depth + 1


@compilable(into_caller=True)
def _may_start(i: int, cutoff: int, tables: Tables, work: SearchNode) -> bool:
    """Whether rules 1 and 3 and the memory allow a request to start."""
    level, twin = work.node[_STARTED], tables.twin[i]
    if twin >= 0 and work.start[twin] < 0:
        return False
    if work.node[_VALUE] + work.here[i] + work.ahead[level] + work.worst[level, 0] > cutoff:
        return False
    # The peak is most likely to exceed the memory.
    for age in range(tables.duration[i] - 1, -1, -1):
        if work.used[age] + tables.prompt[i] + age > tables.memory:
            return False
    return True


@compilable(into_caller=True)
def _start(i: int, now: int, tables: Tables, work: SearchNode) -> None:
    node, worst, level = work.node, work.worst, work.node[_STARTED]
    work.start[i] = now
    work.running[node[_RUNNING] + level] = i
    for t in range(worst.shape[1]):
        worst[level + 1, t] = worst[level, t]
    _raise_worst(now, node[_RUNNING] + level, level + 1, tables, work)
    _sum_ahead(level + 1, work)
    node[_STARTED] += 1
    _count(i, 1, now, tables, work)


@compilable(into_caller=True)
def _withdraw(i: int, now: int, tables: Tables, work: SearchNode) -> None:
    work.start[i] = -1
    work.node[_STARTED] -= 1
    _count(i, -1, now, tables, work)


@compilable(into_caller=True)
def _count(i: int, sign: int, now: int, tables: Tables, work: SearchNode) -> None:
    """Add a start to the sums and the memory, or remove it."""
    work.node[_VALUE] += sign * work.here[i]
    work.node[_TOTAL] += sign * now
    work.node[_PAID] += sign * work.price[i]
    for age in range(tables.duration[i]):
        work.used[age] += sign * (tables.prompt[i] + age)


@compilable(into_caller=True)
def _raise_worst(now: int, newest: int, level: int, tables: Tables, work: SearchNode) -> None:
    """Raise the losses from ``now`` on by those of a new request, alone and in pairs."""
    start, running, row = work.start, work.running, tables.row
    i = running[newest]
    for t in range(now, min(start[i] + tables.duration[i], len(tables.loss))):
        cell = tables.of_age[i, t - start[i]]
        most = max(work.worst[level, t - now], tables.loss[t, cell])
        if len(tables.pair):
            table = tables.begin[t] + row[t, cell] * tables.size[t]
            for r in range(newest):
                j = running[r]
                if start[j] + tables.duration[j] > t:
                    other = row[t, tables.of_age[j, t - start[j]]]
                    if other != row[t, cell]:
                        most = max(most, tables.pair[table + other])
        work.worst[level, t - now] = most


@compilable(into_caller=True)
def _sum_ahead(level: int, work: SearchNode) -> None:
    total = 0
    for t in range(1, work.worst.shape[1]):
        total += work.worst[level, t]
    work.ahead[level] = total


@compilable(into_caller=True)
def _write(settled: int, started: int, work: SearchNode, children: States, child: int) -> None:
    level, mark = work.node[_STARTED], children.mark
    children.bound[child], children.total[child] = settled, work.node[_TOTAL]
    children.reach[child] = settled + work.ahead[level]
    children.started[child] = started + level
    for word in range(mark.shape[1]):
        mark[child, word] = 0
    for i in range(len(work.start)):
        children.starts[child, i] = work.start[i]
        if work.start[i] >= 0:
            mark[child, i // MARK_BITS] |= 1 << (i % MARK_BITS)


#: Maximum number of requests, limited by the bits of their marks.
MAX_REQUESTS = MARK_BITS * MARK_WORDS
#: Maximum number of states of one group that are compared with each other.
_COMPARED = 2000
#: Maximum of (states kept per round) x requests²; limits the time of a round.
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
            # Minimum cost of a start at t or later.
            least=np.minimum.accumulate(priced.cost[:, ::-1], axis=1)[:, ::-1].copy(),
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
        while len(states.bound) and not is_over(deadline):
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
        least = int(states.reach.min(initial=dropped))
        return RoundSearchResult(starts, min(best, -(-least // SCALE)), generated)

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
            children = States.empty(share, self._form.num_requests)
            written = expand(now, cutoff, states.select(piece), self._tables, children)
            # A copy, which releases the unused rows.
            return None if written < 0 else children.select(np.arange(written))

        expanded = list(self._pool.map(of_piece, pieces))
        children = [piece for piece in expanded if piece is not None]
        if len(children) < len(expanded) or sum(len(piece.bound) for piece in children) > room:
            return None
        return States.joined(children)

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
    for begin, end in pairwise([0, *cuts.tolist(), len(mark)]):
        yield slice(begin, end)


def _twins(form: NormalForm) -> IntArray:
    """Return the index of the preceding identical request of each one, or -1."""
    kinds = np.stack((form.prompt, form.duration, form.arrival), axis=1)
    same = (kinds[1:] == kinds[:-1]).all(axis=1)
    return np.concatenate(([-1], np.where(same, np.arange(len(same)), -1))).astype(np.int64)
