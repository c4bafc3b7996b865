"""The state of a run: flat arrays, and what their rows and entries mean.

Requests are numbered in order of arrival (ties: by index), so that smaller means earlier.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.machine.arrays import with_rows
from bfio.kvcache.policy import CachePolicy, clearing_of
from bfio.kvcache.run import CacheLimits
from formulations.arrays import IntArray
from formulations.hindsight_latency import Convention

# Rows of `State.requests`: fixed but for BELIEVED, the batches a request is believed to occupy,
# which grows when they are outlived. NEED: tokens in its first batch.
(ARRIVAL, PROMPT, NEED, LENGTH, BELIEVED) = range(5)

# Rows of `State.marks`, -1 where it has not happened: the batch with which a request last started,
# and the clock values of start and completion, once it is known that they stand.
(FIRST, START, COMPLETION) = range(3)

# Rows of `State.active`: number of a running request, the batch after the last one it is believed
# to be in, the batch after its true last one, and the tokens it would have needed in batch 0.
(REQUEST, END, TRUE_END, LEVEL) = range(4)

# Entries of `State.counters`. BATCH: batches run. USED: tokens that the running requests need in
# the coming batch. CONTEXT: batches they have behind them. NEW_PROMPT: prompts that start with the
# coming batch. NEXT_END: the least TRUE_END. IDLE: decisions in a row that left the worker empty.
# CHANGES: how often the queue has changed. CLEARINGS to RAN_DRY: see `phases.note_overflow`.
# LEAST_NEED: of those waiting, 0 if not known; without it, a scan that tries everyone would do so
# in every batch.
(
    CLOCK, BATCH, REVEALED, WAITING, RUNNING, STAYS, USED, CONTEXT, NEW_PROMPT, NEXT_END, IDLE,
    CHANGES, OVERFLOWS, DRAWS, CLEARINGS, ARMED, SAW_ALL, RAN_DRY, LEAST_NEED, NUM_COUNTERS,
) = range(20)  # fmt: skip

#: How a run ends; until then it goes on.
GOES_ON, LOOP, CLEARINGS_LIMIT, BATCHES_LIMIT, IDLE_LIMIT = range(5)


class Settings(NamedTuple):
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


class State(NamedTuple):
    """Everything a run changes, and its constants.

    Parameters
    ----------
    settings : Settings
        The constants.
    counters : IntArray or list of int
        See the names of its entries above. Interpreted runs have a list, whose entries are read
        several times as fast as those of an array.
    requests, marks : IntArray
        Shapes (5, n) and (3, n); see the names of their rows.
    active : IntArray
        Shape (4, n): one column per running request, sorted by END; see the names of its rows.
    queue : IntArray
        Shape (n,): sorted keys of those who wait, see `phases.enqueue`.
    leaving : IntArray
        Shape (n,): 1 for those who are about to leave the cache.
    """

    settings: Settings
    counters: IntArray | list[int]
    requests: IntArray
    marks: IntArray
    active: IntArray
    queue: IntArray
    leaving: IntArray


class Record(NamedTuple):
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
) -> Settings:
    """Return the settings of a run."""
    time, clearing = instance.batch_time, clearing_of(policy)
    return Settings(
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
    instance: CacheInstance, believed: IntArray, settings: Settings, *, interpreted: bool = False
) -> State:
    """Return the state in which nobody has arrived."""
    n, counters = len(instance), [0] * NUM_COUNTERS
    rows = (
        instance.arrival,
        instance.prompt,
        instance.first_need,
        instance.num_batches,
        believed,
    )
    return State(
        settings=settings,
        counters=counters if interpreted else np.array(counters, dtype=np.int64),
        requests=np.array(rows, dtype=np.int64)[:, order_of(instance)].copy(),
        marks=np.full((3, n), -1, dtype=np.int64),
        active=np.empty((4, n), dtype=np.int64),
        queue=np.empty(n, dtype=np.int64),
        leaving=np.zeros(n, dtype=np.int64),
    )


def new_record() -> Record:
    """Return a record without rows, and room for some."""
    return Record(np.empty((1024, 5), dtype=np.int64), np.empty((1024, 4), dtype=np.int64))


@compilable
def is_full(record: Record, state: State) -> bool:
    """Whether a record has no room for one more batch, in which all are cleared and complete."""
    batches, stays = state.counters[BATCH] + 1, state.counters[STAYS] + 2 * len(state.queue)
    return bool(len(record.batches) < batches or len(record.stays) < stays)


@compilable(allocates=True)
def enlarged(record: Record, state: State) -> Record:
    """Return a record with room for at least as much again."""
    more = len(record.batches) + len(record.stays) + 2 * len(state.queue)
    return Record(with_rows(record.batches, more), with_rows(record.stays, more))
