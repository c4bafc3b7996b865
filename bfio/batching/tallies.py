"""What every engine counts, draws and logs while it runs, in tables of integers.

The log of a run: who came when, and what each batch held; from it all else can be derived.

What a task draws when it comes to its stage: columns of blocks of draws.
"""

from dataclasses import dataclass

import numpy as np

from formulations.arrays import FloatArray, IntArray, frozen

# Columns for each engine: slots busy, batches, tokens loaded by phase, batches with b' = b and
# with b' < min(b, eligible); now there: requests that have not departed, unprocessed tokens; both
# summed over slots.
(BUSY, BATCHES, PREFILL, DECODE, FULL, SHORT, REQUESTS, TOKENS, AREA_REQUESTS, AREA_TOKENS,
 NUM_ENGINE) = range(11)  # fmt: skip
# Columns for each stage: tasks that joined and that are done; now there: tasks in the prefill and
# in the decode phase, unprocessed tokens.
JOINED, DONE, PREFILLING, DECODING, WORK, NUM_STAGE = range(6)
# Rows: time from joining an agent to the end of the prefill there; between two tokens (first: from
# the end of the prefill); from the arrival of a request to its departure.
TTFT, TBT, E2E, NUM_TIMES = range(4)
# Columns for each of these times.
COUNT, SUM, LONGEST, IN_TIME, DEADLINE, NUM_MEASURE = range(6)
# Columns of the whole run: requests that arrived and that departed.
ARRIVED, DEPARTED, NUM_RUN = range(3)

#: Values below have a bin of their own; above, each power of two has half as many.
_EXACT, _HALF, _BITS = 256, 128, 8
NUM_BINS = _EXACT + (62 - _BITS) * _HALF


@dataclass(frozen=True)
class Tallies:
    """Counts of a run up to some slot.

    Parameters
    ----------
    slot : int
        Up to which, itself not counted.
    run : IntArray
        Shape (2,).
    engines : IntArray
        Shape (E, 10).
    stages : IntArray
        Shape (n, 5).
    times : IntArray
        Shape (3, 5) [slots].
    histograms : IntArray
        Shape (3, bins): how often each of these times was in each bin, see `bin_of`.
    """

    slot: int
    run: IntArray
    engines: IntArray
    stages: IntArray
    times: IntArray
    histograms: IntArray

    def since(self, before: "Tallies") -> "Tallies":
        """Return what was counted after an earlier slot; what is there now stays as it is."""
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
    """How a run stands in some slot: what its course keeps of it.

    Parameters
    ----------
    slot : int
        Which, itself not counted.
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
    """Return the bin of a whole number >= 0: its width is at most 1/128 of its values."""
    if value < _EXACT:
        return value
    shift = value.bit_length() - _BITS
    return _EXACT + (shift - 1) * _HALF + (value >> shift) - _HALF


def bin_edges() -> FloatArray:
    """Return the least value of each bin, and the end of the last, shape (bins + 1,)."""
    shifts, parts = np.divmod(np.arange(NUM_BINS - _EXACT + 1), _HALF)
    wide = (parts + _HALF) * 2.0 ** (shifts + 1)
    return np.concatenate((np.arange(float(_EXACT)), wide))


def percentile(histogram: IntArray, longest: int, share: float) -> float | None:
    """Return the value below which a share of those counted lies, None if there are none.

    Within a bin values are taken as evenly spread; exact below 256.
    """
    total = int(histogram.sum())
    if total == 0:
        return None
    # The order statistic that a share of all reach: of one value, this one.
    wanted = share * (total - 1) + 1
    reached = np.cumsum(histogram)
    k = int(np.searchsorted(reached, wanted - 1e-9))
    edges = bin_edges()
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
        """Return the log that raw rows, shape (L, 8), make."""
        kind = rows[:, 0]
        batch = np.cumsum(kind == LOG_BATCH) - 1
        parts = np.column_stack((batch, rows[:, 1:4]))[kind == LOG_PART].astype(np.int64)
        return BatchLog(
            frozen(rows[kind == LOG_TASK, 1:8].copy()),
            frozen(rows[kind == LOG_BATCH, 1:6].copy()),
            frozen(parts[np.lexsort((parts[:, 1], parts[:, 0]))]),
        )


# Sizes; the delay before it; the stage after it; the engine that a random balancer gives it.
D_PREFILL, D_DECODE, D_DELAY, D_SUCCESSOR, D_ENGINE, NUM_DRAWN = range(6)
#: In the place of the stage after it: the request departs.
DEPARTS = -1
