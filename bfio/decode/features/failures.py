"""Workers that fail and recover; requests running on or bound to a failed worker wait again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.array_kernels import sort
from bfio.common.checking import number
from bfio.common.compilable import compilable
from bfio.decode.features.feature import RuleTable, WorkerEvents
from bfio.decode.features.prefixes import lose_cache
from bfio.decode.machine.counters import ACTIVE, NOW, OUTAGES, QUEUED, SLOTS
from bfio.decode.machine.moves import FAILED, interrupt, wait_again
from bfio.decode.stints import Cause
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bfio.decode.features.feature import WorkerEvent
    from bfio.decode.machine.state import Record, State
    from bfio.decode.replay import Replay
    from formulations.arrays import FloatArray, IntArray

#: Events of a worker.
EVENTS = ("fail", "recover")


class Failures(NamedTuple):
    """Failures and recoveries of workers, in order of time."""

    #: Shape (E,) [s]; an event takes effect at the first step that starts then or later.
    time_s: FloatArray
    worker: IntArray  #: Shape (E,): worker of each event.
    is_up: IntArray  #: Shape (E,): 1 if it recovers, 0 if it fails.
    until_s: float  #: End of the schedule [s].


def _turns(events: Iterable[tuple[str, WorkerEvent]]) -> Iterator[int]:
    """Yield 0 for a failure and 1 for a recovery; these must alternate on each worker."""
    down: set[int] = set()
    for place, (_, worker, event) in events:
        if event not in EVENTS:
            raise InputError(
                place, f"{event!r} is not an event", f"use one of {', '.join(EVENTS)}"
            )
        if (worker in down) == (event == "fail"):
            state = "down" if worker in down else "up"
            what = f"worker {worker} is {state} and cannot {event}"
            raise InputError(place, what, "alternate fail and recover for each worker")
        (down.add if event == "fail" else down.remove)(worker)
        yield EVENTS.index(event)


_FAILURES = WorkerEvents(
    "failures",
    "failure",
    column="event",
    read_value=str.strip,
    drawn="random:mtbf=3600:mttr=60",
    example="12.5,0,fail",
    stream=3,
    value=lambda is_up, _: EVENTS[is_up],
    numbers=_turns,
    number_type=np.int64,
)


def failures_of(
    given: str | Iterable[tuple[float, int, str]], num_workers: int, seed: int
) -> Failures:
    """Return the failure schedule of a run.

    Parameters
    ----------
    given : str or iterable of (float, int, str)
        ``none``; ``random:mtbf=SECONDS:mttr=SECONDS``, with optional ``until=SECONDS`` (1e6 by
        default); the name of a CSV file; or its rows: time [s], worker, ``fail`` or ``recover``.
    num_workers : int
        ``G``.
    seed : int
        Seed of the run.

    Raises
    ------
    InputError
        If the schedule cannot be read, is out of order or has an unknown worker; or if a worker
        fails while down or recovers while up.
    """
    return Failures(*_FAILURES.read(given, num_workers, seed))


@compilable
def fail_due(state: State, record: Record) -> None:
    """Execute the failures and recoveries that are due."""
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


@compilable(allocates=True)
def fail(state: State, record: Record, worker: int) -> None:
    """Remove all requests from a worker: those that run on it and those bound to it.

    Requests of this worker that are swapped out to the host stay there until the worker recovers.
    """
    running = state.lists.running[: state.counters[ACTIVE]].copy()
    sort(running)
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


RULES = RuleTable()


@RULES.rule("failures")
def _failures(replay: Replay) -> int:
    """Check that no request runs on a failed worker; only a failure removes its requests."""
    K = replay.run.steps
    down = np.zeros((K + 1, replay.cluster.workers), dtype=np.bool_)
    failed = np.zeros((K + 1, replay.cluster.workers), dtype=np.bool_)
    for step, worker, is_up in replay.outages:
        down[step:, worker] = not is_up
        failed[step, worker] |= not is_up
    wrong = number(down[:K] & (replay.held[1] > 0))
    left = replay.stints.cause == Cause.FAILURE
    wrong += number(~failed[replay.stints.end[left], replay.stints.worker[left]])
    return wrong


FEATURE = _FAILURES.feature(lambda state: state.outages.until_s, rules=RULES, rank=8)
