"""Moves of requests between the waiting pool, the queues of workers, and running on a worker.

An interrupted request keeps the tokens that it has emitted. When it starts again, its size is its
prompt plus its growth so far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.machine.counters import (
    ACTIVE,
    ADMITTED,
    KNOWN,
    LOGGED,
    NOW,
    QUEUED,
    RESERVE,
    REVEALED,
    STEP,
    TAKEN,
    WAITING,
)
from bfio.decode.machine.endings import add_ending, forget, gained, predict, predicts
from bfio.decode.tally import running_tally, takes

if TYPE_CHECKING:
    from bfio.decode.machine.state import Record, State
    from formulations.arrays import IntArray


@compilable
def first_waiting(state: State) -> int:
    """Return the position in the pool of the oldest waiting request."""
    return int(state.counters[REVEALED] - state.counters[WAITING])


@compilable
def reveal(state: State) -> None:
    """Reveal new requests to the policy; with timed arrivals, possibly several times per step.

    A prefill tier reveals requests when they become ready.
    """
    counters, num_requests = state.counters, len(state.pool)
    first = last = int(counters[REVEALED])
    if state.settings.timed and not state.tier.is_on:
        while last < num_requests and state.arrival_s[last] <= state.clock[NOW]:
            last += 1
    elif not state.settings.timed:
        missing = state.settings.pool - counters[WAITING] - counters[QUEUED]
        last = min(num_requests, last + max(0, int(missing)))
    state.marks.reveal[first:last] = counters[STEP]
    state.reveal_s[first:last] = state.clock[NOW]
    counters[REVEALED] = last
    counters[WAITING] += last - first
    counters[ADMITTED] = counters[TAKEN] = 0


@compilable
def wait_again(state: State, request: int) -> None:
    """Return a request to the waiting pool, in order of arrival."""
    place = first_waiting(state) - 1
    state.marks.bound[request] = -1
    if place < 0:
        # The pool has closed the gap since the request was taken, so no place is free before it.
        join_pool(state, request)
        return
    state.counters[WAITING] += 1
    while place + 1 < state.counters[REVEALED] and state.pool[place + 1] < request:
        state.pool[place] = state.pool[place + 1]
        place += 1
    state.pool[place] = request


@compilable
def join_pool(state: State, request: int) -> None:
    """Insert a ready request into the pool in order of arrival."""
    counters, first = state.counters, first_waiting(state)
    if counters[REVEALED] == len(state.pool):
        for k in range(counters[WAITING]):
            state.pool[k] = state.pool[first + k]
        counters[REVEALED], first = counters[WAITING], 0
    place = int(counters[REVEALED])
    while place > first and state.pool[place - 1] > request:
        state.pool[place] = state.pool[place - 1]
        place -= 1
    state.pool[place] = request
    counters[REVEALED] += 1
    counters[WAITING] += 1


@compilable
def leave_pool(state: State, request: int) -> None:
    """Remove a waiting request from the pool; older waiting requests move up by one."""
    first = first_waiting(state)
    low, place = first, int(state.counters[REVEALED]) - 1
    while low < place:
        middle = (low + place) // 2
        if state.pool[middle] < request:
            low = middle + 1
        else:
            place = middle
    while place > first:
        state.pool[place] = state.pool[place - 1]
        place -= 1
    state.counters[WAITING] -= 1


@compilable
def join_queue(state: State, request: int, worker: int) -> None:
    """Append a request to its worker's queue."""
    workers = state.workers
    if workers.queued[worker] == 0:
        workers.head[worker] = request
    else:
        state.requests.next[workers.tail[worker]] = request
    workers.tail[worker] = request
    workers.queued[worker] += 1
    workers.queued_tokens[worker] += state.requests.size[request]
    state.counters[QUEUED] += 1


@compilable
def join_queue_at_its_head(state: State, request: int, worker: int) -> None:
    """Insert an interrupted request at the head of its worker's queue."""
    workers = state.workers
    if workers.queued[worker] == 0:
        workers.tail[worker] = request
    state.requests.next[request] = workers.head[worker]
    workers.head[worker] = request
    state.marks.worker[request] = worker
    workers.queued[worker] += 1
    workers.queued_tokens[worker] += state.requests.size[request]
    state.counters[QUEUED] += 1


@compilable
def leave_queue(state: State, request: int, worker: int) -> None:
    """Remove a request from the queue of the worker it is bound to."""
    workers, following = state.workers, state.requests.next
    if workers.head[worker] == request:
        workers.head[worker] = following[request]
    else:
        before = int(workers.head[worker])
        while following[before] != request:
            before = int(following[before])
        following[before] = following[request]
        if workers.tail[worker] == request:
            workers.tail[worker] = before
    workers.queued[worker] -= 1
    workers.queued_tokens[worker] -= state.requests.size[request]
    state.counters[QUEUED] -= 1


class StartOrder(NamedTuple):
    """Linked lists of each worker's running requests in order of start, youngest first."""

    is_on: bool  #: Whether the lists are kept.
    #: Shape (G,): the request that started last on each worker; ties go to the last revealed.
    youngest: IntArray
    #: Shape (n,), or (0,) if not kept: the next older and the next younger request.
    older: IntArray
    younger: IntArray


def new_start_order(num_workers: int, num_requests: int, *, is_on: bool) -> StartOrder:
    """Return empty lists of running requests."""
    kept = num_requests if is_on else 0
    rows = (np.full(count, -1, dtype=np.int64) for count in (num_workers, kept, kept))
    return StartOrder(is_on, *rows)


@compilable
def put_in_order(order: StartOrder, start: IntArray, request: int, worker: int) -> None:
    """Insert a request into the list of its worker.

    Usually the request is the youngest; a request that has rested returns to its place in the
    order.
    """
    older, younger = int(order.youngest[worker]), -1
    while older >= 0 and (
        start[older] > start[request] or (start[older] == start[request] and older > request)
    ):
        younger = older
        older = int(order.older[older])
    order.older[request] = older
    order.younger[request] = younger
    if older >= 0:
        order.younger[older] = request
    if younger >= 0:
        order.older[younger] = request
    else:
        order.youngest[worker] = request


@compilable
def take_from_order(order: StartOrder, request: int, worker: int) -> None:
    """Remove a request from the list of its worker."""
    older, younger = int(order.older[request]), int(order.younger[request])
    if older >= 0:
        order.younger[older] = younger
    if younger >= 0:
        order.older[younger] = older
    else:
        order.youngest[worker] = older


# Causes of interruptions: values of `bfio.decode.stints.Cause`.
(RECOMPUTED, SWAPPED_OUT, FAILED, CANCELLED) = range(4)


@compilable
def start_queued(state: State) -> None:
    """Start fitting requests at the heads of queues whose decisions have taken effect by now."""
    start_queued_until(state, state.counters[STEP] - state.settings.delay)


@compilable
def start_queued_until(state: State, latest: int) -> None:
    """Start fitting requests at the heads of queues that were bound by step ``latest``.

    With pooled dispatch, requests that no longer fit wait in the pool again.
    """
    workers, need = state.workers, state.requests.need
    for g in range(len(workers.load)):
        while workers.queued[g] > 0 and state.marks.bound[workers.head[g]] <= latest:
            request = int(workers.head[g])
            fits = takes(running_tally(state, g), need[request])
            if not fits and state.settings.immediate:
                break
            workers.head[g] = state.requests.next[request]
            workers.queued[g] -= 1
            workers.queued_tokens[g] -= state.requests.size[request]
            state.counters[QUEUED] -= 1
            if fits:
                start(state, request, g)
            else:
                state.marks.worker[request] = -1
                wait_again(state, request)


@compilable
def start(state: State, request: int, worker: int) -> None:
    """Start a waiting request on its worker in this step."""
    begin(state, request, worker)
    state.lists.started[state.counters[ADMITTED]] = request
    state.counters[ADMITTED] += 1


@compilable
def begin(state: State, request: int, worker: int) -> None:
    """Let a request run from this step on, for the first time or after an interruption."""
    step, emitted = int(state.counters[STEP]), int(state.requests.emitted[request])
    last = step + int(state.requests.output[request]) - emitted - 1
    if emitted == 0:
        state.marks.first[request] = step
    state.marks.start[request] = step
    state.marks.last[request] = last
    occupy(state, request, worker, int(state.requests.size[request]))
    if state.sight[KNOWN] and last <= step + state.settings.look_ahead:
        add_ending(state, request, last, 1)
    if predicts(state):
        predict(state, request, emitted)


@compilable
def occupy(state: State, request: int, worker: int, load: int) -> None:
    """Add a request to the running requests of a worker, and to the list of its last step."""
    counters, last = state.counters, int(state.marks.last[request])
    state.workers.load[worker] += load
    state.workers.running[worker] += 1
    if state.settings.overflow == RESERVE:
        state.machine.used[worker] += state.requests.need[request]
    state.lists.running[counters[ACTIVE]] = request
    state.requests.place[request] = counters[ACTIVE]
    counters[ACTIVE] += 1
    if state.order.is_on:
        put_in_order(state.order, state.marks.start, request, worker)
    slot = last & (len(state.wheel) - 1)
    state.requests.next[request] = state.wheel[slot]
    state.wheel[slot] = request


@compilable
def end(state: State, request: int) -> None:
    """Remove a running request from its worker."""
    counters, worker = state.counters, state.marks.worker[request]
    state.workers.load[worker] -= state.requests.size[request] + growth(state, request)
    state.workers.running[worker] -= 1
    if state.settings.overflow == RESERVE:
        state.machine.used[worker] -= state.requests.need[request]
    if state.order.is_on:
        take_from_order(state.order, request, worker)
    counters[ACTIVE] -= 1
    # The last entry of the list of running requests takes its place.
    place, moved = state.requests.place[request], state.lists.running[counters[ACTIVE]]
    state.lists.running[place] = moved
    state.requests.place[moved] = place


@compilable
def growth(state: State, request: int) -> int:
    """Return the growth in load of a running request since its last start [tokens]."""
    step, begun = int(state.counters[STEP]), int(state.marks.start[request])
    if state.settings.by_age:
        emitted = int(state.requests.emitted[request])
        return gained(state.gains, emitted + step - begun) - gained(state.gains, emitted)
    return gained(state.gains, step) - gained(state.gains, begun)


@compilable
def age_of(state: State, request: int) -> int:
    """Return the number of tokens emitted by a running request."""
    since = state.counters[STEP] - state.marks.start[request]
    return int(state.requests.emitted[request] + since)


def ages_of(state: State, running: IntArray) -> IntArray:
    """Return the number of tokens emitted by each running request, shape (n,)."""
    since: IntArray = state.counters[STEP] - state.marks.start[running]
    return state.requests.emitted[running] + since


@compilable
def interrupt(state: State, record: Record, request: int, cause: int) -> None:
    """Remove a running request from its worker before this step, and record it."""
    counters, step = state.counters, int(state.counters[STEP])
    worker, begun = int(state.marks.worker[request]), int(state.marks.start[request])
    entry = record.interruptions[counters[LOGGED]]
    entry[0], entry[1], entry[2], entry[3], entry[4] = request, worker, begun, step, cause
    counters[LOGGED] += 1
    last = int(state.marks.last[request])
    strike_from_wheel(state, request, last)
    # The last column of the window is not filled yet: this step adds its endings later.
    if state.sight[KNOWN] and last < step + state.settings.look_ahead:
        add_ending(state, request, last, -1)
    if predicts(state):
        forget(state, request)
    gain = growth(state, request)
    end(state, request)
    state.requests.size[request] += gain
    state.requests.emitted[request] += step - begun
    state.marks.last[request] = -1
    state.marks.worker[request] = -1


@compilable
def strike_from_wheel(state: State, request: int, last: int) -> None:
    """Remove a request from the list of requests that end at a step."""
    slot = last & (len(state.wheel) - 1)
    following = state.requests.next[request]
    before = int(state.wheel[slot])
    if before == request:
        state.wheel[slot] = following
        return
    while state.requests.next[before] != request:
        before = int(state.requests.next[before])
    state.requests.next[before] = following


@compilable
def log_is_full(state: State, record: Record) -> bool:
    """Return whether the record may be too small for the interruptions of the next step."""
    left = len(record.interruptions) - state.counters[LOGGED]
    return bool(left < state.counters[ACTIVE])
