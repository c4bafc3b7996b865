"""The phases of one step, shared by interpreted and compiled runs.

The load of a worker is updated incrementally: a starting request adds its prompt, a running
request adds the increment of the step, and an ending request subtracts its load. Requests that end
at the same step form a linked list, so a step takes time proportional to its events plus O(G).
"""

import numpy as np

from bfio.common.array_kernels import add_each, add_times, copy_to, extent, move_waiting
from bfio.common.compilable import compilable
from bfio.decode.cluster import step_time
from bfio.decode.features.delay import join_queue_by_age
from bfio.decode.features.prefill import go_on, may_jump
from bfio.decode.features.prefixes import look_up_prefixes
from bfio.decode.features.stragglers import keep_pace
from bfio.decode.features.telemetry import note_sent
from bfio.decode.machine.counters import (
    ACTIVE,
    ADMITTED,
    CANCELLATIONS,
    COMPLETED,
    FINISHED,
    FURTHEST,
    IDLE,
    KNOWN,
    NOW,
    OUTAGES,
    QUEUED,
    REVEALED,
    STEP,
    SWAPPED,
    TAKEN,
    WAITING,
)
from bfio.decode.machine.endings import (
    enter_window,
    forget,
    gained,
    gained_each,
    learn_lengths,
    leave_window,
    predict_due,
    predicts,
)
from bfio.decode.machine.moves import age_of, ages_of, end, first_waiting, join_queue, start
from bfio.decode.machine.state import Record, State
from bfio.decode.tally import left_in_flight, takes, worker_tally
from formulations.arrays import IntArray


@compilable(allocates=True)
def free_slots(state: State) -> IntArray:
    """Return the number of free slots of each worker, shape (G,)."""
    free = np.empty(len(state.workers.load), dtype=np.int64)
    for g in range(len(free)):
        free[g] = worker_tally(state, g).free
    return free


@compilable
def is_over(state: State) -> bool:
    """Return whether the limit of steps is reached or all requests are done."""
    counters = state.counters
    return bool(counters[STEP] == state.settings.steps or counters[COMPLETED] == len(state.pool))


@compilable(apart=True)
def look_ahead(state: State) -> None:
    """Advance the look-ahead window by one step, and update the predictions that are due."""
    if state.sight[KNOWN]:
        enter_window(state)
    if predicts(state):
        predict_due(state)


@compilable(allocates=True)
def open_in_flight(state: State) -> IntArray:
    """Return how many more requests may be sent to each worker, (G,); 1 for no limit."""
    left = np.empty(len(state.workers.load), dtype=np.int64)
    for g in range(len(left)):
        left[g] = left_in_flight(state, g)
    return left


@compilable
def most_bound(state: State) -> int:
    """Return the largest number of waiting requests that may be bound at this step."""
    total, any_number = 0, state.settings.margin < 0
    for g in range(len(state.workers.load)):
        left = left_in_flight(state, g)
        total += state.counters[WAITING] if any_number and left > 0 else left
    return int(min(total, state.counters[WAITING]))


@compilable
def may_be_bound(state: State, request: int) -> bool:
    """Return whether a worker that accepts requests could ever run this request."""
    for g in range(len(state.workers.load)):
        if takes(worker_tally(state, g), state.requests.need[request]):
            return True
    return False


@compilable
def bind(state: State, position: int, worker: int) -> bool:
    """Append a request, given by position in the pool, to a worker's queue; return success.

    The request keeps waiting if it could never run on this worker, or if too many requests are in
    flight. Call `close_gaps` after all requests are bound.
    """
    request = state.pool[position]
    if state.requests.need[request] > state.machine.memory[worker]:
        return False
    if state.settings.margin >= 0 and left_in_flight(state, worker) == 0:
        return False
    take_from_pool(state, position, worker)
    join_queue(state, request, worker)
    return True


@compilable
def take_from_pool(state: State, position: int, worker: int) -> None:
    """Record that the request at a position of the pool goes to a worker."""
    request = state.pool[position]
    state.marks.worker[request] = worker
    state.marks.bound[request] = state.counters[STEP]
    state.counters[FURTHEST] = max(position, int(state.counters[FURTHEST]))
    state.counters[TAKEN] += 1
    if state.reports.is_apart:
        note_sent(state.reports, worker, state.requests.size[request], state.settings.immediate)


@compilable
def admit(state: State, position: int, worker: int) -> bool:
    """Start the request at a position of the pool; return False if its worker does not accept it.

    With a decision delay, the request is bound to the worker until the decision takes effect. Call
    `close_gaps` after all requests are admitted.
    """
    request = state.pool[position]
    if not takes(worker_tally(state, worker), state.requests.need[request]):
        return False
    take_from_pool(state, position, worker)
    if state.settings.delay > 0:
        join_queue_by_age(state, request, worker)
    else:
        start(state, request, worker)
    return True


@compilable
def close_gaps(state: State) -> None:
    """Close the gaps in the pool by moving waiting requests towards its younger end.

    Only entries before the last removed position move. So removing the oldest requests is cheap,
    however many others wait.
    """
    counters = state.counters
    first, end = first_waiting(state), int(counters[FURTHEST]) + 1
    if end - first > counters[TAKEN]:
        move_waiting(state.pool[first:end], state.marks.worker)
    counters[WAITING] -= counters[TAKEN]
    counters[FURTHEST] = -1


@compilable
def admit_assigned(state: State, assignment: IntArray) -> None:
    """Admit the oldest waiting requests to the workers of an assignment (-1: keep waiting)."""
    first = first_waiting(state)
    for i in range(len(assignment)):
        if assignment[i] >= 0:
            admit(state, first + i, assignment[i])
    if state.counters[TAKEN] > 0:
        close_gaps(state)


@compilable(apart=True)
def wait_for_arrival(state: State, record: Record) -> bool:
    """Advance the clock to the next event if no request runs; return False if there is no event.

    Events are: a request arrives or becomes ready, a request returns from the host, a client
    cancels, a worker fails or recovers. If all requests are done, the clock does not advance.
    """
    if is_over(state):
        return True
    upcoming, soonest = state.counters[REVEALED], np.inf
    if upcoming < len(state.arrival_s) and not state.tier.is_on:
        soonest = state.arrival_s[upcoming]
    for place in range(state.counters[SWAPPED]):
        # A request that is already back waits for another event: the recovery of its worker.
        if state.host.ready_s[place] > state.clock[NOW]:
            soonest = min(soonest, state.host.ready_s[place])
    if state.counters[OUTAGES] < len(state.outages.time_s):
        soonest = min(soonest, state.outages.time_s[state.counters[OUTAGES]])
    if state.counters[CANCELLATIONS] < len(state.cancellations.time_s):
        soonest = min(soonest, state.cancellations.time_s[state.counters[CANCELLATIONS]])
    if state.tier.is_on:
        if not may_jump(state, soonest < np.inf):
            return False
        soonest = min(soonest, go_on(state, record, soonest, True))
    if soonest == np.inf:
        return False
    state.clock[IDLE] += soonest - state.clock[NOW]
    state.clock[NOW] = soonest
    return True


@compilable(apart=True)
def run_step(state: State, record: Record, row: int) -> None:
    """Measure the step, write its row of the record, and advance to the next step."""
    counters = state.counters
    if state.settings.caches:
        look_up_prefixes(state, record, row)
    duration = measure(state, record, row)
    record.start_s[row] = state.clock[NOW]
    record.duration_s[row] = duration
    record.idle_before_s[row] = state.clock[IDLE]
    record.active[row] = counters[ACTIVE]
    record.waiting[row] = counters[WAITING] + counters[QUEUED]
    record.admitted[row] = counters[ADMITTED]
    if state.reports.is_on:
        record.refused[row] = state.reports.refused[0]
        state.reports.refused[0] = 0
    complete(state)
    grow(state)
    state.clock[NOW] += duration
    state.clock[IDLE] = 0.0
    counters[STEP] += 1


@compilable
def measure(state: State, record: Record, row: int) -> float:
    """Record the loads of this step, and return its duration [s]."""
    loads, settings = state.workers.load, state.settings
    copy_to(record.loads[row], loads)
    copy_to(record.running[row], state.workers.running)
    peak, least, total = extent(loads)
    record.max_load[row] = peak
    record.min_load[row] = least
    record.total_load[row] = total
    mean, machine = total / len(loads), state.machine
    overhead_s, token_time_s = machine.overhead_s, machine.token_time_s
    if settings.one_pace:
        return float(step_time(overhead_s[0], token_time_s[0], settings.mean_time_s, peak, mean))
    keep_pace(state)
    longest, busy = 0.0, 0.0
    for g in range(len(loads)):
        own = step_time(overhead_s[g], token_time_s[g], 0.0, loads[g], 0.0)
        longest = max(longest, own)
        busy += own
    shared = settings.mean_time_s * mean
    record.balanced_s[row] = busy / len(loads) + shared
    return float(longest + shared)


@compilable
def complete(state: State) -> None:
    """Complete the requests whose last step is the current one."""
    step = int(state.counters[STEP])
    state.counters[FINISHED] = 0
    slot = step & (len(state.wheel) - 1)
    request = int(state.wheel[slot])
    state.wheel[slot] = -1
    while request >= 0:
        following = int(state.requests.next[request])
        if state.marks.last[request] == step:
            if predicts(state):
                forget(state, request)
            state.lists.ended[state.counters[FINISHED]] = request
            state.counters[FINISHED] += 1
            state.counters[COMPLETED] += 1
            end(state, request)
        else:
            # This request ends after more turns of the wheel: put it back.
            state.requests.next[request] = state.wheel[slot]
            state.wheel[slot] = request
        request = following
    if state.sight[KNOWN] or predicts(state):
        leave_window(state)
    if state.prediction.learns and state.counters[FINISHED] > 0:
        learn_lengths(state)


@compilable
def grow(state: State) -> None:
    """Add the drift increment of this step to the load of every running request."""
    step, workers = int(state.counters[STEP]), state.workers
    if state.settings.by_age:
        grow_by_age(state)
        return
    increment = gained(state.gains, step + 1) - gained(state.gains, step)
    add_times(workers.load, workers.running, increment)


def _grow_by_age(state: State) -> None:
    for k in range(state.counters[ACTIVE]):
        request = state.lists.running[k]
        age, worker = age_of(state, request), state.marks.worker[request]
        state.workers.load[worker] += gained(state.gains, age + 1) - gained(state.gains, age)


@compilable(compiled_as=_grow_by_age)
def grow_by_age(state: State) -> None:
    """Add the drift increment at its age to the load of every running request."""
    active = state.lists.running[: state.counters[ACTIVE]]
    ages = ages_of(state, active)
    gains = gained_each(state.gains, ages + 1) - gained_each(state.gains, ages)
    add_each(state.workers.load, state.marks.worker[active], gains)
