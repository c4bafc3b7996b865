"""Cancellations around a run: its words, and the rules of its record."""

from collections.abc import Iterator, Sequence

import numpy as np

from bfio.decode.features.feature import Feature, schedule_setting
from bfio.decode.options import NO_EVENTS
from bfio.decode.replay_record import Replay
from bfio.decode.replay_table import RuleTable, number
from bfio.decode.run import Run
from bfio.decode.stints import Cause

#: Rules of the record.
RULES = RuleTable()


@RULES.rule("cancellations")
def _cancellations(replay: Replay) -> int:
    """Check that a request ends exactly once: done, or cancelled at the first step it can be."""
    run, K, schedule = replay.run, replay.run.steps, replay.cancellations
    due = np.full(run.num_requests, K + 1)
    due[schedule.request] = np.searchsorted(run.start_s, schedule.time_s)
    done = run.finish_step >= 0
    is_due = (due < K) & ~(done & (run.finish_step < due))
    # Whether the clock went on after the last step no step can tell.
    after = (due == K) & (run.cancel_step == K)
    wrong = number(np.where(is_due | after, due, -1) != run.cancel_step)
    wrong += number(done & (run.cancel_step >= 0))
    gone = run.cancel_step[replay.stints.request]
    wrong += number((gone >= 0) & (replay.stints.end > gone))
    left = replay.stints.cause == Cause.CANCELLATION
    return wrong + number(left & (replay.stints.end != gone))


def _unseen(runs: Sequence[Run]) -> Iterator[str]:
    if runs[0].options.cancellations != NO_EVENTS and not any(run.cancelled for run in runs):
        yield "No client gave up before its request was done: the runs are as if none ever did."


FEATURE = Feature(
    "cancellations",
    {"cancellations": lambda _, options: options.cancellations != NO_EVENTS},
    setting=lambda _, options: schedule_setting("cancellations", options.cancellations),
    unseen=_unseen,
    rules=RULES,
    rank=9,
)
