"""Compiled runs of threshold policies; they decide as `bfio.wait.chains` on `bfio.wait.engine`.

Beyond its first stage a segment holds cohorts that advance together, so nothing need be done for a
request while it passes a segment: when it enters, it joins a list of those that leave at the same
advance of the segment, kept in a ring with one place per stage. Tokens are sums that grow by the
number of members with each advance. A batch costs its entries and exits, however many stages its
requests pass.
"""

from typing import NamedTuple

from bfio.common.by_reference import by_reference
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
    """Chains, queues before their segments, members within them, and how far each chain has got.

    Of every request: its chain. Of every chain, S segments and P chains in all: ``of_chain`` has
    the requests of each, one chain after the other from ``first_of_chain`` on; ``first`` is its
    first segment. Both have an entry more.

    Parameters
    ----------
    chain, of_chain, following : IntArray
        Shape (n,). ``following`` links requests of one queue or of one place of a ring.
    first_of_chain, first : IntArray
        Shape (P + 1,).
    entry, end, threshold : IntArray
        Shape (S,): first and last stage of each segment, and its threshold.
    ring : IntArray
        Shape (S + 1,): where the ring of each segment begins.
    queue_first, queue_last, queue_size, queue_tokens : IntArray
        Shape (S,): a queue's ends (none before a first segment), who is in it, what it holds.
    members, tokens, advances : IntArray
        Shape (S,): who is in a segment, what they count at their next stages, how often it has
        advanced.
    ring_first, ring_last : IntArray
        Shape (stages of all segments,).
    taken, cohort, before, level : IntArray
        Shape (P,): how many of a chain have started, how many had before its last batch and before
        this one, and how many of its segments this batch serves.
    levels : IntArray
        Shape (K and more, P): leading segments of each chain in each batch.
    entries : IntArray
        Shape (J and more, 3): request, segment, batch; with room for all there can be.
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
    """Return how many leading segments have their threshold waiting at their first stage."""
    level = 0
    while level < len(thresholds) and waiting[level] >= thresholds[level]:
        level += 1
    return level


@compilable
def append(first: IntArray, last: IntArray, following: IntArray, place: int, request: int) -> None:
    """Put a request at the end of a list."""
    following[request] = NONE
    if first[place] == NONE:
        first[place] = request
    else:
        following[last[place]] = request
    last[place] = request


@compilable
def let_wait(course: Course, cohorts: Cohorts) -> None:
    """Let those wait who have arrived by now."""
    known = course.counters[REVEALED]
    reveal(course)
    for i in range(known, course.counters[REVEALED]):
        cohorts.queue_size[cohorts.first[cohorts.chain[i]]] += 1


@compilable
def level_of(cohorts: Cohorts, chain: int, draining: bool) -> int:
    """Return how many leading segments of a chain the next batch serves; 0 if nobody is there."""
    first, after = cohorts.first[chain], cohorts.first[chain + 1]
    if not draining:
        return served_level(cohorts.queue_size[first:after], cohorts.threshold[first:after])
    for s in range(first, after):
        if cohorts.queue_size[s] > 0 or cohorts.members[s] > 0:
            return int(after - first)
    return 0


@compilable
def choose_levels(course: Course, cohorts: Cohorts) -> bool:
    """Decide how far each chain is served; return whether any is at all."""
    is_last = course.counters[REVEALED] == len(course.arrival)
    draining = course.ending.drain and is_last
    serves = False
    for c in range(len(cohorts.level)):
        cohorts.level[c] = level_of(cohorts, c, draining)
        serves = serves or cohorts.level[c] > 0
    return serves


@compilable
def wait_for_trigger(course: Course, cohorts: Cohorts) -> bool:
    """Let the clock jump to when some chain can be served at last; False if none ever can."""
    n, found = len(course.arrival), NONE
    for c in range(len(cohorts.level)):
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
    """Let a request begin with a segment; it joins those that leave at the same advance."""
    entry, end = cohorts.entry[segment], cohorts.end[segment]
    last = min(course.output[request], end)
    advance = (cohorts.advances[segment] + last - entry) % (end - entry + 1)
    place = cohorts.ring[segment] + advance
    append(cohorts.ring_first, cohorts.ring_last, cohorts.following, place, request)
    cohorts.members[segment] += 1
    cohorts.tokens[segment] += course.prompt[request] + entry


@compilable
def admit(course: Course, cohorts: Cohorts, chain: int, segment: int) -> None:
    """Let up to a threshold of requests begin with a segment."""
    count = min(cohorts.threshold[segment], cohorts.queue_size[segment])
    cohorts.queue_size[segment] -= count
    is_first = segment == cohorts.first[chain]
    for _ in range(count):
        if is_first:
            i = cohorts.of_chain[cohorts.first_of_chain[chain] + cohorts.taken[chain]]
            cohorts.taken[chain] += 1
            course.counters[HOLDING] += 1
        else:
            i = cohorts.queue_first[segment]
            cohorts.queue_first[segment] = cohorts.following[i]
            cohorts.queue_tokens[segment] -= course.prompt[i] + cohorts.entry[segment] - 1
        enter(course, cohorts, i, segment)
        entry = cohorts.entries[course.counters[ROWS]]
        entry[0], entry[1], entry[2] = i, segment, course.counters[BATCH]
        course.counters[ROWS] += 1


@compilable
def advance(course: Course, cohorts: Cohorts, segment: int) -> None:
    """Let all members of a segment pass a stage."""
    entry, end = cohorts.entry[segment], cohorts.end[segment]
    place = cohorts.ring[segment] + cohorts.advances[segment] % (end - entry + 1)
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
    cohorts.tokens[segment] += cohorts.members[segment]
    cohorts.advances[segment] += 1


@compilable
def note_entrants(course: Course, cohorts: Cohorts, first_row: int) -> None:
    """Note what those were given who entered a segment in this batch."""
    for row in range(first_row, course.counters[ROWS]):
        request, segment = cohorts.entries[row, 0], cohorts.entries[row, 1]
        note_given(course, request, cohorts.entry[segment])


@compilable
def note_followers(course: Course, cohorts: Cohorts, chain: int) -> None:
    """Note the end of stage 1 for those who started with the chain's batch before this one."""
    base = cohorts.first_of_chain[chain]
    if cohorts.end[cohorts.first[chain]] > 0:
        for place in range(base + cohorts.cohort[chain], base + cohorts.before[chain]):
            note_given(course, cohorts.of_chain[place], 1)
    cohorts.cohort[chain] = cohorts.before[chain]


@compilable
def paused_tokens(cohorts: Cohorts) -> int:
    """Return the tokens of requests that hold something and are not in the batch."""
    held = 0
    for c in range(len(cohorts.level)):
        first = cohorts.first[c]
        for s in range(first, cohorts.first[c + 1]):
            held += cohorts.queue_tokens[s]
            if s >= first + cohorts.level[c]:
                held += cohorts.tokens[s] - cohorts.members[s]
    return held


@compilable
def run_levels(course: Course, cohorts: Cohorts) -> None:
    """Run the batch of the chosen levels."""
    tokens, prompts, waiting = 0, 0, num_waiting(course)
    batch, first_row = course.counters[BATCH], course.counters[ROWS]
    for c in range(len(cohorts.level)):
        cohorts.levels[batch, c] = cohorts.level[c]
        cohorts.before[c] = cohorts.taken[c]
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
    """Run until the end, and return how it ends, or until the tables need more rows: GO_ON."""
    course, cohorts = by_reference(course), by_reference(cohorts)
    while True:
        let_wait(course, cohorts)
        ended = how_it_ends(course)
        if ended != GO_ON or course.counters[BATCH] == len(course.batches):
            return ended
        if choose_levels(course, cohorts):
            run_levels(course, cohorts)
        elif not wait_for_trigger(course, cohorts):
            return STUCK
