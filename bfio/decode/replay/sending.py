"""Rules of when requests are sent to workers."""

import numpy as np

from bfio.decode.options import Dispatch
from bfio.decode.replay.counting import number
from bfio.decode.replay.record import Replay
from bfio.decode.replay.rule_table import RuleTable

#: Rules of when requests are sent to workers.
SENDING = RuleTable()


@SENDING.rule("queue-order")
def _queue_order(replay: Replay) -> int:
    """Check that with immediate dispatch each worker serves its queue in order."""
    run = replay.run
    if run.options.dispatch is not Dispatch.IMMEDIATE:
        return 0
    # Who gave up before it started left the queue.
    bound = np.flatnonzero((run.worker >= 0) & ((run.start_step >= 0) | (run.cancel_step < 0)))
    if len(run.interruptions):
        # Who was interrupted stands before all others; that it does is the rule "stints".
        bound = np.setdiff1d(bound, run.interruptions[:, 0])
    order = bound[np.lexsort((bound, run.bound_step[bound], run.worker[bound]))]
    start = np.where(run.start_step[order] < 0, run.steps, run.start_step[order])
    same = run.worker[order][1:] == run.worker[order][:-1]
    return number(same & (np.diff(start) < 0))


@SENDING.rule("bound")
def _bound(replay: Replay) -> int:
    """Check that requests are bound after their reveal, and start when decisions take effect."""
    run = replay.run
    is_sent = run.worker >= 0
    wrong = number(is_sent & (run.bound_step < run.reveal_step))
    wrong += number(~is_sent & (run.bound_step >= 0))
    wrong += number((run.finish_step >= 0) & (run.last_start_step < run.bound_step))
    if run.options.dispatch is Dispatch.POOLED:
        never = np.setdiff1d(np.flatnonzero(is_sent), run.interruptions[:, 0])
        started = never[run.start_step[never] >= 0]
        wrong += number(run.start_step[started] - run.bound_step[started] > run.options.delay)
    # Where nothing ran before, the decisions that were next to take effect did so at once.
    starts = np.flatnonzero((run.start_step >= 0) & (run.start_step == run.last_start_step))
    starts = np.setdiff1d(starts, run.interruptions[:, 0])
    soon = starts[run.start_step[starts] - run.bound_step[starts] < run.options.delay]
    held = replay.held[1].sum(axis=1)[run.start_step[soon]]
    return wrong + number(held != run.admitted[run.start_step[soon]])


@SENDING.rule("in-flight")
def _in_flight(replay: Replay) -> int:
    """Check that no worker is sent more requests than its slots and the in-flight margin."""
    run = replay.run
    is_pooled = run.options.dispatch is Dispatch.POOLED
    margin = 0 if is_pooled else run.options.margin
    if margin is None:
        return 0
    sent = np.flatnonzero(run.worker >= 0)
    change = np.zeros((run.steps + 1, replay.cluster.workers), dtype=np.int64)
    ends = np.where(run.finish_step[sent] < 0, run.steps, run.finish_step[sent] + 1)
    gone = run.cancel_step[sent]
    ends = np.where(gone < 0, ends, gone)
    np.add.at(change, (run.bound_step[sent], run.worker[sent]), 1)
    np.add.at(change, (ends, run.worker[sent]), -1)
    most = replay.cluster.worker_slots() + margin
    return number(change.cumsum(axis=0)[: run.steps] > most)
