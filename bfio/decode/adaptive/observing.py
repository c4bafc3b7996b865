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
from bfio.decode.adaptive.settings import FULL_WEIGHT, LEAST_WEIGHT, RATE_MEMORY
from formulations.arrays import IntArray


@compilable
def look(seen: Seen, slots: int, step: int, completed: int, running: IntArray) -> None:
    """Note how often requests end, and whether the window foretold those of the last step.

    Parameters
    ----------
    seen : Seen
        Where it is noted.
    slots, step, completed : int
        ``B``, the step, and requests that have ended so far.
    running : IntArray
        Shape (G,): requests that run, before this decision.
    """
    counts, rate, num_workers = seen.counts, seen.rate, len(running)
    rate[0] += completed - counts[COMPLETED]
    rate[1] += num_workers * (step - counts[STEP])
    counts[COMPLETED], counts[STEP] = completed, step
    if rate[0] > num_workers * slots // RATE_MEMORY:
        rate[0] = (rate[0] + 1) // 2
        rate[1] = (rate[1] + 1) // 2
    if counts[DECIDED_AT] == step - 1:
        for g in range(num_workers):
            ended = seen.running[g] - running[g]
            counts[FORETOLD] += min(ended, seen.foretold[g])
            counts[ENDS] += max(ended, seen.foretold[g])


@compilable
def is_due(seen: Seen) -> bool:
    """Whether to rehearse now."""
    return bool(seen.counts[COMPLETED] >= seen.counts[DUE])


@compilable
def note_choice(seen: Seen, setting: int, total_slots: int) -> None:
    """Let a setting decide from now on, after a rehearsal."""
    counts = seen.counts
    listed = counts[REHEARSALS] % len(seen.log)
    seen.log[listed, 0], seen.log[listed, 1] = counts[STEP], setting
    counts[CURRENT] = setting
    counts[REHEARSALS] += 1
    counts[DUE] = counts[COMPLETED] + max(1, min(counts[COMPLETED], total_slots))


@compilable
def note_decision(seen: Seen) -> None:
    """Count the decision of the current setting; the caller fills ``foretold`` and ``running``."""
    seen.uses[seen.counts[CURRENT]] += 1
    seen.counts[DECIDED_AT] = seen.counts[STEP]


@compilable
def set_weights(rule: Rule, rate: IntArray, setting: int, num_workers: int) -> int:
    """Write the factors of a setting's score at the rate of ends; return how long its window is.

    The weight of a step is ``γ = r / (r + ρ)`` times that of the step before, rounded down, and
    the window ends where that would be too little.
    """
    lost = rule.losses[setting] * rate[1]
    total = lost + 100 * rate[0]
    weight, columns = FULL_WEIGHT, 0
    while columns < len(rule.reward) and (columns == 0 or weight >= LEAST_WEIGHT):
        rule.reward[columns] = weight
        rule.overflow[columns] = weight * rule.penalty[setting] * num_workers
        weight = weight * lost // max(1, total)
        columns += 1
    return columns
