"""Requests that leave their worker before they are done, and come back.

An interrupted request keeps what it has emitted: where it starts again its size is its prompt and
what it had gained. One that is to be computed anew waits among the others in order of arrival
(with immediate dispatch at the head of its worker's queue); one that is swapped out comes back to
its worker, which takes no other request before.
"""

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.machine.counters import ACTIVE, NOW, QUEUED, SWAP, SWAPPED
from bfio.decode.machine.moves import FAILED, RECOMPUTED, SWAPPED_OUT, begin, growth, interrupt
from bfio.decode.machine.prefixes import lose_cache
from bfio.decode.machine.state import Record, State
from bfio.decode.machine.waiting import join_queue_at_its_head, wait_again
from bfio.decode.tally import own_tally, takes


@compilable(allocates=True, part_of="failures")
def fail(state: State, record: Record, worker: int) -> None:
    """Take all requests from a worker: those that run on it, and those bound to it.

    What the host holds of it stays there until it is back.
    """
    running = np.sort(state.lists.running[: state.counters[ACTIVE]])
    for request in running:
        if state.marks.worker[request] == worker:
            interrupt(state, record, request, FAILED)
            wait_again(state, request)
    workers = state.workers
    for _ in range(workers.queued[worker]):
        request = int(workers.head[worker])
        workers.head[worker] = state.requests.next[request]
        state.marks.worker[request] = -1
        wait_again(state, request)
    state.counters[QUEUED] -= workers.queued[worker]
    workers.queued[worker] = 0
    workers.queued_tokens[worker] = 0
    if state.settings.caches:
        lose_cache(state.prefixes, worker)


@compilable(part_of="overflow")
def relieve(state: State, record: Record) -> None:
    """Interrupt the youngest requests of each worker until what is left fits its memory."""
    loads, memory = state.workers.load, state.machine.memory
    for g in range(len(loads)):
        while loads[g] > memory[g]:
            make_room(state, record, g, int(state.order.youngest[g]))


@compilable
def make_room(state: State, record: Record, worker: int, request: int) -> None:
    """Interrupt the youngest request of a worker whose memory is full.

    One that fits not even alone waits for another worker.
    """
    load = state.requests.size[request] + growth(state, request)
    fits = load <= state.machine.memory[worker]
    if fits and state.settings.overflow == SWAP:
        interrupt(state, record, request, SWAPPED_OUT)
        swap_out(state, request, worker)
        return
    interrupt(state, record, request, RECOMPUTED)
    if fits and state.settings.immediate:
        join_queue_at_its_head(state, request, worker)
    else:
        wait_again(state, request)


@compilable
def swap_out(state: State, request: int, worker: int) -> None:
    """Hold the cache of a request on the host."""
    place = int(state.counters[SWAPPED])
    away = state.settings.swap_time_s * state.requests.size[request]
    state.host.request[place] = request
    state.host.ready_s[place] = state.clock[NOW] + away
    state.counters[SWAPPED] += 1
    state.workers.swapped[worker] += 1
    state.marks.worker[request] = worker


@compilable(part_of="overflow")
def swap_in(state: State) -> None:
    """Let those run again that are back from the host and fit, the first swapped out first."""
    kept = 0
    for place in range(state.counters[SWAPPED]):
        request = int(state.host.request[place])
        worker = int(state.marks.worker[request])
        is_back = state.host.ready_s[place] <= state.clock[NOW]
        if is_back and takes(own_tally(state, worker), state.requests.size[request]):
            state.workers.swapped[worker] -= 1
            begin(state, request, worker)
        else:
            state.host.request[kept] = request
            state.host.ready_s[kept] = state.host.ready_s[place]
            kept += 1
    state.counters[SWAPPED] = kept
