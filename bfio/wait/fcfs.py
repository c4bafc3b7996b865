"""First come, first served with the batch's limits: the baselines of the paper's experiments.

Requests start in order of arrival, as long as everyone present could pass another stage within the
memory. When those present outgrow it, the last to have arrived lose what they hold and wait
again, from stage 0. The published serving systems differ in whom the limit on prompts per batch
favours:

- *new first*, as in vLLM: requests that wait for their prefill; the others pause if need be, and
  keep what they hold. After an eviction nothing starts with the next batch: otherwise starts and
  evictions could take turns for ever. ``mixed=False``: a batch with prefills has nothing else.
- *ongoing first*, as in Sarathi: those that have started.

Without limits it is the naive FCFS of proposition 4. The tokens of a batch may be limited too,
though a batch has one prompt at least.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from bfio.common.by_reference import by_reference
from bfio.common.compilable import compilable
from bfio.common.memory_fit import refuse_oversized
from bfio.wait.instance import StageInstance
from bfio.wait.machine import (
    COMPLETED,
    GO_ON,
    HELD_TOKENS,
    HOLDING,
    REVEALED,
    STUCK,
    Course,
    Filled,
    Presence,
    Row,
    evict,
    has_room,
    how_it_ends,
    reveal,
    run_batch,
    wait_for_arrival,
)
from bfio.wait.policy import Decision, StageState
from formulations.arrays import IntArray, integer
from formulations.errors import InputError


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


class Favour(StrEnum):
    """Whom the limits of a batch favour."""

    NEW = "new"
    ONGOING = "ongoing"


@dataclass(frozen=True)
class FirstComeFirstServed:
    """FCFS with limits; see the module.

    Parameters
    ----------
    favour : Favour
        Who comes first within the limits.
    limit : int
        Most prompts in a batch; 0 for any number.
    token_limit : int
        Most tokens in a batch; 0 for any number.
    mixed : bool
        Whether prefills and other stages may share a batch.
    """

    favour: Favour = Favour.ONGOING
    limit: int = 0
    token_limit: int = 0
    mixed: bool = True

    def __post_init__(self) -> None:
        """Validate."""
        integer(self.limit, "limit")
        integer(self.token_limit, "token_limit")
        if not self.mixed and self.favour is Favour.ONGOING:
            raise InputError(
                "mixed", "with ongoing first, prefills alone would never come", "favour new ones"
            )

    def check(self, instance: StageInstance) -> None:
        """Refuse requests that do not fit into the memory alone.

        Raises
        ------
        InputError
            If there are such.
        """
        refuse_oversized(
            instance.peaks > instance.memory, instance.memory, "raise memory or leave them out"
        )

    def limits(self, memory: int) -> BatchLimits:
        """Return its limits on an engine."""
        is_new_first = self.favour is Favour.NEW
        return BatchLimits(is_new_first, self.limit, self.token_limit, self.mixed, memory)

    def __call__(self, state: StageState) -> Decision:
        """Return the next batch and whom to evict before it."""
        there = Eligible(state.held, state.waiting, state.instance.prompt, state.stage)
        limits = self.limits(state.instance.memory)
        tokens = sum(int(there.prompt[i] + there.stage[i]) for i in state.held)
        kept, tokens = num_kept(limits, there, tokens)
        evicted = state.held[kept:]
        if evicted:
            # Who has just lost everything waits again, before all later arrivals.
            stage = state.stage.copy()
            stage[evicted] = 0
            there = Eligible(state.held[:kept], [*evicted, *state.waiting], there.prompt, stage)
        batch = [0] * (len(there.held) + len(there.waiting))
        count = choose(limits, there, tokens, len(evicted) > 0, batch)
        return Decision(batch[:count], evicted[::-1])
