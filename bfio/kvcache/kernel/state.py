"""What the compiled engine works on. Requests are numbered in order of arrival."""

from typing import NamedTuple

import numpy as np

from bfio.common.kernels import in_place, kernel
from formulations.arrays import IntArray

#: Rows of ``active``: request, its first batch, the batch after its believed last one, and the
#: tokens it would have needed in batch 0.
REQUEST, FIRST, END, LEVEL = range(4)
#: Entries of ``counters``: batches run; clock; requests revealed,
#: waiting and running; stays that ended; overflows and draws; those of
#: `bfio.kvcache.engine.LoopWatch`; and the least need of those waiting (0 if not known), without
#: which a scan that tries everyone would do so in every batch.
(
    BATCH, CLOCK, REVEALED, WAITING, RUNNING, STAYS, OVERFLOWS, DRAWS,
    CLEARINGS, ARMED, SAW_ALL, RAN_DRY, LEAST_NEED, NUM_COUNTERS,
) = range(14)  # fmt: skip
#: How a stay ended, as `bfio.kvcache.run.StayEnd`.
COMPLETED, CLEARED, OPEN = range(3)
#: How a run ended.
FINISHED, LOOP, CLEARINGS_LIMIT, BATCHES_LIMIT = range(4)
#: Columns of batches and stays, as in `bfio.kvcache.run`.
BATCH_COLUMNS, STAY_COLUMNS = 5, 4


class Requests(NamedTuple):
    """Data by order of arrival; ``believed`` grows when a prediction is outlived."""

    arrival: IntArray
    prompt: IntArray
    first_need: IntArray
    length: IntArray
    believed: IntArray


class Rule(NamedTuple):
    """The policy: look-ahead if ``limit`` is negative, else protection with that limit.

    Protection looks at its limit before each prompt, or ``once_per_batch`` before all of them;
    ``cap`` is the most requests in a batch, 0 for any number.
    """

    memory: int
    limit: int
    once_per_batch: bool
    cap: int
    shortest: bool
    keep_scanning: bool
    chance: float
    pause: int
    completes_at_start: bool
    base: int
    per_request: int
    per_context: int
    per_prompt: int
    max_batches: int
    max_clearings: int


class Work(NamedTuple):
    """State of a run.

    ``active`` has one column per running request, sorted by the batch after its believed last
    one; ``queue`` holds the sorted keys of those waiting (see `keys_of`); ``leaving`` marks who
    is about to leave the cache. ``start`` and ``completion`` have one entry per request, -1 where
    there is none.
    """

    counters: IntArray
    active: IntArray
    queue: IntArray
    leaving: IntArray
    start: IntArray
    completion: IntArray


@kernel
def new_work(n: int) -> Work:
    """Return the state in which nobody has arrived."""
    return Work(
        np.zeros(NUM_COUNTERS, np.int64),
        np.empty((4, n), np.int64),
        np.empty(n, np.int64),
        np.zeros(n, np.int64),
        np.full(n, -1, np.int64),
        np.full(n, -1, np.int64),
    )


@in_place
def needed(active: IntArray, running: int, batch: int) -> int:
    """Return the tokens the running requests need in a batch."""
    tokens = 0
    for j in range(running):
        tokens += active[LEVEL, j] + batch
    return tokens


@kernel
def keys_of(numbers: IntArray, requests: Requests, shortest: bool) -> IntArray:
    """Return sorted keys of requests: their number, or believed length first and number second."""
    keys = numbers.copy()
    if shortest:
        for k in range(len(keys)):
            keys[k] += requests.believed[numbers[k]] * len(requests.arrival)
    return np.sort(keys)


@in_place
def merge(queue: IntArray, waiting: int, new: IntArray) -> None:
    """Merge sorted new keys into the sorted queue."""
    write, old, fresh = waiting + len(new) - 1, waiting - 1, len(new) - 1
    while fresh >= 0:
        if old >= 0 and queue[old] > new[fresh]:
            queue[write] = queue[old]
            old -= 1
        else:
            queue[write] = new[fresh]
            fresh -= 1
        write -= 1
