"""Running counts of slots, memory and load per worker, for policies that assign one by one."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.state import DecodeState
from formulations.arrays import IntArray

if TYPE_CHECKING:
    from bfio.decode.machine.state import State


class ServingOrder(IntEnum):
    """Order in which waiting requests are assigned; ties go to the oldest."""

    #: Oldest first.
    OLDEST = 0
    #: By size among all waiting requests.
    SMALLEST = 1
    LARGEST = 2
    #: Largest first among the oldest requests that can be admitted.
    LARGEST_OF_OLDEST = 3


class WorkerTally(NamedTuple):
    """The slots, memory and load of one worker during a decision."""

    number: int  #: Index of the worker.
    free: int  #: Number of free slots left.
    requests: int  #: Number of requests: running, queued and assigned in this step.
    tokens: int  #: Load, including queued and newly assigned prompts [tokens].
    queued: int  #: Number of requests bound to the worker that are not running.
    queued_tokens: int  #: Prompt tokens of the queued requests.
    room: int  #: Memory still free for requests [tokens].


#: Key that a greedy policy minimises over the workers that accept a request.
Key = Callable[[WorkerTally], int]


@compilable
def takes(worker: WorkerTally, need: int) -> bool:
    """Return whether a worker accepts a request with this memory need."""
    return worker.free > 0 and need <= worker.room


@compilable
def with_one_more(worker: WorkerTally, size: int, need: int) -> WorkerTally:
    """Return the tally of a worker after a request of this size and need [tokens] is assigned."""
    return WorkerTally(
        worker.number,
        worker.free - 1,
        worker.requests + 1,
        worker.tokens + size,
        worker.queued,
        worker.queued_tokens,
        worker.room - need,
    )


@compilable
def own_tally(state: State, g: int) -> WorkerTally:
    """Return the tally of the running requests of worker g, for swapping in its own requests."""
    running, machine = state.workers.running[g], state.machine
    free, room = machine.slots[g] - running, machine.memory[g] - machine.used[g]
    return WorkerTally(g, free, running, state.workers.load[g], 0, 0, room)


@compilable
def running_tally(state: State, g: int) -> WorkerTally:
    """Return the tally of the running requests of worker g, for starting a request.

    A worker accepts no new request while some of its requests are on the host.
    """
    own = own_tally(state, g)
    if state.workers.swapped[g] == 0:
        return own
    return WorkerTally(g, 0, own.requests, own.tokens, 0, 0, own.room)


@compilable
def queued_need(state: State, g: int) -> int:
    """Return the memory needed by the requests bound to worker g when they start [tokens]."""
    need, request = 0, state.workers.head[g]
    for _ in range(state.workers.queued[g]):
        need += state.requests.need[request]
        request = state.requests.next[request]
    return int(need)


@compilable(allocates=True)
def free_memory(state: State) -> IntArray:
    """Return the memory for requests that start now, as reported, shape (G,) [tokens].

    Memory in use or reserved for later starts is subtracted. With immediate dispatch the answer is
    the whole memory, because a bound request waits until it fits.
    """
    room = state.machine.memory.copy()
    if not state.settings.immediate:
        for g in range(len(room)):
            room[g] -= state.reports.used[g] + queued_need(state, g)
    return room


@compilable
def left_in_flight(state: State, g: int) -> int:
    """Return how many more requests may be sent to worker g; 1 if there is no limit."""
    slots, margin, workers = state.machine.slots[g], state.settings.margin, state.workers
    if slots == 0 or margin < 0:
        return int(slots > 0)
    in_flight = workers.running[g] + workers.queued[g] + workers.swapped[g]
    return int(max(0, slots + margin - in_flight))


@compilable
def worker_tally(state: State, g: int) -> WorkerTally:
    """Return the tally of worker g that a policy sees, including requests bound to it.

    Slots and free memory are current; all other entries are as reported.
    """
    told, bound = state.reports, state.workers.queued[g]
    if state.settings.immediate:
        free, room = left_in_flight(state, g), state.machine.memory[g]
    else:
        runs = running_tally(state, g)
        free, room = runs.free, runs.room
        if bound > 0:
            # Slots and memory are reserved for requests whose start takes effect later.
            free, room = max(0, free - bound), room - queued_need(state, g)
    return WorkerTally(
        g,
        free,
        told.running[g] + told.queued[g],
        told.load[g] + told.queued_tokens[g],
        told.queued[g],
        told.queued_tokens[g],
        room,
    )


class StepTally:
    """The tallies of all workers, updated as requests are assigned during one step."""

    def __init__(self, state: DecodeState) -> None:
        columns = (
            state.free_slots,
            state.running + state.queued,
            state.loads + state.queued_tokens,
            state.queued,
            state.queued_tokens,
            state.room,
        )
        lists = [column.tolist() for column in columns]
        #: Current tally of each worker.
        self.workers = list(map(WorkerTally, range(state.num_workers), *lists))
        #: Load of each waiting request when it starts, and memory that it needs then [tokens].
        self.sizes: list[int] = state.sizes.tolist()
        self.needs: list[int] = state.needs.tolist()
        #: The assignment so far.
        self.assignment: list[int | None] = [None] * state.num_waiting

    def open_workers(self, request: int) -> list[int]:
        """Return the workers that accept a waiting request, in order of index."""
        need = self.needs[request]
        return [worker.number for worker in self.workers if takes(worker, need)]

    def assign(self, request: int, worker: int) -> None:
        """Assign a waiting request to a worker that accepts it."""
        self.assignment[request] = worker
        self.workers[worker] = with_one_more(
            self.workers[worker], self.sizes[request], self.needs[request]
        )


def assign_to_least(state: DecodeState, order: Iterable[int], key: Key) -> list[int | None]:
    """Assign each request in turn to the worker with the least key, ties to the lowest index.

    Parameters
    ----------
    state : DecodeState
        The step.
    order : iterable of int
        At most ``state.num_admissible`` waiting requests, in the order of assignment. Assignment
        stops at the first request that no worker accepts.
    key : callable
        Key of a worker. It may change only when a request is assigned to this worker.

    Returns
    -------
    list of (int or None)
        The worker of each waiting request, or None.
    """
    tally = StepTally(state)
    # A worker that does not accept a request without memory need accepts no request at all.
    heap = [(key(worker), worker.number) for worker in tally.workers if takes(worker, 0)]
    heapq.heapify(heap)
    for request in order:
        passed = []
        while heap and not takes(tally.workers[heap[0][1]], tally.needs[request]):
            passed.append(heapq.heappop(heap))
        if not heap:
            break
        number = heap[0][1]
        tally.assign(request, number)
        if takes(tally.workers[number], 0):
            heapq.heapreplace(heap, (key(tally.workers[number]), number))
        else:
            heapq.heappop(heap)
        for entry in passed:
            heapq.heappush(heap, entry)
    return tally.assignment


def assign_each(
    state: DecodeState, choose: Callable[[StepTally, int, list[int]], int | None]
) -> list[int | None]:
    """Assign each of the oldest requests in turn to a worker that accepts it.

    Parameters
    ----------
    state : DecodeState
        The step.
    choose : callable
        Function of the tally, a waiting request and the workers that accept this request (at least
        one, in order of index). It returns one of these workers, or None: then this request and
        all younger ones wait.
    """
    tally = StepTally(state)
    for request in oldest(state):
        workers = tally.open_workers(request)
        worker = choose(tally, request, workers) if workers else None
        if worker is None:
            break
        tally.assign(request, worker)
    return tally.assignment


def oldest(state: DecodeState) -> range:
    """Return the ``U`` oldest waiting requests, where U is the number that can be admitted."""
    return range(state.num_admissible)


def in_order(state: DecodeState, order: ServingOrder) -> Iterable[int]:
    """Return the ``U`` waiting requests to assign first, in the order of assignment."""
    if order is ServingOrder.OLDEST:
        return oldest(state)
    sizes = state.sizes if order is ServingOrder.SMALLEST else -state.sizes
    if order is ServingOrder.LARGEST_OF_OLDEST:
        sizes = sizes[: state.num_admissible]
    by_size: list[int] = np.argsort(sizes, kind="stable")[: state.num_admissible].tolist()
    return by_size
