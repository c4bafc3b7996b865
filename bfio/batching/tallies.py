"""Counters, random draws and logs of a run, as integer tables shared by both engines.

The log records the arrival of each task and the contents of each batch. All results can be derived
from it.

The draws of a task are one row of its stage's block.
"""

from dataclasses import dataclass

import numpy as np

from formulations.arrays import IntArray, frozen

# Columns of each engine: busy slots, batches, tokens loaded by phase, batches with b' = b and with
# b' < min(b, eligible); present requests that have not departed, present unprocessed tokens; both
# summed over slots.
(BUSY, BATCHES, PREFILL, DECODE, FULL, SHORT, REQUESTS, TOKENS, AREA_REQUESTS, AREA_TOKENS,
 NUM_ENGINE) = range(11)  # fmt: skip
# Columns of each stage: tasks that joined, tasks that are done; present tasks in the prefill and
# in the decode phase, present unprocessed tokens.
JOINED, DONE, PREFILLING, DECODING, WORK, NUM_STAGE = range(6)
# Rows: time from joining an agent to the end of the prefill; time between two tokens (for the
# first: since the end of the prefill); time from arrival to departure of a request.
TTFT, TBT, E2E, NUM_TIMES = range(4)
# Columns of each of these times.
COUNT, SUM, LONGEST, IN_TIME, DEADLINE, NUM_MEASURE = range(6)
# Columns of the whole run: requests that arrived, requests that departed.
ARRIVED, DEPARTED, NUM_RUN = range(3)

#: Smaller values have a bin each; above, each power of two has half as many bins.
_EXACT, _HALF, _BITS = 256, 128, 8
NUM_BINS = _EXACT + (62 - _BITS) * _HALF


@dataclass(frozen=True)
class Tallies:
    """Counters of a run from its start to some slot.

    Parameters
    ----------
    slot : int
        End of the counted slots, exclusive.
    run : IntArray
        Shape (2,).
    engines : IntArray
        Shape (E, 10).
    stages : IntArray
        Shape (n, 5).
    times : IntArray
        Shape (3, 5) [slots].
    histograms : IntArray
        Shape (3, bins): count of each time in each bin, see `bin_of`.
    """

    slot: int
    run: IntArray
    engines: IntArray
    stages: IntArray
    times: IntArray
    histograms: IntArray

    def since(self, before: "Tallies") -> "Tallies":
        """Return the counts since an earlier slot; current amounts are kept unchanged."""
        engines, stages, times = self.engines.copy(), self.stages.copy(), self.times.copy()
        for table, old, kept in (
            (engines, before.engines, (REQUESTS, TOKENS)),
            (stages, before.stages, (PREFILLING, DECODING, WORK)),
            (times, before.times, (LONGEST, DEADLINE)),
        ):
            columns = [c for c in range(table.shape[1]) if c not in kept]
            table[:, columns] -= old[:, columns]
        return Tallies(
            self.slot - before.slot,
            self.run - before.run,
            engines,
            stages,
            times,
            self.histograms - before.histograms,
        )


@dataclass(frozen=True)
class Moment:
    """State of a run at some slot, for its time series.

    Parameters
    ----------
    slot : int
        End of the counted slots, exclusive.
    run : IntArray
        Shape (2,).
    stages : IntArray
        Shape (n, 5).
    loaded : IntArray
        Shape (E,): tokens loaded by each engine so far.
    """

    slot: int
    run: IntArray
    stages: IntArray
    loaded: IntArray


def bin_of(value: int) -> int:
    """Return the bin of an integer >= 0; the width of a bin is at most 1/128 of its values."""
    if value < _EXACT:
        return value
    shift = value.bit_length() - _BITS
    return _EXACT + (shift - 1) * _HALF + (value >> shift) - _HALF


def percentile(histogram: IntArray, longest: int, share: float) -> float | None:
    """Return a quantile of the counted times; None without times.

    Values are assumed uniform within a bin; the result is exact below 256.
    """
    total = int(histogram.sum())
    if total == 0:
        return None
    # Rank of the wanted order statistic; a single value has rank 1.
    wanted = share * (total - 1) + 1
    reached = np.cumsum(histogram)
    k = int(np.searchsorted(reached, wanted - 1e-9))
    # The smallest value of each bin, and the end of the last bin.
    shifts, parts = np.divmod(np.arange(NUM_BINS - _EXACT + 1), _HALF)
    edges = np.concatenate((np.arange(float(_EXACT)), (parts + _HALF) * 2.0 ** (shifts + 1)))
    low, high = float(edges[k]), float(edges[k + 1])
    if high - low <= 1:
        return low
    before = float(reached[k] - histogram[k])
    return min(low + (high - low) * (wanted - before - 0.5) / float(histogram[k]), float(longest))


# Rows of the raw log: kind, then
#   task: task, request, stage, engine, slot from which on it may be loaded, prefill, decode;
#   batch: engine, first slot, slots, tokens, parts;
#   part of the batch above: task, tokens, whether it is a decode token.
LOG_TASK, LOG_BATCH, LOG_PART = range(3)
NUM_LOG = 8


@dataclass(frozen=True)
class BatchLog:
    """All tasks and batches of a run.

    Parameters
    ----------
    tasks : IntArray
        Shape (T, 7), row i is task i: number, request, stage, engine, first slot in which it may
        be loaded, prefill tokens, decode tokens.
    batches : IntArray
        Shape (B, 5), in the order of their decisions: engine, first slot, slots, tokens, parts.
    parts : IntArray
        Shape (P, 4), sorted: batch, task, tokens, whether it is a decode token.
    """

    tasks: IntArray
    batches: IntArray
    parts: IntArray

    @staticmethod
    def of(rows: IntArray) -> "BatchLog":
        """Return the log of raw rows, shape (L, 8)."""
        kind = rows[:, 0]
        batch = np.cumsum(kind == LOG_BATCH) - 1
        parts = np.column_stack((batch, rows[:, 1:4]))[kind == LOG_PART].astype(np.int64)
        return BatchLog(
            frozen(rows[kind == LOG_TASK, 1:8].copy()),
            frozen(rows[kind == LOG_BATCH, 1:6].copy()),
            frozen(parts[np.lexsort((parts[:, 1], parts[:, 0]))]),
        )


# Columns of draws: sizes; delay before the task; next stage; engine of a random balancer.
D_PREFILL, D_DECODE, D_DELAY, D_SUCCESSOR, D_ENGINE, NUM_DRAWN = range(6)
#: Next stage of a task after which the request departs.
DEPARTS = -1
