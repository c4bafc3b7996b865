"""The workers in the middle of a step: who takes a request, and the rule of most baselines."""

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
    """In which order waiting requests are served; ties go to the oldest."""

    #: By age.
    OLDEST = 0
    #: By size among all that wait.
    SMALLEST = 1
    LARGEST = 2
    #: By size among the oldest that can be admitted.
    LARGEST_OF_OLDEST = 3


class WorkerTally(NamedTuple):
    """One worker in the middle of a decision.

    Parameters
    ----------
    number : int
        Its number.
    free : int
        Slots it still has.
    requests : int
        Its requests: running, queued and assigned at this step.
    tokens : int
        Its load with queued and newly assigned prompts [tokens].
    queued : int
        Requests bound to it that do not run yet.
    queued_tokens : int
        Prompts of those [tokens].
    room : int
        Memory that requests may still take [tokens].
    """

    number: int
    free: int
    requests: int
    tokens: int
    queued: int
    queued_tokens: int
    room: int


#: What a greedy policy minimises over the workers that take a request.
Key = Callable[[WorkerTally], int]


@compilable
def takes(worker: WorkerTally, need: int) -> bool:
    """Whether a request that needs so much memory may go to this worker: said nowhere else."""
    return worker.free > 0 and need <= worker.room


@compilable
def with_one_more(worker: WorkerTally, size: int, need: int) -> WorkerTally:
    """Return a worker after a request has been assigned to it, of that size and need [tokens]."""
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
    """Return what runs on worker g, as those see it that were swapped out there."""
    running, machine = state.workers.running[g], state.machine
    free, room = machine.slots[g] - running, machine.memory[g] - machine.used[g]
    return WorkerTally(g, free, running, state.workers.load[g], 0, 0, room)


@compilable
def running_tally(state: State, g: int) -> WorkerTally:
    """Return what runs on worker g: the machine lets a request start if that takes it.

    While some of its requests are on the host it takes no other.
    """
    own = own_tally(state, g)
    if state.workers.swapped[g] == 0:
        return own
    return WorkerTally(g, 0, own.requests, own.tokens, 0, 0, own.room)


@compilable
def queued_need(state: State, g: int) -> int:
    """Return the memory that those bound to worker g will take when they start [tokens]."""
    need, request = 0, state.workers.head[g]
    for _ in range(state.workers.queued[g]):
        need += state.requests.need[request]
        request = state.requests.next[request]
    return int(need)


@compilable(allocates=True)
def free_memory(state: State) -> IntArray:
    """Return the memory that requests starting now may take, as it was told, shape (G,) [tokens].

    It is neither in use nor held for later starts. Whoever is bound by immediate dispatch waits
    until there is room, so that all of it is free to them.
    """
    room = state.machine.memory.copy()
    if not state.settings.immediate:
        for g in range(len(room)):
            room[g] -= state.reports.used[g] + queued_need(state, g)
    return room


@compilable
def left_in_flight(state: State, g: int) -> int:
    """Return how many more requests worker g may be sent; 1 while it is up if any number."""
    slots, margin, workers = state.machine.slots[g], state.settings.margin, state.workers
    if slots == 0 or margin < 0:
        return int(slots > 0)
    in_flight = workers.running[g] + workers.queued[g] + workers.swapped[g]
    return int(max(0, slots + margin - in_flight))


@compilable
def worker_tally(state: State, g: int) -> WorkerTally:
    """Return what a policy may know of worker g, with what is bound to it and does not run.

    Slots and room are as they are, all else as it was told.
    """
    told, bound = state.reports, state.workers.queued[g]
    if state.settings.immediate:
        free, room = left_in_flight(state, g), state.machine.memory[g]
    else:
        runs = running_tally(state, g)
        free, room = runs.free, runs.room
        if bound > 0:
            # Slots and memory are held for those whose start takes effect later.
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
    """The workers, brought up to date as one step assigns requests.

    Attributes
    ----------
    workers : list of WorkerTally
        Each as it is now.
    sizes, needs : list of int
        Load of each waiting request when it starts, and the memory it needs for that [tokens].
    assignment : list of (int or None)
        The answer so far.
    """

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
        self.workers = list(map(WorkerTally, range(state.num_workers), *lists))
        self.sizes: list[int] = state.sizes.tolist()
        self.needs: list[int] = state.needs.tolist()
        self.assignment: list[int | None] = [None] * state.num_waiting

    def open_workers(self, request: int) -> list[int]:
        """Workers that take a waiting request, in increasing index."""
        need = self.needs[request]
        return [worker.number for worker in self.workers if takes(worker, need)]

    def assign(self, request: int, worker: int) -> None:
        """Give a waiting request to a worker that takes it."""
        self.assignment[request] = worker
        self.workers[worker] = with_one_more(
            self.workers[worker], self.sizes[request], self.needs[request]
        )


def assign_to_least(state: DecodeState, order: Iterable[int], key: Key) -> list[int | None]:
    """Give each request in turn to the worker with the least key, ties to the lowest index.

    Parameters
    ----------
    state : DecodeState
        The step.
    order : iterable of int
        At most ``state.num_admissible`` waiting requests, in the order they are served. The first
        that no worker takes ends the step.
    key : callable
        It may change only for a worker that has just been assigned.

    Returns
    -------
    list of (int or None)
        One worker per waiting request; None for those not in ``order``.
    """
    tally = StepTally(state)
    # Who would not take the smallest request takes none.
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
    """Give each of the oldest requests in turn to a worker that takes it.

    Parameters
    ----------
    state : DecodeState
        The step.
    choose : callable
        From the workers so far, a waiting request and the workers that take it, at least one, in
        increasing index, to one of these; None lets this request and all younger ones wait.
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
    """Return the ``U`` oldest waiting requests, as many as can be admitted."""
    return range(state.num_admissible)


def in_order(state: DecodeState, order: ServingOrder) -> Iterable[int]:
    """Return the ``U`` waiting requests that are served first, first to last."""
    if order is ServingOrder.OLDEST:
        return oldest(state)
    sizes = state.sizes if order is ServingOrder.SMALLEST else -state.sizes
    if order is ServingOrder.LARGEST_OF_OLDEST:
        sizes = sizes[: state.num_admissible]
    by_size: list[int] = np.argsort(sizes, kind="stable")[: state.num_admissible].tolist()
    return by_size
