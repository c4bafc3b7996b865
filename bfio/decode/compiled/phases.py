"""The phases of one step as kernels, in the order of `bfio.decode.engine`.

Loads are kept up to date instead of being summed anew: what starts adds its prompt, what runs
gains the increment of the step, what ends takes its load away. Requests that end at the same step
form a linked list, so that a step costs its events and O(G).
"""

from bfio.common.kernels import in_place
from bfio.decode.compiled.state import (
    ACTIVE,
    ADMITTED,
    COMPLETED,
    FREE,
    FURTHEST,
    HEAD,
    IDLE,
    LAST,
    LOADS,
    MEAN_TIME,
    NEXT,
    NOW,
    OUTPUT,
    POOL,
    PROMPT,
    QUEUED,
    QUEUED_TOKENS,
    REQUESTS,
    REVEAL,
    REVEALED,
    RUNNING,
    SLOTS,
    START,
    STEP,
    STEP_OVERHEAD,
    TAIL,
    TIMED,
    TOKEN_TIME,
    TOKENS,
    WAITING,
    WORKER,
    Record,
    State,
)
from formulations.arrays import IntArray


@in_place
def gained(gains: IntArray, steps: int) -> int:
    """Return ``D(steps)``, the drift of the first ``steps`` steps [tokens]."""
    period = len(gains) - 1
    if period == 1:
        return int(steps * gains[1])
    return int((steps // period) * gains[period] + gains[steps % period])


@in_place
def reveal(state: State) -> int:
    """Reveal requests and return the first of them; those before REVEALED follow."""
    counters = state.counters
    first = int(counters[REVEALED])
    last = reveal_until(state)
    for request in range(first, last):
        state.marks[REVEAL, request] = counters[STEP]
        state.reveal_s[request] = state.clock[NOW]
    counters[REVEALED] = last
    counters[WAITING] += last - first
    counters[ADMITTED] = 0
    return first


@in_place
def reveal_until(state: State) -> int:
    """Return how many requests are revealed once this phase is over."""
    last = int(state.counters[REVEALED])
    num_requests = len(state.pool)
    if state.settings[TIMED]:
        while last < num_requests and state.arrival_s[last] <= state.clock[NOW]:
            last += 1
        return last
    missing = max(0, state.settings[POOL] - state.counters[WAITING])
    return int(min(num_requests, last + missing))


@in_place
def tally_free_slots(state: State) -> int:
    """Bring the tally up to date for pooled dispatch and return the number of free slots."""
    workers = state.workers
    total = 0
    for g in range(workers.shape[1]):
        workers[FREE, g] = state.settings[SLOTS] - workers[RUNNING, g]
        workers[REQUESTS, g] = workers[RUNNING, g]
        workers[TOKENS, g] = workers[LOADS, g]
        total += workers[FREE, g]
    return total


@in_place
def tally_queues(state: State) -> None:
    """Bring the tally up to date for immediate dispatch, where every worker is open."""
    workers = state.workers
    for g in range(workers.shape[1]):
        workers[FREE, g] = 1
        workers[REQUESTS, g] = workers[RUNNING, g] + workers[QUEUED, g]
        workers[TOKENS, g] = workers[LOADS, g] + workers[QUEUED_TOKENS, g]


@in_place
def bind(state: State, request: int, worker: int) -> None:
    """Put a request at the end of a worker's queue."""
    workers, links = state.workers, state.requests
    if workers[QUEUED, worker] == 0:
        workers[HEAD, worker] = request
    else:
        links[NEXT, workers[TAIL, worker]] = request
    workers[TAIL, worker] = request
    state.marks[WORKER, request] = worker
    workers[QUEUED, worker] += 1
    workers[REQUESTS, worker] += 1
    workers[QUEUED_TOKENS, worker] += links[PROMPT, request]
    workers[TOKENS, worker] += links[PROMPT, request]


@in_place
def start_queued(state: State) -> None:
    """Let the heads of the queues start where slots are free."""
    workers = state.workers
    for g in range(workers.shape[1]):
        while workers[QUEUED, g] > 0 and workers[RUNNING, g] < state.settings[SLOTS]:
            request = workers[HEAD, g]
            workers[HEAD, g] = state.requests[NEXT, request]
            workers[QUEUED, g] -= 1
            workers[QUEUED_TOKENS, g] -= state.requests[PROMPT, request]
            start(state, request, g)
    state.counters[WAITING] -= state.counters[ADMITTED]


@in_place
def admit(state: State, position: int, worker: int) -> None:
    """Let the waiting request at a position of the pool start, and keep the tally."""
    request = state.pool[position]
    state.marks[WORKER, request] = worker
    state.counters[FURTHEST] = max(position, state.counters[FURTHEST])
    state.workers[FREE, worker] -= 1
    state.workers[REQUESTS, worker] += 1
    state.workers[TOKENS, worker] += state.requests[PROMPT, request]
    start(state, request, worker)


@in_place
def start(state: State, request: int, worker: int) -> None:
    """Let a request run on its worker from this step on."""
    counters, marks = state.counters, state.marks
    last = counters[STEP] + state.requests[OUTPUT, request] - 1
    marks[START, request] = counters[STEP]
    marks[LAST, request] = last
    state.workers[LOADS, worker] += state.requests[PROMPT, request]
    state.workers[RUNNING, worker] += 1
    counters[ACTIVE] += 1
    counters[ADMITTED] += 1
    slot = last & (len(state.wheel) - 1)
    state.requests[NEXT, request] = state.wheel[slot]
    state.wheel[slot] = request


@in_place
def close_gaps(state: State) -> None:
    """Move those that still wait together, towards the younger end of the pool.

    Only positions up to the last one admitted move, so that admitting the oldest costs nothing
    for those behind them, however many wait.
    """
    counters, pool = state.counters, state.pool
    free = counters[FURTHEST]
    for position in range(counters[FURTHEST], counters[REVEALED] - counters[WAITING] - 1, -1):
        request = pool[position]
        if state.marks[WORKER, request] < 0:
            pool[free] = request
            free -= 1
    counters[WAITING] -= counters[ADMITTED]
    counters[FURTHEST] = -1


@in_place
def wait_for_arrival(state: State) -> None:
    """Let the clock jump to the next arrival."""
    arrival = state.arrival_s[state.counters[REVEALED]]
    state.clock[IDLE] += arrival - state.clock[NOW]
    state.clock[NOW] = arrival


@in_place
def run_step(state: State, record: Record, row: int) -> None:
    """Measure the step, write its row of the record, and go on to the next step."""
    duration = measure(state, record, row)
    record.times[0, row] = state.clock[NOW]
    record.times[1, row] = duration
    record.times[2, row] = state.clock[IDLE]
    record.counts[3, row] = state.counters[ACTIVE]
    record.counts[4, row] = state.counters[WAITING]
    record.counts[5, row] = state.counters[ADMITTED]
    complete(state)
    grow(state)
    state.clock[NOW] += duration
    state.clock[IDLE] = 0.0
    state.counters[STEP] += 1


@in_place
def measure(state: State, record: Record, row: int) -> float:
    """Write the loads of this step and return how long it lasts [s]."""
    workers, times = state.workers, state.times
    num_workers = workers.shape[1]
    peak, least, total = workers[LOADS, 0], workers[LOADS, 0], 0
    for g in range(num_workers):
        load = workers[LOADS, g]
        peak, least = max(peak, load), min(least, load)
        total += load
        record.loads[row, g] = load
        record.running[row, g] = workers[RUNNING, g]
    record.counts[0, row] = peak
    record.counts[1, row] = least
    record.counts[2, row] = total
    # The same operations in the same order as `Cluster.step_time`, so that no time differs.
    mean = total / num_workers
    return float(times[STEP_OVERHEAD] + times[TOKEN_TIME] * peak + times[MEAN_TIME] * mean)


@in_place
def complete(state: State) -> None:
    """Let the requests leave whose last step this is."""
    step = state.counters[STEP]
    slot = step & (len(state.wheel) - 1)
    request = state.wheel[slot]
    state.wheel[slot] = -1
    while request >= 0:
        following = state.requests[NEXT, request]
        if state.marks[LAST, request] == step:
            leave(state, request)
        else:
            # It ends some turns of the wheel later.
            state.requests[NEXT, request] = state.wheel[slot]
            state.wheel[slot] = request
        request = following


@in_place
def leave(state: State, request: int) -> None:
    """Take a request from its worker."""
    step, begun = state.counters[STEP], state.marks[START, request]
    worker = state.marks[WORKER, request]
    growth = gained(state.gains, step) - gained(state.gains, begun)
    state.workers[LOADS, worker] -= state.requests[PROMPT, request] + growth
    state.workers[RUNNING, worker] -= 1
    state.counters[ACTIVE] -= 1
    state.counters[COMPLETED] += 1


@in_place
def grow(state: State) -> None:
    """Let every running request gain the increment between this step and the next."""
    step = state.counters[STEP]
    increment = gained(state.gains, step + 1) - gained(state.gains, step)
    workers = state.workers
    for g in range(workers.shape[1]):
        workers[LOADS, g] += workers[RUNNING, g] * increment
