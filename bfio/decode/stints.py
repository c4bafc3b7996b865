"""Stints: the intervals in which a request had a slot; an interrupted request has several."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.arrays import BoolArray, IntArray

if TYPE_CHECKING:
    from bfio.decode.run import Run


class Cause(IntEnum):
    """Cause of a stint's end before the request finished: a column of `Run.interruptions`."""

    #: The memory of the worker overflowed; the request waits again, and its cache is recomputed.
    RECOMPUTATION = 0
    #: The memory of the worker overflowed; the cache of the request is moved to the host.
    SWAP = 1
    #: The worker failed; the request waits again.
    FAILURE = 2
    #: The client cancelled the request.
    CANCELLATION = 3


class Stints(NamedTuple):
    """The stints of all requests, sorted by request, then by time."""

    #: Shape (m,).
    request: IntArray
    worker: IntArray
    #: Shape (m,): first step, and first step after the stint.
    start: IntArray
    end: IntArray
    cause: IntArray  #: Shape (m,): a `Cause`, or -1 if the request finished or still runs.
    rested: IntArray  #: Shape (m,): number of steps of the stint at which the request rested.

    @property
    def waits_again(self) -> BoolArray:
        """Whether the request waits in the pool after each stint, shape (m,)."""
        return np.isin(self.cause, (Cause.RECOMPUTATION, Cause.FAILURE))

    @property
    def was_waiting(self) -> BoolArray:
        """Whether the request waited before each stint, shape (m,); false after a swap."""
        waited = np.ones(len(self.request), dtype=np.bool_)
        same = self.request[1:] == self.request[:-1]
        waited[1:] = ~same | self.waits_again[:-1]
        return waited

    @property
    def emitted(self) -> IntArray:
        """Number of tokens that the request has emitted at the end of each stint, shape (m,)."""
        totals = np.cumsum(self.end - self.start - self.rested)
        first = np.searchsorted(self.request, self.request)
        before = np.concatenate(([0], totals))[first]
        return totals - before


def stints(run: Run) -> Stints:
    """Return the intervals in which each request of a run had a slot."""
    last = np.flatnonzero(run.last_start_step >= 0)
    # A request that left its worker and has not returned has no stint beyond the recorded ones.
    left = np.full(run.num_requests, -1, dtype=np.int64)
    np.maximum.at(left, run.interruptions[:, 0], run.interruptions[:, 2])
    last = last[run.last_start_step[last] > left[last]]
    finish = run.finish_step[last]
    ends = np.where(finish >= 0, finish + 1, run.steps)
    final = (last, run.worker[last], run.last_start_step[last], ends, np.full(len(last), -1))
    columns = [np.concatenate(pair) for pair in zip(run.interruptions.T, final, strict=True)]
    order = np.lexsort((columns[2], columns[0]))
    request, worker, start, end, cause = (column[order] for column in columns)
    rested = np.zeros(len(request), dtype=np.int64)
    if run.rests is not None and len(rested):
        which = stints_of(run.rests, request, start, run.steps)
        np.add.at(rested, which, run.rests[:, 2] - run.rests[:, 1])
    return Stints(request, worker, start, end, cause, rested)


def waiting_totals(run: Run) -> dict[str, IntArray]:
    """Return sums over the requests left waiting after admission at each step, shape (K,).

    The sums are those of ``prompt_tokens`` and of ``reveal_step``.
    """
    # Events that did not happen, at step -1, change the last entry, which is left out.
    everyone: Any = slice(None)
    changes = [(np.add, run.reveal_step, everyone), (np.subtract, run.start_step, everyone)]
    if len(run.interruptions) > 0 or run.cancelled > 0:
        of = stints(run)
        later = of.was_waiting & (of.start != run.start_step[of.request])
        gone = np.flatnonzero(cancelled_while_waiting(run, of))
        changes += [
            (np.subtract, of.start[later], of.request[later]),
            (np.add, of.end[of.waits_again], of.request[of.waits_again]),
            (np.subtract, run.cancel_step[gone], gone),
        ]
    totals = {}
    for name in ("prompt_tokens", "reveal_step"):
        change, values = np.zeros(run.steps + 1, dtype=np.int64), getattr(run, name)
        for operation, steps, requests in changes:
            operation.at(change, steps, values[requests])
        if run.expiries is not None:
            # Stays in the pool before the last one, which ``reveal_step`` is about.
            who, ready, lost = run.expiries.T
            own = ready if name == "reveal_step" else values[who]
            np.add.at(change, ready, own)
            np.subtract.at(change, lost, own)
        totals[name] = np.cumsum(change[:-1])
    return totals


def stints_of(rests: IntArray, request: IntArray, start: IntArray, steps: int) -> IntArray:
    """Return the index of the stint that contains each rest; arbitrary if no stint does.

    ``rests`` has the format of `bfio.decode.run.Run`; ``request`` and ``start``, shape (m,) with m
    >= 1, describe the stints in their order.
    """
    span = steps + 1
    begun = request * span + start
    found = np.searchsorted(begun, rests[:, 0] * span + rests[:, 1], side="right") - 1
    return np.maximum(found, 0)


def cancelled_while_waiting(run: Run, of: Stints) -> BoolArray:
    """Return whether each request was cancelled while it waited, shape (n,)."""
    # A request that is not revealed has not reached the pool.
    waits = (run.cancel_step >= 0) & (run.reveal_step >= 0)
    ran = np.append(of.request[1:] != of.request[:-1], True)[: len(of.request)]
    # Stints of a request are in order of time; the last one decides.
    waits[of.request[ran]] &= of.waits_again[ran]
    return waits
