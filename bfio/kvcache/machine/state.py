"""The state of a run: flat arrays, and what their entries mean.

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
        Shape (n,): sorted keys of those who wait, see `bfio.kvcache.machine.phases.enqueue`.
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
