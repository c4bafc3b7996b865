"""States of the search: representation, bounds on the remaining cost, storage, and successors.

A lane is a worker or, if workers do not matter, all slots together (`search.SearchForm`).
A state is a row of integers: the step (or the last arrival, if every request that has not started
has arrived), the counts of unstarted requests in mixed radix, and the slots of each lane. A slot
is ``load · 2^20 + steps left`` of its request, or 0 if free. The slots of a lane and the lanes are
sorted, because the slots of a lane are interchangeable, and so are the lanes.

An addition says which waiting requests start now, and in which lanes; it determines a successor.
It is written as a sequence of numbers ``lane · C + kind`` that never decrease, one per start, with
C kinds of requests. So each multiset of starts occurs once, and every prefix is itself an
addition. Identical lanes are filled in order.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from formulations.arrays import BoolArray, IntArray

#: Number of bits of a slot for the steps left.
LEFT_BITS = 20
LEFT_MASK = 2**LEFT_BITS - 1
#: Number of columns of a state before its slots.
HEAD = 2


class Data(NamedTuple):
    """Kinds and rules of a search.

    Parameters
    ----------
    arrival, load, output, counts : IntArray
        Shape (C,): the kinds, and their numbers of requests; ``load`` is 0 for latency without a
        memory.
    radix : IntArray
        Shape (C,): weights of the counts in a state; set when a search begins.
    lanes : int
        Workers of the search; for latency without a memory, a single lane with all slots.
    memory : int
        Maximum tokens of a lane, the minimum over workers if they differ; 0 for no limit.
    growth : int
        Tokens by which a load grows per step: 1, or 0 if loads do not matter.
    per_step, per_token, per_present : int
        Cost of a busy step, of a token of its peak load, and of a request that has arrived and not
        completed (latency).
    conserving : bool
        Whether schedules must be work-conserving.
    last_arrival : int
        Step of the last arrival.
    most_successors : int
        Maximum number of successors of a state; set when a search begins.
    """

    arrival: IntArray
    load: IntArray
    output: IntArray
    radix: IntArray
    counts: IntArray
    lanes: int
    memory: int
    growth: int
    per_step: int
    per_token: int
    per_present: int
    conserving: bool
    last_arrival: int
    most_successors: int


@entry_point
def first_reach(slots: IntArray, data: Data, scratch: IntArray) -> int:
    """Return a bound on the total cost from the state in which no request has started."""
    return to_go(slots, data, data.counts, 0, scratch)


@compilable
def to_go(slots: IntArray, data: Data, waiting: IntArray, step: int, scratch: IntArray) -> int:
    """Return a lower bound on the cost of all steps from a state on.

    Parameters
    ----------
    slots : IntArray
        Slots of the state, lane by lane.
    data : Data
        Kinds and costs.
    waiting : IntArray
        Shape (C,): number of unstarted requests of each kind.
    step : int
        Step of the state.
    scratch : IntArray
        Work array, longer than any request and any load, with a row for steps and a row for
        heights.
    """
    if data.per_present:
        return _latency_to_go(slots, data, waiting, step, scratch[0])
    return _peaks_to_go(slots, data, waiting, scratch)


@compilable
def _peaks_to_go(slots: IntArray, data: Data, waiting: IntArray, scratch: IntArray) -> int:
    """Return a bound on the remaining costs of steps and peaks.

    It combines the bounds of `formulations.hindsight_makespan.bound` for the remaining work with
    the sum of the peaks of the running requests alone.
    """
    lanes, load, output = data.lanes, data.load, data.output
    total_slots = len(slots)
    per_lane = total_slots // lanes
    tokens, work, longest, top = 0, 0, 0, 0
    for code in slots:
        left, now = code & LEFT_MASK, code >> LEFT_BITS
        tokens += left
        work += left * now + left * (left - 1) // 2
        longest = max(longest, left)
        if left:
            top = max(top, now + left - 1)
    running_longest = longest
    for c in range(len(waiting)):
        if waiting[c]:
            tokens += waiting[c] * output[c]
            work += waiting[c] * (output[c] * load[c] + output[c] * (output[c] - 1) // 2)
            longest = max(longest, output[c])
            top = max(top, load[c] + output[c] - 1)
    if tokens == 0:
        return 0
    forced = 0
    for step in range(running_longest):
        peak = 0
        for lane in range(lanes):
            total = 0
            for slot in range(lane * per_lane, (lane + 1) * per_lane):
                if slots[slot] & LEFT_MASK > step:
                    total += (slots[slot] >> LEFT_BITS) + step
            peak = max(peak, total)
        forced += peak
    peaks = max(forced, (work + lanes - 1) // lanes)
    if max(top, longest) + 1 < scratch.shape[1]:
        peaks = max(peaks, _layers(slots, data, waiting, scratch, longest, top))
    steps = max(longest, (tokens + total_slots - 1) // total_slots)
    if data.memory:
        steps = max(steps, (work + lanes * data.memory - 1) // (lanes * data.memory))
    return data.per_step * steps + data.per_token * peaks


@compilable
def _layers(
    slots: IntArray, data: Data, waiting: IntArray, scratch: IntArray, longest: int, top: int
) -> int:
    """Return a bound on the sum of peaks: for each height, the number of steps with a load above.

    That number is at least ``⌈(request, step) pairs with load above / slots⌉``, and at least the
    maximum number of steps at which one request's load is above.
    """
    load, output = data.load, data.output
    drain, entries = scratch[0], scratch[1]
    drain[: longest + 1] = 0
    entries[: top + 2] = 0
    for code in slots:
        left, now = code & LEFT_MASK, code >> LEFT_BITS
        if left:
            entries[now] += 1
            entries[now + left] -= 1
            drain[left - 1] = max(drain[left - 1], now + left - 1)
    for c in range(len(waiting)):
        if waiting[c]:
            entries[load[c]] += waiting[c]
            entries[load[c] + output[c]] -= waiting[c]
            drain[output[c] - 1] = max(drain[output[c] - 1], load[c] + output[c] - 1)
    for v in range(1, top + 1):
        entries[v] += entries[v - 1]
    # drain[j] is made the maximum final load of a request with more than j steps left.
    for j in range(longest - 2, -1, -1):
        drain[j] = max(drain[j], drain[j + 1])
    above, part, total = 0, 0, 0
    for height in range(top - 1, -1, -1):
        above += entries[height + 1]
        while part < longest and drain[part] - part > height:
            part += 1
        total += max((above + len(slots) - 1) // len(slots), part)
    return total


@compilable
def _latency_to_go(
    slots: IntArray, data: Data, waiting: IntArray, step: int, ready: IntArray
) -> int:
    """Return a bound on the latency that accumulates from a step on.

    Without arrivals, shortest first is optimal on machines that become available when the slots
    do; kinds must be sorted by output. The steps before the arrivals are then subtracted. The
    latency of the waiting requests is also at least the sum of their outputs.
    """
    running = 0
    for j in range(len(slots)):
        ready[j] = slots[j] & LEFT_MASK
        running += ready[j]
    ends, alone = 0, 0
    for c in range(len(waiting)):
        for _ in range(waiting[c]):
            first = 0
            for j in range(1, len(slots)):
                if ready[j] < ready[first]:
                    first = j
            ready[first] += data.output[c]
            ends += ready[first] - max(0, data.arrival[c] - step)
            alone += data.output[c]
    return running + max(ends, alone)


@compilable
def sort_row(row: IntArray, lanes: int, order: IntArray) -> None:
    """Sort the slots of each lane, then the lanes, largest first; ``order`` tracks the lanes."""
    per_lane = len(row) // lanes
    for lane in range(lanes):
        order[lane] = lane
        base = lane * per_lane
        for j in range(base + 1, base + per_lane):
            value, at = row[j], j
            while at > base and row[at - 1] < value:
                row[at] = row[at - 1]
                at -= 1
            row[at] = value
    for lane in range(1, lanes):
        at = lane
        while at > 0 and _is_less(row, at - 1, at, per_lane):
            for j in range(per_lane):
                one, other = (at - 1) * per_lane + j, at * per_lane + j
                row[one], row[other] = row[other], row[one]
            order[at - 1], order[at] = order[at], order[at - 1]
            at -= 1


@compilable
def _is_less(row: IntArray, one: int, other: int, per_lane: int) -> bool:
    for j in range(per_lane):
        left, right = row[one * per_lane + j], row[other * per_lane + j]
        if left != right:
            return bool(left < right)
    return False


@compilable
def _hash(row: IntArray) -> int:
    value = np.uint64(1469598103934665603)
    for entry in row:
        value = (value ^ np.uint64(entry)) * np.uint64(1099511628211)
        value ^= value >> np.uint64(29)
    return int(value & np.uint64(2**62 - 1))


@compilable
def find(row: IntArray, rows: IntArray, table: IntArray) -> int:
    """Return the place of a row in the hash table, or a free place if it is not stored."""
    mask = len(table) - 1
    place = _hash(row) & mask
    while table[place] >= 0:
        known = rows[table[place]]
        same = True
        for j in range(len(row)):
            if known[j] != row[j]:
                same = False
                break
        if same:
            return int(place)
        place = (place + 1) & mask
    return int(place)


#: Status of a state.
OPEN, EXPANDED, GONE = 0, 1, 2
#: Entries of ``counters``.
USED, FREE, BEST, BEST_STATE, DROPPED, HASHED, GENERATED = range(7)


class Store(NamedTuple):
    """Stored states, one per index.

    ``rows`` (see the module docstring), ``cost`` so far, ``reach``, a bound on the total cost,
    ``when``, the step, ``parent``, ``action`` (lane · C + kind of each start, −1 after the last),
    ``order`` (the parent's index of each lane), ``after``, the next state of the layer, and
    ``status``. ``head`` is the first state of each layer, ``table`` the hash table, ``spare`` the
    released indices; then ``counters``.
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


@compilable(allocates=True)
def place_of(row: IntArray, cost: int, reach: int, step: int, layer: int, store: Store) -> int:
    """Return the index for a state; −1 if it is stored at no greater cost, or no row is free.

    Parameters
    ----------
    row : IntArray
        The state.
    cost, reach, step, layer : int
        Cost so far, bound, step and layer of the state.
    store : Store
        Receives the state. If no row is free, the least reach of dropped states is updated.
    """
    counters = store.counters
    place = find(row, store.rows, store.table)
    known = store.table[place]
    if known >= 0 and store.status[known] != GONE and store.cost[known] <= cost:
        return -1
    if known >= 0 and store.status[known] == OPEN:
        if store.when[known] == step:
            return int(known)
        store.status[known] = GONE
    new = _new_index(store)
    if new < 0:
        counters[DROPPED] = min(counters[DROPPED], reach)
        return -1
    counters[HASHED] += known < 0
    store.table[place] = new
    copy_to(store.rows[new], row)
    store.status[new] = OPEN
    store.after[new] = store.head[layer]
    store.head[layer] = new
    return int(new)


@compilable
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


@entry_point
def remember(index: int, store: Store) -> None:
    """Store the index of a state in the hash table."""
    store.table[find(store.rows[index], store.rows, store.table)] = index


@entry_point
def collect(layer: int, store: Store) -> IntArray:
    """Return the open states of a layer whose bound is below the incumbent."""
    count = 0
    index = store.head[layer]
    while index >= 0:
        count += 1
        index = store.after[index]
    open_states = np.empty(count, dtype=np.int64)
    count = 0
    index = store.head[layer]
    while index >= 0:
        if store.status[index] == OPEN and store.reach[index] < store.counters[BEST]:
            open_states[count] = index
            count += 1
        index = store.after[index]
    return open_states[:count]


@entry_point
def rehash(store: Store) -> None:
    """Rebuild the hash table without discarded states."""
    store.table[:] = -1
    store.counters[HASHED] = 0
    for index in range(store.counters[USED]):
        if store.status[index] != GONE:
            store.table[find(store.rows[index], store.rows, store.table)] = index
            store.counters[HASHED] += 1


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
    # Without later arrivals the step does not affect later costs: a constant replaces it.
    row[0], row[1] = (step if late else data.last_arrival), count
    # Except for latency, the layer is the number of tokens, equal for all paths to a state.
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
    """Expand states of one layer and mark them as expanded; return their number, at least one.

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
    """Read a state, determine the minimum and maximum number of starts, enumerate additions."""
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
    # If all lanes are empty and no arrival is to come, idling is never better.
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
    """Return for each lane whether its slots equal those of the previous lane."""
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
    """Whether an additional request fits the memory of its lane until all requests there end."""
    count = len(slots) // data.lanes + len(added) + 1
    for at in range(count):
        left, _ = _request_at(at, slots, added, code, data)
        if left == 0:
            continue
        # A lane's load falls only when a request ends, so each request's last step is tested.
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
    """Return steps left and load of request ``at``: first slots, then additions, then the new one.

    Requests added to other lanes have 0 steps left.
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
    """Return the first feasible code from ``code`` on, or the number of codes if none is."""
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
