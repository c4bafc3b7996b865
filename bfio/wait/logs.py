"""The compact records of the compiled engines, from which all stage events follow."""

from dataclasses import dataclass

import numpy as np

from bfio.wait.chains import ThresholdPolicy
from bfio.wait.instance import StageInstance
from bfio.wait.run import Events
from formulations.arrays import IntArray


@dataclass(frozen=True)
class SpanLog:
    """Spans of consecutive batches in each of which a request passed a stage.

    Parameters
    ----------
    request, first_batch, first_stage, count : IntArray
        Shape (J,).
    """

    request: IntArray
    first_batch: IntArray
    first_stage: IntArray
    count: IntArray

    def events(self) -> Events:
        """Return all stage events."""
        passed = _counting(self.count)
        return Events.sorted(
            np.repeat(self.first_batch, self.count) + passed,
            np.repeat(self.request, self.count),
            np.repeat(self.first_stage, self.count) + passed,
        )


@dataclass(frozen=True)
class ChainLog:
    """When requests began with a segment, and which segments each batch served.

    Parameters
    ----------
    instance : StageInstance
        What was served.
    policy : ThresholdPolicy
        With which chains; segments are numbered one chain after the other.
    levels : IntArray
        Shape (K, P): leading segments of each chain in each batch.
    request, segment, batch : IntArray
        Shape (J,): who began with which segment in which batch.
    """

    instance: StageInstance
    policy: ThresholdPolicy
    levels: IntArray
    request: IntArray
    segment: IntArray
    batch: IntArray

    def events(self) -> Events:
        """Return all stage events."""
        parts, number = [], 0
        for c, chain in enumerate(self.policy.chains):
            for place, (entry, end, _) in enumerate(chain.segments):
                served = np.flatnonzero(self.levels[:, c] > place)
                parts.append(self._of_segment(number, entry, end, served))
                number += 1
        batch, request, stage = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Events.sorted(batch, request, stage)

    def _of_segment(
        self, number: int, entry: int, end: int, served: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return batches, requests and stages of all events in a segment.

        A request that began with it passes a stage in each batch that serves it.
        """
        rows = np.flatnonzero(self.segment == number)
        request = self.request[rows]
        first = np.searchsorted(served, self.batch[rows])
        wanted = np.minimum(self.instance.output[request], end) - entry + 1
        count = np.minimum(wanted, len(served) - first)
        passed = _counting(count)
        batches = served[np.repeat(first, count) + passed]
        return batches, np.repeat(request, count), entry + passed


def _counting(counts: IntArray) -> IntArray:
    """Return 0..c−1 for each count c, one after the other."""
    before = np.cumsum(counts) - counts
    passed: IntArray = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(before, counts)
    return passed
