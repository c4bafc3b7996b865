"""What failures do to workers and their requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.cluster import Cluster
from bfio.decode.features.failures.schedule import failures_of
from bfio.decode.features.prefixes.phases import lose_cache
from bfio.decode.machine.counters import ACTIVE, NOW, OUTAGES, QUEUED, SLOTS
from bfio.decode.machine.moves import FAILED, interrupt
from bfio.decode.machine.waiting import wait_again
from bfio.decode.options import RunOptions
from formulations.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from bfio.decode.machine.state import Record, State


class Outages(NamedTuple):
    """When workers fail and recover, in order of time.

    Parameters
    ----------
    time_s : FloatArray
        Shape (E,) [s].
    worker, is_up : IntArray
        Shape (E,): which, and 1 if it recovers, 0 if it fails.
    slots : IntArray
        Shape (G,): slots of each worker while it is up.
    until_s : float
        Up to when they are known [s].
    """

    time_s: FloatArray
    worker: IntArray
    is_up: IntArray
    slots: IntArray
    until_s: float


def new_outages(cluster: Cluster, options: RunOptions) -> Outages:
    """Return the failures of a run, in arrays that may be written as all others."""
    failures = failures_of(options.failures, cluster.workers, options.seed)
    return Outages(
        failures.time_s.copy(),
        failures.worker.copy(),
        failures.is_up.copy(),
        cluster.worker_slots(),
        failures.until_s,
    )


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
            state.machine.slots[worker] = outages.slots[worker]
            counters[SLOTS] += outages.slots[worker]
        else:
            state.machine.slots[worker] = 0
            counters[SLOTS] -= outages.slots[worker]
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
