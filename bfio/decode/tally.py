"""What one step has assigned so far, and the greedy rule most baselines share."""

import heapq
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.cluster import fits
from bfio.decode.state import DecodeState


class Order(IntEnum):
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
    """

    number: int
    free: int
    requests: int
    tokens: int
    queued: int


#: What a greedy policy minimises over the workers that take a request.
Key = Callable[[WorkerTally], int]


@compilable
def takes(worker: WorkerTally, size: int) -> bool:
    """Whether a request of ``size`` prompt tokens may go to this worker now."""
    return fits(worker.free)


class Tally:
    """Counts per worker, brought up to date as one step assigns requests.

    Attributes
    ----------
    free : list of int
        Slots each worker still has.
    requests : list of int
        Requests of each worker: running, queued and assigned at this step.
    tokens : list of int
        Load of each worker with queued and newly assigned prompts [tokens].
    sizes : list of int
        Prompt tokens of the waiting requests.
    assignment : list of (int or None)
        The answer so far.
    """

    def __init__(self, state: DecodeState) -> None:
        self.free: list[int] = state.free_slots.tolist()
        self.requests: list[int] = (state.running + state.queued).tolist()
        self.tokens: list[int] = (state.loads + state.queued_tokens).tolist()
        self.assignment: list[int | None] = [None] * state.num_waiting
        self.sizes: list[int] = state.sizes.tolist()
        self._queued: list[int] = state.queued.tolist()

    def worker(self, g: int) -> WorkerTally:
        """Return worker g as it is now."""
        return WorkerTally(g, self.free[g], self.requests[g], self.tokens[g], self._queued[g])

    def open_workers(self, request: int) -> list[int]:
        """Workers that take a waiting request, in increasing index."""
        size = self.sizes[request]
        return [g for g in range(len(self.free)) if takes(self.worker(g), size)]

    def assign(self, request: int, worker: int) -> None:
        """Give a waiting request to a worker that takes it."""
        self.assignment[request] = worker
        self.free[worker] -= 1
        self.requests[worker] += 1
        self.tokens[worker] += self.sizes[request]


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
    tally = Tally(state)
    heap = [(key(tally.worker(g)), g) for g, free in enumerate(tally.free) if fits(free)]
    heapq.heapify(heap)
    for request in order:
        passed = []
        while heap and not takes(tally.worker(heap[0][1]), tally.sizes[request]):
            passed.append(heapq.heappop(heap))
        if not heap:
            break
        worker = heap[0][1]
        tally.assign(request, worker)
        if fits(tally.free[worker]):
            heapq.heapreplace(heap, (key(tally.worker(worker)), worker))
        else:
            heapq.heappop(heap)
        for entry in passed:
            heapq.heappush(heap, entry)
    return tally.assignment


def oldest(state: DecodeState) -> range:
    """Return the ``U`` oldest waiting requests, as many as can be admitted."""
    return range(state.num_admissible)


def in_order(state: DecodeState, order: Order) -> Iterable[int]:
    """Return the ``U`` waiting requests that are served first, first to last."""
    if order is Order.OLDEST:
        return oldest(state)
    sizes = state.sizes if order is Order.SMALLEST else -state.sizes
    if order is Order.LARGEST_OF_OLDEST:
        sizes = sizes[: state.num_admissible]
    by_size: list[int] = np.argsort(sizes, kind="stable")[: state.num_admissible].tolist()
    return by_size
