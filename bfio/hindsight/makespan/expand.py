"""Successors of states: the waiting requests that start now and their lanes.

An addition is an increasing sequence of ``lane · C + kind``, so each multiset of starts occurs
once; every prefix is itself an addition. Identical lanes are filled in order.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.hindsight.makespan.states import (
    BEST,
    BEST_STATE,
    DROPPED,
    EXPANDED,
    GENERATED,
    HEAD,
    LEFT_BITS,
    LEFT_MASK,
    OPEN,
    Data,
    Store,
    place_of,
    sort_row,
    to_go,
)
from formulations.arrays import BoolArray, IntArray


class Parent(NamedTuple):
    """The expanded state: its index, layer and step, and the number of ready requests."""

    state: int
    layer: int
    now: int
    ready: int


class Room(NamedTuple):
    """Data that an addition changes.

    ``waiting`` shape (C,): requests of each kind that have not started. ``loads``, ``free`` and
    ``first`` shape (lanes,): load, free slots, and the first kind that starts (−1: none).
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
    """Run the step after an addition; store the resulting state if it may beat the incumbent.

    Parameters
    ----------
    parent : Parent
        The expanded state.
    added, depth : IntArray, int
        The addition: lane · C + kind of each of ``depth`` starts.
    room : Room
        Waiting requests and loads after the addition.
    data, store : Data, Store
        Problem and stored states.
    scratch : IntArray
        Work array with four rows.
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
    # Without later arrivals the step does not affect what follows: a constant replaces it.
    row[0], row[1] = (step if late else data.last_arrival), count
    # In layers of peaks the layer is the number of tokens, the same for all paths to a state.
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
    # Slots are sorted: if the first is free and no request waits, the schedule is complete.
    if count == 0 and row[HEAD] == 0:
        counters[BEST], counters[BEST_STATE] = cost, new


@compilable
def _start(row: IntArray, slots: IntArray, added: IntArray, depth: int, data: Data) -> int:
    """Copy the slots of a row and fill in the starting requests; return the number that run."""
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
    """Advance a step with ``tokens`` added to each load; return the number that still run."""
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
    """Return the step of the next decision, and whether requests arrive after it."""
    first, last = 2**62, -1
    for c in range(len(waiting)):
        if waiting[c]:
            first = min(first, arrival[c])
            last = max(last, arrival[c])
    # If no request runs, the next decision is at the next arrival.
    if alive == 0 and last >= 0:
        step = max(step, first)
    return step, last > step


#: Successors between two checks of the time: a fraction of a second.
_MANY = 200_000


@entry_point
def expand(chosen: IntArray, layer: int, data: Data, store: Store, scratch: IntArray) -> int:
    """Expand and mark states of one layer; return their number, at least one.

    It stops after `_MANY` successors, so that the caller can check the time.
    """
    begun = store.counters[GENERATED]
    lanes = data.lanes
    room = Room(
        np.zeros(len(data.counts), dtype=np.int64),
        np.zeros(lanes, dtype=np.int64),
        np.zeros(lanes, dtype=np.int64),
        np.zeros(lanes, dtype=np.int64),
    )
    for done, index in enumerate(chosen):
        if store.counters[GENERATED] - begun > _MANY:
            return done
        if store.status[index] != OPEN:
            continue
        store.status[index] = EXPANDED
        if store.reach[index] < store.counters[BEST]:
            _expand_one(index, layer, room, data, store, scratch)
    return len(chosen)


@compilable(allocates=True)
def _expand_one(
    index: int, layer: int, room: Room, data: Data, store: Store, scratch: IntArray
) -> None:
    """Read a state, determine how few and how many requests may start, and enumerate additions."""
    slots = store.rows[index][HEAD:]
    _read(store.rows[index], room, data)
    now = store.when[index]
    ready, coming = 0, 0
    for c in range(len(room.waiting)):
        if data.arrival[c] <= now:
            ready += room.waiting[c]
        else:
            coming += room.waiting[c]
    most = min(room.free.sum(), ready)
    # For latency, idling only helps to wait for an arrival or for memory, see `latest_starts`.
    settled = data.conserving or (data.per_present > 0 and coming == 0 and data.memory == 0)
    least = most if settled else 0
    # Idling on empty lanes with no request to wait for is never better.
    if room.free.sum() == len(slots) and least == 0 and coming == 0:
        least = 1
    parent = Parent(index, layer, now, ready)
    alike = _alike(slots, len(room.loads))
    _enumerate(parent, least, most, alike, room, data, store, scratch)


@compilable
def _read(row: IntArray, room: Room, data: Data) -> None:
    rest = row[1]
    for c in range(len(room.waiting)):
        room.waiting[c] = rest // data.radix[c]
        rest -= room.waiting[c] * data.radix[c]
    per_lane = (len(row) - HEAD) // len(room.loads)
    for lane in range(len(room.loads)):
        room.loads[lane], room.free[lane], room.first[lane] = 0, 0, -1
        for j in range(HEAD + lane * per_lane, HEAD + (lane + 1) * per_lane):
            room.loads[lane] += row[j] >> LEFT_BITS
            room.free[lane] += row[j] == 0


@compilable(allocates=True)
def _alike(slots: IntArray, lanes: int) -> BoolArray:
    """Return for each lane whether it equals the previous one."""
    per_lane = len(slots) // lanes
    alike = np.zeros(lanes, dtype=np.bool_)
    for lane in range(1, lanes):
        alike[lane] = True
        for j in range(per_lane):
            if slots[(lane - 1) * per_lane + j] != slots[lane * per_lane + j]:
                alike[lane] = False
    return alike


@compilable(allocates=True)
def _enumerate(
    parent: Parent,
    least: int,
    most: int,
    alike: BoolArray,
    room: Room,
    data: Data,
    store: Store,
    scratch: IntArray,
) -> None:
    """Run `advance` for every addition of ``least`` to ``most`` requests."""
    added = np.zeros(most + 1, dtype=np.int64)
    begun = store.counters[GENERATED]
    waiting, loads, free, first = room
    num_kinds = len(waiting)
    depth, code, last = 0, 0, num_kinds * len(loads)
    if least == 0:
        advance(parent, added, 0, room, data, store, scratch)
    while True:
        if depth < most:
            code = _next_code(code, parent.now, alike, waiting, free, first, data.arrival)
            if data.memory and code < last:
                slots = store.rows[parent.state][HEAD:]
                if not _has_memory(slots, added[:depth], code, data):
                    code += 1
                    continue
        if code < last and depth < most:
            lane, kind = code // num_kinds, code % num_kinds
            if first[lane] < 0:
                first[lane] = kind
            waiting[kind] -= 1
            free[lane] -= 1
            loads[lane] += data.load[kind]
            added[depth] = code
            depth += 1
            if depth >= least:
                advance(parent, added, depth, room, data, store, scratch)
                if store.counters[GENERATED] - begun > data.most_successors:
                    # Too many successors: the bound of the state covers those not generated.
                    bound = store.reach[parent.state]
                    store.counters[DROPPED] = min(store.counters[DROPPED], bound)
                    return
        elif depth == 0:
            return
        else:
            # Backtrack: undo the last start and continue with the next code.
            depth -= 1
            code = added[depth]
            lane, kind = code // num_kinds, code % num_kinds
            waiting[kind] += 1
            free[lane] += 1
            loads[lane] -= data.load[kind]
            if depth == 0 or added[depth - 1] // num_kinds != lane:
                first[lane] = -1
            code += 1


@compilable
def _has_memory(slots: IntArray, added: IntArray, code: int, data: Data) -> bool:
    """Whether an additional request fits the memory of a lane until all of its requests end."""
    count = len(slots) // data.lanes + len(added) + 1
    for at in range(count):
        left, _ = _request_at(at, slots, added, code, data)
        if left == 0:
            continue
        # Loads only fall where a request ends, so the memory is tested at the last step of each.
        held = 0
        for other in range(count):
            stays, load = _request_at(other, slots, added, code, data)
            if stays >= left:
                held += load + left - 1
        if held > data.memory:
            return False
    return True


@compilable
def _request_at(
    at: int, slots: IntArray, added: IntArray, code: int, data: Data
) -> tuple[int, int]:
    """Return steps left and load of a request on a lane: in a slot, added, or the new one.

    Requests on other lanes have 0 steps left.
    """
    num_kinds, per_lane = len(data.load), len(slots) // data.lanes
    lane, kind = code // num_kinds, code % num_kinds
    if at < per_lane:
        slot = slots[lane * per_lane + at]
        return int(slot & LEFT_MASK), int(slot >> LEFT_BITS)
    if at < per_lane + len(added):
        if added[at - per_lane] // num_kinds != lane:
            return 0, 0
        kind = added[at - per_lane] % num_kinds
    return int(data.output[kind]), int(data.load[kind])


@compilable
def _next_code(
    code: int,
    now: int,
    alike: BoolArray,
    waiting: IntArray,
    free: IntArray,
    first: IntArray,
    arrival: IntArray,
) -> int:
    """Return the first possible start from ``code`` on, or the number of all codes."""
    num_kinds = len(waiting)
    while code < num_kinds * len(free):
        lane, kind = code // num_kinds, code % num_kinds
        if waiting[kind] > 0 and arrival[kind] <= now and free[lane] > 0:
            if first[lane] >= 0 or not alike[lane]:
                return code
            if 0 <= first[lane - 1] <= kind:
                return code
        code += 1
    return code
