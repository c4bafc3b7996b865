"""State of one engine and phases of a batch, shared by the compiled and the reference engine."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from bfio.common.compilable import compilable
from bfio.wait.policy import MAX_CLOCK, StageInstance
from formulations.arrays import IntArray

#: A sequence of integers: an array in compiled runs, possibly a list in interpreted ones.
Row: TypeAlias = IntArray | Sequence[int]
#: A writable sequence of integers.
Filled: TypeAlias = IntArray | list[int]


def _move(line: IntArray, source: int, target: int) -> None:
    item, step = line[source], 1 if source < target else -1
    for k in range(source, target, step):
        line[k] = line[k + step]
    line[target] = item


@compilable(compiled_as=_move)
def move(line: IntArray, source: int, target: int) -> None:
    """Move the entry at ``source`` to ``target`` and shift the entries in between by one place.

    The compiled version is a loop, because slices take Numba seconds to compile.
    """
    item = line[source]
    if source < target:
        line[source:target] = line[source + 1 : target + 1]
    elif source > target:
        line[target + 1 : source + 1] = line[target:source]
    line[target] = item


@compilable
def place_of(line: IntArray, first: int, last: int, request: int) -> int:
    """Return the index of a request in the increasing ``line[first:last]``, by binary search."""
    while first < last:
        middle = (first + last) // 2
        if line[middle] < request:
            first = middle + 1
        else:
            last = middle
    return first


@compilable
def close_gaps(line: IntArray, first: int, last: int, completion: IntArray) -> None:
    """Move the entries of ``line[first:last]`` that are not completed to the end of the range."""
    free = last
    for k in range(last - 1, first - 1, -1):
        if completion[line[k]] < 0:
            free -= 1
            line[free] = line[k]


# Entries of `Course.counters`: batches run; clock; requests arrived, requests with tokens in
# memory, requests completed; tokens that requests in memory need for their next stages; filled
# rows of the table of spans or entries, and of the table of evictions.
(BATCH, CLOCK, REVEALED, HOLDING, COMPLETED, HELD_TOKENS, ROWS, EVICTED, NUM_COUNTERS) = range(9)

#: End of a run, in the order of `bfio.wait.run.StageVerdict`; GO_ON: not ended.
GO_ON, FINISHED, AT_HORIZON, STUCK, STOPPED = range(5)
#: No time, request or batch.
NONE = -1
#: Rows of a new table.
_FIRST_ROWS = 1024


class Ending(NamedTuple):
    """Conditions that end a run.

    Parameters
    ----------
    duration : int
        Clock value from which no batch starts; -1: the run ends when no work is left.
    drain : bool
        Whether policies serve all remaining requests after the last arrival, without thresholds.
    batches : int
        Maximum number of batches; then the run stops.
    """

    duration: int = NONE
    drain: bool = True
    batches: int = 10**8


class Course(NamedTuple):
    """State of a run shared by all engines: constants, counters, times of requests, and batches.

    Parameters
    ----------
    ending, fixed, per_token
        End of the run, and duration of batches as in `bfio.wait.policy.StageClock`.
    counters : IntArray or list of int
        Entries as listed above. Interpreted runs use a list, which is much faster.
    arrival, prompt, output : IntArray
        Shape (n,), as in `bfio.wait.policy.StageInstance`.
    prefilled, first_token, completion : IntArray
        Shape (n,), as in `bfio.wait.run.StageRun`; -1 if not yet reached.
    batches : IntArray
        Shape (K and more, 6): the columns of `bfio.wait.run.StageBatches`.
    """

    ending: Ending
    fixed: int
    per_token: int
    counters: Filled
    arrival: IntArray
    prompt: IntArray
    output: IntArray
    prefilled: IntArray
    first_token: IntArray
    completion: IntArray
    batches: IntArray


class Presence(NamedTuple):
    """Waiting and started requests, with the stage and the current span of each.

    Parameters
    ----------
    line : IntArray
        Shape (n,): completed requests, then ``HOLDING`` requests with tokens in memory, then the
        waiting ones up to ``REVEALED``. The last two groups are in order of arrival.
    stage : IntArray
        Shape (n,): next stage of each request; 0 for waiting ones.
    first_batch, first_stage, last_batch : IntArray
        Shape (n,): the *span* of each: consecutive batches in each of which it passed a stage.
    spans : IntArray
        Shape (J and more, 4): request, first batch, first stage, number of batches.
    evictions : IntArray
        Shape (V and more, 2): request, and the batch that follows the eviction.
    """

    line: IntArray
    stage: IntArray
    first_batch: IntArray
    first_stage: IntArray
    last_batch: IntArray
    spans: IntArray
    evictions: IntArray


def new_course(instance: StageInstance, ending: Ending) -> Course:
    """Return the initial state of a run, for the interpreted engine."""
    n = len(instance)
    return Course(
        ending=ending,
        fixed=instance.clock.fixed,
        per_token=instance.clock.per_token,
        counters=[0] * NUM_COUNTERS,
        # Copies are contiguous and writable, so that a single compiled version suffices.
        arrival=instance.arrival.copy(),
        prompt=instance.prompt.copy(),
        output=instance.output.copy(),
        prefilled=filled(n, NONE),
        first_token=filled(n, NONE),
        completion=filled(n, NONE),
        batches=new_table(6),
    )


def new_presence(n: int) -> Presence:
    """Return the initial state of n requests, none of them started."""
    return Presence(
        line=np.arange(n, dtype=np.int64),
        stage=filled(n),
        first_batch=filled(n, NONE),
        first_stage=filled(n, NONE),
        last_batch=filled(n, NONE),
        spans=new_table(4),
        evictions=new_table(2),
    )


def filled(length: int, value: int = 0) -> IntArray:
    """Return an array of equal integers."""
    return np.full(length, value, dtype=np.int64)


def new_table(columns: int) -> IntArray:
    """Return an empty table."""
    return np.empty((_FIRST_ROWS, columns), dtype=np.int64)


def with_rows(table: IntArray, rows: int) -> IntArray:
    """Return the table if it has enough rows, else a copy with at least twice its rows."""
    if rows <= len(table):
        return table
    larger = np.empty((max(rows, 2 * len(table)), table.shape[1]), dtype=np.int64)
    larger[: len(table)] = table
    return larger


@compilable
def reveal(course: Course) -> None:
    """Count the requests that have arrived so far."""
    counters, arrival = course.counters, course.arrival
    revealed = counters[REVEALED]
    while revealed < len(arrival) and arrival[revealed] <= counters[CLOCK]:
        revealed += 1
    counters[REVEALED] = revealed


@compilable
def how_it_ends(course: Course) -> int:
    """Return the ending code before the next decision, or GO_ON."""
    counters, ending = course.counters, course.ending
    if ending.duration != NONE and counters[CLOCK] >= ending.duration:
        return AT_HORIZON
    if counters[COMPLETED] == len(course.arrival):
        return FINISHED
    if counters[BATCH] >= ending.batches or counters[CLOCK] >= MAX_CLOCK:
        return STOPPED
    return GO_ON


@compilable
def num_waiting(course: Course) -> int:
    """Return the number of waiting requests: arrived, without tokens in memory."""
    counters = course.counters
    return int(counters[REVEALED] - counters[COMPLETED] - counters[HOLDING])


@compilable
def wait_for_arrival(course: Course) -> bool:
    """Advance the clock to the next arrival; return False if there is none."""
    upcoming = course.counters[REVEALED]
    if upcoming >= len(course.arrival):
        return False
    course.counters[CLOCK] = int(course.arrival[upcoming])
    return True


@compilable
def record_batch(course: Course, tokens: int, memory: int, prompts: int, waiting: int) -> None:
    """Record a batch and advance the clock by its duration."""
    counters, duration = course.counters, course.fixed + course.per_token * tokens
    row = course.batches[counters[BATCH]]
    row[0], row[1], row[2] = counters[CLOCK], duration, tokens
    row[3], row[4], row[5] = memory, prompts, waiting
    counters[CLOCK] += duration
    counters[BATCH] += 1


@compilable
def note_given(course: Course, request: int, stage: int) -> None:
    """Record the end of a request's prefill or first token, if it is the first time.

    A user keeps a token that was delivered, so a restart does not change these times.
    """
    if stage == 0 and course.prefilled[request] == NONE:
        course.prefilled[request] = course.counters[CLOCK]
    if stage == min(1, course.output[request]) and course.first_token[request] == NONE:
        course.first_token[request] = course.counters[CLOCK]


@compilable
def complete(course: Course, request: int) -> None:
    """Complete a request whose last stage has ended."""
    course.completion[request] = course.counters[CLOCK]
    course.counters[COMPLETED] += 1
    course.counters[HOLDING] -= 1


@compilable
def evict(course: Course, there: Presence, request: int) -> None:
    """Evict a request: it loses its tokens and waits again, in order of arrival."""
    counters, first = course.counters, course.counters[COMPLETED]
    after = first + counters[HOLDING]
    source = place_of(there.line, first, after, request)
    move(there.line, source, place_of(there.line, after, counters[REVEALED], request) - 1)
    row = counters[EVICTED]
    there.evictions[row, 0], there.evictions[row, 1] = request, counters[BATCH]
    counters[EVICTED] += 1
    counters[HOLDING] -= 1
    counters[HELD_TOKENS] -= course.prompt[request] + there.stage[request]
    there.stage[request] = 0


@compilable
def start(course: Course, there: Presence, request: int) -> None:
    """Move a waiting request to the requests with tokens in memory."""
    counters, first = course.counters, course.counters[COMPLETED]
    after = first + counters[HOLDING]
    source = place_of(there.line, after, counters[REVEALED], request)
    move(there.line, source, place_of(there.line, first, after, request))
    counters[HOLDING] += 1
    counters[HELD_TOKENS] += course.prompt[request]


@compilable
def run_batch(course: Course, there: Presence, batch: Row, count: int) -> None:
    """Pass one stage of each of the first ``count`` requests in ``batch``."""
    counters = course.counters
    tokens, waiting = 0, num_waiting(course)
    for k in range(count):
        tokens += int(course.prompt[batch[k]] + there.stage[batch[k]])
        if there.stage[batch[k]] == 0:
            start(course, there, batch[k])
    # A paused request holds one token less than its next stage needs.
    memory = counters[HELD_TOKENS] - (counters[HOLDING] - count)
    record_batch(course, tokens, memory, count, waiting)
    counters[HELD_TOKENS] += count
    first = counters[COMPLETED]
    for k in range(count):
        pass_stage(course, there, batch[k])
    if counters[COMPLETED] > first:
        after = counters[COMPLETED] + counters[HOLDING]
        close_gaps(there.line, first, after, course.completion)


@compilable
def pass_stage(course: Course, there: Presence, request: int) -> None:
    """Update the stage and the span of a request after a batch."""
    batch, stage = course.counters[BATCH] - 1, int(there.stage[request])
    last = there.last_batch[request]
    if last != batch - 1 or stage == 0:
        if last != NONE:
            close_span(course, there, request)
        there.first_batch[request], there.first_stage[request] = batch, stage
    there.last_batch[request] = batch
    note_given(course, request, stage)
    there.stage[request] = stage + 1
    if stage == course.output[request]:
        complete(course, request)
        course.counters[HELD_TOKENS] -= course.prompt[request] + stage + 1


@compilable
def close_span(course: Course, there: Presence, request: int) -> None:
    """Write the completed span of a request to the table."""
    row, first = there.spans[course.counters[ROWS]], there.first_batch[request]
    row[0], row[1], row[2] = request, first, there.first_stage[request]
    row[3] = there.last_batch[request] - first + 1
    course.counters[ROWS] += 1


@compilable
def has_room(course: Course, there: Presence) -> bool:
    """Return whether the tables have rows for the worst case of a batch: all requests evicted."""
    counters = course.counters
    present = counters[REVEALED] - counters[COMPLETED]
    return bool(
        counters[BATCH] < len(course.batches)
        and counters[ROWS] + present <= len(there.spans)
        and counters[EVICTED] + present <= len(there.evictions)
    )
