"""What failures do to workers and their requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.features.prefixes.phases import lose_cache
from bfio.decode.machine.counters import ACTIVE, NOW, OUTAGES, QUEUED, SLOTS
from bfio.decode.machine.moves import FAILED, interrupt
from bfio.decode.machine.waiting import wait_again

if TYPE_CHECKING:
    from bfio.decode.machine.state import Record, State


@compilable
def fail_due(state: State, record: Record) -> None:
    """Let the workers fail and recover whose time has come."""
    counters, outages = state.counters, state.outages
    while (
        counters[OUTAGES] < len(outages.time_s)
        and outages.time_s[counters[OUTAGES]] <= state.clock[NOW]
    ):
        worker = int(outages.worker[counters[OUTAGES]])
        if outages.is_up[counters[OUTAGES]] == 1:
            state.machine.slots[worker] = state.machine.own_slots[worker]
            counters[SLOTS] += state.machine.own_slots[worker]
        else:
            state.machine.slots[worker] = 0
            counters[SLOTS] -= state.machine.own_slots[worker]
            fail(state, record, worker)
        counters[OUTAGES] += 1


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
