"""What happens where the memory of a worker overflows.

A request that is to be computed anew waits among the others in order of arrival (with immediate
dispatch at the head of its worker's queue); one that is swapped out comes back to its worker,
which takes no other request before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bfio.common.compilable import compilable
from bfio.decode.drift import Drift, DriftReading
from bfio.decode.machine.counters import NOW, SWAP, SWAPPED
from bfio.decode.machine.moves import RECOMPUTED, SWAPPED_OUT, begin, growth, interrupt
from bfio.decode.machine.waiting import join_queue_at_its_head, wait_again
from bfio.decode.tally import own_tally, takes
from bfio.workloads.workload import Workload
from formulations.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from bfio.decode.machine.state import Record, State


class Host(NamedTuple):
    """Requests that are swapped out, in the order in which they were; a counter says how many.

    Parameters
    ----------
    request : IntArray
        Shape (n,) or (0,).
    ready_s : FloatArray
        Same shape: when each may come back [s].
    """

    request: IntArray
    ready_s: FloatArray


def peaks(workload: Workload, drift: Drift, leaves: bool, pauses: bool = False) -> IntArray:
    """Return the most memory that each request may come to take, shape (n,) [tokens].

    One that ``leaves`` its worker may miss the steps at which it would have grown least; one that
    ``pauses`` too, unless its growth waits for it.
    """
    steps, misses = workload.output_tokens - 1, leaves
    if pauses and drift.reading is DriftReading.GLOBAL_STEP:
        misses = True
    gains = steps * max(drift.increments) if misses else drift.largest_gains(steps)
    peaks: IntArray = workload.prompt_tokens + gains
    return peaks


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


@compilable(part_of="overflow", otherwise=False)
def leave_host(state: State, request: int, worker: int) -> bool:
    """Take a request from the host; False if it is not there."""
    counters, host = state.counters, state.host
    kept = 0
    for place in range(counters[SWAPPED]):
        if host.request[place] != request:
            host.request[kept] = host.request[place]
            host.ready_s[kept] = host.ready_s[place]
            kept += 1
    if kept == counters[SWAPPED]:
        return False
    counters[SWAPPED] = kept
    state.workers.swapped[worker] -= 1
    return True
