"""Rests around a run: its words, and the rules of its record."""

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.features.feature import Feature
from bfio.decode.replay_record import Replay
from bfio.decode.replay_table import RuleTable, number
from bfio.decode.run import Run
from bfio.decode.stints import stints_of

#: Rules of the record.
RULES = RuleTable()


def _malformed_rests(run: Run, cluster: Cluster) -> int:
    """Count rests that no replay could follow."""
    if run.rests is None:
        return 0
    if run.rests.ndim != 2 or run.rests.shape[1:] != (3,):
        return 1
    who, first, end = run.rests.T
    wrong = number((who < 0) | (who >= run.num_requests))
    return wrong + number((first < 0) | (first >= end) | (end > run.steps))


@RULES.rule("rests")
def _rests(replay: Replay) -> int:
    """Check that requests rest while they have a slot, for no longer at a time than they may."""
    run, stints, batches = replay.run, replay.stints, replay.batches
    if run.rests is None or (run.max_pauses is None) != batches:
        return int(run.rests is not None or run.max_pauses is not None)
    if len(run.rests) == 0:
        return 0
    if len(stints.request) == 0:
        return len(run.rests)
    order = np.lexsort((run.rests[:, 1], run.rests[:, 0]))
    who, first, end = run.rests[order].T
    which = stints_of(run.rests[order], stints.request, stints.start, run.steps)
    wrong = 0 if run.max_pauses is None else number(end - first > run.max_pauses)
    # Who starts runs, unless its prompt is to be computed; who is back from the host may rest at
    # once.
    begin = stints.start[which] + (stints.was_waiting[which] & (not batches))
    wrong += number((stints.request[which] != who) | (first < begin) | (end > stints.end[which]))
    # Two without a step in between are one rest, unless it was away.
    same = which[1:] == which[:-1]
    wrong += number(same & (first[1:] <= end[:-1]))
    # The last step of one that is done emits its last token.
    return wrong + number(end == run.finish_step[who] + 1)


PAUSING = Feature("pausing", malformed=_malformed_rests, rules=RULES)
