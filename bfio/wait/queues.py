"""Queues before the segments of a run, as the proofs of Nested WAIT count them (appendix C)."""

from dataclasses import dataclass

import numpy as np

from bfio.wait.chains import ThresholdPolicy
from bfio.wait.run import Events, StageRun
from formulations.arrays import BoolArray, IntArray


@dataclass(frozen=True)
class SegmentQueues:
    """What waits before each segment, batch by batch; segments one chain after the other.

    Parameters
    ----------
    waiting : IntArray
        Shape (K, S): requests that wait at the first stage of a segment after the decision about
        a batch: they have passed the stage before, or arrived, and are not in the batch.
    served : BoolArray
        Shape (K, S): whether the batch serves the segment.
    moved : IntArray
        Shape (K, S): requests that come to wait before a segment when the batch ends; 0 for the
        first segment of a chain.
    is_first : BoolArray
        Shape (S,): whether a segment is the first of its chain.
    """

    waiting: IntArray
    served: BoolArray
    moved: IntArray
    is_first: BoolArray

    @property
    def recorded(self) -> IntArray:
        """``W_k^s`` of the proof, shape (K, S).

        A queue is looked at only in batches that serve the segment before it, and keeps its last
        value in between; that before a first segment is looked at in all of them.
        """
        num, width = self.waiting.shape
        looked = np.ones((num, width), dtype=bool)
        looked[:, 1:] = self.served[:, :-1]
        looked[:, self.is_first] = True
        rows = np.where(looked, np.arange(num)[:, np.newaxis], -1)
        last = np.maximum.accumulate(rows, axis=0)
        values = self.waiting[np.maximum(last, 0), np.arange(width)]
        return np.where(last >= 0, values, 0)

    def transfers(self, segment: int) -> IntArray:
        """Return ``Y_k`` of the batches that serve the segment before, in their order.

        Parameters
        ----------
        segment : int
            Which one; not the first of a chain.
        """
        moved: IntArray = self.moved[self.served[:, segment - 1], segment]
        return moved


def queue_lengths(run: StageRun, policy: ThresholdPolicy) -> SegmentQueues:
    """Count what waits before the segments of a run, from its stage events alone.

    Parameters
    ----------
    run : StageRun
        A run without evictions.
    policy : ThresholdPolicy
        Whose segments are meant.
    """
    events, chain_of = run.log.events(), policy.chain_of(run.instance)
    waiting, served, moved, is_first = [], [], [], []
    for c, chain in enumerate(policy.chains):
        own = chain_of[events.request] == c
        mine = Events(events.batch[own], events.request[own], events.stage[own])
        arrival = run.instance.arrival[chain_of == c]
        for entry, end, _ in chain.segments:
            come, coming = _come(run, mine, entry, arrival)
            waiting.append(come - np.cumsum(_per_batch(run, mine, mine.stage == entry)))
            inside = (mine.stage >= entry) & (mine.stage <= end)
            served.append(_per_batch(run, mine, inside) > 0)
            moved.append(coming)
            is_first.append(entry == 0)
    return SegmentQueues(
        np.column_stack(waiting),
        np.column_stack(served),
        np.column_stack(moved),
        np.array(is_first),
    )


def _come(
    run: StageRun, events: Events, entry: int, arrival: IntArray
) -> tuple[IntArray, IntArray]:
    """Return who has come to a stage before each batch, and who comes when it ends."""
    if entry == 0:
        come = np.searchsorted(arrival, run.batches.start, side="right")
        return come.astype(np.int64), np.zeros(len(come), dtype=np.int64)
    goes_on = (events.stage == entry - 1) & (run.instance.output[events.request] >= entry)
    coming = _per_batch(run, events, goes_on)
    return np.cumsum(coming) - coming, coming


def _per_batch(run: StageRun, events: Events, which: BoolArray) -> IntArray:
    found: IntArray = np.bincount(events.batch[which], minlength=len(run.batches))
    return found
