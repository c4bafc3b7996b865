"""The log of a run: who came when, and what each batch held; from it all else can be derived."""

from dataclasses import dataclass

import numpy as np

from formulations.arrays import IntArray, frozen

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
