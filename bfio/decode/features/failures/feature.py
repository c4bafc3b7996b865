"""Failures around a run: its words, and the rules of its record."""

from collections.abc import Iterator, Sequence

import numpy as np

from bfio.decode.features.failures.schedule import failures_of
from bfio.decode.features.feature import Feature, none_came, schedule_setting
from bfio.decode.features.schedules import check_covers
from bfio.decode.machine.counters import NOW
from bfio.decode.machine.state import State
from bfio.decode.options import NO_EVENTS
from bfio.decode.replay_record import Replay
from bfio.decode.replay_table import RuleTable, number
from bfio.decode.run import Run
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


def _unseen(runs: Sequence[Run]) -> Iterator[str]:
    options, workers = runs[0].options, runs[0].cluster.workers
    if options.failures != NO_EVENTS:
        schedule = failures_of(options.failures, workers, options.seed)
        yield from none_came("failure", schedule.time_s, runs)


def _record(state: State) -> dict[str, object]:
    check_covers("failures", state.outages.until_s, float(state.clock[NOW]))
    return {}


FEATURE = Feature(
    "failures",
    {"failures": lambda _, options: options.failures != NO_EVENTS},
    setting=lambda _, options: schedule_setting("failures", options.failures),
    unseen=_unseen,
    record=_record,
    rules=RULES,
    rank=8,
)
