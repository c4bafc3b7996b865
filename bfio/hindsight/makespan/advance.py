"""One step of the search: what starts, what it costs, and the state it leads to."""

from typing import NamedTuple

from bfio.common.kernels import entry_point
from bfio.hindsight.makespan.kernel import (
    HEAD,
    LEFT_BITS,
    LEFT_MASK,
    latency_to_go,
    peaks_to_go,
    sort_row,
)
from bfio.hindsight.makespan.store import (
    BEST,
    BEST_STATE,
    GENERATED,
    LANES,
    LAST_ARRIVAL,
    PER_PRESENT,
    PER_STEP,
    PER_TOKEN,
    Data,
    Store,
    place_of,
)
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


@entry_point
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
    rules, counters = data.rules, store.counters
    counters[GENERATED] += 1
    row = scratch[2, : store.rows.shape[1]]
    slots, order = row[HEAD:], scratch[3, : rules[LANES]]
    running = _start(
        store.rows[parent.state], slots, added, depth, data.load, data.output, rules[LANES]
    )
    cost = store.cost[parent.state] + rules[PER_PRESENT] * (running + parent.ready - depth)
    if running:
        cost += rules[PER_STEP] + rules[PER_TOKEN] * room.loads.max()
    alive = _grow(slots, 1 if rules[PER_PRESENT] == 0 else 0)
    step, late = _next_step(parent.now + 1, alive, room.waiting, data.arrival)
    count = 0
    for c in range(len(room.waiting)):
        count += room.waiting[c] * data.radix[c]
    sort_row(slots, rules[LANES], order)
    row[0], row[1] = (step if late else rules[LAST_ARRIVAL]), count
    if rules[PER_PRESENT]:
        layer = step
        to_go = latency_to_go(slots, data.arrival, data.output, room.waiting, step, scratch[0])
    else:
        # Layers of peaks count tokens: whatever leads to a state has emitted as many.
        layer = parent.layer + running
        to_go = peaks_to_go(
            slots,
            rules[LANES],
            rules[PER_STEP],
            rules[PER_TOKEN],
            data.load,
            data.output,
            room.waiting,
            scratch,
        )
    reach = cost + to_go
    if reach >= counters[BEST]:
        return
    new = place_of(row, cost, reach, step, layer, store)
    if new < 0:
        return
    store.cost[new], store.reach[new], store.when[new] = cost, reach, step
    store.parent[new] = parent.state
    store.action[new] = -1
    store.action[new, :depth] = added[:depth]
    store.order[new] = order
    if count == 0 and row[HEAD] == 0:
        counters[BEST], counters[BEST_STATE] = cost, new


# Arguments are single arrays where a function runs once per successor: Numba counts a reference
# to each array of a tuple on every call.
@entry_point
def _start(
    row: IntArray,
    slots: IntArray,
    added: IntArray,
    depth: int,
    load: IntArray,
    output: IntArray,
    lanes: int,
) -> int:
    """Copy the slots of a row and fill in what starts; return how many run."""
    running = depth
    for j in range(len(slots)):
        slots[j] = row[HEAD + j]
        running += slots[j] != 0
    for d in range(depth):
        lane, kind = added[d] // len(load), added[d] % len(load)
        at = lane * (len(slots) // lanes)
        while slots[at] != 0:
            at += 1
        slots[at] = load[kind] << LEFT_BITS | output[kind]
    return running


@entry_point
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


@entry_point
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
