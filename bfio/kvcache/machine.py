"""The machine of a run: its state, and the phases of a batch, stated once for both engines.

Requests are numbered in order of arrival (ties: by index), so that smaller means earlier.

Before the decision (`open_batch`): beliefs grow that were outlived, requests are cleared if those
that run no longer fit, arrivals are revealed. After it (`close_batch`): the batch runs, requests
complete. Sums over the running requests are kept up to date, so that a batch costs its events.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.engine_choice import Engine
from bfio.kvcache.instance import CacheInstance, batch_duration
from bfio.kvcache.policy import CachePolicy, clearing_of
from bfio.kvcache.run import CacheBatches, CacheLimits, CacheRun, CacheVerdict, StayEnd, Stays
from formulations.arrays import BoolArray, IntArray, frozen, frozen_columns
from formulations.hindsight_latency import Convention


def _merge(sorted_keys: IntArray, num: int, new: IntArray) -> None:
    write, old, fresh = num + len(new) - 1, num - 1, len(new) - 1
    while fresh >= 0:
        if old >= 0 and sorted_keys[old] > new[fresh]:
            sorted_keys[write] = sorted_keys[old]
            old -= 1
        else:
            sorted_keys[write] = new[fresh]
            fresh -= 1
        write -= 1


@compilable(compiled_as=_merge)
def merge(sorted_keys: IntArray, num: int, new: IntArray) -> None:
    """Merge sorted new keys into the first ``num`` ones, which are sorted."""
    together = num + len(new)
    sorted_keys[num:together] = new
    if num > 0 and sorted_keys[num - 1] > new[0]:
        sorted_keys[:together].sort(kind="stable")


def _keep(row: IntArray, num: int, stays: BoolArray) -> int:
    kept = 0
    for k in range(num):
        if stays[k]:
            row[kept] = row[k]
            kept += 1
    return kept


@compilable(compiled_as=_keep)
def keep(row: IntArray, num: int, stays: BoolArray) -> int:
    """Move those of the first ``num`` values together that stay; return how many."""
    kept = row[:num][stays]
    row[: len(kept)] = kept
    return len(kept)


def _insert(row: IntArray, num: int, place: int, value: int) -> None:
    for k in range(num, place, -1):
        row[k] = row[k - 1]
    row[place] = value


@compilable(compiled_as=_insert)
def insert(row: IntArray, num: int, place: int, value: int) -> None:
    """Put a value at a place of the first ``num``; those from there on move one to the right."""
    if place < num:
        row[place + 1 : num + 1] = row[place:num]
    row[place] = value


@compilable(allocates=True)
def with_rows(table: IntArray, rows: int) -> IntArray:
    """Return a larger copy of a table, of so many rows."""
    return np.concatenate((table, np.empty((rows - len(table), table.shape[1]), np.int64)))


# Entries of `MachineState.counters`. BATCH: batches run. USED: tokens that the running requests
# need in the coming batch. CONTEXT: batches they have behind them. NEW_PROMPT: prompts that start
# with the coming batch. NEXT_END: when the first of them truly ends. IDLE: decisions in a row that
# left the worker empty. CHANGES: how often the queue has changed. CLEARINGS to RAN_DRY: see
# `phases.note_overflow`. LEAST_NEED: of those waiting, 0 if not known; without it, a scan that
# tries everyone would do so in every batch.
(
    CLOCK, BATCH, REVEALED, WAITING, RUNNING, STAYS, USED, CONTEXT, NEW_PROMPT, NEXT_END, IDLE,
    CHANGES, OVERFLOWS, DRAWS, CLEARINGS, ARMED, SAW_ALL, RAN_DRY, LEAST_NEED, NUM_COUNTERS,
) = range(20)  # fmt: skip

#: How a run ends; until then it goes on.
GOES_ON, LOOP, CLEARINGS_LIMIT, BATCHES_LIMIT, IDLE_LIMIT = range(5)


class CacheSettings(NamedTuple):
    """What is fixed for a run: limits of the instance, the policy and the caller.

    ``is_shortest_first`` says how the queue is sorted: by believed length, or by arrival.
    """

    memory: int
    completes_at_start: bool
    base: int
    per_request: int
    per_context: int
    per_prompt: int
    clears_all: bool
    chance: float
    pause: int
    is_memoryless: bool
    is_first_come: bool
    is_shortest_first: bool
    max_batches: int
    max_clearings: int
    max_idle: int


class CacheRequests(NamedTuple):
    """One entry per request, each array of shape (n,).

    Parameters
    ----------
    arrival, prompt, need, length : IntArray
        When it arrives, its prompt, the tokens it needs in its first batch, and its batches.
    believed : IntArray
        Batches it is believed to occupy, which grows when they are outlived.
    first : IntArray
        The batch with which it last started.
    start, completion : IntArray
        Clock values, once it is known that they stand; -1 before.
    """

    arrival: IntArray
    prompt: IntArray
    need: IntArray
    length: IntArray
    believed: IntArray
    first: IntArray
    start: IntArray
    completion: IntArray


class RunningRows(NamedTuple):
    """One entry per running request, sorted by ``end``, and room for all of them.

    Parameters
    ----------
    request : IntArray
        Its number.
    end, true_end : IntArray
        The batch after the last one that it is believed to be in, and that it will be in.
    level : IntArray
        The tokens it would have needed in batch 0.
    """

    request: IntArray
    end: IntArray
    true_end: IntArray
    level: IntArray


class MachineState(NamedTuple):
    """Everything a run changes, and its constants.

    Parameters
    ----------
    settings, requests, running
        See there.
    counters : IntArray or list of int
        See the names of its entries above. Interpreted runs have a list, whose entries are read
        several times as fast as those of an array.
    queue : IntArray
        Shape (n,): sorted keys of those who wait, see `enqueue`.
    """

    settings: CacheSettings
    counters: IntArray | list[int]
    requests: CacheRequests
    running: RunningRows
    queue: IntArray


class CacheRecord(NamedTuple):
    """Rows of `bfio.kvcache.run.CacheBatches` and `Stays`, as they happen, and room for more.

    Parameters
    ----------
    batches, stays : IntArray
        Shapes (K', 5) and (J', 4), filled up to BATCH and STAYS.
    """

    batches: IntArray
    stays: IntArray


def settings_of(
    instance: CacheInstance, policy: CachePolicy, limits: CacheLimits, *, shortest_first: bool
) -> CacheSettings:
    """Return the settings of a run."""
    time, clearing = instance.batch_time, clearing_of(policy)
    return CacheSettings(
        memory=instance.memory,
        completes_at_start=instance.convention is Convention.CLOSED,
        base=time.base,
        per_request=time.request,
        per_context=time.context,
        per_prompt=time.prompt,
        clears_all=clearing.is_full,
        chance=float(clearing.probability),
        pause=clearing.pause,
        is_memoryless=getattr(policy, "memoryless", False) is True,
        is_first_come=getattr(policy, "first_come", False) is True,
        is_shortest_first=shortest_first,
        max_batches=limits.batches,
        max_clearings=limits.fruitless_clearings,
        max_idle=limits.idle,
    )


def order_of(instance: CacheInstance) -> IntArray:
    """Return the index of each request by its number."""
    order: IntArray = np.argsort(instance.arrival, kind="stable")
    return order


def new_state(
    instance: CacheInstance,
    believed: IntArray,
    settings: CacheSettings,
    *,
    interpreted: bool = False,
) -> MachineState:
    """Return the state in which nobody has arrived, of a run that is interpreted or compiled."""
    n, counters, order = len(instance), [0] * NUM_COUNTERS, order_of(instance)
    given = (
        instance.arrival,
        instance.prompt,
        instance.first_need,
        instance.num_batches,
        believed,
    )
    return MachineState(
        settings=settings,
        counters=counters if interpreted else np.array(counters, dtype=np.int64),
        requests=CacheRequests(*(row[order] for row in given), *np.full((3, n), -1)),
        running=RunningRows(*np.empty((4, n), dtype=np.int64)),
        queue=np.empty(n, dtype=np.int64),
    )


def new_record() -> CacheRecord:
    """Return a record without rows, and room for some."""
    return CacheRecord(np.empty((1024, 5), dtype=np.int64), np.empty((1024, 4), dtype=np.int64))


@compilable
def is_full(record: CacheRecord, state: MachineState) -> bool:
    """Whether a record has no room for one more batch, in which all are cleared and complete."""
    batches, stays = state.counters[BATCH] + 1, state.counters[STAYS] + 2 * len(state.queue)
    return bool(len(record.batches) < batches or len(record.stays) < stays)


@compilable(allocates=True)
def enlarged(record: CacheRecord, state: MachineState) -> CacheRecord:
    """Return a record with room for at least as much again."""
    more = len(record.batches) + len(record.stays) + 2 * len(state.queue)
    return CacheRecord(with_rows(record.batches, more), with_rows(record.stays, more))


#: In the queue, in the place of the key of a request that has started.
STARTED = -1
#: `bfio.kvcache.run.StayEnd` as plain integers.
COMPLETED, CLEARED, OPEN = (int(end) for end in StayEnd)


def run_batches(
    state: MachineState, record: CacheRecord, rule: Any, rng: np.random.Generator
) -> tuple[int, CacheRecord]:
    """Serve everything, or stop; return how the run ends, and its record."""
    ended = GOES_ON
    while ended == GOES_ON and not is_over(state):
        if is_full(record, state):
            record = enlarged(record, state)
        ended = open_batch(state, record, rng)
        if ended == GOES_ON:
            decide(state, rule)
            ended = close_batch(state, record)
    leave_open(state, record)
    return ended, record


def decide(state: MachineState, rule: Callable[[MachineState], None]) -> None:
    """Let requests start; compiled runs have `admission.start_requests` in the place of this."""
    rule(state)


@compilable
def is_over(state: MachineState) -> bool:
    """Whether all requests have completed."""
    counters = state.counters
    return bool(
        counters[WAITING] == 0
        and counters[RUNNING] == 0
        and counters[REVEALED] == len(state.queue)
    )


@compilable
def open_batch(state: MachineState, record: CacheRecord, rng: np.random.Generator) -> int:
    """Do what precedes the decision; return how the run ends, if it does."""
    counters = state.counters
    if counters[WAITING] == 0 and counters[RUNNING] == 0:
        arrival = int(state.requests.arrival[counters[REVEALED]])
        counters[CLOCK] = max(counters[CLOCK], arrival)
    grow_beliefs(state)
    if counters[USED] > state.settings.memory:
        make_room(state, record, rng)
        ended = note_overflow(state)
        if ended != GOES_ON:
            return ended
    revealed = reveal_until(state)
    if revealed > counters[REVEALED]:
        reveal(state, revealed)
    return BATCHES_LIMIT if counters[BATCH] == state.settings.max_batches else GOES_ON


@compilable
def close_batch(state: MachineState, record: CacheRecord) -> int:
    """Do what follows the decision; return how the run ends, if it does."""
    counters, settings = state.counters, state.settings
    if counters[WAITING] == 0:
        counters[RAN_DRY] = 1
    if counters[RUNNING] == 0:
        counters[IDLE] += 1
        counters[CLOCK] += settings.base
        return GOES_ON if counters[IDLE] < settings.max_idle else IDLE_LIMIT
    counters[IDLE] = 0
    run_batch(state, record)
    if counters[NEXT_END] == counters[BATCH]:
        complete(state, record)
    return GOES_ON


@compilable
def grow_beliefs(state: MachineState) -> None:
    """Believe of every request that has outlived its prediction that it ends with this batch."""
    counters, running, requests = state.counters, state.running, state.requests
    after = counters[BATCH] + 1
    k = 0
    # Sorted by end, and the outlived ones all end at this batch: the order is kept.
    while k < counters[RUNNING] and running.end[k] < after:
        running.end[k] = after
        request = running.request[k]
        requests.believed[request] = after - requests.first[request]
        counters[ARMED] = 0
        k += 1


@compilable(allocates=True)
def make_room(state: MachineState, record: CacheRecord, rng: np.random.Generator) -> None:
    """Clear running requests, draw by draw, until the others fit."""
    counters, settings = state.counters, state.settings
    counters[OVERFLOWS] += 1
    while True:
        counters[DRAWS] += 1
        leaves = np.ones(counters[RUNNING], np.bool_)
        if not settings.clears_all:
            for k in np.argsort(state.running.request[: len(leaves)]):
                leaves[k] = rng.random() < settings.chance
        enqueue(state, leave(state, record, leaves, CLEARED))
        if counters[USED] <= settings.memory:
            return
        counters[CLOCK] += settings.pause


@compilable
def note_overflow(state: MachineState) -> int:
    """Note an overflow and return whether it ends the run: the state has come back, or a limit.

    After a full clearing nothing runs, so the state is who waits and what is believed of them.
    Between two full clearings without a completion nobody left; without a new prediction (ARMED)
    and without arrivals (SAW_ALL) the state is the same, and a memoryless policy repeats itself
    forever. New arrivals do not matter if it takes requests in order and never came to the end of
    the queue (RAN_DRY).
    """
    counters, settings = state.counters, state.settings
    undisturbed = counters[SAW_ALL] == 1 or (settings.is_first_come and counters[RAN_DRY] == 0)
    is_back = settings.clears_all and counters[ARMED] == 1 and undisturbed
    counters[CLEARINGS] += 1
    counters[ARMED] = settings.clears_all
    counters[SAW_ALL] = counters[REVEALED] == len(state.queue)
    counters[RAN_DRY] = 0
    if is_back and settings.is_memoryless:
        return LOOP
    return CLEARINGS_LIMIT if counters[CLEARINGS] == settings.max_clearings else GOES_ON


@compilable
def reveal_until(state: MachineState) -> int:
    """Return how many requests have arrived."""
    revealed, clock = int(state.counters[REVEALED]), state.counters[CLOCK]
    while revealed < len(state.queue) and state.requests.arrival[revealed] <= clock:
        revealed += 1
    return revealed


@compilable(allocates=True)
def reveal(state: MachineState, revealed: int) -> None:
    """Let those wait who have arrived."""
    enqueue(state, np.arange(int(state.counters[REVEALED]), revealed))
    state.counters[REVEALED] = revealed


@compilable(allocates=True)
def enqueue(state: MachineState, requests: IntArray) -> None:
    """Let requests wait, given in order of arrival.

    Their key in the queue is their number, or believed length first and number second.
    """
    counters, keys = state.counters, requests
    if len(requests) == 0:
        return
    if state.settings.is_shortest_first:
        keys = np.sort(state.requests.believed[requests] * len(state.queue) + requests)
    merge(state.queue, counters[WAITING], keys)
    counters[WAITING] += len(requests)
    counters[CHANGES] += 1
    counters[LEAST_NEED] = 0


@compilable
def waiting_at(state: MachineState, position: int) -> int:
    """Return the number of the request at a position of the queue."""
    return int(state.queue[position]) % len(state.queue)


@compilable
def admit(state: MachineState, position: int) -> None:
    """Let the request at a position of the queue start; `close_gaps` follows."""
    counters, running, requests = state.counters, state.running, state.requests
    request, batch, num = waiting_at(state, position), counters[BATCH], counters[RUNNING]
    need = int(requests.need[request])
    end = batch + int(requests.believed[request])
    true_end = batch + int(requests.length[request])
    place = num
    while place > 0 and running.end[place - 1] > end:
        place -= 1
    insert(running.request, num, place, request)
    insert(running.end, num, place, end)
    insert(running.true_end, num, place, true_end)
    insert(running.level, num, place, need - batch)
    requests.first[request] = batch
    if num == 0 or true_end < counters[NEXT_END]:
        counters[NEXT_END] = true_end
    counters[RUNNING] += 1
    counters[USED] += need
    counters[NEW_PROMPT] += int(requests.prompt[request])
    state.queue[position] = STARTED


@compilable(allocates=True)
def close_gaps(state: MachineState) -> None:
    """Move those who still wait together."""
    num = state.counters[WAITING]
    state.counters[WAITING] = keep(state.queue, num, state.queue[:num] != STARTED)
    state.counters[CHANGES] += 1


@compilable
def run_batch(state: MachineState, record: CacheRecord) -> None:
    """Run a batch and write its row of the record."""
    counters, settings = state.counters, state.settings
    batch, running = counters[BATCH], counters[RUNNING]
    duration = batch_duration(
        settings.base, settings.per_request, settings.per_context, settings.per_prompt,
        running, counters[CONTEXT], counters[NEW_PROMPT],
    )  # fmt: skip
    row = record.batches[batch]
    row[0], row[1], row[2] = counters[CLOCK], duration, counters[USED]
    row[3], row[4] = running, counters[WAITING]
    counters[CLOCK] += duration
    counters[BATCH] += 1
    # Everyone who runs holds a token more now.
    counters[USED] += running
    counters[CONTEXT] += running
    counters[NEW_PROMPT] = 0


@compilable(allocates=True)
def complete(state: MachineState, record: CacheRecord) -> None:
    """Let those leave whose last batch this was."""
    counters, batch = state.counters, state.counters[BATCH]
    now = record.batches[batch - 1, 0] if state.settings.completes_at_start else counters[CLOCK]
    leaves = state.running.true_end[: counters[RUNNING]] == batch
    for request in leave(state, record, leaves, COMPLETED):
        state.requests.completion[request] = now
    counters[CLEARINGS] = 0
    counters[ARMED] = 0


@compilable(allocates=True)
def leave(state: MachineState, record: CacheRecord, leaves: BoolArray, end: int) -> IntArray:
    """Take some of the running requests from the cache, and record their stays.

    Returns them in order of arrival.
    """
    counters, running, requests = state.counters, state.running, state.requests
    gone = np.sort(running.request[: len(leaves)][leaves])
    for row in running:
        counters[RUNNING] = keep(row, len(leaves), ~leaves)
    for request in gone:
        first = int(requests.first[request])
        done = counters[BATCH] - first
        stay = record.stays[counters[STAYS]]
        stay[0], stay[1], stay[2], stay[3] = request, first, done, end
        if end != CLEARED:
            requests.start[request] = record.batches[first, 0]
        counters[STAYS] += 1
        counters[USED] -= int(requests.need[request]) + done
        counters[CONTEXT] -= done
    if counters[RUNNING] > 0:
        counters[NEXT_END] = int(running.true_end[: counters[RUNNING]].min())
    return gone


@compilable(allocates=True)
def leave_open(state: MachineState, record: CacheRecord) -> None:
    """Record the stays of those who run when the run is over."""
    leave(state, record, np.ones(state.counters[RUNNING], np.bool_), OPEN)


#: What is said of each way to end.
_ENDS = {
    GOES_ON: (CacheVerdict.FINISHED, ""),
    LOOP: (CacheVerdict.LOOP, "the state came back after an overflow without a completion"),
    CLEARINGS_LIMIT: (
        CacheVerdict.STOPPED,
        "too many overflows in a row without a completion",
    ),
    BATCHES_LIMIT: (CacheVerdict.STOPPED, "the limit of batches was reached"),
    IDLE_LIMIT: (
        CacheVerdict.STOPPED,
        "the policy started nothing on an empty worker for too long",
    ),
}


def finished_run(
    instance: CacheInstance,
    name: str,
    state: MachineState,
    record: CacheRecord,
    ended: int,
    *,
    engine: Engine,
    statistics: Mapping[str, object] | None = None,
) -> CacheRun:
    """Return the run, with requests by their index again.

    Parameters
    ----------
    instance, name
        What was served, and by which algorithm.
    state, record
        Of the machine, at the end.
    ended : int
        How it ended, see `LOOP` and those beside it.
    engine, statistics
        See `CacheRun`.
    """
    order, counters = order_of(instance), state.counters
    verdict, reason = _ENDS[ended]
    request, *rest = frozen_columns(record.stays[: counters[STAYS]])
    return CacheRun(
        instance=instance,
        algorithm=name,
        verdict=verdict,
        reason=reason,
        start=_by_index(state.requests.start, order),
        completion=_by_index(state.requests.completion, order),
        batches=CacheBatches(*frozen_columns(record.batches[: counters[BATCH]])),
        stays=Stays(frozen(order[request]), *rest),
        overflows=int(counters[OVERFLOWS]),
        draws=int(counters[DRAWS]),
        statistics=statistics or {},
        engine=engine,
    )


def _by_index(values: IntArray, order: IntArray) -> IntArray:
    placed = values.copy()
    placed[order] = values
    return frozen(placed)
