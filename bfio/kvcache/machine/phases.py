"""The phases of one batch, each stated once for runs that are interpreted and compiled.

Before the decision (`open_batch`): beliefs grow that were outlived, requests are cleared if those
that run no longer fit, arrivals are revealed. After it (`close_batch`): the batch runs, requests
complete. Sums over the running requests are kept up to date, so that a batch costs its events.
"""

import numpy as np

from bfio.common.compilable import compilable
from bfio.kvcache.batch_time import batch_duration
from bfio.kvcache.machine.arrays import close_up, drop_columns, insert_column, merge
from bfio.kvcache.machine.state import (
    ARMED,
    ARRIVAL,
    BATCH,
    BATCHES_LIMIT,
    BELIEVED,
    CHANGES,
    CLEARINGS,
    CLEARINGS_LIMIT,
    CLOCK,
    COMPLETION,
    CONTEXT,
    DRAWS,
    END,
    FIRST,
    GOES_ON,
    IDLE,
    IDLE_LIMIT,
    LEAST_NEED,
    LENGTH,
    LEVEL,
    LOOP,
    NEED,
    NEW_PROMPT,
    NEXT_END,
    OVERFLOWS,
    PROMPT,
    RAN_DRY,
    REQUEST,
    REVEALED,
    RUNNING,
    SAW_ALL,
    START,
    STAYS,
    TRUE_END,
    USED,
    WAITING,
    Record,
    State,
)
from bfio.kvcache.run import StayEnd
from formulations.arrays import IntArray

#: In the queue, in the place of the key of a request that has started.
STARTED = -1
#: `bfio.kvcache.run.StayEnd` as plain integers.
COMPLETED, CLEARED, OPEN = (int(end) for end in StayEnd)


@compilable
def is_over(state: State) -> bool:
    """Whether all requests have completed."""
    counters = state.counters
    return bool(
        counters[WAITING] == 0
        and counters[RUNNING] == 0
        and counters[REVEALED] == len(state.queue)
    )


@compilable
def open_batch(state: State, record: Record, rng: np.random.Generator) -> int:
    """Do what precedes the decision; return how the run ends, if it does."""
    counters = state.counters
    if counters[WAITING] == 0 and counters[RUNNING] == 0:
        arrival = int(state.requests[ARRIVAL, counters[REVEALED]])
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
def close_batch(state: State, record: Record) -> int:
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
def grow_beliefs(state: State) -> None:
    """Believe of every request that has outlived its prediction that it ends with this batch."""
    counters, active = state.counters, state.active
    after = counters[BATCH] + 1
    j = 0
    # Sorted by END, and the outlived ones all end at this batch: the order is kept.
    while j < counters[RUNNING] and active[END, j] < after:
        active[END, j] = after
        request = active[REQUEST, j]
        state.requests[BELIEVED, request] = after - state.marks[FIRST, request]
        counters[ARMED] = 0
        j += 1


@compilable(allocates=True)
def make_room(state: State, record: Record, rng: np.random.Generator) -> None:
    """Clear running requests, draw by draw, until the others fit."""
    counters, settings = state.counters, state.settings
    counters[OVERFLOWS] += 1
    while True:
        counters[DRAWS] += 1
        for request in np.sort(state.active[REQUEST, : counters[RUNNING]]):
            state.leaving[request] = settings.clears_all or rng.random() < settings.chance
        enqueue(state, leave(state, record, CLEARED))
        if counters[USED] <= settings.memory:
            return
        counters[CLOCK] += settings.pause


@compilable
def note_overflow(state: State) -> int:
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
def reveal_until(state: State) -> int:
    """Return how many requests have arrived."""
    revealed, clock = int(state.counters[REVEALED]), state.counters[CLOCK]
    while revealed < len(state.queue) and state.requests[ARRIVAL, revealed] <= clock:
        revealed += 1
    return revealed


@compilable(allocates=True)
def reveal(state: State, revealed: int) -> None:
    """Let those wait who have arrived."""
    enqueue(state, np.arange(int(state.counters[REVEALED]), revealed))
    state.counters[REVEALED] = revealed


@compilable(allocates=True)
def enqueue(state: State, requests: IntArray) -> None:
    """Let requests wait, given in order of arrival.

    Their key in the queue is their number, or believed length first and number second.
    """
    counters, keys = state.counters, requests
    if len(requests) == 0:
        return
    if state.settings.is_shortest_first:
        keys = np.sort(state.requests[BELIEVED][requests] * len(state.queue) + requests)
    merge(state.queue, counters[WAITING], keys)
    counters[WAITING] += len(requests)
    counters[CHANGES] += 1
    counters[LEAST_NEED] = 0


@compilable
def waiting_at(state: State, position: int) -> int:
    """Return the number of the request at a position of the queue."""
    return int(state.queue[position]) % len(state.queue)


@compilable
def admit(state: State, position: int) -> None:
    """Let the request at a position of the queue start; `close_gaps` follows."""
    counters, active = state.counters, state.active
    request = waiting_at(state, position)
    batch, running = int(counters[BATCH]), int(counters[RUNNING])
    need = int(state.requests[NEED, request])
    end = batch + int(state.requests[BELIEVED, request])
    true_end = batch + int(state.requests[LENGTH, request])
    place = running
    while place > 0 and active[END, place - 1] > end:
        place -= 1
    if place < running:
        insert_column(active, running, place)
    active[REQUEST, place] = request
    active[END, place] = end
    active[TRUE_END, place] = true_end
    active[LEVEL, place] = need - batch
    state.marks[FIRST, request] = batch
    if running == 0 or true_end < counters[NEXT_END]:
        counters[NEXT_END] = true_end
    counters[RUNNING] = running + 1
    counters[USED] += need
    counters[NEW_PROMPT] += int(state.requests[PROMPT, request])
    state.queue[position] = STARTED


@compilable
def close_gaps(state: State) -> None:
    """Move those who still wait together."""
    state.counters[WAITING] = close_up(state.queue, state.counters[WAITING], STARTED)
    state.counters[CHANGES] += 1


@compilable
def run_batch(state: State, record: Record) -> None:
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
def complete(state: State, record: Record) -> None:
    """Let those leave whose last batch this was."""
    counters, active = state.counters, state.active
    batch = counters[BATCH]
    for j in range(counters[RUNNING]):
        if active[TRUE_END, j] == batch:
            state.leaving[active[REQUEST, j]] = 1
    now = record.batches[batch - 1, 0] if state.settings.completes_at_start else counters[CLOCK]
    for request in leave(state, record, COMPLETED):
        state.marks[COMPLETION, request] = now
    counters[CLEARINGS] = 0
    counters[ARMED] = 0


@compilable(allocates=True)
def leave(state: State, record: Record, end: int) -> IntArray:
    """Take the marked requests from the cache and record their stays; return them by arrival."""
    counters, active, leaving = state.counters, state.active, state.leaving
    requests = np.sort(active[REQUEST, : counters[RUNNING]])
    counters[RUNNING] = drop_columns(active, counters[RUNNING], leaving)
    num = 0
    for request in requests:
        if leaving[request] == 0:
            continue
        leaving[request] = 0
        first = int(state.marks[FIRST, request])
        done = counters[BATCH] - first
        row = record.stays[counters[STAYS]]
        row[0], row[1], row[2], row[3] = request, first, done, end
        if end != CLEARED:
            state.marks[START, request] = record.batches[first, 0]
        counters[STAYS] += 1
        counters[USED] -= int(state.requests[NEED, request]) + done
        counters[CONTEXT] -= done
        requests[num] = request
        num += 1
    if counters[RUNNING] > 0:
        counters[NEXT_END] = int(active[TRUE_END, : counters[RUNNING]].min())
    return requests[:num]


@compilable(allocates=True)
def leave_open(state: State, record: Record) -> None:
    """Record the stays of those who run when the run is over."""
    for j in range(state.counters[RUNNING]):
        state.leaving[state.active[REQUEST, j]] = 1
    leave(state, record, OPEN)
