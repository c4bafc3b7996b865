"""All successors of states: which waiting requests start now, and where.

Additions are written as rising sequences of ``lane · C + kind``, so each multiset of additions
occurs once; every prefix is an addition of its own. Lanes that look alike are filled in order.
"""

from typing import NamedTuple

import numpy as np

from bfio.exact.compiled import compiled
from bfio.hindsight.makespan.kernel import (
    HEAD,
    LEFT_BITS,
    LEFT_MASK,
    find,
    latency_to_go,
    peaks_to_go,
    sort_row,
)
from formulations.arrays import IntArray

#: What a state is.
OPEN, EXPANDED, GONE = 0, 1, 2
#: Places in ``counters``.
USED, FREE, BEST, BEST_STATE, DROPPED, HASHED, GENERATED = range(7)
#: Successors between two looks at the clock: a fraction of a second.
_MANY = 200_000


class Data(NamedTuple):
    """The kinds and the rules; see `SearchForm`.

    ``rules`` holds lanes, per_step, per_token, per_present, conserving, last arrival, and most
    successors of a state.
    """

    arrival: IntArray
    load: IntArray
    output: IntArray
    radix: IntArray
    counts: IntArray
    rules: IntArray


class Store(NamedTuple):
    """States, one per index.

    ``rows`` (see `kernel`), ``cost`` so far, ``reach`` a bound on the whole, ``when`` the step,
    ``parent``, ``action`` (lane · C + kind of each start, −1 after the last), ``order`` (the lane
    of the parent that each lane was), ``after`` the next state of the same layer, ``status``;
    ``head`` the first state of each layer, ``table`` the hash table, ``spare`` indices to reuse,
    ``counters``.
    """

    rows: IntArray
    cost: IntArray
    reach: IntArray
    when: IntArray
    parent: IntArray
    action: IntArray
    order: IntArray
    after: IntArray
    status: IntArray
    head: IntArray
    table: IntArray
    spare: IntArray
    counters: IntArray


@compiled
def expand(chosen: IntArray, layer: int, data: Data, store: Store, scratch: IntArray) -> int:
    """Expand states of one layer, and mark them so; return how many, at least one.

    It stops after `_MANY` successors, so that the caller can look at the clock.
    """
    begun = store.counters[GENERATED]
    num_kinds, lanes = len(data.counts), data.rules[0]
    num_slots = store.rows.shape[1] - HEAD
    waiting = np.zeros(num_kinds, dtype=np.int64)
    loads, free = np.zeros(lanes, dtype=np.int64), np.zeros(lanes, dtype=np.int64)
    for done, index in enumerate(chosen):
        if store.counters[GENERATED] - begun > _MANY:
            return done
        if store.status[index] != OPEN:
            continue
        store.status[index] = EXPANDED
        if store.reach[index] >= store.counters[BEST]:
            continue
        row = store.rows[index]
        rest = row[1]
        for c in range(num_kinds):
            waiting[c] = rest // data.radix[c]
            rest -= waiting[c] * data.radix[c]
        _read_lanes(row[HEAD:], lanes, loads, free)
        _enumerate(index, layer, num_slots, waiting, loads, free, data, store, scratch)
    return len(chosen)


@compiled
def _read_lanes(slots: IntArray, lanes: int, loads: IntArray, free: IntArray) -> None:
    per_lane = len(slots) // lanes
    for lane in range(lanes):
        loads[lane], free[lane] = 0, 0
        for j in range(lane * per_lane, (lane + 1) * per_lane):
            loads[lane] += slots[j] >> LEFT_BITS
            free[lane] += slots[j] == 0


@compiled
def _enumerate(
    index: int,
    layer: int,
    num_slots: int,
    waiting: IntArray,
    loads: IntArray,
    free: IntArray,
    data: Data,
    store: Store,
    scratch: IntArray,
) -> None:
    """Emit every addition of one state."""
    num_kinds, lanes = len(waiting), len(loads)
    per_lane = num_slots // lanes
    now = store.when[index]
    row = store.rows[index]
    all_free, ready, coming = 0, 0, 0
    for lane in range(lanes):
        all_free += free[lane]
    for c in range(num_kinds):
        if data.arrival[c] <= now:
            ready += waiting[c]
        else:
            coming += waiting[c]
    most = min(all_free, ready)
    # Latency idles only to wait for an arrival, see `horizon.latest_starts`.
    settled = data.rules[4] == 1 or (data.rules[3] > 0 and coming == 0)
    least = most if settled else 0
    idle = all_free == num_slots
    if idle and least == 0 and coming == 0:
        least = 1
    alike = np.zeros(lanes, dtype=np.bool_)
    for lane in range(1, lanes):
        alike[lane] = True
        for j in range(per_lane):
            if row[HEAD + (lane - 1) * per_lane + j] != row[HEAD + lane * per_lane + j]:
                alike[lane] = False
    first = np.full(lanes, -1, dtype=np.int64)
    added = np.zeros(num_slots + 1, dtype=np.int64)
    begun = store.counters[GENERATED]
    depth, code, last = 0, 0, num_kinds * lanes
    if least == 0:
        _emit(index, layer, added, 0, waiting, loads, now, ready, data, store, scratch)
    while True:
        lane, kind = code // num_kinds, code % num_kinds
        fits = code < last and depth < most
        if fits and waiting[kind] > 0 and data.arrival[kind] <= now and free[lane] > 0:
            opens = first[lane] < 0
            ordered = not (opens and alike[lane]) or (
                first[lane - 1] >= 0 and first[lane - 1] <= kind
            )
            if ordered:
                if opens:
                    first[lane] = kind
                waiting[kind] -= 1
                free[lane] -= 1
                loads[lane] += data.load[kind]
                added[depth] = code
                depth += 1
                if depth >= least:
                    _emit(
                        index,
                        layer,
                        added,
                        depth,
                        waiting,
                        loads,
                        now,
                        ready,
                        data,
                        store,
                        scratch,
                    )
                    if store.counters[GENERATED] - begun > data.rules[6]:
                        bound = store.reach[index]
                        store.counters[DROPPED] = min(store.counters[DROPPED], bound)
                        return
                continue
        code += 1
        if code < last and depth < most:
            continue
        if depth == 0:
            return
        depth -= 1
        code = added[depth]
        lane, kind = code // num_kinds, code % num_kinds
        waiting[kind] += 1
        free[lane] += 1
        loads[lane] -= data.load[kind]
        if depth == 0 or added[depth - 1] // num_kinds != lane:
            first[lane] = -1
        code += 1


@compiled
def _emit(
    index: int,
    layer: int,
    added: IntArray,
    depth: int,
    waiting: IntArray,
    loads: IntArray,
    now: int,
    ready: int,
    data: Data,
    store: Store,
    scratch: IntArray,
) -> None:
    """Run the step after one addition and keep the state it leads to."""
    num_kinds, lanes = len(waiting), len(loads)
    store.counters[GENERATED] += 1
    row = scratch[2, : store.rows.shape[1]]
    slots = row[HEAD:]
    per_lane = len(slots) // lanes
    running, grows = _start(store.rows[index][HEAD:], slots, added, depth, per_lane, data)
    cost = store.cost[index] + data.rules[3] * (running + ready - depth)
    if running:
        cost += data.rules[1] + data.rules[2] * loads.max()
    alive = 0
    for j in range(len(slots)):
        left = (slots[j] & LEFT_MASK) - 1
        if left > 0:
            slots[j] = ((slots[j] >> LEFT_BITS) + grows) << LEFT_BITS | left
            alive += 1
        else:
            slots[j] = 0
    step = now + 1
    count, next_arrival, late, present = 0, 2**62, False, 0
    for c in range(num_kinds):
        if waiting[c]:
            count += waiting[c] * data.radix[c]
            next_arrival = min(next_arrival, data.arrival[c])
            late = late or data.arrival[c] > step
            present += waiting[c] if data.arrival[c] <= step else 0
    if alive == 0 and count and next_arrival > step:
        step = next_arrival
        late = False
        for c in range(num_kinds):
            late = late or (waiting[c] > 0 and data.arrival[c] > step)
    _keep(
        index, layer, running, added, depth, waiting, cost, step, count, late, data, store, scratch
    )


@compiled
def _start(
    before: IntArray, slots: IntArray, added: IntArray, depth: int, per_lane: int, data: Data
) -> tuple[int, int]:
    """Copy the slots and fill in what starts; return how many run and what a step adds."""
    num_kinds = len(data.counts)
    running = 0
    for j in range(len(slots)):
        slots[j] = before[j]
        running += before[j] != 0
    for d in range(depth):
        lane, kind = added[d] // num_kinds, added[d] % num_kinds
        at = lane * per_lane
        while slots[at] != 0:
            at += 1
        slots[at] = data.load[kind] << LEFT_BITS | data.output[kind]
    return running + depth, 1 if data.rules[3] == 0 else 0


@compiled
def _keep(
    index: int,
    layer: int,
    running: int,
    added: IntArray,
    depth: int,
    waiting: IntArray,
    cost: int,
    step: int,
    count: int,
    late: bool,
    data: Data,
    store: Store,
    scratch: IntArray,
) -> None:
    """Bound the new state; store it if it is new or better, and may beat the best."""
    lanes, counters = data.rules[0], store.counters
    row = scratch[2, : store.rows.shape[1]]
    slots, order = row[HEAD:], scratch[3, :lanes]
    sort_row(slots, lanes, order)
    row[0], row[1] = (step if late else data.rules[5]), count
    if data.rules[3]:
        to_go = latency_to_go(slots, data.arrival, data.output, waiting, step, scratch[0])
        below = step
    else:
        to_go = peaks_to_go(
            slots, lanes, data.rules[1], data.rules[2], data.load, data.output, waiting, scratch
        )
        # Layers of peaks count tokens: whatever leads to a state has emitted as many.
        below = layer + running
    if cost + to_go >= counters[BEST]:
        return
    place = find(row, store.rows, store.table)
    known = store.table[place]
    if known >= 0 and store.status[known] != GONE and store.cost[known] <= cost:
        return
    if known >= 0 and store.status[known] == OPEN and store.when[known] == step:
        new = known
    else:
        if known >= 0 and store.status[known] == OPEN:
            store.status[known] = GONE
        new = _new_index(store)
        if new < 0:
            counters[DROPPED] = min(counters[DROPPED], cost + to_go)
            return
        counters[HASHED] += known < 0
        store.table[place] = new
        store.rows[new] = row
        store.status[new] = OPEN
        store.after[new] = store.head[below]
        store.head[below] = new
    store.cost[new], store.reach[new], store.when[new] = cost, cost + to_go, step
    store.parent[new] = index
    store.action[new] = -1
    store.action[new, :depth] = added[:depth]
    store.order[new] = order
    if count == 0 and row[HEAD] == 0:
        counters[BEST], counters[BEST_STATE] = cost, new


@compiled
def _new_index(store: Store) -> int:
    counters = store.counters
    if counters[HASHED] > 9 * len(store.table) // 10:
        return -1
    if counters[FREE]:
        counters[FREE] -= 1
        return int(store.spare[counters[FREE]])
    if counters[USED] == len(store.cost):
        return -1
    counters[USED] += 1
    return int(counters[USED] - 1)


@compiled
def collect(layer: int, store: Store) -> IntArray:
    """Return the open states of a layer that may beat the best, and free the others."""
    count = 0
    index = store.head[layer]
    while index >= 0:
        count += 1
        index = store.after[index]
    found = np.empty(count, dtype=np.int64)
    count = 0
    index = store.head[layer]
    while index >= 0:
        if store.status[index] == OPEN and store.reach[index] < store.counters[BEST]:
            found[count] = index
            count += 1
        index = store.after[index]
    return found[:count]


@compiled
def rehash(store: Store) -> None:
    """Forget the places of states that can no longer be met."""
    store.table[:] = -1
    store.counters[HASHED] = 0
    for index in range(store.counters[USED]):
        if store.status[index] != GONE:
            store.table[find(store.rows[index], store.rows, store.table)] = index
            store.counters[HASHED] += 1
