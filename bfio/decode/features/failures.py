"""Workers that fail and recover: requests that run there or are bound there wait again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.features.feature import (
    RuleTable,
    arrays_of,
    drawn_turns,
    in_order,
    number,
    read_schedule,
    schedule_of_workers,
)
from bfio.decode.features.prefixes import lose_cache
from bfio.decode.machine.counters import ACTIVE, NOW, OUTAGES, QUEUED, SLOTS
from bfio.decode.machine.moves import FAILED, interrupt, wait_again
from bfio.decode.stints import Cause
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bfio.decode.machine.state import Record, State
    from bfio.decode.replay import Replay
    from formulations.arrays import FloatArray, IntArray

#: Events of a worker.
EVENTS = ("fail", "recover")
#: Number of the random stream; policies and predictors use others.
_STREAM = 3
_FORM = "write random:mtbf=3600:mttr=60, or the name of a CSV file with time_s,worker,event"


class Failures(NamedTuple):
    """When workers fail and recover, in order of time.

    Parameters
    ----------
    time_s : FloatArray
        Shape (E,) [s]; an event takes effect at the first step that starts then or later.
    worker : IntArray
        Shape (E,): worker of each event.
    is_up : IntArray
        Shape (E,): 1 if it recovers, 0 if it fails.
    until_s : float
        End of the schedule [s].
    """

    time_s: FloatArray
    worker: IntArray
    is_up: IntArray
    until_s: float


def failures_of(
    given: str | Iterable[tuple[float, int, str]], num_workers: int, seed: int
) -> Failures:
    """Return the failure schedule of a run, parsed into new arrays.

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
        If it cannot be read, is out of order, has an unknown worker, or lets a worker fail that is
        down or recover that is up.
    """
    return read_schedule(
        "failures",
        given,
        {"time_s": float, "worker": int, "event": str.strip},
        form=_FORM,
        example="12.5,0,fail",
        draw=lambda text: _drawn(text, num_workers, seed),
        check=lambda rows, where: _checked(rows, num_workers, where),
    )


def _drawn(text: str, num_workers: int, seed: int) -> Failures:
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
    turns, values = drawn_turns(text, "failures", num_workers, rng, form=_FORM)
    return _made(turns, values["until"])


def _checked(rows: list[tuple[float, int, str]], num_workers: int, where: str) -> Failures:
    down: set[int] = set()
    for place, (_, worker, event) in in_order(rows, where, "worker", num_workers):
        if event not in EVENTS:
            raise InputError(place, f"{event!r} is no event", f"use one of {', '.join(EVENTS)}")
        if (worker in down) == (event == "fail"):
            state = "down" if worker in down else "up"
            what = f"worker {worker} is {state} and is to {event}"
            raise InputError(place, what, "let fail and recover take turns")
        (down.add if event == "fail" else down.remove)(worker)
    return _made([(time, worker, int(event == "recover")) for time, worker, event in rows])


def _made(events: list[tuple[float, int, int]], until_s: float = math.inf) -> Failures:
    return Failures._make((*arrays_of(events, np.float64, np.int64, np.int64), until_s))


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


@compilable(allocates=True, part_of="failures")
def fail(state: State, record: Record, worker: int) -> None:
    """Remove all requests from a worker: the running ones, and those bound to it.

    Its requests on the host stay there until it recovers.
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


#: Rules of the replay.
RULES = RuleTable()


@RULES.rule("failures")
def _failures(replay: Replay) -> int:
    """Check that nothing runs on a worker that is down, and that only this takes its requests."""
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


FEATURE = schedule_of_workers(
    "failures",
    "failure",
    failures_of,
    lambda state: state.outages.until_s,
    rules=RULES,
    rank=8,
)
