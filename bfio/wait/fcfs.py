"""First come, first served with limits on a batch: baselines of the paper's experiments.

Requests start in order of arrival while the next stages of all started requests fit the memory.
When the started requests exceed the memory, those that arrived last lose their tokens and wait
again at stage 0. Published serving systems differ in the requests to which the limit of prompts
per batch gives priority:

- *new first*, as in vLLM: requests that wait for their prefill. The others pause if necessary and
  keep their tokens. After an eviction no request starts in the next batch: otherwise starts and
  evictions could alternate forever. With ``mixed=False``, a batch with prefills has no other
  stages.
- *ongoing first*, as in Sarathi: requests that have started.

Without limits this is the naive FCFS of proposition 4. The tokens of a batch can be limited too; a
batch has at least one prompt.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from bfio.common.compilable import compilable
from bfio.common.memory import refuse_oversized
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
from bfio.wait.policy import Decision, StageInstance, StageState
from formulations.arrays import IntArray, integer
from formulations.errors import InputError


class BatchLimits(NamedTuple):
    """Limits of a batch.

    Parameters
    ----------
    new_first : bool
        Whether new requests have priority over started ones.
    prompts, tokens : int
        Maximum prompts and tokens of a batch; 0 for no limit.
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
    """Waiting and started requests in order of arrival, with prompt and next stage of each."""

    held: Row
    waiting: Row
    prompt: IntArray
    stage: IntArray


@compilable
def num_kept(limits: BatchLimits, there: Eligible, tokens: int) -> tuple[int, int]:
    """Return how many held requests fit the memory together, and their tokens.

    The requests that arrived last are removed first.

    Parameters
    ----------
    limits, there
        The limits and the present requests.
    tokens : int
        Tokens that all held requests need for their next stages.
    """
    kept = len(there.held)
    while tokens > limits.memory:
        kept -= 1
        tokens -= there.prompt[there.held[kept]] + there.stage[there.held[kept]]
    return kept, tokens


@compilable
def num_starts(limits: BatchLimits, there: Eligible, tokens: int) -> int:
    """Return how many requests may start, in order of arrival, until one does not fit.

    Parameters
    ----------
    limits, there
        The limits and the present requests.
    tokens : int
        Tokens that held requests need for their next stages.
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
    """Write the next batch to ``batch`` and return its number of requests.

    Parameters
    ----------
    limits, there
        The limits, and the present requests after evictions.
    tokens : int
        Tokens that held requests need for their next stages.
    has_evicted : bool
        Whether a request was evicted.
    batch : IntArray or list of int
        Overwritten; has room for all present requests.
    """
    held = len(there.held)
    if not limits.new_first:
        count, total = fill(limits, there, there.held, held, (0, 0), batch)
        if count == held:
            starts = num_starts(limits, there, tokens)
            count, _ = fill(limits, there, there.waiting, starts, (count, total), batch)
        return count
    # No starts after an eviction: starts and evictions could alternate forever.
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
    """Add up to ``most`` of the given requests to the batch, as far as the limits allow.

    A batch has at least one prompt, even if it exceeds the limit of tokens.

    Returns
    -------
    tuple of int
        Prompts and tokens of the batch; ``begun`` are those before the call.
    """
    count, tokens = begun
    for k in range(most):
        tokens += there.prompt[some[k]] + there.stage[some[k]]
        is_full = limits.prompts > 0 and count >= limits.prompts
        # The first prompt is accepted even if it exceeds the limit of tokens.
        if count > 0 and (is_full or (limits.tokens > 0 and tokens > limits.tokens)):
            break
        batch[count] = some[k]
        count += 1
    return count, tokens


@compilable
def eligible(course: Course, presence: Presence) -> Eligible:
    """Return the waiting and started requests."""
    counters, line = course.counters, presence.line
    first, after = counters[COMPLETED], counters[COMPLETED] + counters[HOLDING]
    waiting = line[after : counters[REVEALED]]
    return Eligible(line[first:after], waiting, course.prompt, presence.stage)


@compilable
def decide(course: Course, presence: Presence, limits: BatchLimits, batch: Filled) -> int:
    """Evict requests that exceed the memory, and write the next batch; return its size."""
    there, counters = eligible(course, presence), course.counters
    kept, tokens = num_kept(limits, there, counters[HELD_TOKENS])
    evicted = len(there.held) - kept
    for k in range(len(there.held) - 1, kept - 1, -1):
        evict(course, presence, there.held[k])
    return choose(limits, eligible(course, presence), tokens, evicted > 0, batch)


def run_first_come(
    course: Course, presence: Presence, limits: BatchLimits, batch: IntArray
) -> int:
    """Run until the end or until a table is full; return the ending code, or GO_ON.

    ``batch`` has room for all requests.
    """
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
    """Requests with priority within the limits of a batch."""

    NEW = "new"
    ONGOING = "ongoing"


@dataclass(frozen=True)
class FirstComeFirstServed:
    """FCFS with limits; see the module docstring.

    Parameters
    ----------
    favour : Favour
        Requests with priority within the limits.
    limit : int
        Maximum prompts in a batch; 0 for no limit.
    token_limit : int
        Maximum tokens in a batch; 0 for no limit.
    mixed : bool
        Whether prefills and other stages may share a batch.
    """

    favour: Favour = Favour.ONGOING
    limit: int = 0
    token_limit: int = 0
    mixed: bool = True

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        integer(self.limit, "limit")
        integer(self.token_limit, "token_limit")
        if not self.mixed and self.favour is Favour.ONGOING:
            raise InputError("mixed", "mixed=False requires favour = new", "favour new requests")

    def check(self, instance: StageInstance) -> None:
        """Raise an error for a request that alone exceeds the memory.

        Raises
        ------
        InputError
            If there is such a request.
        """
        refuse_oversized(
            instance.peaks > instance.memory,
            instance.memory,
            "raise memory, or remove these requests",
        )

    def limits(self, memory: int) -> BatchLimits:
        """Return the limits of the policy on an engine."""
        is_new_first = self.favour is Favour.NEW
        return BatchLimits(is_new_first, self.limit, self.token_limit, self.mixed, memory)

    def __call__(self, state: StageState) -> Decision:
        """Return the requests of the next batch, and the evictions before it."""
        there = Eligible(state.held, state.waiting, state.instance.prompt, state.stage)
        limits = self.limits(state.instance.memory)
        tokens = sum(int(there.prompt[i] + there.stage[i]) for i in state.held)
        kept, tokens = num_kept(limits, there, tokens)
        evicted = state.held[kept:]
        if evicted:
            # Evicted requests wait again, before all later arrivals.
            stage = state.stage.copy()
            stage[evicted] = 0
            there = Eligible(state.held[:kept], [*evicted, *state.waiting], there.prompt, stage)
        batch = [0] * (len(there.held) + len(there.waiting))
        count = choose(limits, there, tokens, len(evicted) > 0, batch)
        return Decision(batch[:count], evicted[::-1])
