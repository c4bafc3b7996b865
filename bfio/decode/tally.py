"""What one step has assigned so far, and the greedy rule most baselines share."""

import heapq
from collections.abc import Callable, Iterable

from bfio.decode.state import DecodeState


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
    assignment : list of (int or None)
        The answer so far.
    """

    def __init__(self, state: DecodeState) -> None:
        self.free: list[int] = state.free_slots.tolist()
        self.requests: list[int] = (state.running + state.queued).tolist()
        self.tokens: list[int] = (state.loads + state.queued_tokens).tolist()
        self.assignment: list[int | None] = [None] * state.num_waiting
        self._sizes: list[int] = state.sizes.tolist()

    def open_workers(self) -> list[int]:
        """Workers with a free slot, in increasing index."""
        return [g for g, free in enumerate(self.free) if free > 0]

    def assign(self, request: int, worker: int) -> None:
        """Give a waiting request to a worker with a free slot."""
        self.assignment[request] = worker
        self.free[worker] -= 1
        self.requests[worker] += 1
        self.tokens[worker] += self._sizes[request]


def assign_to_least(
    state: DecodeState, order: Iterable[int], key: Callable[[Tally, int], int]
) -> list[int | None]:
    """Give each request in turn to the open worker with the least key, ties to the lowest index.

    Parameters
    ----------
    state : DecodeState
        The step.
    order : iterable of int
        At most ``state.num_admissible`` waiting requests, in the order they are served.
    key : callable
        ``key(tally, worker)``; it may change only for a worker that has just been assigned.

    Returns
    -------
    list of (int or None)
        One worker per waiting request; None for those not in ``order``.
    """
    tally = Tally(state)
    heap = [(key(tally, g), g) for g in tally.open_workers()]
    heapq.heapify(heap)
    for request in order:
        worker = heap[0][1]
        tally.assign(request, worker)
        if tally.free[worker] > 0:
            heapq.heapreplace(heap, (key(tally, worker), worker))
        else:
            heapq.heappop(heap)
    return tally.assignment


def oldest(state: DecodeState) -> range:
    """Return the ``U`` oldest waiting requests, as many as can be admitted."""
    return range(state.num_admissible)
