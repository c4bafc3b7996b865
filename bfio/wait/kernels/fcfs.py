"""First come, first served as one compiled loop; it decides as `fcfs` on `engine` does.

Requests start in order of arrival and the last to have arrived are evicted first, so those that
hold something are the unfinished ones before a mark, in one sorted array.
"""

from typing import NamedTuple, TypeAlias

import numpy as np

from bfio.common.kernels import entry_point, in_place, kernel
from bfio.step.two_stage.kernels.tables import new_table, with_room
from bfio.wait.kernels.run_state import (
    BATCH,
    CLOCK,
    COMPLETED,
    EVICTED,
    GO_ON,
    HOLDING,
    NONE,
    NUM_BATCH_COLUMNS,
    NUM_COUNTERS,
    REVEALED,
    ROWS,
    Ending,
    Speed,
    Times,
    how_it_ends,
    new_times,
    record_batch,
    waiting_now,
)
from formulations.arrays import IntArray

#: Columns of a span: request, its first batch and stage, and in how many batches without a pause
#: it passed a stage each.
_SPAN_COLUMNS = 4
_EVICTION_COLUMNS = 2
#: More entries of ``counters``: before which request all have started or completed, and the tokens
#: that those who hold something count at their next stages.
MARK, HELD_TOKENS = NUM_COUNTERS, NUM_COUNTERS + 1


class Requests(NamedTuple):
    """Data in order of arrival."""

    arrival: IntArray
    prompt: IntArray
    output: IntArray


class Rule(NamedTuple):
    """See `bfio.wait.fcfs`."""

    new_first: bool
    limit: int
    token_limit: int
    mixed: bool
    memory: int


class State(NamedTuple):
    """Next stages, who holds something, the next batch, and the open span of each request.

    ``last`` is the last batch a request was in; its span began with ``span_batch`` at
    ``span_stage``.
    """

    counters: IntArray
    stage: IntArray
    held: IntArray
    members: IntArray
    span_batch: IntArray
    span_stage: IntArray
    last: IntArray


@kernel
def new_state(n: int) -> State:
    """Return an empty engine."""
    return State(
        np.zeros(NUM_COUNTERS + 2, np.int64),
        np.zeros(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.full(n, NONE, np.int64),
    )


@kernel
def evict(state: State, requests: Requests, memory: int, evictions: IntArray) -> IntArray:
    """Take from the latest until the others fit; return the table of evictions."""
    counters, holding = state.counters, state.counters[HOLDING]
    while counters[HELD_TOKENS] > memory:
        holding -= 1
        i = state.held[holding]
        counters[HELD_TOKENS] -= requests.prompt[i] + state.stage[i]
        state.stage[i] = 0
        # It is the first to start again.
        counters[MARK] = i
        evictions = with_room(evictions, counters[EVICTED])
        row = counters[EVICTED]
        evictions[row, 0], evictions[row, 1] = i, counters[BATCH]
        counters[EVICTED] += 1
    counters[HOLDING] = holding
    return evictions


@in_place
def line_up(state: State, requests: Requests, times: Times, rule: Rule) -> int:
    """Put those that may start behind those that hold something; return how many they are."""
    counters, holding = state.counters, state.counters[HOLDING]
    slots = counters[REVEALED]
    if rule.limit > 0:
        slots = rule.limit if rule.new_first else max(0, rule.limit - holding)
    starts, room = 0, rule.memory - counters[HELD_TOKENS]
    for i in range(counters[MARK], counters[REVEALED]):
        if starts == slots:
            break
        if times.completion[i] != NONE:
            continue
        room -= requests.prompt[i]
        if room < 0:
            break
        state.held[holding + starts] = i
        starts += 1
    return starts


@in_place
def choose(state: State, requests: Requests, rule: Rule, starts: int) -> tuple[int, int]:
    """Fill the batch within its limits; return its prompts and its tokens."""
    holding = state.counters[HOLDING]
    count, tokens, total = 0, 0, holding + starts
    for k in range(total):
        # Those behind ``holding`` are the new ones.
        place = (k + holding) % total if rule.new_first else k
        if rule.new_first and not rule.mixed and k >= starts > 0:
            break
        i = state.held[place]
        more = tokens + requests.prompt[i] + state.stage[i]
        too_many = rule.limit > 0 and count >= rule.limit
        if count > 0 and (too_many or (rule.token_limit > 0 and more > rule.token_limit)):
            break
        state.members[count] = i
        count, tokens = count + 1, more
    return count, tokens


@in_place
def start_new(state: State, requests: Requests, count: int) -> int:
    """Let those start who do; return the tokens of the batch and of those that pause."""
    counters, new = state.counters, 0
    for k in range(count):
        new += state.stage[state.members[k]] == 0
    memory = counters[HELD_TOKENS] - (counters[HOLDING] - (count - new))
    for k in range(counters[HOLDING], counters[HOLDING] + new):
        memory += requests.prompt[state.held[k]]
    counters[HOLDING] += new
    if new > 0:
        counters[MARK] = state.held[counters[HOLDING] - 1] + 1
    return int(memory)


@kernel
def close_span(state: State, request: int, spans: IntArray) -> IntArray:
    """Write the span of a request that has ended, if it has one; return the table."""
    if state.last[request] == NONE:
        return spans
    spans = with_room(spans, state.counters[ROWS])
    row, first = state.counters[ROWS], state.span_batch[request]
    spans[row, 0], spans[row, 1] = request, first
    spans[row, 2], spans[row, 3] = state.span_stage[request], state.last[request] - first + 1
    state.counters[ROWS] += 1
    return spans


@kernel
def pass_stages(
    state: State, requests: Requests, times: Times, count: int, spans: IntArray
) -> IntArray:
    """Let the batch that has just run pass its stages; return the spans."""
    batch, clock = state.counters[BATCH] - 1, state.counters[CLOCK]
    for k in range(count):
        i = state.members[k]
        stage = state.stage[i]
        if state.last[i] != batch - 1 or stage == 0:
            spans = close_span(state, i, spans)
            state.span_batch[i], state.span_stage[i] = batch, stage
        state.last[i] = batch
        if stage == 0 and times.prefilled[i] == NONE:
            times.prefilled[i] = clock
        if stage == min(1, requests.output[i]) and times.first_token[i] == NONE:
            times.first_token[i] = clock
        if stage == requests.output[i]:
            times.completion[i] = clock
            state.counters[COMPLETED] += 1
        state.stage[i] += 1
    return spans


@in_place
def drop_completed(state: State, requests: Requests, times: Times) -> None:
    """Keep those that hold something still, and count their next tokens."""
    kept, tokens = 0, 0
    for k in range(state.counters[HOLDING]):
        i = state.held[k]
        if times.completion[i] == NONE:
            state.held[kept] = i
            kept += 1
            tokens += requests.prompt[i] + state.stage[i]
    state.counters[HOLDING], state.counters[HELD_TOKENS] = kept, tokens


#: How a run ended, its times, and the tables of batches, spans and evictions.
Ended: TypeAlias = tuple[int, Times, IntArray, IntArray, IntArray]


@entry_point
def run_fcfs(requests: Requests, rule: Rule, ending: Ending, speed: Speed) -> Ended:
    """Run everything."""
    n = len(requests.arrival)
    state, times = new_state(n), new_times(n)
    batches, spans = new_table(NUM_BATCH_COLUMNS), new_table(_SPAN_COLUMNS)
    evictions = new_table(_EVICTION_COLUMNS)
    counters = state.counters
    while True:
        while counters[REVEALED] < n and requests.arrival[counters[REVEALED]] <= counters[CLOCK]:
            counters[REVEALED] += 1
        ended = how_it_ends(counters, n, ending)
        if ended != GO_ON:
            break
        before = counters[EVICTED]
        evictions = evict(state, requests, rule.memory, evictions)
        starts = 0
        if counters[EVICTED] == before or not rule.new_first:
            starts = line_up(state, requests, times, rule)
        if counters[HOLDING] + starts == 0:
            # Everyone fits alone, so nobody waits either.
            counters[CLOCK] = requests.arrival[counters[REVEALED]]
            continue
        batches = with_room(batches, counters[BATCH])
        count, tokens = choose(state, requests, rule, starts)
        waiting = waiting_now(counters)
        memory = start_new(state, requests, count)
        record_batch(batches, counters, speed, tokens, memory, count, waiting)
        spans = pass_stages(state, requests, times, count, spans)
        drop_completed(state, requests, times)
    for i in range(n):
        spans = close_span(state, i, spans)
    rows, evicted = counters[ROWS], counters[EVICTED]
    return ended, times, batches[: counters[BATCH]], spans[:rows], evictions[:evicted]
