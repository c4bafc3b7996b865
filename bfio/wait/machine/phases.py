"""The phases of a batch, each stated once for runs that are interpreted and compiled."""

from bfio.common.compilable import compilable
from bfio.wait.instance import MAX_CLOCK
from bfio.wait.machine.arrays import Row, close_gaps, move, place_of
from bfio.wait.machine.state import (
    AT_HORIZON,
    BATCH,
    CLOCK,
    COMPLETED,
    EVICTED,
    FINISHED,
    GO_ON,
    HELD_TOKENS,
    HOLDING,
    NONE,
    REVEALED,
    ROWS,
    STOPPED,
    Course,
    Presence,
)


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
