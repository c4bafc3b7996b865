"""The machine of one engine: its state, and the phases of a batch, stated for both engines."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from bfio.common.compilable import compilable
from bfio.wait.instance import MAX_CLOCK, StageInstance
from formulations.arrays import IntArray

#: Integers, one after the other: compiled runs have arrays, others may have lists.
Row: TypeAlias = IntArray | Sequence[int]
#: The same, to be written to.
Filled: TypeAlias = IntArray | list[int]


def _move(line: IntArray, source: int, target: int) -> None:
    item, step = line[source], 1 if source < target else -1
    for k in range(source, target, step):
        line[k] = line[k + step]
    line[target] = item


@compilable(compiled_as=_move)
def move(line: IntArray, source: int, target: int) -> None:
    """Put the entry at one place to another, and those in between one place towards the first.

    It is stated in numpy and as a loop to be compiled: slices take Numba seconds.
    """
    item = line[source]
    if source < target:
        line[source:target] = line[source + 1 : target + 1]
    elif source > target:
        line[target + 1 : source + 1] = line[target:source]
    line[target] = item


@compilable
def place_of(line: IntArray, first: int, last: int, request: int) -> int:
    """Return where a request stands, or would stand, in the increasing ``line[first:last]``."""
    while first < last:
        middle = (first + last) // 2
        if line[middle] < request:
            first = middle + 1
        else:
            last = middle
    return first


@compilable
def close_gaps(line: IntArray, first: int, last: int, completion: IntArray) -> None:
    """Move those of ``line[first:last]`` that have not completed together, towards its end."""
    free = last
    for k in range(last - 1, first - 1, -1):
        if completion[line[k]] < 0:
            free -= 1
            line[free] = line[k]


# Entries of `Course.counters`: batches run; the time; requests revealed, that hold something, and
# completed; tokens that those who hold something count at their next stages; rows filled of the
# tables of spans or entries, and of evictions.
(BATCH, CLOCK, REVEALED, HOLDING, COMPLETED, HELD_TOKENS, ROWS, EVICTED, NUM_COUNTERS) = range(9)

#: How a run ended, as numbered by `bfio.wait.run.StageVerdict`; GO_ON: it has not.
GO_ON, FINISHED, AT_HORIZON, STUCK, STOPPED = range(5)
#: No time, no request, no batch.
NONE = -1
#: Rows of a new table.
_FIRST_ROWS = 1024


class Ending(NamedTuple):
    """When a run ends.

    Parameters
    ----------
    duration : int
        Clock value from which on no batch starts; -1: when nothing is left to do.
    drain : bool
        Whether policies are told, after the last arrival, to serve what is left.
    batches : int
        Most batches; then the run is given up.
    """

    duration: int = NONE
    drain: bool = True
    batches: int = 10**8


class Course(NamedTuple):
    """What every run has: its constants, how far it has got, the times of requests, its batches.

    Parameters
    ----------
    ending, fixed, per_token
        When it ends, and how long batches last, as in `bfio.wait.instance.StageClock`.
    counters : IntArray or list of int
        See the names of their entries above. Interpreted runs have a list, which is much faster.
    arrival, prompt, output : IntArray
        Shape (n,), as in `bfio.wait.instance.StageInstance`.
    prefilled, first_token, completion : IntArray
        Shape (n,), as in `bfio.wait.run.StageRun`; -1 where it has not happened.
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
    """Who is there, request by request, and what has become of whom.

    Parameters
    ----------
    line : IntArray
        Shape (n,). Those that hold something are ``line[COMPLETED : COMPLETED + HOLDING]``, those
        that wait follow up to REVEALED; either are in order of arrival.
    stage : IntArray
        Shape (n,): which stage each passes next; 0 for those that wait.
    first_batch, first_stage, last_batch : IntArray
        Shape (n,): the *span* of each: batches without a pause in each of which it passed a stage.
    spans : IntArray
        Shape (J and more, 4): request, first batch, first stage, number of batches.
    evictions : IntArray
        Shape (V and more, 2): request, and batch before which it happened.
    """

    line: IntArray
    stage: IntArray
    first_batch: IntArray
    first_stage: IntArray
    last_batch: IntArray
    spans: IntArray
    evictions: IntArray


def new_course(instance: StageInstance, ending: Ending) -> Course:
    """Return a run at its beginning, to be interpreted."""
    n = len(instance)
    return Course(
        ending=ending,
        fixed=instance.clock.fixed,
        per_token=instance.clock.per_token,
        counters=[0] * NUM_COUNTERS,
        # Copies: contiguous and writeable, so that one machine code serves all.
        arrival=instance.arrival.copy(),
        prompt=instance.prompt.copy(),
        output=instance.output.copy(),
        prefilled=filled(n, NONE),
        first_token=filled(n, NONE),
        completion=filled(n, NONE),
        batches=new_table(6),
    )


def new_presence(n: int) -> Presence:
    """Return n requests none of which has started."""
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
    """Return so many equal integers."""
    return np.full(length, value, dtype=np.int64)


def new_table(columns: int) -> IntArray:
    """Return an empty table."""
    return np.empty((_FIRST_ROWS, columns), dtype=np.int64)


def with_rows(table: IntArray, rows: int) -> IntArray:
    """Return the table itself if it has so many rows, or a copy with at least twice its own."""
    if rows <= len(table):
        return table
    larger = np.empty((max(rows, 2 * len(table)), table.shape[1]), dtype=np.int64)
    larger[: len(table)] = table
    return larger


@compilable
def reveal(course: Course) -> None:
    """Let everything arrive that has by now."""
    counters, arrival = course.counters, course.arrival
    revealed = counters[REVEALED]
    while revealed < len(arrival) and arrival[revealed] <= counters[CLOCK]:
        revealed += 1
    counters[REVEALED] = revealed


@compilable
def how_it_ends(course: Course) -> int:
    """Return how the run ends before the next decision, GO_ON if it does not."""
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
    """Return the number of waiting requests: arrived, with no token in memory."""
    counters = course.counters
    return int(counters[REVEALED] - counters[COMPLETED] - counters[HOLDING])


@compilable
def wait_for_arrival(course: Course) -> bool:
    """Let the clock jump to the next arrival; False if there is none."""
    upcoming = course.counters[REVEALED]
    if upcoming >= len(course.arrival):
        return False
    course.counters[CLOCK] = int(course.arrival[upcoming])
    return True


@compilable
def record_batch(course: Course, tokens: int, memory: int, prompts: int, waiting: int) -> None:
    """Write a batch down, and let its time pass."""
    counters, duration = course.counters, course.fixed + course.per_token * tokens
    row = course.batches[counters[BATCH]]
    row[0], row[1], row[2] = counters[CLOCK], duration, tokens
    row[3], row[4], row[5] = memory, prompts, waiting
    counters[CLOCK] += duration
    counters[BATCH] += 1


@compilable
def note_given(course: Course, request: int, stage: int) -> None:
    """Note the end of a stage that gives a request its prefill or its first token.

    What a user has been given stays given: a restart moves neither of the two times.
    """
    if stage == 0 and course.prefilled[request] == NONE:
        course.prefilled[request] = course.counters[CLOCK]
    if stage == min(1, course.output[request]) and course.first_token[request] == NONE:
        course.first_token[request] = course.counters[CLOCK]


@compilable
def complete(course: Course, request: int) -> None:
    """Let a request leave whose last stage has ended."""
    course.completion[request] = course.counters[CLOCK]
    course.counters[COMPLETED] += 1
    course.counters[HOLDING] -= 1


@compilable
def evict(course: Course, there: Presence, request: int) -> None:
    """Take away what a request holds; it waits again at its place in order of arrival."""
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
    """Put a waiting request among those that hold something."""
    counters, first = course.counters, course.counters[COMPLETED]
    after = first + counters[HOLDING]
    source = place_of(there.line, after, counters[REVEALED], request)
    move(there.line, source, place_of(there.line, first, after, request))
    counters[HOLDING] += 1
    counters[HELD_TOKENS] += course.prompt[request]


@compilable
def run_batch(course: Course, there: Presence, batch: Row, count: int) -> None:
    """Let the first ``count`` requests of ``batch`` pass a stage each."""
    counters = course.counters
    tokens, waiting = 0, num_waiting(course)
    for k in range(count):
        tokens += int(course.prompt[batch[k]] + there.stage[batch[k]])
        if there.stage[batch[k]] == 0:
            start(course, there, batch[k])
    # Who pauses holds one token less than the next stage counts.
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
    """Note that a request has passed a stage in the batch that has just run."""
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
    """Write the span of a request that has ended."""
    row, first = there.spans[course.counters[ROWS]], there.first_batch[request]
    row[0], row[1], row[2] = request, first, there.first_stage[request]
    row[3] = there.last_batch[request] - first + 1
    course.counters[ROWS] += 1


@compilable
def has_room(course: Course, there: Presence) -> bool:
    """Whether the tables have room for a batch before which all that are there are evicted."""
    counters = course.counters
    present = counters[REVEALED] - counters[COMPLETED]
    return bool(
        counters[BATCH] < len(course.batches)
        and counters[ROWS] + present <= len(there.spans)
        and counters[EVICTED] + present <= len(there.evictions)
    )
