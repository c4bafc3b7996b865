"""The phases of one step, each stated once for runs that are interpreted and compiled.

Loads are kept up to date instead of being summed anew: what starts adds its prompt, what runs
gains the increment of the step, what ends takes its load away. Requests that end at the same step
form a linked list, so that a step costs its events and O(G).
"""

from bfio.common.compilable import compilable
from bfio.decode.cluster import fits, step_time
from bfio.decode.machine.arrays import add_each, add_times, copy_to, extent
from bfio.decode.machine.state import (
    ACTIVE,
    ADMITTED,
    BY_AGE,
    COMPLETED,
    ENDED,
    FINISHED,
    FIRST,
    FURTHEST,
    HEAD,
    HORIZON,
    IDLE,
    KNOWN,
    LAST,
    LOADS,
    MEAN_TIME,
    NEXT,
    NOW,
    OUTPUT,
    PLACE,
    POOL,
    PROMPT,
    QUEUED,
    QUEUED_TOKENS,
    REVEAL,
    REVEALED,
    RUN,
    RUNNING,
    SLOTS,
    START,
    STARTED,
    STEP,
    STEP_OVERHEAD,
    STEPS,
    TAIL,
    TIMED,
    TOKEN_TIME,
    WAITING,
    WORKER,
    Record,
    State,
)
from formulations.arrays import IntArray


@compilable
def is_over(state: State) -> bool:
    """Whether the limit of steps is reached or all requests are done."""
    counters = state.counters
    return bool(counters[STEP] == state.settings[STEPS] or counters[COMPLETED] == len(state.pool))


@compilable
def reveal(state: State) -> None:
    """Reveal requests; those from FIRST up to REVEALED are new."""
    counters = state.counters
    first, last = int(counters[REVEALED]), reveal_until(state)
    state.marks[REVEAL, first:last] = counters[STEP]
    state.reveal_s[first:last] = state.clock[NOW]
    counters[FIRST] = first
    counters[REVEALED] = last
    counters[WAITING] += last - first
    counters[ADMITTED] = 0
    if state.settings[KNOWN]:
        enter_window(state)


@compilable
def reveal_until(state: State) -> int:
    """Return how many requests are revealed once this phase is over."""
    last = int(state.counters[REVEALED])
    num_requests = len(state.pool)
    if state.settings[TIMED]:
        while last < num_requests and state.arrival_s[last] <= state.clock[NOW]:
            last += 1
        return last
    missing = max(0, int(state.settings[POOL] - state.counters[WAITING]))
    return min(num_requests, last + missing)


@compilable
def first_waiting(state: State) -> int:
    """Return the position in the pool of the oldest waiting request."""
    return int(state.counters[REVEALED] - state.counters[WAITING])


@compilable
def bind(state: State, request: int, worker: int) -> None:
    """Put a request at the end of a worker's queue."""
    workers = state.workers
    if workers[QUEUED, worker] == 0:
        workers[HEAD, worker] = request
    else:
        state.requests[NEXT, workers[TAIL, worker]] = request
    workers[TAIL, worker] = request
    state.marks[WORKER, request] = worker
    workers[QUEUED, worker] += 1
    workers[QUEUED_TOKENS, worker] += state.requests[PROMPT, request]


@compilable
def start_queued(state: State) -> None:
    """Let the heads of the queues start where they fit."""
    workers = state.workers
    for g in range(workers.shape[1]):
        while workers[QUEUED, g] > 0 and fits(state.settings[SLOTS] - workers[RUNNING, g]):
            request = workers[HEAD, g]
            workers[HEAD, g] = state.requests[NEXT, request]
            workers[QUEUED, g] -= 1
            workers[QUEUED_TOKENS, g] -= state.requests[PROMPT, request]
            start(state, request, g)
    state.counters[WAITING] -= state.counters[ADMITTED]


@compilable
def admit(state: State, position: int, worker: int) -> None:
    """Let the waiting request at a position of the pool start; `close_gaps` follows."""
    request = state.pool[position]
    state.marks[WORKER, request] = worker
    state.counters[FURTHEST] = max(position, int(state.counters[FURTHEST]))
    start(state, request, worker)


@compilable
def start(state: State, request: int, worker: int) -> None:
    """Let a request run on its worker from this step on."""
    counters, step = state.counters, int(state.counters[STEP])
    last = step + int(state.requests[OUTPUT, request]) - 1
    state.marks[START, request] = step
    state.marks[LAST, request] = last
    state.workers[LOADS, worker] += state.requests[PROMPT, request]
    state.workers[RUNNING, worker] += 1
    state.lists[RUN, counters[ACTIVE]] = request
    state.requests[PLACE, request] = counters[ACTIVE]
    state.lists[STARTED, counters[ADMITTED]] = request
    counters[ACTIVE] += 1
    counters[ADMITTED] += 1
    slot = last & (len(state.wheel) - 1)
    state.requests[NEXT, request] = state.wheel[slot]
    state.wheel[slot] = request
    if state.settings[KNOWN] and last < step + state.settings[HORIZON]:
        note_ending(state, request)


@compilable
def close_gaps(state: State) -> None:
    """Move those that still wait together, towards the younger end of the pool.

    Only positions up to the last one admitted move, so that admitting the oldest costs nothing
    for those behind them, however many wait.
    """
    counters, pool = state.counters, state.pool
    first, furthest = first_waiting(state), int(counters[FURTHEST])
    if furthest - first + 1 > counters[ADMITTED]:
        free = furthest
        for position in range(furthest, first - 1, -1):
            request = pool[position]
            if state.marks[WORKER, request] < 0:
                pool[free] = request
                free -= 1
    counters[WAITING] -= counters[ADMITTED]
    counters[FURTHEST] = -1


@compilable
def wait_for_arrival(state: State) -> bool:
    """Let the clock jump to the next arrival; False if there is none."""
    upcoming = state.counters[REVEALED]
    if upcoming >= len(state.arrival_s):
        return False
    arrival = state.arrival_s[upcoming]
    state.clock[IDLE] += arrival - state.clock[NOW]
    state.clock[NOW] = arrival
    return True


@compilable
def run_step(state: State, record: Record, row: int) -> None:
    """Measure the step, write its row of the record, and go on to the next step."""
    counters = state.counters
    duration = measure(state, record, row)
    record.times[0, row] = state.clock[NOW]
    record.times[1, row] = duration
    record.times[2, row] = state.clock[IDLE]
    record.counts[3, row] = counters[ACTIVE]
    record.counts[4, row] = counters[WAITING]
    record.counts[5, row] = counters[ADMITTED]
    complete(state)
    grow(state)
    state.clock[NOW] += duration
    state.clock[IDLE] = 0.0
    counters[STEP] += 1


@compilable
def measure(state: State, record: Record, row: int) -> float:
    """Write the loads of this step and return how long it lasts [s]."""
    loads, times = state.workers[LOADS], state.times
    copy_to(record.loads[row], loads)
    copy_to(record.running[row], state.workers[RUNNING])
    peak, least, total = extent(loads)
    record.counts[0, row] = peak
    record.counts[1, row] = least
    record.counts[2, row] = total
    mean = total / len(loads)
    return float(step_time(times[STEP_OVERHEAD], times[TOKEN_TIME], times[MEAN_TIME], peak, mean))


@compilable
def complete(state: State) -> None:
    """Let the requests leave whose last step this is."""
    step = int(state.counters[STEP])
    state.counters[FINISHED] = 0
    slot = step & (len(state.wheel) - 1)
    request = int(state.wheel[slot])
    state.wheel[slot] = -1
    while request >= 0:
        following = int(state.requests[NEXT, request])
        if state.marks[LAST, request] == step:
            leave(state, request)
        else:
            # It ends some turns of the wheel later.
            state.requests[NEXT, request] = state.wheel[slot]
            state.wheel[slot] = request
        request = following
    if state.settings[KNOWN]:
        leave_window(state)


@compilable
def leave(state: State, request: int) -> None:
    """Take a request from its worker."""
    counters = state.counters
    worker = state.marks[WORKER, request]
    state.workers[LOADS, worker] -= state.requests[PROMPT, request] + growth(state, request)
    state.workers[RUNNING, worker] -= 1
    state.lists[ENDED, counters[FINISHED]] = request
    counters[FINISHED] += 1
    counters[ACTIVE] -= 1
    counters[COMPLETED] += 1
    # The last one that runs takes its place.
    place, moved = state.requests[PLACE, request], state.lists[RUN, counters[ACTIVE]]
    state.lists[RUN, place] = moved
    state.requests[PLACE, moved] = place


@compilable
def growth(state: State, request: int) -> int:
    """Return what a running request has gained since it started [tokens]."""
    step, begun = int(state.counters[STEP]), int(state.marks[START, request])
    if state.settings[BY_AGE]:
        return gained(state.gains, step - begun)
    return gained(state.gains, step) - gained(state.gains, begun)


@compilable
def grow(state: State) -> None:
    """Let every running request gain the increment between this step and the next."""
    step, workers = int(state.counters[STEP]), state.workers
    if state.settings[BY_AGE]:
        grow_by_age(state)
        return
    increment = gained(state.gains, step + 1) - gained(state.gains, step)
    add_times(workers[LOADS], workers[RUNNING], increment)


@compilable(allocates=True)
def grow_by_age(state: State) -> None:
    """Let every running request gain the increment of its own age."""
    active = state.lists[RUN, : state.counters[ACTIVE]]
    ages = state.counters[STEP] - state.marks[START][active]
    gains = gained_each(state.gains, ages + 1) - gained_each(state.gains, ages)
    add_each(state.workers[LOADS], state.marks[WORKER][active], gains)


@compilable
def gained(gains: IntArray, steps: int) -> int:
    """Return ``D(steps)``, the drift of the first ``steps`` steps [tokens]."""
    period = len(gains) - 1
    if period == 1:
        return int(steps * gains[1])
    return int((steps // period) * gains[period] + gains[steps % period])


@compilable(allocates=True)
def gained_each(gains: IntArray, steps: IntArray) -> IntArray:
    """Return ``D`` of each entry of ``steps``, shape (n,) [tokens]."""
    period = len(gains) - 1
    gained: IntArray = (steps // period) * gains[period] + gains[steps % period]
    return gained


@compilable
def enter_window(state: State) -> None:
    """Note the running requests whose last step has just come into the window."""
    last = int(state.counters[STEP] + state.settings[HORIZON]) - 1
    request = int(state.wheel[last & (len(state.wheel) - 1)])
    while request >= 0:
        if state.marks[LAST, request] == last:
            note_ending(state, request)
        request = int(state.requests[NEXT, request])


@compilable
def note_ending(state: State, request: int) -> None:
    """Add a request to the column of its last step."""
    column = state.marks[LAST, request] % state.settings[HORIZON]
    worker = state.marks[WORKER, request]
    drift = gained(state.gains, int(state.marks[START, request]))
    state.ending_load[worker, column] += state.requests[PROMPT, request] - drift
    state.ending_count[worker, column] += 1


@compilable
def leave_window(state: State) -> None:
    """Clear the column of the step that is about to end."""
    column = state.counters[STEP] % state.settings[HORIZON]
    state.ending_load[:, column] = 0
    state.ending_count[:, column] = 0
