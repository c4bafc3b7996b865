"""Every child of every state: which of the waiting requests start at this round.

A kernel without objects; `bfio.hindsight.latency.search` says what the bounds are. Choices are
made depth first, request by request: it starts now, or it stays.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.hindsight.latency.bound import SCALE
from bfio.hindsight.latency.states import MARK_BITS, States
from bfio.hindsight.latency.tables import Tables
from formulations.arrays import IntArray

#: Choices looked at for all children there is room for, and for one parent.
_LOOKS_PER_CHILD, _SPARE_LOOKS, _LOOKS_PER_PARENT = 50, 1_000_000, 10_000_000
#: What has been chosen for a waiting request.
_UNTRIED, _STARTS, _STAYS = range(3)
#: Entries of ``node``: losses settled, sum of starts, price of who is present, how many start
#: now, and how many waited and ran before.
_VALUE, _TOTAL, _PAID, _STARTED, _WAITING, _RUNNING, _ENTRIES = range(7)


class SearchNode(NamedTuple):
    """The node at hand.

    ``used`` holds the memory of this and each later round; ``running`` who runs, those that start
    now last; ``worst`` per number of starts now the greatest loss of this and each later round,
    ``ahead`` its sum over the later ones. ``here``, ``stay`` and ``price`` are what each request
    loses if it starts now and if it stays, and its price now.
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
    """Write every child of every state after round ``now``; return how many.

    -1 if there are too many, or too many choices lead to none.
    """
    work = _work(now, tables)
    node = work.node
    written = 0
    # One state alone need not be expanded at any price: a narrower search would not be either.
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
    """Return room to work in, and what each choice costs at this round."""
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
    """Lay out a state, with no choice made."""
    node, start, used = work.node, work.start, work.used
    for t in range(len(used)):
        used[t] = 0
        work.worst[0, t] = 0
    node[_VALUE], node[_TOTAL] = parents.bound[parent], parents.total[parent]
    node[_PAID], node[_STARTED], node[_WAITING], node[_RUNNING] = 0, 0, 0, 0
    for i in range(len(start)):
        start[i] = parents.starts[parent, i]
        if start[i] < 0:
            # Requests that have not arrived wait at no loss: their least cost stays the same.
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
    """Make the next choice for the waiting request at a depth; return the depth that follows."""
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
    """Whether rules 1 and 3 and the memory allow a start."""
    level, twin = work.node[_STARTED], tables.twin[i]
    if twin >= 0 and work.start[twin] < 0:
        return False
    if work.node[_VALUE] + work.here[i] + work.ahead[level] + work.worst[level, 0] > cutoff:
        return False
    # The peak is the likeliest to overflow.
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
    """Add a start to sums and memory, or take it away."""
    work.node[_VALUE] += sign * work.here[i]
    work.node[_TOTAL] += sign * now
    work.node[_PAID] += sign * work.price[i]
    for age in range(tables.duration[i]):
        work.used[age] += sign * (tables.prompt[i] + age)


@compilable(into_caller=True)
def _raise_worst(now: int, newest: int, level: int, tables: Tables, work: SearchNode) -> None:
    """Raise the losses from ``now`` on to those of one more request, alone and in pairs."""
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
