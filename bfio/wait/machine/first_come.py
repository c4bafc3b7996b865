"""First come, first served: its decisions, and the loop of its compiled runs.

`bfio.wait.fcfs` says what is decided and why, and decides by these functions; so does the loop.
"""

from typing import NamedTuple

from bfio.common.by_reference import by_reference
from bfio.common.compilable import compilable
from bfio.wait.machine.arrays import Filled, Row
from bfio.wait.machine.phases import (
    evict,
    has_room,
    how_it_ends,
    reveal,
    run_batch,
    wait_for_arrival,
)
from bfio.wait.machine.state import (
    COMPLETED,
    GO_ON,
    HELD_TOKENS,
    HOLDING,
    REVEALED,
    STUCK,
    Course,
    Presence,
)
from formulations.arrays import IntArray


class BatchLimits(NamedTuple):
    """Limits of a batch.

    Parameters
    ----------
    new_first : bool
        Whether those that start come first within them, or else those that have started.
    prompts, tokens : int
        Most prompts and tokens in a batch; 0 for any number.
    mixed : bool
        Whether prefills and other stages may share a batch.
    memory : int
        ``C`` [tokens].
    """

    new_first: bool
    prompts: int
    tokens: int
    mixed: bool
    memory: int


class Eligible(NamedTuple):
    """Who is there, in order of arrival, and for each request its prompt and its next stage."""

    held: Row
    waiting: Row
    prompt: IntArray
    stage: IntArray


@compilable
def num_kept(limits: BatchLimits, there: Eligible, tokens: int) -> tuple[int, int]:
    """Return how many of those that hold something can go on together, and their tokens.

    The last to have arrived must go.

    Parameters
    ----------
    limits, there
        The limits and who is there.
    tokens : int
        What all of them count at their next stages.
    """
    kept = len(there.held)
    while tokens > limits.memory:
        kept -= 1
        tokens -= there.prompt[there.held[kept]] + there.stage[there.held[kept]]
    return kept, tokens


@compilable
def num_starts(limits: BatchLimits, there: Eligible, tokens: int) -> int:
    """Return how many may start: in order of arrival, up to the first for whom there is no room.

    Parameters
    ----------
    limits, there
        The limits and who is there.
    tokens : int
        What those that hold something count at their next stages.
    """
    most, starts = len(there.waiting), 0
    if limits.prompts > 0:
        most = min(most, max(0, limits.prompts - (0 if limits.new_first else len(there.held))))
    while starts < most:
        tokens += there.prompt[there.waiting[starts]]
        if tokens > limits.memory:
            break
        starts += 1
    return starts


@compilable
def choose(
    limits: BatchLimits, there: Eligible, tokens: int, has_evicted: bool, batch: Filled
) -> int:
    """Write the next batch to ``batch`` and return how many it has.

    Parameters
    ----------
    limits, there
        The limits, and who is there once all have gone that must.
    tokens : int
        What those that hold something count at their next stages.
    has_evicted : bool
        Whether somebody had to go.
    batch : IntArray or list of int
        Overwritten; with room for everyone.
    """
    held = len(there.held)
    if not limits.new_first:
        count, total = fill(limits, there, there.held, held, (0, 0), batch)
        if count == held:
            starts = num_starts(limits, there, tokens)
            count, _ = fill(limits, there, there.waiting, starts, (count, total), batch)
        return count
    starts = 0 if has_evicted else num_starts(limits, there, tokens)
    count, total = fill(limits, there, there.waiting, starts, (0, 0), batch)
    if count == starts and (limits.mixed or starts == 0):
        count, _ = fill(limits, there, there.held, held, (count, total), batch)
    return count


@compilable
def fill(
    limits: BatchLimits,
    there: Eligible,
    some: Row,
    most: int,
    begun: tuple[int, int],
    batch: Filled,
) -> tuple[int, int]:
    """Add the first of some requests, ``most`` or as many as the limits allow, to the batch.

    A batch has one prompt at least, whatever its tokens.

    Returns
    -------
    tuple of int
        Prompts and tokens of the batch; ``begun`` are those before.
    """
    count, tokens = begun
    for k in range(most):
        tokens += there.prompt[some[k]] + there.stage[some[k]]
        is_full = limits.prompts > 0 and count >= limits.prompts
        if count > 0 and (is_full or (limits.tokens > 0 and tokens > limits.tokens)):
            break
        batch[count] = some[k]
        count += 1
    return count, tokens


@compilable
def eligible(course: Course, presence: Presence) -> Eligible:
    """Return who is there."""
    counters, line = course.counters, presence.line
    first, after = counters[COMPLETED], counters[COMPLETED] + counters[HOLDING]
    waiting = line[after : counters[REVEALED]]
    return Eligible(line[first:after], waiting, course.prompt, presence.stage)


@compilable
def decide(course: Course, presence: Presence, limits: BatchLimits, batch: Filled) -> int:
    """Evict who must go and write the next batch; return how many it has."""
    there, counters = eligible(course, presence), course.counters
    kept, tokens = num_kept(limits, there, counters[HELD_TOKENS])
    evicted = len(there.held) - kept
    for k in range(len(there.held) - 1, kept - 1, -1):
        evict(course, presence, there.held[k])
    return choose(limits, eligible(course, presence), tokens, evicted > 0, batch)


def run_first_come(
    course: Course, presence: Presence, limits: BatchLimits, batch: IntArray
) -> int:
    """Run until the end, and return how it ends, or until the tables need more rows: GO_ON.

    ``batch`` has room for all requests.
    """
    course, presence = by_reference(course), by_reference(presence)
    while True:
        reveal(course)
        ended = how_it_ends(course)
        if ended != GO_ON or not has_room(course, presence):
            return ended
        count = decide(course, presence, limits, batch)
        if count > 0:
            run_batch(course, presence, batch, count)
        elif not wait_for_arrival(course):
            return STUCK
