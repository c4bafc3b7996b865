"""The state of a run: flat arrays, and what their entries mean."""

from typing import NamedTuple

import numpy as np

from bfio.wait.instance import StageInstance
from bfio.wait.machine.arrays import Filled
from formulations.arrays import IntArray

# Entries of `Course.counters`: batches run; the time; requests revealed, that hold something, and
# completed; tokens that those who hold something count at their next stages; rows filled of the
# tables of spans or entries, and of evictions.
(BATCH, CLOCK, REVEALED, HOLDING, COMPLETED, HELD_TOKENS, ROWS, EVICTED, NUM_COUNTERS) = range(9)

#: How a run ended, as numbered by `bfio.wait.run.StageVerdict`; GO_ON: it has not.
GO_ON, FINISHED, AT_HORIZON, STUCK, STOPPED = range(5)
#: No time, no request, no batch.
NONE = -1
#: Rows of a new table.
_FIRST_ROWS = 1024


class Ending(NamedTuple):
    """When a run ends.

    Parameters
    ----------
    duration : int
        Clock value from which on no batch starts; -1: when nothing is left to do.
    drain : bool
        Whether policies are told, after the last arrival, to serve what is left.
    batches : int
        Most batches; then the run is given up.
    """

    duration: int = NONE
    drain: bool = True
    batches: int = 10**8


class Course(NamedTuple):
    """What every run has: its constants, how far it has got, the times of requests, its batches.

    Parameters
    ----------
    ending, fixed, per_token
        When it ends, and how long batches last, as in `bfio.wait.instance.StageClock`.
    counters : IntArray or list of int
        See the names of their entries above. Interpreted runs have a list, which is much faster.
    arrival, prompt, output : IntArray
        Shape (n,), as in `bfio.wait.instance.StageInstance`.
    prefilled, first_token, completion : IntArray
        Shape (n,), as in `bfio.wait.run.StageRun`; -1 where it has not happened.
    batches : IntArray
        Shape (K and more, 6): the columns of `bfio.wait.run.StageBatches`.
    """

    ending: Ending
    fixed: int
    per_token: int
    counters: Filled
    arrival: IntArray
    prompt: IntArray
    output: IntArray
    prefilled: IntArray
    first_token: IntArray
    completion: IntArray
    batches: IntArray


class Presence(NamedTuple):
    """Who is there, request by request, and what has become of whom.

    Parameters
    ----------
    line : IntArray
        Shape (n,). Those that hold something are ``line[COMPLETED : COMPLETED + HOLDING]``, those
        that wait follow up to REVEALED; either are in order of arrival.
    stage : IntArray
        Shape (n,): which stage each passes next; 0 for those that wait.
    first_batch, first_stage, last_batch : IntArray
        Shape (n,): the *span* of each: batches without a pause in each of which it passed a stage.
    spans : IntArray
        Shape (J and more, 4): request, first batch, first stage, number of batches.
    evictions : IntArray
        Shape (V and more, 2): request, and batch before which it happened.
    """

    line: IntArray
    stage: IntArray
    first_batch: IntArray
    first_stage: IntArray
    last_batch: IntArray
    spans: IntArray
    evictions: IntArray


def new_course(instance: StageInstance, ending: Ending) -> Course:
    """Return a run at its beginning, to be interpreted."""
    n = len(instance)
    return Course(
        ending=ending,
        fixed=instance.clock.fixed,
        per_token=instance.clock.per_token,
        counters=[0] * NUM_COUNTERS,
        # Copies: contiguous and writeable, so that one machine code serves all.
        arrival=instance.arrival.copy(),
        prompt=instance.prompt.copy(),
        output=instance.output.copy(),
        prefilled=filled(n, NONE),
        first_token=filled(n, NONE),
        completion=filled(n, NONE),
        batches=new_table(6),
    )


def new_presence(n: int) -> Presence:
    """Return n requests none of which has started."""
    return Presence(
        line=np.arange(n, dtype=np.int64),
        stage=filled(n),
        first_batch=filled(n, NONE),
        first_stage=filled(n, NONE),
        last_batch=filled(n, NONE),
        spans=new_table(4),
        evictions=new_table(2),
    )


def filled(length: int, value: int = 0) -> IntArray:
    """Return so many equal integers."""
    return np.full(length, value, dtype=np.int64)


def new_table(columns: int) -> IntArray:
    """Return an empty table."""
    return np.empty((_FIRST_ROWS, columns), dtype=np.int64)


def with_rows(table: IntArray, rows: int) -> IntArray:
    """Return the table itself if it has so many rows, or a copy with at least twice its own."""
    if rows <= len(table):
        return table
    larger = np.empty((max(rows, 2 * len(table)), table.shape[1]), dtype=np.int64)
    larger[: len(table)] = table
    return larger
