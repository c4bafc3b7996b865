"""One step of the search: what starts, what it costs, and the state it leads to."""

from typing import NamedTuple

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.hindsight.makespan.kernel import (
    HEAD,
    LEFT_BITS,
    LEFT_MASK,
    Data,
    sort_row,
    to_go,
)
from bfio.hindsight.makespan.store import BEST, BEST_STATE, GENERATED, Store, place_of
from formulations.arrays import IntArray


class Parent(NamedTuple):
    """The state that is expanded, by index: its layer and step, and how many requests it shows."""

    state: int
    layer: int
    now: int
    ready: int


class Room(NamedTuple):
    """What an addition changes.

    ``waiting`` shape (C,): requests of each kind that have not started; ``loads``, ``free`` and
    ``first`` shape (lanes,): load, free slots, and kind that starts first (−1: none).
    """

    waiting: IntArray
    loads: IntArray
    free: IntArray
    first: IntArray


@compilable(allocates=True)
def advance(
    parent: Parent,
    added: IntArray,
    depth: int,
    room: Room,
    data: Data,
    store: Store,
    scratch: IntArray,
) -> None:
    """Run the step after one addition; keep the state it leads to if that may beat the best.

    Parameters
    ----------
    parent : Parent
        The state before.
    added, depth : IntArray, int
        The addition: lane · C + kind of each of ``depth`` starts.
    room : Room
        Waiting requests and loads after the addition.
    data, store : Data, Store
        Problem and states.
    scratch : IntArray
        Four rows to work in.
    """
    counters = store.counters
    counters[GENERATED] += 1
    row = scratch[2, : store.rows.shape[1]]
    slots, order = row[HEAD:], scratch[3, : data.lanes]
    running = _start(store.rows[parent.state], slots, added, depth, data)
    cost = store.cost[parent.state] + data.per_present * (running + parent.ready - depth)
    if running:
        cost += data.per_step + data.per_token * room.loads.max()
    alive = _grow(slots, data.growth)
    step, late = _next_step(parent.now + 1, alive, room.waiting, data.arrival)
    count = 0
    for c in range(len(room.waiting)):
        count += room.waiting[c] * data.radix[c]
    sort_row(slots, data.lanes, order)
    row[0], row[1] = (step if late else data.last_arrival), count
    # Layers of peaks count tokens: whatever leads to a state has emitted as many.
    layer = step if data.per_present else parent.layer + running
    reach = cost + to_go(slots, data, room.waiting, step, scratch)
    if reach >= counters[BEST]:
        return
    new = place_of(row, cost, reach, step, layer, store)
    if new < 0:
        return
    store.cost[new], store.reach[new], store.when[new] = cost, reach, step
    store.parent[new] = parent.state
    store.action[new] = -1
    copy_to(store.action[new], added[:depth])
    copy_to(store.order[new], order)
    if count == 0 and row[HEAD] == 0:
        counters[BEST], counters[BEST_STATE] = cost, new


@compilable
def _start(row: IntArray, slots: IntArray, added: IntArray, depth: int, data: Data) -> int:
    """Copy the slots of a row and fill in what starts; return how many run."""
    running = depth
    for j in range(len(slots)):
        slots[j] = row[HEAD + j]
        running += slots[j] != 0
    for d in range(depth):
        lane, kind = added[d] // len(data.load), added[d] % len(data.load)
        at = lane * (len(slots) // data.lanes)
        while slots[at] != 0:
            at += 1
        slots[at] = data.load[kind] << LEFT_BITS | data.output[kind]
    return running


@compilable
def _grow(slots: IntArray, tokens: int) -> int:
    """Let a step pass, after which loads are larger by ``tokens``; return how many still run."""
    alive = 0
    for j in range(len(slots)):
        left = (slots[j] & LEFT_MASK) - 1
        if left > 0:
            slots[j] = ((slots[j] >> LEFT_BITS) + tokens) << LEFT_BITS | left
            alive += 1
        else:
            slots[j] = 0
    return alive


@compilable
def _next_step(step: int, alive: int, waiting: IntArray, arrival: IntArray) -> tuple[int, bool]:
    """Return the step at which the next decision falls, and whether requests arrive after it."""
    first, last = 2**62, -1
    for c in range(len(waiting)):
        if waiting[c]:
            first = min(first, arrival[c])
            last = max(last, arrival[c])
    if alive == 0 and last >= 0:
        step = max(step, first)
    return step, last > step
