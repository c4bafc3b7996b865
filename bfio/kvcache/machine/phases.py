"""The phases of one batch and their loop, stated once for runs that are interpreted and compiled.

Before the decision (`open_batch`): beliefs grow that were outlived, requests are cleared if those
that run no longer fit, arrivals are revealed. After it (`close_batch`): the batch runs, requests
complete. Sums over the running requests are kept up to date, so that a batch costs its events.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from bfio.common.compilable import compilable
from bfio.kvcache.batch_time import batch_duration
from bfio.kvcache.machine.arrays import insert, keep, merge
from bfio.kvcache.machine.state import (
    ARMED,
    BATCH,
    BATCHES_LIMIT,
    CHANGES,
    CLEARINGS,
    CLEARINGS_LIMIT,
    CLOCK,
    CONTEXT,
    DRAWS,
    GOES_ON,
    IDLE,
    IDLE_LIMIT,
    LEAST_NEED,
    LOOP,
    NEW_PROMPT,
    NEXT_END,
    OVERFLOWS,
    RAN_DRY,
    REVEALED,
    RUNNING,
    SAW_ALL,
    STAYS,
    USED,
    WAITING,
    CacheRecord,
    MachineState,
    enlarged,
    is_full,
)
from bfio.kvcache.run import StayEnd
from formulations.arrays import BoolArray, IntArray

#: In the queue, in the place of the key of a request that has started.
STARTED = -1
#: `bfio.kvcache.run.StayEnd` as plain integers.
COMPLETED, CLEARED, OPEN = (int(end) for end in StayEnd)


def run_batches(
    state: MachineState, record: CacheRecord, rule: Any, rng: np.random.Generator
) -> tuple[int, CacheRecord]:
    """Serve everything, or stop; return how the run ends, and its record."""
    ended = GOES_ON
    while ended == GOES_ON and not is_over(state):
        if is_full(record, state):
            record = enlarged(record, state)
        ended = open_batch(state, record, rng)
        if ended == GOES_ON:
            decide(state, rule)
            ended = close_batch(state, record)
    leave_open(state, record)
    return ended, record


def decide(state: MachineState, rule: Callable[[MachineState], None]) -> None:
    """Let requests start; compiled runs have `admission.start_requests` in the place of this."""
    rule(state)


@compilable
def is_over(state: MachineState) -> bool:
    """Whether all requests have completed."""
    counters = state.counters
    return bool(
        counters[WAITING] == 0
        and counters[RUNNING] == 0
        and counters[REVEALED] == len(state.queue)
    )


@compilable
def open_batch(state: MachineState, record: CacheRecord, rng: np.random.Generator) -> int:
    """Do what precedes the decision; return how the run ends, if it does."""
    counters = state.counters
    if counters[WAITING] == 0 and counters[RUNNING] == 0:
        arrival = int(state.requests.arrival[counters[REVEALED]])
        counters[CLOCK] = max(counters[CLOCK], arrival)
    grow_beliefs(state)
    if counters[USED] > state.settings.memory:
        make_room(state, record, rng)
        ended = note_overflow(state)
        if ended != GOES_ON:
            return ended
    revealed = reveal_until(state)
    if revealed > counters[REVEALED]:
        reveal(state, revealed)
    return BATCHES_LIMIT if counters[BATCH] == state.settings.max_batches else GOES_ON


@compilable
def close_batch(state: MachineState, record: CacheRecord) -> int:
    """Do what follows the decision; return how the run ends, if it does."""
    counters, settings = state.counters, state.settings
    if counters[WAITING] == 0:
        counters[RAN_DRY] = 1
    if counters[RUNNING] == 0:
        counters[IDLE] += 1
        counters[CLOCK] += settings.base
        return GOES_ON if counters[IDLE] < settings.max_idle else IDLE_LIMIT
    counters[IDLE] = 0
    run_batch(state, record)
    if counters[NEXT_END] == counters[BATCH]:
        complete(state, record)
    return GOES_ON


@compilable
def grow_beliefs(state: MachineState) -> None:
    """Believe of every request that has outlived its prediction that it ends with this batch."""
    counters, running, requests = state.counters, state.running, state.requests
    after = counters[BATCH] + 1
    k = 0
    # Sorted by end, and the outlived ones all end at this batch: the order is kept.
    while k < counters[RUNNING] and running.end[k] < after:
        running.end[k] = after
        request = running.request[k]
        requests.believed[request] = after - requests.first[request]
        counters[ARMED] = 0
        k += 1


@compilable(allocates=True)
def make_room(state: MachineState, record: CacheRecord, rng: np.random.Generator) -> None:
    """Clear running requests, draw by draw, until the others fit."""
    counters, settings = state.counters, state.settings
    counters[OVERFLOWS] += 1
    while True:
        counters[DRAWS] += 1
        leaves = np.ones(counters[RUNNING], np.bool_)
        if not settings.clears_all:
            for k in np.argsort(state.running.request[: len(leaves)]):
                leaves[k] = rng.random() < settings.chance
        enqueue(state, leave(state, record, leaves, CLEARED))
        if counters[USED] <= settings.memory:
            return
        counters[CLOCK] += settings.pause


@compilable
def note_overflow(state: MachineState) -> int:
    """Note an overflow and return whether it ends the run: the state has come back, or a limit.

    After a full clearing nothing runs, so the state is who waits and what is believed of them.
    Between two full clearings without a completion nobody left; without a new prediction (ARMED)
    and without arrivals (SAW_ALL) the state is the same, and a memoryless policy repeats itself
    forever. New arrivals do not matter if it takes requests in order and never came to the end of
    the queue (RAN_DRY).
    """
    counters, settings = state.counters, state.settings
    undisturbed = counters[SAW_ALL] == 1 or (settings.is_first_come and counters[RAN_DRY] == 0)
    is_back = settings.clears_all and counters[ARMED] == 1 and undisturbed
    counters[CLEARINGS] += 1
    counters[ARMED] = settings.clears_all
    counters[SAW_ALL] = counters[REVEALED] == len(state.queue)
    counters[RAN_DRY] = 0
    if is_back and settings.is_memoryless:
        return LOOP
    return CLEARINGS_LIMIT if counters[CLEARINGS] == settings.max_clearings else GOES_ON


@compilable
def reveal_until(state: MachineState) -> int:
    """Return how many requests have arrived."""
    revealed, clock = int(state.counters[REVEALED]), state.counters[CLOCK]
    while revealed < len(state.queue) and state.requests.arrival[revealed] <= clock:
        revealed += 1
    return revealed


@compilable(allocates=True)
def reveal(state: MachineState, revealed: int) -> None:
    """Let those wait who have arrived."""
    enqueue(state, np.arange(int(state.counters[REVEALED]), revealed))
    state.counters[REVEALED] = revealed


@compilable(allocates=True)
def enqueue(state: MachineState, requests: IntArray) -> None:
    """Let requests wait, given in order of arrival.

    Their key in the queue is their number, or believed length first and number second.
    """
    counters, keys = state.counters, requests
    if len(requests) == 0:
        return
    if state.settings.is_shortest_first:
        keys = np.sort(state.requests.believed[requests] * len(state.queue) + requests)
    merge(state.queue, counters[WAITING], keys)
    counters[WAITING] += len(requests)
    counters[CHANGES] += 1
    counters[LEAST_NEED] = 0


@compilable
def waiting_at(state: MachineState, position: int) -> int:
    """Return the number of the request at a position of the queue."""
    return int(state.queue[position]) % len(state.queue)


@compilable
def admit(state: MachineState, position: int) -> None:
    """Let the request at a position of the queue start; `close_gaps` follows."""
    counters, running, requests = state.counters, state.running, state.requests
    request, batch, num = waiting_at(state, position), counters[BATCH], counters[RUNNING]
    need = int(requests.need[request])
    end = batch + int(requests.believed[request])
    true_end = batch + int(requests.length[request])
    place = num
    while place > 0 and running.end[place - 1] > end:
        place -= 1
    insert(running.request, num, place, request)
    insert(running.end, num, place, end)
    insert(running.true_end, num, place, true_end)
    insert(running.level, num, place, need - batch)
    requests.first[request] = batch
    if num == 0 or true_end < counters[NEXT_END]:
        counters[NEXT_END] = true_end
    counters[RUNNING] += 1
    counters[USED] += need
    counters[NEW_PROMPT] += int(requests.prompt[request])
    state.queue[position] = STARTED


@compilable(allocates=True)
def close_gaps(state: MachineState) -> None:
    """Move those who still wait together."""
    num = state.counters[WAITING]
    state.counters[WAITING] = keep(state.queue, num, state.queue[:num] != STARTED)
    state.counters[CHANGES] += 1


@compilable
def run_batch(state: MachineState, record: CacheRecord) -> None:
    """Run a batch and write its row of the record."""
    counters, settings = state.counters, state.settings
    batch, running = counters[BATCH], counters[RUNNING]
    duration = batch_duration(
        settings.base, settings.per_request, settings.per_context, settings.per_prompt,
        running, counters[CONTEXT], counters[NEW_PROMPT],
    )  # fmt: skip
    row = record.batches[batch]
    row[0], row[1], row[2] = counters[CLOCK], duration, counters[USED]
    row[3], row[4] = running, counters[WAITING]
    counters[CLOCK] += duration
    counters[BATCH] += 1
    # Everyone who runs holds a token more now.
    counters[USED] += running
    counters[CONTEXT] += running
    counters[NEW_PROMPT] = 0


@compilable(allocates=True)
def complete(state: MachineState, record: CacheRecord) -> None:
    """Let those leave whose last batch this was."""
    counters, batch = state.counters, state.counters[BATCH]
    now = record.batches[batch - 1, 0] if state.settings.completes_at_start else counters[CLOCK]
    leaves = state.running.true_end[: counters[RUNNING]] == batch
    for request in leave(state, record, leaves, COMPLETED):
        state.requests.completion[request] = now
    counters[CLEARINGS] = 0
    counters[ARMED] = 0


@compilable(allocates=True)
def leave(state: MachineState, record: CacheRecord, leaves: BoolArray, end: int) -> IntArray:
    """Take some of the running requests from the cache, and record their stays.

    Returns them in order of arrival.
    """
    counters, running, requests = state.counters, state.running, state.requests
    gone = np.sort(running.request[: len(leaves)][leaves])
    for row in running:
        counters[RUNNING] = keep(row, len(leaves), ~leaves)
    for request in gone:
        first = int(requests.first[request])
        done = counters[BATCH] - first
        stay = record.stays[counters[STAYS]]
        stay[0], stay[1], stay[2], stay[3] = request, first, done, end
        if end != CLEARED:
            requests.start[request] = record.batches[first, 0]
        counters[STAYS] += 1
        counters[USED] -= int(requests.need[request]) + done
        counters[CONTEXT] -= done
    if counters[RUNNING] > 0:
        counters[NEXT_END] = int(running.true_end[: counters[RUNNING]].min())
    return gone


@compilable(allocates=True)
def leave_open(state: MachineState, record: CacheRecord) -> None:
    """Record the stays of those who run when the run is over."""
    leave(state, record, np.ones(state.counters[RUNNING], np.bool_), OPEN)
