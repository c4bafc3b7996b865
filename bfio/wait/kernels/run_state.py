"""What both loops share: how runs end, what they count, when requests get where."""

from typing import NamedTuple

import numpy as np

from bfio.common.kernels import in_place, kernel
from formulations.arrays import IntArray

#: How a run ended; GO_ON: it has not.
GO_ON, FINISHED, HORIZON, STUCK, STOPPED = range(5)
#: Entries of ``counters``: batches run; clock; requests revealed, that hold something, and
#: completed; rows of the tables of entries or spans, and of evictions.
BATCH, CLOCK, REVEALED, HOLDING, COMPLETED, ROWS, EVICTED, NUM_COUNTERS = range(8)
#: Columns of a batch, as in `bfio.wait.run`.
START, DURATION, TOKENS, MEMORY, PROMPTS, WAITING, NUM_BATCH_COLUMNS = range(7)
#: No time, no request.
NONE = -1


class Ending(NamedTuple):
    """See `bfio.wait.engine.Ending`; a horizon of -1 is none, ``clock`` the latest time."""

    horizon: int
    drain: bool
    batches: int
    clock: int


class Speed(NamedTuple):
    """See `bfio.wait.instance.StageClock`."""

    fixed: int
    per_token: int


class Times(NamedTuple):
    """See `bfio.wait.run.StageRun`."""

    prefilled: IntArray
    first_token: IntArray
    completion: IntArray


@kernel
def new_times(n: int) -> Times:
    """Return the times of requests that have got nowhere."""
    return Times(
        np.full(n, NONE, np.int64), np.full(n, NONE, np.int64), np.full(n, NONE, np.int64)
    )


@in_place
def how_it_ends(counters: IntArray, n: int, ending: Ending) -> int:
    """Return how the run ends before the next decision, GO_ON if it does not."""
    if ending.horizon >= 0 and counters[CLOCK] >= ending.horizon:
        return HORIZON
    if counters[COMPLETED] == n:
        return FINISHED
    if counters[BATCH] >= ending.batches or counters[CLOCK] >= ending.clock:
        return STOPPED
    return GO_ON


@in_place
def waiting_now(counters: IntArray) -> int:
    """Return the number of waiting requests: arrived, with no token in memory yet."""
    return int(counters[REVEALED] - counters[COMPLETED] - counters[HOLDING])


@in_place
def record_batch(
    batches: IntArray,
    counters: IntArray,
    speed: Speed,
    tokens: int,
    memory: int,
    prompts: int,
    waiting: int,
) -> None:
    """Write a batch down, and let its time pass."""
    batch, duration = counters[BATCH], speed.fixed + speed.per_token * tokens
    batches[batch, START], batches[batch, DURATION] = counters[CLOCK], duration
    batches[batch, TOKENS], batches[batch, MEMORY] = tokens, memory
    batches[batch, PROMPTS], batches[batch, WAITING] = prompts, waiting
    counters[CLOCK] += duration
    counters[BATCH] += 1
