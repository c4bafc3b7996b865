"""Requests and open workers by position, in place of their indices in the step problem."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.arrays import IntArray


@dataclass(frozen=True)
class Positions:
    """The index of the request and of the open worker at each position.

    Parameters
    ----------
    order : IntArray
        Shape (N,): index of the request at each position.
    open : IntArray
        Shape (W,), ascending: index of each worker with a free slot.
    """

    order: IntArray
    open: IntArray

    def assignment(self, owner: IntArray) -> tuple[int | None, ...]:
        """Return the worker of each request, from the worker's position, or -1, by position."""
        workers = np.append(self.open, -1)[owner]
        return tuple(None if g < 0 else g for g in self.by_request(workers))

    def owner_of(self, assignment: Sequence[int | None]) -> IntArray:
        """Return the worker's position, or -1, by position: the inverse of `assignment`."""
        place = {g: k for k, g in enumerate(self.open.tolist())}
        workers = [assignment[i] for i in self.order.tolist()]
        return np.array([-1 if g is None else place[g] for g in workers], dtype=np.int64)

    def by_request(self, values: IntArray) -> tuple[int, ...]:
        """Reorder one value per position into one per request."""
        answer = np.empty_like(values)
        answer[self.order] = values
        return tuple(answer.tolist())
