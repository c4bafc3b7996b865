"""When and where each request ran: one stint, or several of one that was interrupted."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.arrays import BoolArray, IntArray

if TYPE_CHECKING:
    from bfio.decode.run import Run


class Cause(IntEnum):
    """Why a stint ended before the request was done: last column of `Run.interruptions`."""

    #: The memory of its worker overflowed: it waits again, to be computed anew.
    RECOMPUTATION = 0
    #: The same, and it is held on the host.
    SWAP = 1
    #: Its worker failed: it waits again.
    FAILURE = 2
    #: Its client gave up.
    CANCELLATION = 3


class Stints(NamedTuple):
    """Stints of all requests; those of one request in order of time.

    Parameters
    ----------
    request, worker : IntArray
        Shape (m,).
    start, end : IntArray
        Shape (m,): first step, and the first after it at which it does not run any more.
    cause : IntArray
        Shape (m,): a `Cause`, or -1 of a request that is done or still runs.
    rested : IntArray
        Shape (m,): steps of it at which the request rested.
    """

    request: IntArray
    worker: IntArray
    start: IntArray
    end: IntArray
    cause: IntArray
    rested: IntArray

    @property
    def waits_again(self) -> BoolArray:
        """Stints after which the request waits among the others, shape (m,)."""
        again: BoolArray = np.isin(self.cause, (Cause.RECOMPUTATION, Cause.FAILURE))
        return again

    @property
    def was_waiting(self) -> BoolArray:
        """Stints before which the request waited, shape (m,): not those back from the host."""
        waited = np.ones(len(self.request), dtype=np.bool_)
        same = self.request[1:] == self.request[:-1]
        waited[1:] = ~same | self.waits_again[:-1]
        return waited

    @property
    def emitted(self) -> IntArray:
        """Tokens that the request has emitted when a stint ends, shape (m,)."""
        totals = np.cumsum(self.end - self.start - self.rested)
        first = np.searchsorted(self.request, self.request)
        before = np.concatenate(([0], totals))[first]
        emitted: IntArray = totals - before
        return emitted


def stints(run: Run) -> Stints:
    """Return the stints of a run."""
    last = np.flatnonzero(run.last_start_step >= 0)
    # Who left its worker and has not come back has no last stint beside those that are noted.
    left = np.full(run.num_requests, -1, dtype=np.int64)
    np.maximum.at(left, run.interruptions[:, 0], run.interruptions[:, 2])
    last = last[run.last_start_step[last] > left[last]]
    finish = run.finish_step[last]
    ends = np.where(finish >= 0, finish + 1, run.steps)
    final = (last, run.worker[last], run.last_start_step[last], ends, np.full(len(last), -1))
    columns = [np.concatenate(pair) for pair in zip(run.interruptions.T, final, strict=True)]
    order = np.lexsort((columns[2], columns[0]))
    request, worker, start, end, cause = (column[order] for column in columns)
    return Stints(request, worker, start, end, cause, _rested(run, request, start))


def _rested(run: Run, request: IntArray, start: IntArray) -> IntArray:
    """Return how many steps of each stint its request rested, shape (m,)."""
    rested = np.zeros(len(request), dtype=np.int64)
    if run.rests is not None and len(rested):
        which = stints_of(run.rests, request, start, run.steps)
        np.add.at(rested, which, run.rests[:, 2] - run.rests[:, 1])
    return rested


def stints_of(rests: IntArray, request: IntArray, start: IntArray, steps: int) -> IntArray:
    """Return in which stint each rest lies, if it lies in one.

    ``rests`` are those of `bfio.decode.run.Run`; ``request`` and ``start``, shape (m,), m >= 1,
    are of the stints, in their order.
    """
    span = steps + 1
    begun = request * span + start
    found = np.searchsorted(begun, rests[:, 0] * span + rests[:, 1], side="right") - 1
    which: IntArray = np.maximum(found, 0)
    return which


def cancelled_while_waiting(run: Run, of: Stints) -> BoolArray:
    """Return who gave up while waiting, for the first time or again, shape (n,)."""
    # Who is not revealed is still before the pool.
    waits = (run.cancel_step >= 0) & (run.reveal_step >= 0)
    ran = np.append(of.request[1:] != of.request[:-1], True)[: len(of.request)]
    # Stints of one request are in order of time: what its last one ended with.
    waits[of.request[ran]] &= of.waits_again[ran]
    return waits
