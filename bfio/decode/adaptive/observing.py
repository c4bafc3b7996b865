"""What is noted at each step with a decision, alike in interpreted and compiled runs."""

from bfio.common.compilable import compilable
from bfio.decode.adaptive.memory import (
    COMPLETED,
    CURRENT,
    DECIDED_AT,
    DUE,
    ENDS,
    FORETOLD,
    REHEARSALS,
    STEP,
    Rule,
    Seen,
)
from bfio.decode.adaptive.settings import BELIEVED, FIRST_REHEARSAL, FULL_WEIGHT
from formulations.arrays import IntArray


@compilable
def look(seen: Seen, step: int, completed: int, running: IntArray) -> None:
    """Note who has ended, and whether the window foretold it.

    Parameters
    ----------
    seen : Seen
        Where it is noted.
    step, completed : int
        The step, and requests that have ended so far.
    running : IntArray
        Shape (G,): requests that run, before this decision.
    """
    counts = seen.counts
    counts[COMPLETED], counts[STEP] = completed, step
    if counts[DECIDED_AT] == step - 1:
        for g in range(len(running)):
            ended = seen.running[g] - running[g]
            counts[FORETOLD] += min(ended, seen.foretold[g])
            counts[ENDS] += max(ended, seen.foretold[g])


@compilable
def is_due(seen: Seen, running: IntArray, total_slots: int) -> bool:
    """Whether to rehearse now: the first time as soon as each slot has been taken."""
    counts = seen.counts
    if counts[REHEARSALS] == 0 and counts[COMPLETED] + running.sum() >= total_slots:
        return True
    return bool(counts[COMPLETED] >= counts[DUE])


@compilable
def windows_tell(seen: Seen, left: IntArray, horizon: int) -> bool:
    """Whether windows are believed to tell who ends; at first, whether they tell anything.

    Parameters
    ----------
    seen : Seen
        What was seen.
    left : IntArray
        Shape (A,): steps that those that run have left by the window.
    horizon : int
        ``H``.
    """
    counts = seen.counts
    if counts[ENDS] > 0:
        return bool(BELIEVED * counts[FORETOLD] >= counts[ENDS])
    for steps in left:  # noqa: SIM110  (Numba compiles no generators)
        if steps <= horizon:
            return True
    return False


@compilable
def note_choice(seen: Seen, setting: int, total_slots: int) -> None:
    """Let a setting decide from now on, after a rehearsal."""
    counts = seen.counts
    listed = counts[REHEARSALS] % len(seen.log)
    seen.log[listed, 0], seen.log[listed, 1] = counts[STEP], setting
    counts[CURRENT] = setting
    counts[REHEARSALS] += 1
    pause = max(1, total_slots // FIRST_REHEARSAL, min(counts[COMPLETED], total_slots))
    counts[DUE] = counts[COMPLETED] + pause


@compilable
def note_decision(seen: Seen) -> None:
    """Count the decision of the current setting; the caller fills ``foretold`` and ``running``."""
    seen.uses[seen.counts[CURRENT]] += 1
    seen.counts[DECIDED_AT] = seen.counts[STEP]


@compilable
def set_weights(rule: Rule, setting: int, num_workers: int) -> int:
    """Write the factors of a setting's score; return how long its window is.

    The weight of a step is ``γ = τ / (τ + 1)`` times that of the step before, rounded down, and
    the window ends where that would be too little.
    """
    steps = rule.steps[setting]
    weight, columns = FULL_WEIGHT, 0
    while columns < len(rule.reward) and (columns == 0 or weight >= rule.least_weight):
        rule.reward[columns] = weight
        rule.overflow[columns] = weight * rule.penalty[setting] * num_workers
        weight = weight * steps // (steps + 100)
        columns += 1
    return columns
