"""Failures around a run: its words, and the rules of its record."""

import numpy as np

from bfio.decode.features.failures.schedule import failures_of
from bfio.decode.features.feature import schedule_of_workers
from bfio.decode.replay_record import Replay
from bfio.decode.replay_table import RuleTable, number
from bfio.decode.stints import Cause

#: Rules of the record.
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
