"""Who waits: in the pool, in order of arrival, or bound to a worker and in its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bfio.common.compilable import compilable
from bfio.decode.machine.counters import QUEUED, REVEALED, WAITING

if TYPE_CHECKING:
    from bfio.decode.machine.state import State


@compilable
def first_waiting(state: State) -> int:
    """Return the position in the pool of the oldest waiting request."""
    return int(state.counters[REVEALED] - state.counters[WAITING])


@compilable
def wait_again(state: State, request: int) -> None:
    """Put a request among those that wait, in order of arrival."""
    place = first_waiting(state) - 1
    state.marks.bound[request] = -1
    if place < 0:
        # Others have become ready since it was taken from the pool, and closed up.
        join_pool(state, request)
        return
    state.counters[WAITING] += 1
    while place + 1 < state.counters[REVEALED] and state.pool[place + 1] < request:
        state.pool[place] = state.pool[place + 1]
        place += 1
    state.pool[place] = request


@compilable
def join_pool(state: State, request: int) -> None:
    """Do so for one that becomes ready, mostly after all others."""
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
    """Take a waiting request from the pool; those that wait longer than it move up."""
    first, place = first_waiting(state), place_of(state, request)
    while place > first:
        state.pool[place] = state.pool[place - 1]
        place -= 1
    state.counters[WAITING] -= 1


@compilable
def place_of(state: State, request: int) -> int:
    """Return the position of a request in the pool."""
    low, high = first_waiting(state), int(state.counters[REVEALED]) - 1
    while low < high:
        middle = (low + high) // 2
        if state.pool[middle] < request:
            low = middle + 1
        else:
            high = middle
    return low


@compilable
def join_queue(state: State, request: int, worker: int) -> None:
    """Put a request behind all others of its worker's queue."""
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
    """Put a request before all others of its worker's queue, as one that was interrupted."""
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
    """Take a request from the queue of the worker it is bound to."""
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
