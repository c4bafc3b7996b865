"""The threshold policies as one compiled loop; it decides as `chains` on `engine` does.

Beyond its first stage a segment holds cohorts that advance together, so nothing need be done for a
request while it passes a segment: when it enters, it joins a list of those that leave at the same
advance of the segment, kept in a ring with one place per stage. Tokens are sums that grow by the
number of members with each advance. A batch costs its entries and exits, however many stages its
requests pass.
"""

from typing import NamedTuple, TypeAlias

import numpy as np

from bfio.common.kernels import entry_point, in_place, kernel
from bfio.step.two_stage.kernels.tables import new_table, with_room
from bfio.wait.kernels.run_state import (
    BATCH,
    CLOCK,
    COMPLETED,
    GO_ON,
    HOLDING,
    NONE,
    NUM_BATCH_COLUMNS,
    NUM_COUNTERS,
    REVEALED,
    ROWS,
    STUCK,
    Ending,
    Speed,
    Times,
    how_it_ends,
    new_times,
    record_batch,
    waiting_now,
)
from formulations.arrays import IntArray

#: Columns of an entry: request, segment, batch.
_ENTRY_COLUMNS = 3


class Requests(NamedTuple):
    """Data in order of arrival, and the requests of each chain, one chain after the other."""

    arrival: IntArray
    prompt: IntArray
    output: IntArray
    chain: IntArray
    first_of_chain: IntArray
    of_chain: IntArray


class Segments(NamedTuple):
    """All segments, one chain after the other; ``first`` and ``ring`` have one entry more."""

    first: IntArray
    entry: IntArray
    end: IntArray
    threshold: IntArray
    ring: IntArray


class State(NamedTuple):
    """Queues before segments, members within them, and how far each chain has got.

    ``following`` links requests of one queue or of one place of a ring. ``queue_tokens`` is what a
    queue holds, ``tokens`` what the members count at their next stages, ``advances`` how often a
    segment has advanced. ``taken`` counts the requests of a chain that have started, ``cohort``
    and ``before`` how many had before its last batch and before this one. ``level`` is how many
    segments of a chain this batch serves. ``entries`` is the table of who entered what when.
    """

    counters: IntArray
    following: IntArray
    queue_first: IntArray
    queue_last: IntArray
    queue_size: IntArray
    queue_tokens: IntArray
    members: IntArray
    tokens: IntArray
    advances: IntArray
    ring_first: IntArray
    ring_last: IntArray
    arrived: IntArray
    taken: IntArray
    cohort: IntArray
    before: IntArray
    level: IntArray
    entries: IntArray


@kernel
def new_state(requests: Requests, segments: Segments, num_entries: int) -> State:
    """Return an empty engine."""
    num_chains, num_segments = len(segments.first) - 1, len(segments.entry)
    places = segments.ring[num_segments]
    return State(
        np.zeros(NUM_COUNTERS, np.int64),
        np.full(len(requests.arrival), NONE, np.int64),
        np.full(num_segments, NONE, np.int64),
        np.full(num_segments, NONE, np.int64),
        np.zeros(num_segments, np.int64),
        np.zeros(num_segments, np.int64),
        np.zeros(num_segments, np.int64),
        np.zeros(num_segments, np.int64),
        np.zeros(num_segments, np.int64),
        np.full(places, NONE, np.int64),
        np.full(places, NONE, np.int64),
        np.zeros(num_chains, np.int64),
        np.zeros(num_chains, np.int64),
        np.zeros(num_chains, np.int64),
        np.zeros(num_chains, np.int64),
        np.zeros(num_chains, np.int64),
        np.empty((num_entries, _ENTRY_COLUMNS), np.int64),
    )


@in_place
def append(first: IntArray, last: IntArray, following: IntArray, place: int, request: int) -> None:
    """Put a request at the end of a list."""
    following[request] = NONE
    if first[place] == NONE:
        first[place] = request
    else:
        following[last[place]] = request
    last[place] = request


@in_place
def waiting_at(state: State, segments: Segments, chain: int, segment: int) -> int:
    """Return how many requests wait at the first stage of a segment."""
    if segment == segments.first[chain]:
        return int(state.arrived[chain] - state.taken[chain])
    return int(state.queue_size[segment])


@in_place
def level_of(state: State, segments: Segments, chain: int, draining: bool) -> int:
    """Return how many leading segments of a chain the next batch serves."""
    first, after = int(segments.first[chain]), int(segments.first[chain + 1])
    if draining:
        for s in range(first, after):
            if waiting_at(state, segments, chain, s) > 0 or state.members[s] > 0:
                return after - first
        return 0
    for s in range(first, after):
        if waiting_at(state, segments, chain, s) < segments.threshold[s]:
            return s - first
    return after - first


@in_place
def next_trigger(
    state: State, requests: Requests, segments: Segments, revealed: int, drain: bool
) -> int:
    """Return when some chain can be served at last; -1 if never."""
    n, found = len(requests.arrival), NONE
    for c in range(len(segments.first) - 1):
        needed = segments.threshold[segments.first[c]]
        place = requests.first_of_chain[c] + state.taken[c] + needed - 1
        if place < requests.first_of_chain[c + 1]:
            time = requests.arrival[requests.of_chain[place]]
            if found == NONE or time < found:
                found = time
    if found == NONE and drain and revealed < n:
        found = requests.arrival[n - 1]
    return found


@in_place
def enter(
    state: State,
    requests: Requests,
    segments: Segments,
    request: int,
    segment: int,
) -> None:
    """Let a request begin with a segment; it joins those that leave at the same advance."""
    entry, end = segments.entry[segment], segments.end[segment]
    last = min(requests.output[request], end)
    advance = (state.advances[segment] + last - entry) % (end - entry + 1)
    place = segments.ring[segment] + advance
    append(state.ring_first, state.ring_last, state.following, place, request)
    state.members[segment] += 1
    state.tokens[segment] += requests.prompt[request] + entry


@in_place
def admit(state: State, requests: Requests, segments: Segments, chain: int, segment: int) -> None:
    """Let up to a threshold of requests begin with a segment."""
    count = min(segments.threshold[segment], waiting_at(state, segments, chain, segment))
    is_first = segment == segments.first[chain]
    for _ in range(count):
        if is_first:
            i = requests.of_chain[requests.first_of_chain[chain] + state.taken[chain]]
            state.taken[chain] += 1
            state.counters[HOLDING] += 1
        else:
            i = state.queue_first[segment]
            state.queue_first[segment] = state.following[i]
            state.queue_size[segment] -= 1
            state.queue_tokens[segment] -= requests.prompt[i] + segments.entry[segment] - 1
        enter(state, requests, segments, i, segment)
        row = state.counters[ROWS]
        state.entries[row, 0], state.entries[row, 1] = i, segment
        state.entries[row, 2] = state.counters[BATCH]
        state.counters[ROWS] += 1


@in_place
def advance(
    state: State, requests: Requests, segments: Segments, segment: int, times: Times
) -> None:
    """Let all members of a segment pass a stage."""
    entry, end = segments.entry[segment], segments.end[segment]
    place = segments.ring[segment] + state.advances[segment] % (end - entry + 1)
    i = state.ring_first[place]
    state.ring_first[place] = NONE
    while i != NONE:
        following, last = state.following[i], min(requests.output[i], end)
        state.members[segment] -= 1
        state.tokens[segment] -= requests.prompt[i] + last
        if last == requests.output[i]:
            times.completion[i] = state.counters[CLOCK]
            state.counters[COMPLETED] += 1
            state.counters[HOLDING] -= 1
        else:
            append(state.queue_first, state.queue_last, state.following, segment + 1, i)
            state.queue_size[segment + 1] += 1
            state.queue_tokens[segment + 1] += requests.prompt[i] + end
        i = following
    state.tokens[segment] += state.members[segment]
    state.advances[segment] += 1


@in_place
def note_entrants(
    state: State, requests: Requests, segments: Segments, first_row: int, times: Times
) -> None:
    """Note the end of stages 0 and 1 for those who entered a segment with them in this batch."""
    clock = state.counters[CLOCK]
    for row in range(first_row, state.counters[ROWS]):
        i, entry = state.entries[row, 0], segments.entry[state.entries[row, 1]]
        if entry == 0:
            times.prefilled[i] = clock
        if entry == min(1, requests.output[i]):
            times.first_token[i] = clock


@in_place
def note_followers(
    state: State, requests: Requests, segments: Segments, chain: int, times: Times
) -> None:
    """Note the end of stage 1 for those who started with the chain's batch before this one."""
    base = requests.first_of_chain[chain]
    if segments.end[segments.first[chain]] > 0:
        for place in range(base + state.cohort[chain], base + state.before[chain]):
            i = requests.of_chain[place]
            if requests.output[i] > 0:
                times.first_token[i] = state.counters[CLOCK]
    state.cohort[chain] = state.before[chain]


@in_place
def paused_tokens(state: State, segments: Segments) -> int:
    """Return the tokens of requests that hold something and are not in the batch."""
    held = 0
    for c in range(len(state.level)):
        first = segments.first[c]
        for s in range(first, segments.first[c + 1]):
            held += state.queue_tokens[s]
            if s >= first + state.level[c]:
                held += state.tokens[s] - state.members[s]
    return held


@in_place
def reveal(state: State, requests: Requests) -> None:
    """Let those wait who have arrived."""
    counters, revealed = state.counters, state.counters[REVEALED]
    while revealed < len(requests.arrival) and requests.arrival[revealed] <= counters[CLOCK]:
        state.arrived[requests.chain[revealed]] += 1
        revealed += 1
    counters[REVEALED] = revealed


@in_place
def choose_levels(state: State, segments: Segments, draining: bool) -> bool:
    """Decide how far each chain is served; return whether any is at all."""
    serves = False
    for c in range(len(state.level)):
        state.level[c] = level_of(state, segments, c, draining)
        serves = serves or state.level[c] > 0
    return serves


@in_place
def run_batch(
    state: State, requests: Requests, segments: Segments, times: Times, speed: Speed,
    batches: IntArray,
) -> None:  # fmt: skip
    """Run the batch of the chosen levels."""
    tokens, prompts, waiting = 0, 0, waiting_now(state.counters)
    first_row = state.counters[ROWS]
    for c in range(len(state.level)):
        state.before[c] = state.taken[c]
        for s in range(segments.first[c], segments.first[c] + state.level[c]):
            admit(state, requests, segments, c, s)
            tokens += state.tokens[s]
            prompts += state.members[s]
    memory = tokens + paused_tokens(state, segments)
    record_batch(batches, state.counters, speed, tokens, memory, prompts, waiting)
    for c in range(len(state.level)):
        for s in range(segments.first[c], segments.first[c] + state.level[c]):
            advance(state, requests, segments, s, times)
        if state.level[c] > 0:
            note_followers(state, requests, segments, c, times)
    note_entrants(state, requests, segments, first_row, times)


#: How a run ended, its times, and the tables of batches, levels and entries.
Ended: TypeAlias = tuple[int, Times, IntArray, IntArray, IntArray]


@entry_point
def run_chains(
    requests: Requests, segments: Segments, ending: Ending, speed: Speed, num_entries: int
) -> Ended:
    """Run everything; ``num_entries`` bounds the table of entries."""
    n, num_chains = len(requests.arrival), len(segments.first) - 1
    state, times = new_state(requests, segments, num_entries), new_times(n)
    batches, levels = new_table(NUM_BATCH_COLUMNS), new_table(num_chains)
    counters = state.counters
    while True:
        reveal(state, requests)
        ended = how_it_ends(counters, n, ending)
        if ended != GO_ON:
            break
        if not choose_levels(state, segments, ending.drain and counters[REVEALED] == n):
            time = next_trigger(state, requests, segments, counters[REVEALED], ending.drain)
            if time == NONE:
                ended = STUCK
                break
            counters[CLOCK] = time
            continue
        batches = with_room(batches, counters[BATCH])
        levels = with_room(levels, counters[BATCH])
        for c in range(num_chains):
            levels[counters[BATCH], c] = state.level[c]
        run_batch(state, requests, segments, times, speed, batches)
    rows, count = counters[ROWS], counters[BATCH]
    return ended, times, batches[:count], levels[:count], state.entries[:rows]
