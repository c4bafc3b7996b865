"""Compiled runs of threshold policies, with the results of `bfio.wait.chains`.

Beyond its first stage a segment consists of cohorts that advance together, so a request needs no
work while it passes a segment. On entry it joins a list of requests that leave at the same advance
of the segment; a ring holds one list per stage. Tokens are kept as sums, which grow by the number
of members with each advance. The cost of a batch is proportional to its entries and exits, not to
the stages that its requests pass.
"""

from typing import NamedTuple

from bfio.common.compilable import compilable
from bfio.wait.machine import (
    BATCH,
    CLOCK,
    GO_ON,
    HOLDING,
    NONE,
    REVEALED,
    ROWS,
    STUCK,
    Course,
    Row,
    complete,
    how_it_ends,
    note_given,
    num_waiting,
    record_batch,
    reveal,
)
from formulations.arrays import IntArray


class Cohorts(NamedTuple):
    """State of the chains, of the queues before segments, and of the members within them.

    There are S segments and P chains. ``of_chain`` lists the requests chain after chain; those of
    chain c start at ``first_of_chain[c]``. ``first[c]`` is the first segment of chain c. Both
    index arrays have an extra last entry.

    Parameters
    ----------
    chain, of_chain, following : IntArray
        Shape (n,): chain of each request; requests by chain; links between requests of one queue
        or of one list of a ring.
    first_of_chain, first : IntArray
        Shape (P + 1,).
    entry, end, threshold : IntArray
        Shape (S,): first and last stage of each segment, and its threshold.
    ring : IntArray
        Shape (S + 1,): start of each segment's ring.
    queue_first, queue_last, queue_size, queue_tokens : IntArray
        Shape (S,): ends of each queue (unused before a first segment), its requests, and the
        tokens they hold.
    members, tokens, advances : IntArray
        Shape (S,): requests in each segment, tokens that they need for their next stages, and
        number of advances.
    ring_first, ring_last : IntArray
        Shape (stages of all segments,).
    taken, cohort, before, level : IntArray
        Shape (P,): requests of a chain that have started; that had started before its last batch,
        and before the present batch; segments that the present batch serves.
    levels : IntArray
        Shape (K and more, P): number of leading segments of each chain that each batch serves.
    entries : IntArray
        Shape (J and more, 3): request, segment, batch; has room for all possible entries.
    """

    chain: IntArray
    of_chain: IntArray
    following: IntArray
    first_of_chain: IntArray
    first: IntArray
    entry: IntArray
    end: IntArray
    threshold: IntArray
    ring: IntArray
    queue_first: IntArray
    queue_last: IntArray
    queue_size: IntArray
    queue_tokens: IntArray
    members: IntArray
    tokens: IntArray
    advances: IntArray
    ring_first: IntArray
    ring_last: IntArray
    taken: IntArray
    cohort: IntArray
    before: IntArray
    level: IntArray
    levels: IntArray
    entries: IntArray


@compilable
def served_level(waiting: Row, thresholds: Row) -> int:
    """Return the number of leading segments whose queues reach their thresholds."""
    level = 0
    while level < len(thresholds) and waiting[level] >= thresholds[level]:
        level += 1
    return level


@compilable
def append(first: IntArray, last: IntArray, following: IntArray, place: int, request: int) -> None:
    """Append a request to a linked list."""
    following[request] = NONE
    if first[place] == NONE:
        first[place] = request
    else:
        following[last[place]] = request
    last[place] = request


@compilable
def let_wait(course: Course, cohorts: Cohorts) -> None:
    """Add newly arrived requests to the queues of their first segments."""
    known = course.counters[REVEALED]
    reveal(course)
    for i in range(known, course.counters[REVEALED]):
        cohorts.queue_size[cohorts.first[cohorts.chain[i]]] += 1


@compilable
def level_of(cohorts: Cohorts, chain: int, draining: bool) -> int:
    """Return the number of leading segments that the next batch serves; 0 for an empty chain."""
    first, after = cohorts.first[chain], cohorts.first[chain + 1]
    if not draining:
        return served_level(cohorts.queue_size[first:after], cohorts.threshold[first:after])
    for s in range(first, after):
        if cohorts.queue_size[s] > 0 or cohorts.members[s] > 0:
            return int(after - first)
    return 0


@compilable
def choose_levels(course: Course, cohorts: Cohorts) -> bool:
    """Choose the segments served by the next batch; return whether there are any."""
    is_last = course.counters[REVEALED] == len(course.arrival)
    draining = course.ending.drain and is_last
    serves = False
    for c in range(len(cohorts.level)):
        cohorts.level[c] = level_of(cohorts, c, draining)
        serves = serves or cohorts.level[c] > 0
    return serves


@compilable
def wait_for_trigger(course: Course, cohorts: Cohorts) -> bool:
    """Advance the clock to the next time at which a chain can be served; return False if never."""
    n, found = len(course.arrival), NONE
    for c in range(len(cohorts.level)):
        # While the engine is idle, only the queues of first segments grow.
        needed = cohorts.threshold[cohorts.first[c]]
        place = cohorts.first_of_chain[c] + cohorts.taken[c] + needed - 1
        if place < cohorts.first_of_chain[c + 1]:
            time = course.arrival[cohorts.of_chain[place]]
            if found == NONE or time < found:
                found = time
    if found == NONE and course.ending.drain and course.counters[REVEALED] < n:
        found = course.arrival[n - 1]
    if found == NONE:
        return False
    course.counters[CLOCK] = found
    return True


@compilable
def enter(course: Course, cohorts: Cohorts, request: int, segment: int) -> None:
    """Add a request to a segment, in the list of requests that leave at the same advance."""
    entry, end = cohorts.entry[segment], cohorts.end[segment]
    last = min(course.output[request], end)
    # The advance at which the request leaves, modulo the length of the ring.
    advance = (cohorts.advances[segment] + last - entry) % (end - entry + 1)
    place = cohorts.ring[segment] + advance
    append(cohorts.ring_first, cohorts.ring_last, cohorts.following, place, request)
    cohorts.members[segment] += 1
    cohorts.tokens[segment] += course.prompt[request] + entry


@compilable
def admit(course: Course, cohorts: Cohorts, chain: int, segment: int) -> None:
    """Let requests enter a segment, at most its threshold."""
    count = min(cohorts.threshold[segment], cohorts.queue_size[segment])
    cohorts.queue_size[segment] -= count
    is_first = segment == cohorts.first[chain]
    for _ in range(count):
        if is_first:
            # The first queue is not linked: requests of a chain start in order of arrival.
            i = cohorts.of_chain[cohorts.first_of_chain[chain] + cohorts.taken[chain]]
            cohorts.taken[chain] += 1
            course.counters[HOLDING] += 1
        else:
            i = cohorts.queue_first[segment]
            cohorts.queue_first[segment] = cohorts.following[i]
            # A request that waits for stage k holds prompt + k − 1 tokens.
            cohorts.queue_tokens[segment] -= course.prompt[i] + cohorts.entry[segment] - 1
        enter(course, cohorts, i, segment)
        entry = cohorts.entries[course.counters[ROWS]]
        entry[0], entry[1], entry[2] = i, segment, course.counters[BATCH]
        course.counters[ROWS] += 1


@compilable
def advance(course: Course, cohorts: Cohorts, segment: int) -> None:
    """Advance all members of a segment by one stage."""
    entry, end = cohorts.entry[segment], cohorts.end[segment]
    place = cohorts.ring[segment] + cohorts.advances[segment] % (end - entry + 1)
    # The list at this place of the ring holds the members that leave the segment now.
    i = cohorts.ring_first[place]
    cohorts.ring_first[place] = NONE
    while i != NONE:
        following, last = cohorts.following[i], min(course.output[i], end)
        cohorts.members[segment] -= 1
        cohorts.tokens[segment] -= course.prompt[i] + last
        if last == course.output[i]:
            complete(course, i)
        else:
            append(cohorts.queue_first, cohorts.queue_last, cohorts.following, segment + 1, i)
            cohorts.queue_size[segment + 1] += 1
            cohorts.queue_tokens[segment + 1] += course.prompt[i] + end
        i = following
    # The next stage of each remaining member counts one token more.
    cohorts.tokens[segment] += cohorts.members[segment]
    cohorts.advances[segment] += 1


@compilable
def note_entrants(course: Course, cohorts: Cohorts, first_row: int) -> None:
    """Record the first tokens and prefills of requests that entered a segment in this batch."""
    for row in range(first_row, course.counters[ROWS]):
        request, segment = cohorts.entries[row, 0], cohorts.entries[row, 1]
        note_given(course, request, cohorts.entry[segment])


@compilable
def note_followers(course: Course, cohorts: Cohorts, chain: int) -> None:
    """Record the end of stage 1 for requests that started in the chain's previous batch."""
    base = cohorts.first_of_chain[chain]
    if cohorts.end[cohorts.first[chain]] > 0:
        for place in range(base + cohorts.cohort[chain], base + cohorts.before[chain]):
            note_given(course, cohorts.of_chain[place], 1)
    cohorts.cohort[chain] = cohorts.before[chain]


@compilable
def paused_tokens(cohorts: Cohorts) -> int:
    """Return the tokens of paused requests, which occupy memory but are not in the batch."""
    held = 0
    for c in range(len(cohorts.level)):
        first = cohorts.first[c]
        for s in range(first, cohorts.first[c + 1]):
            held += cohorts.queue_tokens[s]
            if s >= first + cohorts.level[c]:
                # A paused member holds one token less than its next stage needs.
                held += cohorts.tokens[s] - cohorts.members[s]
    return held


@compilable
def run_levels(course: Course, cohorts: Cohorts) -> None:
    """Run the batch of the chosen segments."""
    tokens, prompts, waiting = 0, 0, num_waiting(course)
    batch, first_row = course.counters[BATCH], course.counters[ROWS]
    for c in range(len(cohorts.level)):
        cohorts.levels[batch, c] = cohorts.level[c]
        cohorts.before[c] = cohorts.taken[c]
        # All segments admit before one advances: a request passes one stage per batch.
        for s in range(cohorts.first[c], cohorts.first[c] + cohorts.level[c]):
            admit(course, cohorts, c, s)
            tokens += cohorts.tokens[s]
            prompts += cohorts.members[s]
    memory = tokens + paused_tokens(cohorts)
    record_batch(course, tokens, memory, prompts, waiting)
    for c in range(len(cohorts.level)):
        for s in range(cohorts.first[c], cohorts.first[c] + cohorts.level[c]):
            advance(course, cohorts, s)
        if cohorts.level[c] > 0:
            note_followers(course, cohorts, c)
    note_entrants(course, cohorts, first_row)


def run_cohorts(course: Course, cohorts: Cohorts) -> int:
    """Run until the end or until a table is full; return the ending code, or GO_ON."""
    while True:
        let_wait(course, cohorts)
        ended = how_it_ends(course)
        if ended != GO_ON or course.counters[BATCH] == len(course.batches):
            return ended
        if choose_levels(course, cohorts):
            run_levels(course, cohorts)
        elif not wait_for_trigger(course, cohorts):
            return STUCK
