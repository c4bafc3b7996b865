"""Clients that cancel their requests, whether a request waits or runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.checking import number
from bfio.common.compilable import compilable
from bfio.common.options import NUMBER, read_texts, split_options
from bfio.decode.features.feature import (
    Feature,
    RuleTable,
    in_order,
    read_schedule,
    schedule_setting,
)
from bfio.decode.features.memory import leave_host
from bfio.decode.features.prefill import leave_tier
from bfio.decode.machine.counters import CANCELLATIONS, COMPLETED, NOW, STEP
from bfio.decode.machine.moves import CANCELLED, interrupt, leave_pool, leave_queue, reveal
from bfio.decode.options import NO_EVENTS, RANDOM
from bfio.decode.stints import Cause
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bfio.decode.machine.state import Record, State
    from bfio.decode.replay import Replay
    from bfio.decode.run import Run
    from formulations.arrays import FloatArray, IntArray

#: Number of the random stream; policies, predictors and failures use others.
_STREAM = 4


class Cancellations(NamedTuple):
    """Cancellations (request and time), in order of time."""

    #: Shape (E,) [s]; a cancellation takes effect at the first step that starts then or later,
    #: unless the request has finished by then.
    time_s: FloatArray
    request: IntArray  #: Shape (E,): index in the workload; each request at most once.


def cancellations_of(
    given: str | Iterable[tuple[float, int]], arrival_s: FloatArray, seed: int
) -> Cancellations:
    """Return the cancellation schedule of a run.

    The option ``given`` is ``none``; ``random:patience=SECONDS``, with exponential patience from
    each arrival on, and optional ``share=0.1`` for a share of the requests only; the name of a CSV
    file; or its rows: time [s], request. Raises InputError if the schedule cannot be read or is
    out of order, or if a request is unknown, is cancelled twice, or is cancelled before its
    arrival (``arrival_s``).
    """
    rows = read_schedule(
        "cancellations",
        given,
        {"time_s": float, "request": int},
        drawn="random:patience=30",
        example="12.5,7",
        draw=lambda text, remedy: _drawn(text, arrival_s, seed, remedy),
        check=lambda rows, where: _checked(rows, arrival_s, where),
    )
    time_s = np.array([time for time, _ in rows], dtype=np.float64)
    return Cancellations(time_s, np.array([request for _, request in rows], dtype=np.int64))


def _drawn(text: str, arrival_s: FloatArray, seed: int, remedy: str) -> list[tuple[float, int]]:
    """Draw the cancellation time of each request: its arrival plus an exponential patience."""
    _, texts = split_options(text, (RANDOM,))
    kinds = {"patience": NUMBER, "share": NUMBER}
    values = {"share": 1.0, **read_texts(kinds, texts, "cancellations")}
    if not 0 < values.get("patience", 0.0) < math.inf:
        raise InputError("cancellations", f"{text!r} has no patience > 0", remedy)
    if not 0 < values["share"] <= 1:
        raise InputError("cancellations", f"{text!r} has no share in (0, 1]", remedy)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
    is_impatient = rng.random(len(arrival_s)) < values["share"]
    time_s = arrival_s + rng.exponential(values["patience"], len(arrival_s))
    who = np.flatnonzero(is_impatient)
    order = who[np.lexsort((who, time_s[who]))]
    return list(zip(time_s[order].tolist(), order.tolist(), strict=True))


def _checked(
    rows: list[tuple[float, int]], arrival_s: FloatArray, where: str
) -> list[tuple[float, int]]:
    gone: set[int] = set()
    for place, (time, request) in in_order(rows, where, "request", len(arrival_s)):
        if request in gone:
            raise InputError(
                place, f"request {request} is cancelled twice", "list each request once"
            )
        if time < arrival_s[request]:
            what = f"request {request} is cancelled at {time} s, before its arrival"
            raise InputError(
                place, what, f"cancel it after its arrival at {arrival_s[request]:g} s"
            )
        gone.add(request)
    return rows


@compilable
def cancel_due(state: State, record: Record) -> None:
    """Remove the unfinished requests whose clients have cancelled by the current time."""
    counters, due = state.counters, state.cancellations
    if (
        counters[CANCELLATIONS] < len(due.time_s)
        and due.time_s[counters[CANCELLATIONS]] <= state.clock[NOW]
    ):
        # Some requests may have arrived and been cancelled since the last step.
        reveal(state)
    while (
        counters[CANCELLATIONS] < len(due.time_s)
        and due.time_s[counters[CANCELLATIONS]] <= state.clock[NOW]
    ):
        request = int(due.request[counters[CANCELLATIONS]])
        counters[CANCELLATIONS] += 1
        last, step = int(state.marks.last[request]), int(counters[STEP])
        if 0 <= last < step:
            continue
        worker = int(state.marks.worker[request])
        if last >= step:
            interrupt(state, record, request, CANCELLED)
            # The record has the last worker of each request.
            state.marks.worker[request] = worker
        elif state.tier.is_on and state.marks.reveal[request] < 0:
            leave_tier(state.tier, request)
        elif worker < 0:
            leave_pool(state, request)
        elif not leave_host(state, request, worker):
            leave_queue(state, request, worker)
        state.marks.cancel[request] = step
        counters[COMPLETED] += 1


RULES = RuleTable()


@RULES.rule("cancellations")
def _cancellations(replay: Replay) -> int:
    """Check that a request ends exactly once: completed, or cancelled at its cancellation time."""
    run, K, schedule = replay.run, replay.run.steps, replay.cancellations
    due = np.full(run.num_requests, K + 1)
    due[schedule.request] = np.searchsorted(run.start_s, schedule.time_s)
    done = run.finish_step >= 0
    is_due = (due < K) & ~(done & (run.finish_step < due))
    # No step shows whether the clock went on after the last step.
    after = (due == K) & (run.cancel_step == K)
    wrong = number(np.where(is_due | after, due, -1) != run.cancel_step)
    wrong += number(done & (run.cancel_step >= 0))
    gone = run.cancel_step[replay.stints.request]
    wrong += number((gone >= 0) & (replay.stints.end > gone))
    left = replay.stints.cause == Cause.CANCELLATION
    return wrong + number(left & (replay.stints.end != gone))


def _unseen(runs: Sequence[Run]) -> Iterator[str]:
    if runs[0].options.cancellations != NO_EVENTS and not any(run.cancelled for run in runs):
        yield "No request was cancelled in time: the runs equal those without cancellations."


FEATURE = Feature(
    "cancellations",
    setting=lambda _, options: schedule_setting("cancellations", options.cancellations),
    unseen=_unseen,
    rules=RULES,
    rank=9,
)
