"""The journal of a run: batches, stays, starts and completions, as they happen."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bfio.kvcache.run import CacheBatches, StayEnd, Stays
from formulations.arrays import IntArray, frozen_columns


@dataclass
class Journal:
    """Rows of `CacheBatches` and `Stays`, and the last start and completion of each request."""

    num_requests: int
    batches: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    stays: list[tuple[int, int, int, int]] = field(default_factory=list)
    start: IntArray = field(init=False)
    completion: IntArray = field(init=False)

    def __post_init__(self) -> None:
        """Nothing has started."""
        self.start, self.completion = np.full((2, self.num_requests), -1, dtype=np.int64)

    def close_stay(self, request: int, first_batch: int, num_batches: int, end: StayEnd) -> None:
        """Note that a stay ended."""
        self.stays.append((request, first_batch, num_batches, int(end)))
        if end is StayEnd.CLEARED:
            self.start[request] = -1

    def batch_table(self) -> CacheBatches:
        """Return the batches as columns."""
        return CacheBatches(*frozen_columns(_table(self.batches, 5)))

    def stay_table(self) -> Stays:
        """Return the stays as columns."""
        return Stays(*frozen_columns(_table(self.stays, 4)))


def _table(rows: Sequence[tuple[int, ...]], width: int) -> IntArray:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)
