"""Delayed decisions around a run: its words, and the rules of its record."""

import numpy as np

from bfio.decode.features.feature import Feature
from bfio.decode.options import Dispatch
from bfio.decode.replay_record import Replay
from bfio.decode.replay_table import RuleTable, number

#: Rules of the record.
RULES = RuleTable()


@RULES.rule("bound")
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


FEATURE = Feature(
    "delay",
    {"delay": lambda _, options: options.delay > 0},
    setting=lambda _, options: (
        f"decisions delayed by {options.delay} steps" if options.delay else ""
    ),
    rules=RULES,
    rank=6,
)
