"""The phases of a run and their loop; each does what `bfio.kvcache.engine` does."""

from typing import TypeAlias

import numpy as np

from bfio.common.kernels import entry_point, in_place, kernel
from bfio.kvcache.kernel.admission import start_requests
from bfio.kvcache.kernel.state import (
    ARMED,
    BATCH,
    BATCH_COLUMNS,
    BATCHES_LIMIT,
    CLEARED,
    CLEARINGS,
    CLEARINGS_LIMIT,
    CLOCK,
    COMPLETED,
    DRAWS,
    END,
    FINISHED,
    FIRST,
    LEAST_NEED,
    LOOP,
    OPEN,
    OVERFLOWS,
    RAN_DRY,
    REQUEST,
    REVEALED,
    RUNNING,
    SAW_ALL,
    STAY_COLUMNS,
    STAYS,
    WAITING,
    Requests,
    Rule,
    Work,
    keys_of,
    merge,
    needed,
    new_work,
)
from bfio.step.two_stage.kernels.tables import new_table, with_room
from formulations.arrays import IntArray

#: How a run ended, its state, and the tables of batches and stays.
Ended: TypeAlias = tuple[int, Work, IntArray, IntArray]


@in_place
def grow_beliefs(work: Work, believed: IntArray) -> None:
    """Extend every outlived prediction by a batch."""
    active, batch = work.active, work.counters[BATCH]
    for j in range(work.counters[RUNNING]):
        # Sorted by end, and the outlived ones all end at this batch: order is kept.
        if active[END, j] <= batch:
            active[END, j] = batch + 1
            believed[active[REQUEST, j]] = batch + 1 - active[FIRST, j]
            work.counters[ARMED] = 0


@kernel
def make_room(
    work: Work, requests: Requests, rule: Rule, rng: np.random.Generator, stays: IntArray
) -> IntArray:
    """Clear running requests, draw by draw, until the others fit; return the stays."""
    counters = work.counters
    counters[OVERFLOWS] += 1
    while True:
        counters[DRAWS] += 1
        for i in np.sort(work.active[REQUEST, : counters[RUNNING]]):
            work.leaving[i] = rule.chance >= 1.0 or rng.random() < rule.chance
        stays, gone = leave(work, stays, CLEARED)
        enqueue(work, gone, requests, rule)
        for i in gone:
            work.start[i] = -1
        if needed(work.active, counters[RUNNING], counters[BATCH]) <= rule.memory:
            return stays
        counters[CLOCK] += rule.pause


@in_place
def end_after_clearing(counters: IntArray, rule: Rule, all_revealed: bool) -> int:
    """Note an overflow as `LoopWatch.cleared`; return how the run ends, FINISHED to go on."""
    is_full = rule.chance >= 1.0
    first_come = not rule.shortest and not rule.keep_scanning
    settled = counters[SAW_ALL] == 1 or (first_come and counters[RAN_DRY] == 0)
    is_back = is_full and counters[ARMED] == 1 and settled
    counters[CLEARINGS] += 1
    counters[ARMED] = is_full
    counters[SAW_ALL] = all_revealed
    counters[RAN_DRY] = 0
    if is_back:
        return LOOP
    return CLEARINGS_LIMIT if counters[CLEARINGS] == rule.max_clearings else FINISHED


@kernel
def reveal(work: Work, requests: Requests, rule: Rule) -> None:
    """Let those wait who have arrived."""
    counters, before = work.counters, work.counters[REVEALED]
    after = before
    while after < len(requests.arrival) and requests.arrival[after] <= counters[CLOCK]:
        after += 1
    if after > before:
        counters[REVEALED] = after
        enqueue(work, np.arange(before, after), requests, rule)


@kernel
def enqueue(work: Work, numbers: IntArray, requests: Requests, rule: Rule) -> None:
    """Add requests to the queue."""
    merge(work.queue, work.counters[WAITING], keys_of(numbers, requests, rule.shortest))
    work.counters[WAITING] += len(numbers)
    work.counters[LEAST_NEED] = 0


@in_place
def run_batch(work: Work, requests: Requests, rule: Rule, batches: IntArray) -> bool:
    """Run a batch and record it; mark who completes, and return whether anybody does."""
    counters, active = work.counters, work.active
    batch, clock, running = counters[BATCH], counters[CLOCK], counters[RUNNING]
    context, new_prompt = 0, 0
    for j in range(running):
        context += batch - active[FIRST, j]
        if active[FIRST, j] == batch:
            new_prompt += requests.prompt[active[REQUEST, j]]
    duration = rule.base + rule.per_request * running
    duration += rule.per_context * context + rule.per_prompt * new_prompt
    batches[batch, 0], batches[batch, 1] = clock, duration
    batches[batch, 2] = needed(active, running, batch)
    batches[batch, 3], batches[batch, 4] = running, counters[WAITING]
    finishing = False
    for j in range(running):
        i = active[REQUEST, j]
        if active[FIRST, j] == batch:
            work.start[i] = clock
        if active[FIRST, j] + requests.length[i] == batch + 1:
            finishing = True
            work.leaving[i] = 1
            work.completion[i] = clock if rule.completes_at_start else clock + duration
    counters[CLOCK] += duration
    counters[BATCH] += 1
    return finishing


@kernel
def leave(work: Work, stays: IntArray, end: int) -> tuple[IntArray, IntArray]:
    """Remove the marked requests; return the stays and who left, by number."""
    counters, active, leaving = work.counters, work.active, work.leaving
    running = counters[RUNNING]
    gone = np.empty(running, np.int64)
    first = np.empty(len(leaving), np.int64)
    count, kept = 0, 0
    for j in range(running):
        i = active[REQUEST, j]
        if leaving[i] == 1:
            leaving[i] = 0
            gone[count], first[i] = i, active[FIRST, j]
            count += 1
            continue
        for row in range(4):
            active[row, kept] = active[row, j]
        kept += 1
    counters[RUNNING] = kept
    gone = np.sort(gone[:count])
    for i in gone:
        stays = with_room(stays, counters[STAYS])
        row = counters[STAYS]
        stays[row, 0], stays[row, 1] = i, first[i]
        stays[row, 2], stays[row, 3] = counters[BATCH] - first[i], end
        counters[STAYS] += 1
    return stays, gone


@entry_point
def run_batches(requests: Requests, rule: Rule, rng: np.random.Generator) -> Ended:
    """Run everything."""
    n, ended = len(requests.arrival), FINISHED
    work = new_work(n)
    batches, stays = new_table(BATCH_COLUMNS), new_table(STAY_COLUMNS)
    counters = work.counters
    while counters[WAITING] > 0 or counters[RUNNING] > 0 or counters[REVEALED] < n:
        if counters[WAITING] == 0 and counters[RUNNING] == 0:
            counters[CLOCK] = max(counters[CLOCK], requests.arrival[counters[REVEALED]])
        grow_beliefs(work, requests.believed)
        if needed(work.active, counters[RUNNING], counters[BATCH]) > rule.memory:
            stays = make_room(work, requests, rule, rng, stays)
            ended = end_after_clearing(counters, rule, counters[REVEALED] == n)
            if ended != FINISHED:
                break
        reveal(work, requests, rule)
        start_requests(work, requests, rule)
        if counters[WAITING] == 0:
            counters[RAN_DRY] = 1
        if counters[BATCH] == rule.max_batches:
            ended = BATCHES_LIMIT
            break
        batches = with_room(batches, counters[BATCH])
        if run_batch(work, requests, rule, batches):
            stays, _ = leave(work, stays, COMPLETED)
            counters[CLEARINGS], counters[ARMED] = 0, 0
    for j in range(counters[RUNNING]):
        work.leaving[work.active[REQUEST, j]] = 1
    stays, _ = leave(work, stays, OPEN)
    return ended, work, batches[: counters[BATCH]], stays[: counters[STAYS]]
