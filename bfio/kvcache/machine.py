"""State of a run and phases of a batch, shared by the compiled and the reference engine.

Requests are numbered in order of arrival (ties: by index), so a smaller number means earlier.

Before a decision, `open_batch` extends exceeded predictions, clears requests if the running ones
exceed the memory, and adds arrivals. After it, `close_batch` runs the batch and completes
requests. Sums over the running requests are updated incrementally, so that the cost of a batch is
proportional to its events.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from bfio.common.array_kernels import sort
from bfio.common.compilable import compilable
from bfio.common.kernel_groups import Engine
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
    """Merge new sorted keys into the first ``num`` keys, which are sorted."""
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
    """Move the selected of the first ``num`` values to the front; return their number."""
    kept = row[:num][stays]
    row[: len(kept)] = kept
    return len(kept)


def _insert(row: IntArray, num: int, place: int, value: int) -> None:
    for k in range(num, place, -1):
        row[k] = row[k - 1]
    row[place] = value


@compilable(compiled_as=_insert)
def insert(row: IntArray, num: int, place: int, value: int) -> None:
    """Insert a value into the first ``num`` values and shift the later ones to the right."""
    if place < num:
        row[place + 1 : num + 1] = row[place:num]
    row[place] = value


@compilable(allocates=True)
def with_rows(table: IntArray, rows: int) -> IntArray:
    """Return a copy of a table that has ``rows`` rows."""
    return np.concatenate((table, np.empty((rows - len(table), table.shape[1]), np.int64)))


# Entries of `MachineState.counters`. BATCH: batches run. USED: tokens that the running requests
# need in the next batch. CONTEXT: total batches they have completed. NEW_PROMPT: prompt tokens
# that start with the next batch. NEXT_END: first true end of a running request. IDLE: consecutive
# decisions that left the worker empty. CHANGES: changes of the queue. CLEARINGS to RAN_DRY: see
# `note_overflow`. LEAST_NEED: minimum need of the waiting requests, 0 if unknown; it avoids scans
# of the whole queue in batches where no request fits.
(
    CLOCK, BATCH, REVEALED, WAITING, RUNNING, STAYS, USED, CONTEXT, NEW_PROMPT, NEXT_END, IDLE,
    CHANGES, OVERFLOWS, DRAWS, CLEARINGS, ARMED, SAW_ALL, RAN_DRY, LEAST_NEED, NUM_COUNTERS,
) = range(20)  # fmt: skip

#: How a run ends; GOES_ON: it has not ended.
GOES_ON, LOOP, CLEARINGS_LIMIT, BATCHES_LIMIT, IDLE_LIMIT = range(5)


class CacheSettings(NamedTuple):
    """Constants of a run: parameters of the instance, the policy and the limits.

    ``is_shortest_first`` selects the order of the queue: by believed length, or by arrival.
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
    """Data of the requests, each array of shape (n,).

    Parameters
    ----------
    arrival, prompt, need, length : IntArray
        Arrival, prompt, tokens needed in the first batch, and number of batches.
    believed : IntArray
        Number of batches that the policy assumes; extended when a request exceeds it.
    first : IntArray
        Batch of the last start.
    start, completion : IntArray
        Clock values once they are final; -1 before.
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
    """Running requests, sorted by ``end``; each array has room for all requests.

    Parameters
    ----------
    request : IntArray
        Number of the request.
    end, true_end : IntArray
        First batch after the request, as believed and as true.
    level : IntArray
        Tokens needed in batch 0 if the request's linear growth is extrapolated to it.
    """

    request: IntArray
    end: IntArray
    true_end: IntArray
    level: IntArray


class MachineState(NamedTuple):
    """Complete state of a run, with its constants.

    Parameters
    ----------
    settings, requests, running
        See the classes of these names.
    counters : IntArray or list of int
        Entries as listed above. Interpreted runs use a list, whose entries are read several times
        as fast as those of an array.
    queue : IntArray
        Shape (n,): sorted keys of the waiting requests, see `enqueue`.
    """

    settings: CacheSettings
    counters: IntArray | list[int]
    requests: CacheRequests
    running: RunningRows
    queue: IntArray


class CacheRecord(NamedTuple):
    """Growing tables of batches and stays; columns as in `bfio.kvcache.run`.

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
    """Return the constants of a run as machine settings."""
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
    """Return the instance index of each request number."""
    return np.argsort(instance.arrival, kind="stable")


def new_state(
    instance: CacheInstance,
    believed: IntArray,
    settings: CacheSettings,
    *,
    interpreted: bool = False,
) -> MachineState:
    """Return the initial state of a run, for the interpreted or the compiled engine."""
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
    """Return an empty record with free rows."""
    return CacheRecord(np.empty((1024, 5), dtype=np.int64), np.empty((1024, 4), dtype=np.int64))


@compilable
def is_full(record: CacheRecord, state: MachineState) -> bool:
    """Return whether a record lacks rows for the worst case of a batch: all requests leave."""
    batches, stays = state.counters[BATCH] + 1, state.counters[STAYS] + 2 * len(state.queue)
    return bool(len(record.batches) < batches or len(record.stays) < stays)


@compilable(allocates=True)
def enlarged(record: CacheRecord, state: MachineState) -> CacheRecord:
    """Return a record with at least twice the rows."""
    more = len(record.batches) + len(record.stays) + 2 * len(state.queue)
    return CacheRecord(with_rows(record.batches, more), with_rows(record.stays, more))


#: Marks a queue entry whose request has started.
STARTED = -1
#: Members of `bfio.kvcache.run.StayEnd` as plain integers.
COMPLETED, CLEARED, OPEN = (int(end) for end in StayEnd)


def run_batches(
    state: MachineState, record: CacheRecord, rule: Any, rng: np.random.Generator
) -> tuple[int, CacheRecord]:
    """Run batches until the run ends; return the ending code and the record."""
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
    """Start requests by the rule of a policy; compiled runs call `start_requests` instead."""
    rule(state)


@compilable
def is_over(state: MachineState) -> bool:
    """Return whether all requests have completed."""
    counters = state.counters
    return bool(
        counters[WAITING] == 0
        and counters[RUNNING] == 0
        and counters[REVEALED] == len(state.queue)
    )


@compilable
def open_batch(state: MachineState, record: CacheRecord, rng: np.random.Generator) -> int:
    """Run the phases before the decision; return the ending code, or GOES_ON."""
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
    """Run the phases after the decision; return the ending code, or GOES_ON."""
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
    """Extend the believed end of each running request that exceeds its prediction."""
    counters, running, requests = state.counters, state.running, state.requests
    after = counters[BATCH] + 1
    k = 0
    # Rows are sorted by end, and all extended requests end with this batch: the order is kept.
    while k < counters[RUNNING] and running.end[k] < after:
        running.end[k] = after
        request = running.request[k]
        requests.believed[request] = after - requests.first[request]
        counters[ARMED] = 0
        k += 1


@compilable(allocates=True)
def make_room(state: MachineState, record: CacheRecord, rng: np.random.Generator) -> None:
    """Clear running requests in repeated random draws, until the others fit the memory."""
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
    """Count an overflow; return LOOP or CLEARINGS_LIMIT if it ends the run, else GOES_ON.

    After a full clearing no request runs, so the state consists of the queue and the beliefs. It
    is the same as after the previous full clearing if no request completed in between, no
    prediction changed (ARMED) and none arrived (SAW_ALL). A memoryless policy then repeats itself
    forever. Arrivals do not matter if the policy is first-come and never emptied the queue
    (RAN_DRY).
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
    """Return the number of requests that have arrived so far."""
    revealed, clock = int(state.counters[REVEALED]), state.counters[CLOCK]
    while revealed < len(state.queue) and state.requests.arrival[revealed] <= clock:
        revealed += 1
    return revealed


@compilable(allocates=True)
def reveal(state: MachineState, revealed: int) -> None:
    """Add the arrived requests to the queue."""
    enqueue(state, np.arange(int(state.counters[REVEALED]), revealed))
    state.counters[REVEALED] = revealed


@compilable(allocates=True)
def enqueue(state: MachineState, requests: IntArray) -> None:
    """Add requests, given in order of arrival, to the queue.

    The key of a request is its number, or its believed length and then its number.
    """
    counters, keys = state.counters, requests
    if len(requests) == 0:
        return
    if state.settings.is_shortest_first:
        keys = state.requests.believed[requests] * len(state.queue) + requests
        sort(keys)
    merge(state.queue, counters[WAITING], keys)
    counters[WAITING] += len(requests)
    counters[CHANGES] += 1
    counters[LEAST_NEED] = 0


@compilable
def waiting_at(state: MachineState, position: int) -> int:
    """Return the number of the request at a position in the queue."""
    return int(state.queue[position]) % len(state.queue)


@compilable
def admit(state: MachineState, position: int) -> None:
    """Start the request at a position in the queue; call `close_gaps` afterwards."""
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
    """Remove the started requests from the queue."""
    num = state.counters[WAITING]
    state.counters[WAITING] = keep(state.queue, num, state.queue[:num] != STARTED)
    state.counters[CHANGES] += 1


@compilable
def run_batch(state: MachineState, record: CacheRecord) -> None:
    """Run a batch and record it."""
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
    # Each running request holds one more token now.
    counters[USED] += running
    counters[CONTEXT] += running
    counters[NEW_PROMPT] = 0


@compilable(allocates=True)
def complete(state: MachineState, record: CacheRecord) -> None:
    """Complete the requests whose last batch has run."""
    counters, batch = state.counters, state.counters[BATCH]
    now = record.batches[batch - 1, 0] if state.settings.completes_at_start else counters[CLOCK]
    leaves = state.running.true_end[: counters[RUNNING]] == batch
    for request in leave(state, record, leaves, COMPLETED):
        state.requests.completion[request] = now
    counters[CLEARINGS] = 0
    counters[ARMED] = 0


@compilable(allocates=True)
def leave(state: MachineState, record: CacheRecord, leaves: BoolArray, end: int) -> IntArray:
    """Remove some running requests from the cache and record their stays.

    Return the removed requests in order of arrival.
    """
    counters, running, requests = state.counters, state.running, state.requests
    gone = running.request[: len(leaves)][leaves]
    sort(gone)
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
    """Record the stays of requests that still run at the end."""
    leave(state, record, np.ones(state.counters[RUNNING], np.bool_), OPEN)


#: Verdict and reason for each way a run ends.
_ENDS = {
    GOES_ON: (CacheVerdict.FINISHED, ""),
    LOOP: (CacheVerdict.LOOP, "the state recurred after an overflow without a completion"),
    CLEARINGS_LIMIT: (
        CacheVerdict.STOPPED,
        "too many consecutive overflows without a completion",
    ),
    BATCHES_LIMIT: (CacheVerdict.STOPPED, "the limit on the number of batches was reached"),
    IDLE_LIMIT: (
        CacheVerdict.STOPPED,
        "the policy started no request on an empty worker for too long",
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
    """Return the `CacheRun`, with requests identified by their index in the instance.

    Parameters
    ----------
    instance, name
        Instance, and name of the algorithm.
    state, record
        Final state and record of the machine.
    ended : int
        How the run ended, see `LOOP` and the other constants.
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
