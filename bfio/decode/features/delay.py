"""Decisions that take effect a fixed number of steps later (BF-IO, section 7.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.checking import number
from bfio.common.compilable import compilable
from bfio.decode.features.feature import Feature, RuleTable
from bfio.decode.machine.counters import QUEUED, STEP
from bfio.decode.machine.moves import (
    join_queue,
    join_queue_at_its_head,
    start_queued,
    start_queued_until,
)
from bfio.decode.options import Dispatch
from bfio.decode.tally import running_tally, takes
from formulations.words import counted

if TYPE_CHECKING:
    from bfio.decode.machine.state import State
    from bfio.decode.replay import Replay


@compilable
def join_queue_by_age(state: State, request: int, worker: int) -> None:
    """Insert a request into its worker's queue, before younger requests bound at the same step.

    Decisions of a step take effect in order of arrival, in whatever order a policy makes them. If
    memory runs out, this order determines which request does not start.
    """
    workers, bound, following = state.workers, state.marks.bound, state.requests.next
    step, youngest = state.counters[STEP], workers.tail[worker]
    if workers.queued[worker] == 0 or bound[youngest] < step or youngest < request:
        join_queue(state, request, worker)
        return
    before, after = -1, int(workers.head[worker])
    while bound[after] < step or after < request:
        before, after = after, int(following[after])
    if before < 0:
        join_queue_at_its_head(state, request, worker)
        return
    following[before], following[request] = request, after
    workers.queued[worker] += 1
    workers.queued_tokens[worker] += state.requests.size[request]
    state.counters[QUEUED] += 1


@compilable(apart=True)
def decide_late(state: State) -> None:
    """Execute the decisions that are due, and copy the state of the workers for the policy.

    With immediate dispatch, due requests start after the policy has been called.
    """
    if not state.settings.immediate:
        start_queued(state)
    if not state.reports.is_on:
        told, workers = state.reports, state.workers
        copy_to(told.load, workers.load)
        copy_to(told.running, workers.running)
        copy_to(told.queued, workers.queued)
        copy_to(told.queued_tokens, workers.queued_tokens)
        copy_to(told.used, state.machine.used)


@compilable
def hurry(state: State) -> None:
    """Execute the next pending decisions at once, because no request runs until then."""
    workers, latest = state.workers, -1
    for g in range(len(workers.load)):
        if workers.queued[g] > 0:
            head = workers.head[g]
            bound = state.marks.bound[head]
            fits = takes(running_tally(state, g), state.requests.need[head])
            if fits and (latest < 0 or bound < latest):
                latest = bound
    if latest >= 0:
        start_queued_until(state, latest)


RULES = RuleTable()


@RULES.rule("bound")
def _bound(replay: Replay) -> int:
    """Check that requests are bound after their release, and start when decisions take effect."""
    run = replay.run
    is_sent = run.worker >= 0
    wrong = number(is_sent & (run.bound_step < run.reveal_step))
    wrong += number(~is_sent & (run.bound_step >= 0))
    wrong += number((run.finish_step >= 0) & (run.last_start_step < run.bound_step))
    if run.options.dispatch is Dispatch.POOLED:
        never = np.setdiff1d(np.flatnonzero(is_sent), run.interruptions[:, 0])
        started = never[run.start_step[never] >= 0]
        wrong += number(run.start_step[started] - run.bound_step[started] > run.options.delay)
    # If no request ran before, the next pending decisions took effect at once.
    starts = np.flatnonzero((run.start_step >= 0) & (run.start_step == run.last_start_step))
    starts = np.setdiff1d(starts, run.interruptions[:, 0])
    soon = starts[run.start_step[starts] - run.bound_step[starts] < run.options.delay]
    held = replay.held[1].sum(axis=1)[run.start_step[soon]]
    return wrong + number(held != run.admitted[run.start_step[soon]])


FEATURE = Feature(
    "delay",
    setting=lambda _, options: (
        f"decisions delayed by {counted(options.delay, 'step')}" if options.delay else ""
    ),
    rules=RULES,
    rank=6,
)
